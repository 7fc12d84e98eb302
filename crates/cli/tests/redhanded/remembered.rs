//! What `redhanded check` and `redhanded analyze` remember, and what they fail for then.
//!
//! All need the recorder, which `cargo xtask recorder` builds.

use crate::analyze::has_recorder;
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;

/// A project with a program that races on `counter`, and with `-DMORE` on `total` as well.
fn project(settings: &str) -> Option<Place> {
    if !has_recorder() {
        return None;
    }
    let place = Place::new();
    place.build("ledger", "ledger", &["-DENDS"]);
    place.file("races.toml", b"", 0o644);
    place.file("redhanded.toml", settings.as_bytes(), 0o644);
    fs::create_dir(place.path(".git")).unwrap();
    Some(place)
}

fn races(place: &Place, file: &str) -> Vec<Value> {
    let report = fs::read(place.path(file)).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    report["races"].as_array().unwrap().clone()
}

/// The first run makes its races known, later ones fail for others only, until somebody decides.
#[test]
fn a_check_fails_for_what_is_new() {
    let settings = "store = \"races.db\"\nfail-on = \"new\"\nsuppressions = \"races.toml\"\n";
    let Some(place) = project(settings) else {
        return;
    };
    let check = || -> Outcome {
        let line = "check --hunt 0 --json r.json --sarif r.sarif --html r.html -- ./ledger";
        place.run(line.split(' '))
    };
    let first = check();
    assert_eq!(first.status, 0, "{first:#?}");
    assert!(first.says("known from now on"), "{first:#?}");
    assert_eq!(races(&place, "r.json")[0]["triage"]["new"], false);
    let sarif = fs::read_to_string(place.path("r.sarif")).unwrap();
    assert!(sarif.contains("\"baselineState\""), "{sarif}");
    assert!(place.path("r.html").is_file());
    let second = check();
    assert_eq!(second.status, 0, "{second:#?}");
    assert!(!second.says("known from now on"), "{second:#?}");

    // Somebody adds a race. It stays new until something is decided.
    place.build("ledger", "ledger", &["-DENDS", "-DMORE"]);
    for _ in 0..2 {
        let red = check();
        assert_eq!(red.status, 66, "{red:#?}");
    }
    let suppressed = |until: &str| {
        let entry = format!(
            "[[suppress]]\nfield = \"total\"\nbecause = \"shown only\"\nuntil = \"{until}\"\n"
        );
        place.file("races.toml", entry.as_bytes(), 0o644);
        check()
    };
    let green = suppressed("2999-12-31");
    assert_eq!(green.status, 0, "{green:#?}");
    let red = suppressed("2026-01-31");
    assert_eq!(red.status, 66, "{red:#?}");
    assert!(red.says("expired on 2026-01-31"), "{red:#?}");
    let runs = place.run(["report", "--runs", "races.db"]);
    assert_eq!(
        runs.stdout().matches("entries recorded").count(),
        6,
        "{runs:#?}"
    );
}

/// What the steps of a check find is kept once, whatever the project's settings say of runs.
#[test]
fn a_hunt_is_no_run_of_its_own() {
    let settings = "store = \"races.db\"\nmin-samples = 1000000000\nfail-on = \"never\"\n";
    let Some(place) = project(settings) else {
        return;
    };
    let caught = place.run("check --hunt 60s -- ./ledger".split(' '));
    assert_eq!(caught.status, 0, "{caught:#?}");
    assert!(!caught.says("the hunt failed"), "{caught:#?}");
    let runs = place.run(["report", "--runs", "races.db"]).stdout();
    assert_eq!(runs.lines().count(), 2, "{runs}");
    let alone = place.run("check --hunt 0 --no-project -- ./ledger".split(' '));
    assert_eq!(alone.status, 66, "{alone:#?}");
    let again = place.run(["report", "--runs", "races.db"]).stdout();
    assert_eq!(again, runs);
}

/// A recording that is analysed later is a run like any other.
#[test]
fn an_analysis_knows_what_is_old() {
    let Some(place) = project("") else {
        return;
    };
    let recorded = place.run("record -q -o r -- ./ledger".split(' '));
    assert_eq!(recorded.status, 0, "{recorded:#?}");
    let found = place.run("analyze --json old.json r".split(' '));
    assert_eq!(found.status, 66, "{found:#?}");
    let known = place.run("analyze --fail-on new --baseline old.json r".split(' '));
    assert_eq!(known.status, 0, "{known:#?}");
    for words in ["analyze --fail-on new r", "check --fail-on new -- ./ledger"] {
        place
            .run(words.split(' '))
            .refused(125, "--fail-on new needs to know what is old");
    }
    let first = place.run("analyze --fail-on new --store races.db r".split(' '));
    assert_eq!(first.status, 0, "{first:#?}");
    let decided = "triage --field counter --state not-a-problem --because why --store races.db";
    assert_eq!(place.run(decided.split(' ')).status, 0);
    let later = place.run("analyze --store races.db r".split(' '));
    assert_eq!(later.status, 0, "{later:#?}");
}
