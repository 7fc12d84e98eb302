use crate::fixtures;
use redhanded_model::{
    Differing, Hunted, Leaning, Leans, Race, ReplayTally, Report, State, Suppressed, Triage, Usage,
    Values, combine,
};
use redhanded_report::json::Json;
use redhanded_report::write_file;
use serde_json::{Value, json as value};
use std::collections::BTreeSet;

fn parsed(report: &Report) -> Value {
    let text = fixtures::written(&Json, report);
    assert!(text.ends_with("}\n"));
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn has_exactly(object: &Value, keys: &str) {
    let found: BTreeSet<&str> = object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(found, keys.split_whitespace().collect());
}

#[test]
fn every_key_of_the_schema_is_there_and_no_other() {
    let document = parsed(&fixtures::run());
    has_exactly(&document, "schema tool run races set_aside");
    assert_eq!(document["schema"], "redhanded-report/1");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        document["tool"],
        value!({"name": "redhanded", "version": version})
    );
    has_exactly(
        &document["run"],
        "program runs ending ended wall_s thread_s samples samples_per_s windows held_s \
         overhead_estimate sites losses cut_short unseen",
    );
    has_exactly(&document["run"]["sites"], "total armed sampled");
    has_exactly(&document["run"]["unseen"][0], "what why");
    assert_eq!(document["races"].as_array().unwrap().len(), 3);
    for race in document["races"].as_array().unwrap() {
        has_exactly(
            race,
            "id hash fingerprint class what seen_by values instances lines suspects suspected \
             problem accesses",
        );
        has_exactly(
            &race["what"],
            "name type field bit_fields address size memory region",
        );
        for field in race["what"]["bit_fields"].as_array().unwrap() {
            has_exactly(field, "name first_bit bits");
        }
        has_exactly(&race["values"], "before after changed");
        for access in race["accesses"].as_array().unwrap() {
            has_exactly(
                access,
                "thread kind size pc instruction atomic function file line system_call stack",
            );
            has_exactly(&access["thread"], "tid name");
            for frame in access["stack"].as_array().unwrap() {
                has_exactly(frame, "function file line module address inlined");
            }
        }
    }
}

#[test]
fn the_run_in_numbers() {
    let run = &parsed(&fixtures::run())["run"];
    assert_eq!(
        *run,
        value!({
            "program": ["./demo", "--threads=4"],
            "runs": 1,
            "ending": "exited with status 0",
            "ended": {"kind": "exited", "status": 0},
            "wall_s": 12.34,
            "thread_s": 24.5,
            "samples": 2470,
            "samples_per_s": 200.162_075,
            "windows": 1257,
            "held_s": 0.61,
            "overhead_estimate": 0.024_898,
            "sites": {"total": 812, "armed": 500, "sampled": 120},
            "losses": {"over-budget": 9, "alone": 1204, "stale-trap": 2},
            "cut_short": false,
            "unseen": [{"what": "libc.so.6", "why": "runtime library, not sampled"}],
        })
    );
}

#[test]
fn a_race_in_values() {
    let race = &parsed(&fixtures::run())["races"][0];
    assert_eq!(race["class"], "race");
    assert_eq!(race["seen_by"], "watch");
    assert_eq!(
        race["values"],
        value!({"before": "11000000", "after": "31000000", "changed": "20000000"})
    );
    assert_eq!(race["what"]["address"], "0x555555558040");
    assert_eq!(race["what"]["region"], "global of demo");
    assert_eq!(
        race["what"]["memory"],
        value!({"kind": "global", "module": "demo"})
    );
    assert_eq!(race["what"]["type"], "unsigned int");
    assert_eq!(race["accesses"][0]["kind"], "update");
    assert_eq!(race["accesses"][0]["pc"], "0x5555555511a6");
    assert_eq!(
        race["accesses"][1]["thread"],
        value!({"tid": 4710, "name": "poll"})
    );
    assert_eq!(
        race["accesses"][1]["stack"][0],
        value!({
            "function": "request_callback", "file": "demo.c", "line": 71,
            "module": "demo", "address": "0x1204", "inlined": true,
        })
    );
}

#[test]
fn what_is_not_known_is_null() {
    let document = parsed(&fixtures::run());
    let doubt = &document["races"][1];
    assert_eq!(doubt["class"], "possibly-atomic");
    assert_eq!(doubt["accesses"][1]["function"], Value::Null);
    assert_eq!(doubt["accesses"][1]["line"], Value::Null);
    let unknown = &document["races"][2];
    assert_eq!(unknown["seen_by"], "value");
    assert_eq!(unknown["accesses"].as_array().unwrap().len(), 1);
    assert_eq!(unknown["what"]["name"], Value::Null);
    assert_eq!(
        unknown["what"]["region"],
        "mapping /dev/zero (deleted), shared"
    );
    let empty = parsed(&Report::default());
    assert_eq!(empty["run"]["ending"], Value::Null);
    assert_eq!(empty["run"]["ended"], Value::Null);
    assert_eq!(empty["races"], value!([]));
}

