//! What is printed of what is remembered, to the letter.

use crate::place::Place;
use redhanded_model::{Report, Run};
use redhanded_report::json;
use redhanded_store::{Access, Moment, SqliteStore, Store};
use std::fs;

/// Two days, in UTC.
const FIRST: Moment = Moment(1_800_000_000_000);
const SECOND: Moment = Moment(1_800_200_000_000);

/// A store with two races on one variable and one on another, seen in two runs. The second did
/// not see the one on the other.
fn stored() -> Place {
    let text = include_bytes!("../../../report/tests/report/version-1.json");
    let read = json::read(text).unwrap();
    let flags = read.races[0].clone();
    let flag = read.races[1].clone();
    let mut count = flags.clone();
    count.what.field = Some(".count".to_owned());
    count.fingerprint.0 = count.fingerprint.0.replace("flags", "count");
    count.instances = 1;
    let place = Place::new();
    let mut store = SqliteStore::open(&place.path("races.db"), Access::Write).unwrap();
    for (at, races) in [
        (FIRST, vec![flags.clone(), flag]),
        (SECOND, vec![flags, count]),
    ] {
        let run = store.begin(&["./demo".to_owned()], at).unwrap();
        let report = Report {
            run: Run {
                samples: 2470,
                ..read.run.clone()
            },
            races,

            ..Report::default()
        };
        for race in &report.races {
            store.saw(run, race, at).unwrap();
        }
        store.finish(run, &report, true, at).unwrap();
    }
    place
}

/// These command lines, whose words are separated by `~`, each with what it prints.
fn printed(place: &Place, lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let outcome = place.run(line.split('~'));
        assert_eq!(outcome.status, 0, "{outcome:#?}");
        text.push_str(&format!(
            "$ {}\n{}",
            line.replace('~', " "),
            outcome.stdout()
        ));
    }
    text
}

#[test]
fn a_list_has_an_entry_for_each_problem() {
    let text = printed(
        &stored(),
        &[
            "report~races.db",
            "report~--new~races.db",
            "report~--runs~races.db",
            "report~--run~2~--compare~1~races.db",
        ],
    );
    assert_eq!(text, LISTED, "{text}");
}

const LISTED: &str = "\
$ report races.db
  1 [d3ee6081] device.flags: update in set_busy / update in request_callback,
     6 times, known, from 2027-01-15 to 2027-01-17 in 2 runs
     and 1 more race on device: [051777c8] device.count (new)
  2 [f5a9d527] flag: read in ready / write in demo+0x1300, twice,
     possibly atomic, known, on 2027-01-15
$ report --new races.db
  1 [051777c8] device.count: update in set_busy / update in request_callback,
     once, new, on 2027-01-17
$ report --runs races.db
   1  2027-01-15     2 races  2470 samples  ./demo
   2  2027-01-17     2 races  2470 samples  ./demo
In all runs together, 0 samples were taken at 0 sites.
$ report --run 2 --compare 1 races.db
new: 1
  1 [051777c8] device.count: update in set_busy / update in request_callback,
     once, new
gone: 1
  1 [f5a9d527] flag: read in ready / write in demo+0x1300, twice,
     possibly atomic, known
unchanged: 1
  1 [d3ee6081] device.flags: update in set_busy / update in request_callback,
     3 times, known
";

#[test]
fn a_decision_is_printed_and_told_with_the_race() {
    let place = stored();
    let mut text = printed(
        &place,
        &[
            "triage~--field~device*~--store~races.db~--state~deferred~--because~after the \
             release~--owner~net~--until~2999-12-31",
            "triage~d3ee6081~--store~races.db~--note~seen by hand",
        ],
    );
    // Its report comes first, and then what was decided.
    let told = printed(&place, &["report~--race~d3ee6081~races.db"]);
    assert!(told.contains("\nRACE 1 of 1  device.flags"), "{told}");
    let history = told.rfind("\n  seen ").unwrap() + 1;
    text.push_str(&told[history..]);
    let today = Moment::now().day().to_string();
    let text = text.replace(&today, "TODAY");
    assert_eq!(text, DECIDED, "{text}");
}

const DECIDED: &str = "\
$ triage --field device* --store races.db --state deferred --because after the release --owner net --until 2999-12-31
d3ee6081 device.flags: now deferred
051777c8 device.count: now deferred
$ triage d3ee6081 --store races.db --note seen by hand
d3ee6081 device.flags: noted
  seen      from 2027-01-15 to 2027-01-17 in 2 runs
  TODAY (net) deferred until 2999-12-31: after the release
  TODAY note: seen by hand
";

/// Ten thousand races are several hundred megabytes. Blanks are none, and as long.
#[test]
fn a_long_report_is_read() {
    const LEAST: usize = 128 << 20;
    let memory = redhanded_sys::total_memory();
    if memory / 8 <= LEAST as u64 + 4096 {
        println!("skipped: {memory} bytes of memory are too few for a longer report");
        return;
    }
    let place = Place::new();
    let mut text = include_bytes!("../../../report/tests/report/version-1.json").to_vec();
    text.resize(LEAST + 1, b' ');
    fs::write(place.path("long.json"), text).unwrap();
    let listed = printed(&place, &["report~long.json"]);
    assert!(listed.contains("device.flags"), "{listed}");
}

#[track_caller]
fn refused(place: &Place, line: &str, sentence: &str) {
    place.run(line.split('~')).refused(125, sentence);
}

#[test]
fn a_decision_until_a_day_that_is_over_is_refused() {
    let place = stored();
    let line = "triage~d3ee6081~--store~races.db~--state~deferred~--because~later~--until~";
    let yesterday = Moment::now().day().plus(-1);
    refused(&place, &format!("{line}{yesterday}"), "is over (today is ");
    let today = Moment::now().day();
    assert_eq!(place.run(format!("{line}{today}").split('~')).status, 0);
}

#[test]
fn a_page_offers_a_command_that_works_from_here() {
    let place = stored();
    printed(&place, &["report~--quiet~--html~page.html~races.db"]);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    let command = "redhanded triage d3ee6081 --store races.db --state not-a-problem --because";
    assert!(page.contains(command), "{page}");
    let pasted = format!("{} WHY", &command["redhanded ".len()..]);
    assert_eq!(place.run(pasted.split(' ')).status, 0);
}

#[test]
fn a_file_that_is_nothing_of_ours_is_told_what_it_could_be() {
    let place = Place::new();
    place.file("garbage.db", b"nothing of ours", 0o644);
    let told = "garbage.db is not a session log, a store or a report in JSON, which run --log, \
                --store and --json write";
    refused(&place, "report~garbage.db", told);
}
