//! `redhanded demo kernel`.

use crate::machine::{Kernels, race_on, report};
use crate::place::Place;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Who accesses it, and in which context.
type Accessor = (&'static str, &'static str);

/// What races: the variable, its field, and who does.
const SEEDED: &[(&str, &str, [Accessor; 2])] = &[
    (
        "engine",
        "",
        [("start_engine", "task"), ("engine_tick", "softirq")],
    ),
    (
        "statistics",
        ".packets",
        [("count_received", "task"), ("count_sent", "task")],
    ),
    (
        "route",
        ".next_hop",
        [("change_route", "task"), ("look_up_route", "task")],
    ),
    (
        "newest_packet",
        "",
        [("announce_packet", "task"), ("latest_packet", "task")],
    ),
];

/// What is done right beside them.
const NEIGHBOURS: &[&str] = &["guarded_bytes", "packets_in_flight", "next_sequence"];

#[test]
fn the_demo_catches_what_is_seeded_and_nothing_beside() {
    let Some(_kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let outcome = place.run(["demo", "kernel", "--json", "demo.json"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let report = report(&place.path("demo.json"), &outcome);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/kernel/demo/redhanded_demo.c");
    let source = fs::read_to_string(source).unwrap();
    for (name, field, sides) in SEEDED {
        let race = race_on(&report, name, sides.map(|(function, _)| function));
        let race = race.unwrap_or_else(|| panic!("no {name}: {outcome:#?}"));
        assert_eq!(race["what"]["field"].as_str().unwrap_or(""), *field);
        for (function, context) in sides {
            let access = side(race, function);
            assert_eq!(access["thread"]["context"]["kind"], *context, "{race:#}");
            assert!(access["thread"]["context"]["cpu"].is_u64(), "{race:#}");
            let file = access["file"].as_str().unwrap();
            assert!(file.ends_with("redhanded_demo.c"), "{file}");
            // The line is the one where it says so, or the brace after its return,
            // which is what the compiler calls a function's last load.
            let line = access["line"].as_u64().unwrap();
            let near: Vec<&str> = source.lines().skip(line as usize - 2).take(2).collect();
            let word = if field.is_empty() { *name } else { *field };
            let said = near[1].contains(word) || (near[1] == "}" && near[0].contains(word));
            assert!(said, "{function} line {line}: {near:?}");
            let stack = access["stack"].as_array().unwrap();
            assert!(stack.len() > 2, "down to who started it: {access:#}");
        }
    }
    for race in report["races"].as_array().unwrap() {
        let name = race["what"]["name"].as_str().unwrap_or("");
        assert!(!NEIGHBOURS.contains(&name), "{race:#}");
        assert_ne!(race["what"]["field"], ".hits", "{race:#}");
    }
    assert!(outcome.says("What you saw"), "{outcome:#?}");
}

/// The side of a race that is in this function.
fn side<'a>(race: &'a Value, function: &str) -> &'a Value {
    let mut accesses = race["accesses"].as_array().unwrap().iter();
    accesses
        .find(|access| access["function"] == function)
        .unwrap()
}
