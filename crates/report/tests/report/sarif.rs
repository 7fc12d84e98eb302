//! SARIF, checked by its schema.

use crate::fixtures::{self, written};
use redhanded_model::{Class, Race, Report, State, Suppressed, Triage};
use redhanded_report::Format;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The schema comes with the crate that declares SARIF's types. `Cargo.toml` asks for it on
/// another platform than ours, and cargo fetches it when it is told of that platform.
fn schema() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let told = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .arg("--filter-platform=x86_64-unknown-none")
        .output()
        .unwrap();
    assert!(told.status.success(), "{told:#?}");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    let package = packages
        .iter()
        .find(|p| p["name"] == "serde-sarif")
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let text = std::fs::read(manifest.with_file_name("src/schema.json")).unwrap();
    let mut schema: Value = serde_json::from_slice(&text).unwrap();
    // These two are no valid regular expressions, and we do not write a language.
    for holder in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][holder]["properties"]["language"];
        assert!(
            language
                .as_object_mut()
                .unwrap()
                .remove("pattern")
                .is_some()
        );
    }
    schema
}

fn sarif(report: &Report) -> Value {
    serde_json::from_str(&written(
        &*Format::Sarif.writer("/src/my app".as_ref(), &fixtures::no_source()),
        report,
    ))
    .unwrap()
}

fn every_kind() -> Report {
    let mut report = fixtures::run();
    report.races = vec![
        fixtures::bit_fields(),
        fixtures::unknown_origin(),
        fixtures::possibly_atomic(),
        fixtures::system_call(),
        fixtures::long_names(),
        fixtures::hostile(),
    ];
    let mut stripped = fixtures::bit_fields();
    for access in &mut stripped.accesses {
        (access.function, access.file, access.line) = (None, None, None);
        for frame in &mut access.stack {
            (frame.function, frame.file, frame.line) = (None, None, None);
        }
    }
    report.races.push(suppressed());
    report.races.push(stripped);
    report
}

fn suppressed() -> Race {
    let mut race = fixtures::bit_fields();
    race.triage = Some(Triage {
        state: State::New,
        new: true,
        because: None,
        owner: None,
        until: None,
        suppressed: Some(Suppressed {
            because: "shown only".to_owned(),
            owner: None,
            until: None,
        }),
    });
    race
}

#[test]
fn what_is_remembered_is_told_as_viewers_expect() {
    let mut report = Report {
        races: vec![fixtures::bit_fields(), suppressed(), suppressed()],
        ..Report::default()
    };
    report.races[2].triage = Some(Triage {
        state: State::NotAProblem,
        new: false,
        because: Some("a hint only".to_owned()),
        owner: None,
        until: None,
        suppressed: None,
    });
    let document = sarif(&report);
    let results = document["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results[0]["baselineState"], Value::Null);
    assert_eq!(results[1]["baselineState"], "new");
    assert_eq!(results[2]["baselineState"], "unchanged");
    let justified = |at: usize| &results[at]["suppressions"][0]["justification"];
    assert_eq!(*justified(1), "shown only");
    assert_eq!(*justified(2), "a hint only");
    let problem = &results[0]["partialFingerprints"]["redhandedProblem/v1"];
    assert_eq!(*problem, report.races[0].problem().hash());
}

#[test]
fn it_follows_the_schema() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for report in [every_kind(), Report::default()] {
        let document = sarif(&report);
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    let wrong = serde_json::json!({ "version": "2.1.0", "runs": [{ "results": [] }] });
    assert!(!validator.is_valid(&wrong), "a run without a tool");
}

#[test]
fn both_sides_have_a_flow_and_a_place() {
    let mut report = Report::default();
    let mut race = fixtures::bit_fields();
    race.accesses[0].file = Some("/src/my app/net/conn.c".to_owned());
    race.accesses[1].file = Some("/usr/include/other.h".to_owned());
    report.races = vec![race.clone()];
    let result = &sarif(&report)["runs"][0]["results"][0];
    let place = |location: &Value| location["physicalLocation"]["artifactLocation"].clone();
    assert_eq!(place(&result["locations"][0])["uri"], "net/conn.c");
    assert_eq!(place(&result["locations"][0])["uriBaseId"], "SRCROOT");
    let other = place(&result["relatedLocations"][0]);
    assert_eq!(other["uri"], "file:///usr/include/other.h");
    assert_eq!(other["uriBaseId"], Value::Null);
    let flows = result["codeFlows"][0]["threadFlows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    for (flow, access) in flows.iter().zip(&race.accesses) {
        let last = flow["locations"].as_array().unwrap().last().unwrap();
        let line = &last["location"]["physicalLocation"]["region"]["startLine"];
        assert_eq!(*line, access.line.unwrap());
    }
    let hash = &result["partialFingerprints"]["redhandedRace/v3"];
    assert_eq!(*hash, race.fingerprint.hash());
}

#[test]
fn only_a_race_is_an_error() {
    let report = every_kind();
    let document = sarif(&report);
    let results = document["runs"][0]["results"].as_array().unwrap();
    for (result, race) in results.iter().zip(&report.races) {
        let error = result["level"] == "error";
        assert_eq!(error, race.class == Class::Race, "{result}");
    }
}

#[test]
fn without_source_a_race_is_at_its_module() {
    let document = sarif(&every_kind());
    let stripped = document["runs"][0]["results"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    let place = &stripped["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "demo");
    assert_eq!(place["address"]["relativeAddress"], 0x11a6);
}
