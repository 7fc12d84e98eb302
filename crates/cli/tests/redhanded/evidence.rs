//! What a finding is called, and why.

use crate::place::Place;
use serde_json::Value;
use std::fs;

fn report(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("report.json")).unwrap()).unwrap()
}

/// The binary shows a read and a write of aligned words, which could be atomic. That the
/// allocator writes its links there settles it.
#[test]
fn a_use_after_free_is_a_race_without_debug_information() {
    let place = Place::new();
    place.build("freed", "freed", &["-s"]);
    // Whoever is given the block next clears it, which is the other race that there is.
    let line = "run --max-races 2 --kill --for 2m --overhead 50% --json report.json -- ./freed";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place);
    let races = report["races"].as_array().unwrap();
    let freed = races
        .iter()
        .filter(|race| race["rule"] == "freed-while-it-stood");
    let frees = |race: &Value| -> Vec<String> {
        let accesses = race["accesses"].as_array().unwrap().iter();
        let by = accesses.filter_map(|access| access["freed_by"].as_str());
        by.map(str::to_owned).collect()
    };
    let frees: Vec<_> = freed.flat_map(frees).collect();
    assert_eq!(frees, ["free"], "{races:#?}");
    let told = "RACE, FREED WHILE IT STOOD";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
}

#[test]
fn an_update_that_is_only_volatile_is_lost() {
    let place = Place::with("volatile");
    let line = "run --max-races 1 --kill --for 2m --overhead 50% --detect watch --explain \
                --json report.json -- ./volatile";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place);
    let races = report["races"].as_array().unwrap();
    assert_eq!(races.len(), 1, "the flag is no race: {races:#?}");
    let race = &races[0];
    assert_eq!(race["what"]["name"], "count", "{race:#}");
    assert_eq!(race["rule"], "lost-update", "{race:#}");
    let facts = race["evidence"]["sides"][0]["facts"].as_array().unwrap();
    let source = facts.iter().find(|fact| fact["fact"] == "source").unwrap();
    assert_eq!(source["source"]["marking"]["is"], "volatile", "{race:#}");
    assert_eq!(source["from"], "source");
    assert!(outcome.stderr.contains("lost-update: "), "{outcome:#?}");
}
