//! `redhanded demo`, as somebody sees it who has the binary and nothing else.

use crate::place::Place;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A screenful or three. Every race takes up to 25 lines, and what surrounds them 30.
const MOST_LINES: usize = 160;

/// The same binary, built in a folder that does not exist.
fn built_elsewhere(mut binary: Vec<u8>) -> Vec<u8> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let here = checkout.unwrap().to_str().unwrap();
    let elsewhere = format!("/{}", "-".repeat(here.len() - 1));
    assert!(!Path::new(&elsewhere).exists());
    let mut at = 0;
    while let Some(rest) = binary.get(at..)
        && let Some(from) = rest
            .windows(here.len())
            .position(|part| part == here.as_bytes())
    {
        let end = at + from + here.len();
        // Not a folder whose name only begins so.
        if matches!(binary.get(end), Some(b'/' | 0)) {
            binary[at + from..end].copy_from_slice(elsewhere.as_bytes());
        }
        at = end;
    }
    binary
}

#[test]
fn the_demo_needs_neither_its_name_nor_its_source() {
    let place = Place::new();
    let tool = fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
    let moved = place.executable("a [new] {name}*", &built_elsewhere(tool));
    let mut command = place.command(moved);
    command.args(["demo", "--json", "report.json"]);
    let outcome = place.finish(command);
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let sites = report["run"]["sites"]["total"].as_u64().unwrap();
    assert!(sites > 0, "{outcome:#?}");
    let races = report["races"].as_array().unwrap();
    assert!(!races.is_empty(), "{outcome:#?}");
    for race in races {
        assert_eq!(race["class"], "race", "{race:#}");
        let file = race["accesses"][0]["file"].as_str().unwrap();
        assert!(!Path::new(file).exists(), "{file} is the checkout's");
    }
    // Each side is shown with its line of source.
    assert!(
        outcome.says("unsafe {") || outcome.says(".0.get()"),
        "{outcome:#?}"
    );
    let lines = outcome.stderr.lines().count();
    assert!(lines <= MOST_LINES, "{lines} lines: {outcome:#?}");
}
