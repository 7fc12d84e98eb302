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
        &*Format::Sarif.writer("/src/my app".as_ref(), &fixtures::no_source(), None),
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
        fixtures::freed(),
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
    let decided = |state, new, because: Option<&str>| Triage {
        state,
        new,
        because: because.map(str::to_owned),
        owner: None,
        until: None,
        suppressed: None,
    };
    report.races[0].triage = Some(decided(State::New, true, None));
    report.races[2].triage = Some(decided(State::NotAProblem, false, Some("a hint only")));
    let document = sarif(&report);
    let results = document["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results[0]["baselineState"], "new");
    assert_eq!(results[1]["baselineState"], "new");
    assert_eq!(results[2]["baselineState"], "unchanged");
    let justified = |at: usize| &results[at]["suppressions"][0]["justification"];
    assert_eq!(*justified(1), "shown only");
    assert_eq!(*justified(2), "a hint only");
    let problem = &results[0]["partialFingerprints"]["redhandedProblem/v2"];
    assert_eq!(*problem, report.races[0].problem().hash());
}

/// The format wants these of all results or of none.
#[test]
fn without_a_memory_no_result_is_new_and_each_says_whether_it_is_suppressed() {
    let results = |races| {
        let report = Report {
            races,
            ..Report::default()
        };
        sarif(&report)["runs"][0]["results"].clone()
    };
    let mixed = results(vec![fixtures::bit_fields(), suppressed()]);
    for result in mixed.as_array().unwrap() {
        assert_eq!(result["baselineState"], Value::Null);
    }
    assert_eq!(mixed[0]["suppressions"].as_array().unwrap().len(), 0);
    assert_eq!(mixed[1]["suppressions"].as_array().unwrap().len(), 1);
    let plain = results(vec![fixtures::bit_fields()]);
    assert_eq!(plain[0]["baselineState"], Value::Null);
    assert_eq!(plain[0]["suppressions"], Value::Null);
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
fn where_the_block_was_allocated_is_a_related_location() {
    let report = Report {
        races: vec![fixtures::allocated()],
        ..Report::default()
    };
    let related = &sarif(&report)["runs"][0]["results"][0]["relatedLocations"][1];
    let said = &related["message"]["text"];
    assert_eq!(*said, "allocated by thread 4700 (main)", "{related:#}");
    let place = &related["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "pool.c", "{related:#}");
    assert_eq!(place["region"]["startLine"], 12, "{related:#}");
    assert_ne!(related["id"], 1, "{related:#}");
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
    let hash = &result["partialFingerprints"]["redhandedRace/v4"];
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

#[test]
fn a_freed_block_has_a_rule_of_its_own_and_every_rule_says_what_to_do() {
    let document = sarif(&Report {
        races: vec![fixtures::bit_fields(), fixtures::freed()],
        ..Report::default()
    });
    let run = &document["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for rule in rules {
        for text in [
            &rule["shortDescription"]["text"],
            &rule["fullDescription"]["text"],
            &rule["help"]["text"],
            &rule["help"]["markdown"],
        ] {
            assert!(text.as_str().unwrap().len() > 30, "{rule:#}");
        }
    }
    let results = run["results"].as_array().unwrap();
    let ids: Vec<_> = results.iter().map(|result| &result["ruleId"]).collect();
    assert_eq!(ids, ["data-race", "freed-while-it-stood"]);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert_eq!(result["level"], "error");
    }
}

#[test]
fn a_library_is_not_looked_for_in_the_repository() {
    let mut race = fixtures::bit_fields();
    let start = race.accesses[0].stack.last_mut().unwrap();
    start.file = Some("./nptl/pthread_create.c".to_owned());
    start.line = Some(442);
    // The other side is in a header of the compiler, for a function of the program.
    let header = "/usr/include/c++/12/optional";
    let inlined = fixtures::frame("std::optional::value_or", header, 1012, 0x1204);
    race.accesses[1].function = inlined.function.clone();
    race.accesses[1].file = inlined.file.clone();
    race.accesses[1].line = inlined.line;
    race.accesses[1].stack.insert(0, inlined);
    let document = sarif(&Report {
        races: vec![race],
        ..Report::default()
    });
    let text = document.to_string();
    assert!(!text.contains("pthread_create.c"), "{document:#}");
    let result = &document["runs"][0]["results"][0];
    let start = &result["codeFlows"][0]["threadFlows"][0]["locations"][0]["location"];
    assert_eq!(
        start["logicalLocations"][0]["fullyQualifiedName"],
        "start_thread"
    );
    let place = &start["physicalLocation"];
    assert_eq!(place["artifactLocation"], Value::Null, "{start:#}");
    assert_eq!(place["address"]["fullyQualifiedName"], "libc.so.6+0x89134");
    // A result is where the program's own code is; its flow has all of it.
    let other = &result["relatedLocations"][0]["physicalLocation"];
    assert_eq!(other["artifactLocation"]["uri"], "demo.c");
    assert_eq!(other["region"]["startLine"], 71);
    let message = result["message"]["text"].as_str().unwrap();
    assert!(
        message.contains("in request_callback (in std::optional::value_or)"),
        "{message}"
    );
    let flow = result["codeFlows"][0]["threadFlows"][1]["locations"].as_array();
    let last = &flow.unwrap().last().unwrap()["location"]["physicalLocation"];
    assert_eq!(
        last["artifactLocation"]["uri"],
        "file:///usr/include/c++/12/optional"
    );
}
