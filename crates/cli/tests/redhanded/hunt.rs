//! Hunting suspects: pairs that are kept apart by sleeps are caught, guarded ones are not, and
//! whatever the list is, it is told what came of it.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The programs of `corpus/apart`, what is raced on, and the functions.
const FAMILY: [(&str, &str, [&str; 2]); 4] = [
    ("write_then_read", "order", ["place_order", "look_up"]),
    ("read_then_write", "balance", ["check", "charge"]),
    ("same_function", "visits", ["count_visit", "count_visit"]),
    ("owner_of_the_lock", "level", ["raise_level", "read_level"]),
];

fn build(place: &Place, name: &str, flags: &[&str]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/apart");
    let status = Command::new("gcc")
        .args(["-g", "-O1", "-pthread", "-o"])
        .arg(place.path(name))
        .arg(corpus.join(name).with_extension("c"))
        .args(flags)
        .status()
        .expect("gcc is needed to build the programs of the tests");
    assert!(status.success());
}

fn hunt(place: &Place, options: &str, program: &str) -> (Outcome, Value) {
    let line = format!("run --suspects list --seed 1 --json report.json {options} -- ./{program}");
    let outcome = place.run(line.split_whitespace());
    let report = fs::read(place.path("report.json")).unwrap();
    let report = serde_json::from_slice(&report).unwrap();
    (outcome, report)
}

#[test]
fn pairs_that_sleeps_keep_apart_are_caught_and_guarded_ones_are_not() {
    for (name, what, functions) in FAMILY {
        let place = Place::new();
        build(&place, name, &[]);
        let list = format!("# suspects\n{} | {}\n", functions[0], functions[1]);
        place.file("list", list.as_bytes(), 0o644);
        let (outcome, report) = hunt(&place, "--repeat 4", name);
        assert_eq!(outcome.status, 66, "{name}: {outcome:#?}");
        let race = &report["races"][0];
        let told = race["what"].to_string();
        assert!(told.contains(what), "{name}: {race:#}");
        let accesses = race["accesses"].as_array().unwrap();
        let met: BTreeSet<&str> = accesses
            .iter()
            .filter_map(|access| access["function"].as_str())
            .collect();
        assert_eq!(met, functions.into(), "{race:#}");
        let candidate = &report["run"]["candidates"][0];
        assert_eq!(candidate["outcome"], "caught", "{candidate:#}");
        assert_eq!(candidate["race"], race["id"]);
        let caught = format!("caught as [{}]", race["id"].as_str().unwrap());
        assert!(outcome.says(&caught), "{outcome:#?}");

        build(&place, name, &["-DGUARDED"]);
        let (outcome, report) = hunt(&place, "--repeat 2", name);
        assert_eq!(outcome.status, 0, "{name}, guarded: {outcome:#?}");
        assert_eq!(report["races"], json!([]));
        let candidate = &report["run"]["candidates"][0];
        assert_eq!(candidate["outcome"], "not-caught", "{candidate:#}");
        assert!(outcome.says("not caught in"), "{outcome:#?}");
    }
}

#[test]
fn suspects_come_from_reports_and_from_what_other_tools_print() {
    let place = Place::new();
    build(&place, "write_then_read", &[]);
    let printed = "the test begins\n\
        WARNING: ThreadSanitizer: data race (pid=1)\n  \
        Read of size 8 at 0x1 by thread T2:\n    \
        #0 look_up /src/write_then_read.c:14 (app+0x1)\n    #1 clerk <null> (app+0x2)\n\n  \
        Previous write of size 8 at 0x1 by thread T1:\n    \
        #0 place_order /src/write_then_read.c:9 (app+0x3)\n\n\
        SUMMARY: ThreadSanitizer: data race\n";
    place.file("list", printed.as_bytes(), 0o644);
    let (outcome, first) = hunt(&place, "", "write_then_read");
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    // What was found is a list, too.
    fs::rename(place.path("report.json"), place.path("list")).unwrap();
    let (outcome, second) = hunt(&place, "", "write_then_read");
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let id = &first["races"][0]["id"];
    assert_eq!(&second["run"]["candidates"][0]["race"], id);
}

#[test]
fn what_is_not_there_or_not_reached_is_told() {
    let place = Place::new();
    build(&place, "same_function", &[]);
    let list = "count_visit | no_such_function\nelsewhere.c:3 | nowhere\nmain | main\n";
    place.file("list", list.as_bytes(), 0o644);
    let (outcome, report) = hunt(&place, "--delay 10ms", "same_function");
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let candidates = report["run"]["candidates"].as_array().unwrap();
    assert_eq!(candidates[0]["outcome"], "not-caught", "{report:#}");
    assert_eq!(candidates[1]["outcome"], "not-found", "{report:#}");
    assert!(
        outcome.says("elsewhere.c:3 | nowhere: no code that can be sampled was found there"),
        "{outcome:#?}"
    );
    place.file("list", b"elsewhere.c:3 | nowhere\n", 0o644);
    let (outcome, _) = hunt(&place, "", "same_function");
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    let told = "no suspect was found: no code that was loaded and can be sampled is at \
                elsewhere.c:3 | nowhere";
    assert!(outcome.says(told), "{outcome:#?}");
}

#[test]
fn what_is_no_list_is_refused_in_one_sentence() {
    let place = Place::new();
    build(&place, "same_function", &[]);
    let run = |list: &str| place.run(["run", "--suspects", list, "--", "./same_function"]);
    run("missing").refused(125, "cannot read missing");
    for (content, why) in [
        (&b""[..], "it names no pair of suspects"),
        (b"count_visit\n", "line 1 is no pair"),
        (b"a | b\n\x7fELF\x00\x01 | \x02\n", "line 2 is no pair"),
        (b"{\"schema\": \"redhanded-report/1\"", "cut off"),
        (
            b"WARNING: ThreadSanitizer: data race\n",
            "no race of which both sides are known",
        ),
    ] {
        place.file("list", content, 0o644);
        run("list").refused(125, why);
    }
}