#[test]
fn names_come_back_unharmed_and_the_text_is_safe_to_show() {
    let mut report = fixtures::run();
    report.races = vec![fixtures::hostile()];
    let text = fixtures::written(&Json, &report);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    assert!(!text.contains('\u{202e}'));
    let document: Value = serde_json::from_str(&text).unwrap();
    let accesses = &document["races"][0]["accesses"];
    assert_eq!(accesses[0]["thread"]["name"], "\x1b]0;owned\x07\x1b[2J");
    assert_eq!(accesses[1]["function"], "f\u{202e}(tni)\u{9b}31m\r\n");
}

#[test]
fn values_of_unequal_length_and_numbers_that_are_none() {
    let mut report = fixtures::run();
    report.run.wall_s = f64::NAN;
    report.run.held_s = f64::INFINITY;
    report.races[0].values = Values {
        before: vec![1, 2, 3],
        after: vec![1],
        ..Values::default()
    };
    let document = parsed(&report);
    assert_eq!(document["run"]["wall_s"], 0.0);
    assert_eq!(document["races"][0]["values"]["changed"], "00");
}

#[test]
fn a_file_holds_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    write_file(&Json, &fixtures::run(), &path).unwrap();
    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document, parsed(&fixtures::run()));
    let error = write_file(&Json, &fixtures::run(), "-").unwrap_err();
    assert!(error.to_string().contains("/dev/stderr"), "{error}");
}

/// The schema that users check documents by.
#[test]
fn documents_follow_the_published_schema() {
    let schema = include_str!("../../../../docs/redhanded-report-1.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let check = |document: &Value| {
        let errors: Vec<String> = validator
            .iter_errors(document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    };
    let mut report = fixtures::run();
    report.races.extend([
        fixtures::freed(),
        fixtures::system_call(),
        fixtures::hostile(),
        fixtures::typed(),
        decided(),
        replayed(),
    ]);
    check(&parsed(&report));
    check(&parsed(&Report::default()));
    let mut hunted = report.clone();
    hunted.run.candidates = vec![Hunted::default()];
    let mut hunted = parsed(&hunted);
    check(&hunted);
    hunted["run"]["candidates"][0]["outcome"] = value!("perhaps");
    assert!(!validator.is_valid(&hunted));
    // One of a thousand keys in the wrong place is found.
    let mut wrong = parsed(&report);
    wrong["races"][0]["accesses"][0]["kind"] = value!("glance");
    assert!(!validator.is_valid(&wrong));
    let mut wrong = parsed(&report);
    wrong["races"][1]["what"]["address"] = value!(4096);
    assert!(!validator.is_valid(&wrong));
    let mut wrong = parsed(&Report {
        races: vec![replayed()],
        ..Report::default()
    });
    wrong["races"][0]["verdict"]["replay"]["faults"] = value!("one");
    assert!(!validator.is_valid(&wrong));
    let mut several = fixtures::bit_fields();
    let mut other = fixtures::freed().pair();
    other.usage = vec![Usage::default(); 2];
    several.add_pair(other);
    let mut several = parsed(&Report {
        races: vec![several],
        ..Report::default()
    });
    check(&several);
    has_exactly(
        &several["races"][0]["pairs"][0],
        "class rule what usage evidence accesses",
    );
    several["races"][0]["pairs"][0]["what"] = value!("device");
    assert!(!validator.is_valid(&several));
    let typed = parsed(&Report {
        races: vec![fixtures::allocated()],
        ..Report::default()
    });
    for path in [
        "/races/0/values/typed/before",
        "/races/0/what/allocated/stack",
        "/races/0/what/block/size",
        "/races/0/accesses/0/value/bytes",
        "/races/0/accesses/1/created/stack",
    ] {
        let mut wrong = typed.clone();
        *wrong.pointer_mut(path).expect(path) = value!(false);
        assert!(!validator.is_valid(&wrong), "{path}");
    }
    let mut wrong = parsed(&report);
    wrong["schema"] = value!("redhanded-report/2");
    assert!(!validator.is_valid(&wrong));
}

fn replayed() -> Race {
    let mut race = fixtures::bit_fields();
    let rule = Leaning::hint(
        "redundant-write",
        Leans::Benign,
        vec!["the same".to_owned()],
    );
    let tally = ReplayTally {
        no_state_change: 2,
        faults: 1,
        orders: 11,
        difference: vec![Differing {
            what: "A".to_owned(),
            raced: false,
            copy: false,
            in_use: None,
            this: "sampled first: goes on".to_owned(),
            that: "caught first: reads unmapped memory".to_owned(),
        }],
        ..ReplayTally::default()
    };
    race.verdict = Some(combine(vec![rule], Some(tally), 3));
    race
}

fn decided() -> Race {
    let mut race = fixtures::bit_fields();
    race.triage = Some(Triage {
        state: State::Deferred,
        new: false,
        because: Some("after the release".to_owned()),
        owner: None,
        until: Some("2027-03-31".to_owned()),
        suppressed: Some(Suppressed {
            because: "shown only".to_owned(),
            owner: Some("net team".to_owned()),
            until: None,
        }),
    });
    race
}

#[test]
fn what_was_decided_is_read_back() {
    let report = Report {
        races: vec![decided()],
        ..Report::default()
    };
    let text = fixtures::written(&Json, &report);
    assert_eq!(
        redhanded_report::json::read(text.as_bytes()).unwrap(),
        report
    );
}
