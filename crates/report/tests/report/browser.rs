//! The page in a real browser: it loads without complaint, its filter works, and what a
//! hostile program calls itself stays text.

use crate::fixtures;
use crate::html::{every_kind, hostile, page};
use redhanded_model::{Fingerprint, Report};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the browser made of a page: the document, and what it complained about.
struct Opened {
    document: String,
    complaints: Vec<String>,
}

impl Opened {
    /// Which rows are shown, by the names of what is raced on.
    fn shown(&self) -> Vec<&str> {
        let rows = self.document.split("<tr ").skip(1);
        let rows = rows.filter(|row| row.starts_with("data-class"));
        let shown = rows.filter(|row| !row[..row.find('>').unwrap()].contains("hidden"));
        shown
            .map(|row| {
                let link = &row[row.find("href=").unwrap()..];
                &link[link.find('>').unwrap() + 1..link.find("</a>").unwrap()]
            })
            .collect()
    }
}

/// Opens a page at a fragment, if there is a browser.
fn open(page: &str, fragment: &str) -> Option<Opened> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, page).unwrap();
    // A browser that hangs must not hang the tests.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "240", "chromium", "--headless"])
        // Root has no sandbox, and containers have little shared memory.
        .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        // It opens a file and needs no network.
        .args(["--disable-quic", "--no-first-run", "--disable-sync"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ])
        .arg(format!("file://{}#{fragment}", file.display()));
    let output = command.output().unwrap();
    if output.status.code() == Some(127) {
        println!("skipped: there is no chromium; install the package of that name");
        return None;
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let complaints = told.lines().filter(|line| line.contains("CONSOLE"));
    let opened = Opened {
        document: String::from_utf8(output.stdout).unwrap(),
        complaints: complaints.map(str::to_owned).collect(),
    };
    assert!(opened.document.contains("</html>"), "{told}");
    Some(opened)
}

#[test]
fn it_loads_without_complaint_and_shows_both_sides() {
    let report = every_kind();
    let anchor = format!("race-{}", report.races[0].fingerprint.hash());
    let Some(opened) = open(&page(&report), &anchor) else {
        return;
    };
    assert!(opened.complaints.is_empty(), "{:#?}", opened.complaints);
    assert_eq!(opened.shown().len(), report.races.len());
    let section = &opened.document[opened.document.find(&format!("id=\"{anchor}\"")).unwrap()..];
    let section = &section[..section.find("</details>").unwrap()];
    for part in [
        "Held: thread 4711 (worker)",
        "dev-&gt;busy = 1;",
        "Caught: thread 4710 (poll)",
        "dev-&gt;need_callback = 1;",
        // The script made it.
        "<button type=\"button\" class=\"copy\">copy</button>",
    ] {
        assert!(section.contains(part), "{part} is not in\n{section}");
    }
}

#[test]
fn the_address_filters_and_sorts() {
    let report = every_kind();
    let text = page(&report);
    let Some(opened) = open(&text, "filter=io.c+PARSE") else {
        return;
    };
    assert!(opened.complaints.is_empty(), "{:#?}", opened.complaints);
    assert_eq!(opened.shown(), ["buffer"]);
    assert!(opened.document.contains("polite\">1 of 6</output>"));
    // A section goes with its row.
    let sections = opened.document.split("<details class=\"section\"").skip(1);
    let hidden = sections.filter(|it| it[..it.find('>').unwrap()].contains("hidden"));
    assert_eq!(hidden.count(), 5);
    let opened = open(&text, "class=race&filter=-set_busy+-parse&sort=-what").unwrap();
    assert_eq!(
        opened.shown(),
        ["hits", "flag", "8 bytes at 0x7ffff7fba000"]
    );
    let opened = open(&text, "verdict=likely-harmful").unwrap();
    assert_eq!(opened.shown(), ["device.flags"]);
    let opened = open(&text, "state=deferred").unwrap();
    assert_eq!(opened.shown(), ["flag"]);
}

#[test]
fn a_hostile_program_stays_text_and_a_foreign_script_does_not_run() {
    let Some(opened) = open(&page(&hostile()), "filter=set_busy") else {
        return;
    };
    assert!(opened.complaints.is_empty(), "{:#?}", opened.complaints);
    assert!(!opened.document.contains("<b id=\"escaped\""));
    assert!(!opened.document.contains("<img"));
    // Even if something got through, the policy would not let it run. This also shows
    // that a complaint would be noticed.
    let leaky = page(&every_kind()).replace(
        "<footer>",
        "<img src=x onerror=\"document.title = 'ran'\"><script>document.title = 'ran'</script>\
         <footer>",
    );
    let opened = open(&leaky, "").unwrap();
    assert!(!opened.complaints.is_empty());
    assert!(
        !opened.document.contains("<title>ran"),
        "{}",
        opened.document
    );
}

/// Thousands of races are listed and filtered in the time that it takes to open a page.
#[test]
fn thousands_of_races_do_not_hang_it() {
    let races = (0..5000).map(|at| {
        let mut race = every_kind().races[at % 4].clone();
        race.fingerprint = Fingerprint(format!("race {at}"));
        race.what.name = Some(format!("variable_{at}"));
        race
    });
    let report = Report {
        races: races.collect(),
        ..fixtures::run()
    };
    let start = Instant::now();
    let Some(opened) = open(&page(&report), "filter=variable_4999") else {
        return;
    };
    let took = start.elapsed();
    assert!(opened.complaints.is_empty(), "{:#?}", opened.complaints);
    assert!(opened.document.contains("polite\">1 of 5000</output>"));
    // It takes about four seconds, the browser's start included, on an idle machine.
    assert!(took < Duration::from_secs(120), "{took:?}");
}
