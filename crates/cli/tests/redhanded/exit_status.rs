//! Exit statuses: the program's own, or what Redhanded has to say.

use crate::place::Place;
use serde_json::Value;

/// As long as it takes to see one race, but not for ever.
const UNTIL_A_RACE: [&str; 5] = ["--max-races", "1", "--kill", "--for", "2m"];

#[test]
fn without_a_race_it_is_the_programs() {
    let place = Place::with("end");
    for (way, status) in [("0", 0), ("7", 7), ("255", 255), ("66", 66)] {
        let outcome = place.run(["run", "--quiet", "--", "./end", way]);
        assert_eq!(outcome.status, status, "{way}: {outcome:#?}");
        assert_eq!(outcome.stderr, "", "{way}");
    }
}

#[test]
fn a_death_by_signal_is_told_as_a_shell_does() {
    let place = Place::with("end");
    let deaths = [
        ("abort", 134),
        ("crash", 139),
        ("trap", 133),
        ("int3", 133),
        ("kill", 137),
        ("term", 143),
    ];
    for (way, status) in deaths {
        let outcome = place.run(["run", "--", "./end", way]);
        assert_eq!(outcome.status, status, "{way}: {outcome:#?}");
        let told = format!("killed by signal {}", status - 128);
        assert!(outcome.stderr.contains(&told), "{way}: {outcome:#?}");
    }
}

#[test]
fn a_program_may_end_before_it_begins() {
    let place = Place::new();
    place.build("end", "early", &["-DEARLY"]);
    let outcome = place.run(["run", "--", "./early"]);
    assert_eq!(outcome.status, 9, "{outcome:#?}");
    assert!(outcome.says("No race caught"), "{outcome:#?}");
}

#[test]
fn a_race_gives_66_or_what_was_asked_for() {
    let place = Place::with("racy");
    let outcome = place.run([&["run"], &UNTIL_A_RACE[..], &["--", "./racy"]].concat());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let other = ["--exit-code", "3", "--", "./racy"];
    let outcome = place.run([&["run"], &UNTIL_A_RACE[..], &other].concat());
    assert_eq!(outcome.status, 3, "{outcome:#?}");
}

#[test]
fn a_race_can_be_told_without_failing() {
    let place = Place::with("racy");
    let options = "run --fail-on never --repeat 10 --json report.json";
    let outcome = place.run(options.split(' ').chain(["--", "./racy", "5"]));
    assert_eq!(outcome.status, 5, "{outcome:#?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(place.path("report.json")).unwrap()).unwrap();
    assert_ne!(report["races"], Value::Array(Vec::new()), "{outcome:#?}");
}

#[test]
fn the_first_failure_of_a_repetition_counts() {
    let place = Place::new();
    place.executable(
        "second",
        b"#!/bin/sh\necho >> turns\n[ $(wc -l < turns) != 2 ] || exit 8\n",
    );
    let outcome = place.run("run --quiet --repeat 3 -- ./second".split(' '));
    assert_eq!(outcome.status, 8, "{outcome:#?}");
    assert_eq!(std::fs::read(place.path("turns")).unwrap(), b"\n\n\n");
}
