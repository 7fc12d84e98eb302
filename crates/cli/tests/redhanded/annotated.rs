//! What an analysis makes of the program's own locks and allocators if it is told of them.
//!
//! All need the recorder, which `cargo xtask recorder` builds.

use crate::analyze::has_recorder;
use crate::place::Place;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const ANNOTATIONS: &str = "
[[annotation]]
function = \"take\"
locks = { argument = 1 }
[[annotation]]
function = \"give\"
unlocks = { argument = 1 }
[[annotation]]
function = \"enter_all\"
locks = { name = \"all\" }
[[annotation]]
function = \"leave_all\"
unlocks = { name = \"all\" }
[[annotation]]
function = \"read_table\"
read-locks = { argument = 1 }
[[annotation]]
function = \"read_done\"
unlocks = { argument = 1 }
[[annotation]]
function = \"write_table\"
locks = { argument = 1 }
[[annotation]]
function = \"write_done\"
unlocks = { argument = 1 }
[[annotation]]
function = \"get\"
allocates = { argument = 2 }
[[annotation]]
function = \"put\"
frees = { argument = 1 }
";

fn place() -> Option<Place> {
    if !has_recorder() {
        return None;
    }
    let place = Place::with("own_locks");
    place.file("notes.toml", ANNOTATIONS.as_bytes(), 0o644);
    Some(place)
}

fn report(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("report.json")).unwrap()).unwrap()
}

/// The functions of what is suspected; nothing else may be found.
fn suspected(report: &Value) -> BTreeSet<String> {
    let races = report["races"].as_array().unwrap();
    let sides = races.iter().flat_map(|race| {
        assert_eq!(race["standing"], "suspect", "{race:#}");
        race["accesses"].as_array().unwrap()
    });
    sides
        .map(|side| side["function"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_programs_own_locks_are_known_by_annotations() {
    let Some(place) = place() else {
        return;
    };
    let check = |options: &str| {
        let line = format!("check --hunt 0 {options} --json report.json -- ./own_locks");
        let outcome = place.run(line.split_whitespace());
        assert_eq!(outcome.status, 0, "{outcome:#?}");
        report(&place)
    };
    let without = suspected(&check(""));
    for function in ["count", "add", "look", "change", "fill"] {
        assert!(without.contains(function), "{function}: {without:?}");
    }
    let told = check("--annotations notes.toml");
    assert_eq!(suspected(&told), BTreeSet::new(), "{told:#}");
    assert!(!told["run"]["unseen"].to_string().contains("annotated"));

    // Each of them matters.
    for (entry, function) in [
        ("locks = { argument = 1 }", "count"),
        ("locks = { name = \"all\" }", "add"),
        ("read-locks = { argument = 1 }", "look"),
        ("allocates = { argument = 2 }", "fill"),
    ] {
        let others = ANNOTATIONS.replacen(entry, "ignore = true", 1);
        place.file("notes.toml", others.as_bytes(), 0o644);
        let found = suspected(&check("--annotations notes.toml"));
        assert!(found.contains(function), "{function}: {found:?}");
    }
}

/// An analysis says of which annotations it knows nothing.
#[test]
fn a_function_that_was_not_hooked_is_told() {
    let Some(place) = place() else {
        return;
    };
    let recorded = place.run("record -q -o r -- ./own_locks".split(' '));
    assert_eq!(recorded.status, 0, "{recorded:#?}");
    let analyze = "analyze --annotations notes.toml --json report.json r";
    assert_eq!(place.run(analyze.split(' ')).status, 0);
    let unseen = report(&place)["run"]["unseen"].to_string();
    assert!(unseen.contains("the annotated function take"), "{unseen}");
    assert!(
        unseen.contains("was made without this annotation"),
        "{unseen}"
    );

    let missing = "[[annotation]]\nfunction = \"gone\"\nlocks = { argument = 1 }\n";
    place.file("notes.toml", missing.as_bytes(), 0o644);
    let line = "check --hunt 0 --annotations notes.toml --json report.json -- ./own_locks";
    assert_eq!(place.run(line.split(' ')).status, 0);
    let unseen = report(&place)["run"]["unseen"].to_string();
    assert!(unseen.contains("no call of it was recorded"), "{unseen}");

    let wrong = "[[annotation]]\nfunction = \"take\"\nlocks = { argument = 9 }\n";
    place.file("notes.toml", wrong.as_bytes(), 0o644);
    for line in [
        "record --annotations notes.toml -o other -- ./own_locks",
        "check --annotations notes.toml -- ./own_locks",
    ] {
        place
            .run(line.split(' '))
            .refused(125, "{ argument = N } from 1 to 3 is expected");
    }

    let known = "[[annotation]]\nfunction = \"malloc\"\nallocates = { argument = 1 }\n";
    place.file("notes.toml", known.as_bytes(), 0o644);
    place
        .run("record --annotations notes.toml -o other -- ./own_locks".split(' '))
        .refused(125, "malloc cannot be annotated: what it does is known");
}
