//! The report, as people and as programs get it.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

fn report(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("report.json")).unwrap()).unwrap()
}

/// Both races of `racy`, caught with both sides.
fn both_races(place: &Place) -> (Outcome, Value) {
    let options = "run --function set_busy --function request_callback --function bump \
                   --max-races 3 --max-windows 1500 --kill --for 2m --overhead 50% --json report.json -- ./racy";
    let outcome = place.run(options.split_whitespace());
    let report = report(place);
    (outcome, report)
}

fn functions(race: &Value) -> BTreeSet<&str> {
    let accesses = race["accesses"].as_array().unwrap();
    accesses
        .iter()
        .filter_map(|access| access["function"].as_str())
        .collect()
}

#[test]
fn a_race_is_told_with_names_lines_and_values() {
    let place = Place::with("racy");
    // Not by changed bytes, which have one side only, and in full whatever its verdict is.
    let line = "run --function set_busy --function request_callback --max-races 1 --kill \
                --detect watch --show benign --for 2m --json report.json -- ./racy";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place);
    let race = &report["races"][0];
    assert_eq!(race["what"]["name"], "device", "{race:#}");
    assert_eq!(race["class"], "race", "{race:#}");
    let fields = race["what"]["bit_fields"].as_array().unwrap();
    let names: Vec<&Value> = fields.iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["busy", "need_callback"], "{race:#}");
    assert_eq!(
        functions(race),
        BTreeSet::from(["set_busy", "request_callback"]),
        "{race:#}"
    );
    for access in race["accesses"].as_array().unwrap() {
        let file = access["file"].as_str().unwrap();
        assert!(file.ends_with("racy.c"), "{race:#}");
        let line = access["line"].as_u64().unwrap() as usize;
        let source = include_str!("fixtures/racy.c");
        let source = source.lines().nth(line - 1).unwrap();
        assert!(source.contains(access["function"].as_str().unwrap()));
    }
    for told in ["device", "set_busy", "request_callback", "need_callback"] {
        assert!(outcome.stderr.contains(told), "{told}: {outcome:#?}");
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(|k| &**k).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_document_has_the_keys_that_are_promised() {
    let place = Place::with("racy");
    let (outcome, report) = both_races(&place);
    assert_eq!(report["schema"], "redhanded-report/1");
    assert_eq!(
        keys(&report),
        ["quotes", "races", "run", "schema", "set_aside", "tool"]
    );
    let expect = |value: &Value, promised: &str| {
        let promised: BTreeSet<&str> = promised.split(' ').collect();
        let there: BTreeSet<&str> = keys(value).into_iter().collect();
        assert_eq!(there, promised, "{value:#}");
    };
    // What a thing has only now and then is no promise.
    let without = |value: &Value, key: &str| {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove(key);
        value
    };
    expect(
        &report["run"],
        "program runs ending ended wall_s thread_s samples samples_per_s windows held_s \
         overhead_estimate sites losses cut_short unseen",
    );
    expect(&report["run"]["sites"], "total armed sampled");
    assert_eq!(report["run"]["program"], serde_json::json!(["./racy"]));
    let races = report["races"].as_array().unwrap();
    assert!(!races.is_empty(), "{outcome:#?}");
    for race in races {
        // Chance decides whether the two functions met at a second pair of instructions.
        expect(
            &without(race, "pairs"),
            "id hash fingerprint class rule what seen_by values instances lines suspects suspected \
             problem verdict usage history evidence accesses",
        );
        expect(
            &race["what"],
            "name type field bit_fields address size memory region",
        );
        let values = without(&race["values"], "typed");
        expect(&values, "before after changed");
        for access in race["accesses"].as_array().unwrap() {
            let access = &["pointee", "value", "created"]
                .iter()
                .fold(access.clone(), |access, key| without(&access, key));
            expect(
                access,
                "thread kind size pc instruction atomic function file line system_call stack",
            );
            expect(&access["thread"], "tid name");
            for frame in access["stack"].as_array().unwrap() {
                expect(frame, "function file line module address inlined");
            }
        }
    }
}

#[test]
fn a_program_that_another_one_becomes_is_watched_too() {
    let place = Place::with("racy");
    let options = "run --function set_busy --function request_callback --max-races 1 --kill \
                   --detect watch --for 2m --json report.json -- /bin/sh -c";
    let outcome = place.run(options.split_whitespace().chain(["exec ./racy"]));
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place);
    let race = &report["races"][0];
    assert_eq!(race["seen_by"], "watch", "{race:#}");
    let pair = race["lines"][0].as_array().unwrap();
    assert_eq!(pair.len(), 2, "{race:#}");
}

