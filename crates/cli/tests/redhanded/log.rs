//! The session log: kept by `--log`, read by `report`.

use crate::place::Place;
use serde_json::Value;
use std::fs;

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

/// A run of `racy` that found something, with its log and its report.
fn racy() -> Place {
    let place = Place::with("racy");
    let line = "run --max-races 2 --max-windows 1500 --kill --for 2m --overhead 50% \
                --log session.log --json report.json -- ./racy";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    place
}

#[test]
fn a_log_gives_the_same_report_without_the_program() {
    let place = racy();
    fs::remove_file(place.path("racy")).unwrap();
    // In full, whatever the verdicts are.
    let line = "report --show benign --json again.json session.log";
    let outcome = place.run(line.split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert_eq!(outcome.stderr, "");
    assert_eq!(json(&place, "again.json"), json(&place, "report.json"));
    let text = outcome.stdout();
    assert!(text.contains("RACE 1 of"), "{text}");
    assert!(
        text.contains("device") || text.contains("counter"),
        "{text}"
    );

    let outcome = place.run("report --json - session.log".split(' '));
    let printed: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(printed, json(&place, "report.json"));
    let outcome = place.run("report -q --fail-on any session.log".split(' '));
    assert_eq!((outcome.status, outcome.stdout().as_str()), (66, ""));
    let outcome = place.run("report -q --fail-on any --exit-code 3 session.log".split(' '));
    assert_eq!(outcome.status, 3, "{outcome:#?}");
}

#[test]
fn a_log_that_is_cut_short_gives_what_is_in_it() {
    let place = racy();
    let log = fs::read(place.path("session.log")).unwrap();
    fs::write(place.path("cut.log"), &log[..log.len() - 20]).unwrap();
    let outcome = place.run("report --json cut.json cut.log".split(' '));
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.stdout().contains("RACE 1 of"), "{outcome:#?}");
    assert!(
        outcome.says("redhanded: cut.log is cut short"),
        "{outcome:#?}"
    );
    let (cut, whole) = (json(&place, "cut.json"), json(&place, "report.json"));
    assert_eq!(cut["races"], whole["races"]);
}

#[test]
fn a_crash_is_in_the_log() {
    let place = Place::with("crash");
    let line = "run --fail-on never --log session.log --json report.json -- ./crash";
    assert_eq!(place.run(line.split(' ')).status, 128 + 11);
    let outcome = place.run("report --json again.json session.log".split(' '));
    assert!(outcome.stdout().contains("got signal 11"), "{outcome:#?}");
    let report = json(&place, "report.json");
    assert_eq!(report["run"]["crash"]["signal"], 11, "{report:#}");
    assert_eq!(json(&place, "again.json"), report);
}

#[test]
fn what_cannot_be_used_as_a_log_is_told_in_a_sentence() {
    let place = Place::with("surroundings");
    place.file("there.log", b"{}\n", 0o644);
    let run = |log: &str, sentence: &str| {
        let outcome = place.run(["run", "--log", log, "--", "./surroundings"]);
        outcome.refused(125, sentence);
    };
    run("there.log", "it exists, and a log is not overwritten");
    run("-", "standard output belongs to the program");
    run("no/such.log", "No such file or directory");
    let report = |log: &str, sentence: &str| place.run(["report", log]).refused(125, sentence);
    report("there.log", "is not a session log");
    report("none.log", "cannot read none.log");
    report("surroundings", "is not a session log");
    let newer = br#"{"header":{"format":"redhanded-log/9"}}"#;
    place.file("newer.log", newer, 0o644);
    report("newer.log", "format redhanded-log/9");
}
