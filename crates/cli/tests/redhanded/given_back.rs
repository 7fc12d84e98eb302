//! Memory that is freed while another thread may use it, in recordings.
//!
//! All need the recorder, which `cargo xtask recorder` builds.

use crate::analyze::has_recorder;
use crate::place::Place;
use serde_json::Value;
use std::fs;

fn checked(place: &Place, options: &str, way: &str) -> (i32, Vec<Value>) {
    let line = format!("check {options} --json report.json -- ./given_back {way}");
    let outcome = place.run(line.split_whitespace());
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    (outcome.status, report["races"].as_array().unwrap().clone())
}

#[test]
fn what_is_freed_in_no_order_with_its_use_is_a_suspect() {
    if !has_recorder() {
        return;
    }
    let place = Place::with("given_back");
    let (status, races) = checked(&place, "--hunt 0", "");
    // An order that no entry shows is never ruled out, so a recording alone fails no run.
    assert_eq!(status, 0, "{races:#?}");
    let [race] = &races[..] else {
        panic!("{races:#?}");
    };
    assert_eq!(race["class"], "race", "{race:#}");
    assert_eq!(race["rule"], "freed-while-it-stood", "{race:#}");
    assert_eq!(race["standing"], "suspect", "{race:#}");
    assert_eq!(race["what"]["memory"]["kind"], "heap", "{race:#}");
    let [one, other] = [&race["accesses"][0], &race["accesses"][1]];
    assert_eq!(one["function"], "look");
    assert_eq!(
        (&other["function"], &other["freed_by"]),
        (&"drop".into(), &"free".into())
    );
    assert_eq!(other["line"], 21, "{other:#}");
}

/// Who waits for the other may free, also if a flag that is a plain move says so.
#[test]
fn what_is_freed_after_its_use_is_none() {
    if !has_recorder() {
        return;
    }
    let place = Place::with("given_back");
    for way in ["waits", "handed"] {
        let (status, races) = checked(&place, "--hunt 0", way);
        assert_eq!(status, 0, "{way}: {races:#?}");
        for race in races {
            assert_eq!(race["standing"], "suspect", "{way}: {race:#}");
        }
    }
}