#[test]
fn fingerprints_do_not_change_from_run_to_run() {
    let place = Place::with("racy");
    let line = "run --function bump --max-races 1 --detect watch --kill --for 2m \
                --json report.json -- ./racy";
    let fingerprints: BTreeSet<String> = (0..3)
        .map(|_| {
            place.run(line.split_whitespace());
            report(&place)["races"][0]["fingerprint"].to_string()
        })
        .collect();
    assert_eq!(fingerprints.len(), 1, "{fingerprints:?}");
    let one = fingerprints.first().unwrap();
    assert!(one.contains("bump") && one.contains("counter"), "{one}");
}

#[test]
fn repetitions_are_pooled() {
    let place = Place::new();
    place.executable("turn", b"#!/bin/sh\necho turn\n");
    let outcome = place.run("run --repeat 3 --json report.json -- ./turn".split(' '));
    assert_eq!(outcome.stdout(), "turn\nturn\nturn\n");
    let report = report(&place);
    assert_eq!(report["run"]["runs"], 3);
    assert_eq!(report["run"]["ending"], "exited with status 0");
}

#[test]
fn what_cannot_be_written_is_known_before_the_run() {
    let place = Place::with("surroundings");
    let refused = |file: &str, sentence: &str| {
        let outcome = place.run(["run", "--json", file, "--", "./surroundings"]);
        outcome.refused(125, sentence);
    };
    refused("no/such/folder.json", "there is no folder no/such");
    refused(".", "it is a folder");
    refused("-", "standard output belongs to the program");
    // Not even root can make a file there.
    refused("/sys/report.json", "no file can be made in /sys");
    place
        .run(["demo", "--json", "/sys/report.json"])
        .refused(125, "no file can be made in /sys");
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_report() {
    let place = Place::with("racy");
    let line = "run --max-races 1 --kill --for 2m --json /dev/full -- ./racy";
    let outcome = place.run(line.split(' '));
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.says("RACE 1 of"), "{outcome:#?}");
    let last = outcome.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("redhanded: cannot write the report to /dev/full"),
        "{outcome:#?}"
    );
}

#[test]
fn only_selected_code_is_sampled() {
    let place = Place::with("racy");
    let line = "run --function bump --repeat 3 --json report.json -- ./racy";
    place.run(line.split(' '));
    let selected = report(&place);
    for race in selected["races"].as_array().unwrap() {
        assert_eq!(race["accesses"][0]["function"], "bump", "{race:#}");
    }
    let line = "run --function !* --json report.json -- ./racy";
    let outcome = place.run(line.split(' '));
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert_eq!(report(&place)["run"]["sites"]["total"], 0);
}

#[test]
fn a_crash_is_told_with_what_was_done_before() {
    let place = Place::with("crash");
    let outcome = place.run([
        "run",
        "--fail-on",
        "never",
        "--json",
        "report.json",
        "--",
        "./crash",
    ]);
    assert_eq!(outcome.status, 128 + 11, "{outcome:#?}");
    assert!(outcome.says("got signal 11"), "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let crash = &report["run"]["crash"];
    assert_eq!(crash["signal"], 11, "{report:#}");
    assert_eq!(crash["stack"][0]["function"], "stumble", "{crash:#}");
    let windows = crash["windows"].as_array().unwrap();
    assert!(
        windows
            .iter()
            .any(|window| window["at"]["function"] == "work"),
        "{crash:#}"
    );
}
