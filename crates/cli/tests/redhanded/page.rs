//! The page of `--html`, and the width of what is printed.

use crate::place::{Outcome, Place};
use std::fs;

/// A run of `racy` that found a race with both sides, with its page and its log.
fn racy() -> Place {
    let place = Place::with("racy");
    let line = "run --function set_busy --function request_callback --max-races 1 --kill \
                --detect watch --for 2m --overhead 50% --html page.html --log session.log \
                -- ./racy";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    place
}

/// The commands that the page offers for copying.
fn commands(page: &str) -> Vec<String> {
    let offers = page.split("<pre class=\"code command\">").skip(1);
    let texts = offers.map(|offer| offer[..offer.find("</pre>").unwrap()].to_owned());
    let texts = texts.map(|text| text.replace("&#39;", "'").replace("&amp;", "&"));
    texts
        .filter(|text| text.starts_with("redhanded "))
        .collect()
}

#[test]
fn a_page_quotes_the_source_and_a_log_gives_the_same_page() {
    let place = racy();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    for part in [
        "<code>set_busy</code>",
        "<code>request_callback</code>",
        "int on) { ",
        "bit-field",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let outcome = place.run("report --html again.html session.log".split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert_eq!(fs::read_to_string(place.path("again.html")).unwrap(), page);
    let outcome = place.run("report --html - session.log".split(' '));
    assert_eq!(outcome.stdout(), page);
}

#[test]
fn an_offered_command_catches_the_race_again() {
    let place = racy();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    let offers = commands(&page);
    // Two for each race; a second race may have come along.
    let [again, _debugger, ..] = offers.as_slice() else {
        panic!("two commands are expected: {offers:#?}");
    };
    // As it is, but no longer than it takes.
    let line = again.replace("--for 1m", "--for 1m --max-races 1 --kill");
    assert_ne!(line, *again);
    let binary = env!("CARGO_BIN_EXE_redhanded");
    let mut shell = place.command("sh");
    shell.arg("-c").arg(line.replacen("redhanded", binary, 1));
    let outcome = place.finish(shell);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    assert!(outcome.stderr.contains("device"), "{outcome:#?}");
}

#[test]
fn the_width_is_what_columns_says_and_80_in_a_pipe() {
    let place = racy();
    let report = |columns: Option<&str>| {
        // In full, whatever its verdict is.
        let options = ["report", "--show", "benign", "--asm", "session.log"];
        let mut command = place.redhanded(options);
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        place.finish(command)
    };
    let widest = |outcome: &Outcome| {
        let text = outcome.stdout();
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    let piped = report(None);
    assert!(widest(&piped) <= 80, "{}", piped.stdout());
    assert!(piped.stdout().contains(" ptr ["), "{}", piped.stdout());
    // Room for both stacks beside each other.
    let wide = report(Some("160"));
    assert!(
        widest(&wide) > 80 && widest(&wide) <= 160,
        "{}",
        wide.stdout()
    );
    let beside = wide.stdout();
    let beside = beside
        .lines()
        .find(|line| line.contains("stack of the held side"));
    assert!(beside.unwrap().contains("stack of the caught side"));
    assert_eq!(report(Some("nonsense")).stdout(), piped.stdout());
}
