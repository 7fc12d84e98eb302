//! `redhanded sites`.

use crate::place::Place;
use serde_json::Value;

#[test]
fn a_program_is_listed_by_function() {
    let place = Place::with("racy");
    let outcome = place.run(["sites", "./racy"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    for function in ["bump", "set_busy", "request_callback"] {
        assert!(outcome.stdout().contains(function), "{outcome:#?}");
    }
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_program_reads_the_same_as_json() {
    let place = Place::with("racy");
    let outcome = place.run(["sites", "--json", "./racy"]);
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(report["schema"], "redhanded-sites/1");
    let rows = report["by_function"].as_array().unwrap();
    let bump = rows.iter().find(|row| row["name"] == "bump").unwrap();
    // `*c += 1` is one instruction that reads and writes.
    assert_eq!(
        [
            &bump["sites"],
            &bump["reads"],
            &bump["writes"],
            &bump["updates"]
        ],
        [1, 0, 0, 1],
        "{bump:#}"
    );
    let sum: u64 = rows.iter().filter_map(|row| row["sites"].as_u64()).sum();
    assert_eq!(report["sites"].as_u64(), Some(sum));
}

#[test]
fn globs_select_functions() {
    let place = Place::with("racy");
    let names = |line: &str| -> Vec<String> {
        let outcome = place.run(line.split(' '));
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let rows = report["by_function"].as_array().unwrap();
        let mut names: Vec<String> = rows
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("sites --json --function bump ./racy"), ["bump"]);
    assert_eq!(
        names("sites --json --function {set_,request_,bum}* --function !bump ./racy"),
        ["request_callback", "set_busy"]
    );
    assert!(names("sites --json --file other.c ./racy").is_empty());
    assert!(names("sites --json --file *racy.c ./racy").contains(&"bump".to_owned()));
}

#[test]
fn sources_may_be_elsewhere() {
    let place = Place::new();
    // As packages are built: the paths in them lead nowhere.
    place.file(
        "once.c",
        b"#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))\n\
          int flag;\n\
          int once(void) { return READ_ONCE(flag); }\n\
          int plain(void) { return flag; }\n\
          int main(void) { return once() + plain(); }\n",
        0o644,
    );
    let built = std::process::Command::new("gcc")
        .current_dir(place.path("."))
        .args(["-g", "-O1"])
        .arg(format!(
            "-ffile-prefix-map={}=/build/once-1.0",
            place.path("once").parent().unwrap().display()
        ))
        .args(["once.c", "-o", "once"])
        .status();
    assert!(built.unwrap().success());
    std::fs::create_dir(place.path("once-1.0")).unwrap();
    std::fs::rename(place.path("once.c"), place.path("once-1.0/once.c")).unwrap();
    let functions = |line: &str| -> Vec<String> {
        let outcome = place.run(line.split(' '));
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let rows = report["by_function"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned())
            .filter(|name| ["once", "plain"].contains(&name.as_str()))
            .collect()
    };
    let mut both = functions("sites --json ./once");
    both.sort();
    assert_eq!(both, ["once", "plain"]);
    assert_eq!(
        functions("sites --json --sources once-1.0 ./once"),
        ["plain"]
    );
    place
        .run(["sites", "--sources", "nowhere", "./once"])
        .refused(125, "there are no sources in nowhere");
}

#[test]
fn what_is_no_program_is_refused() {
    let place = Place::new();
    place.executable("script", b"#!/bin/sh\n");
    place
        .run(["sites", "./script"])
        .refused(125, "./script is a script");
    place
        .run(["sites", "./nothing"])
        .refused(125, "cannot read ./nothing");
    place.run(["sites", "."]).refused(125, "not a regular file");
}

#[test]
fn a_reader_may_leave() {
    let place = Place::with("racy");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.redhanded(["sites", "--all", "./racy"]);
    command.stdout(writer);
    assert_eq!(Place::status_of(command), 0);
}
