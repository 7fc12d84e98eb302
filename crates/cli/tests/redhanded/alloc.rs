//! `--alloc`: who allocated the block that is raced on.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::process::Command;

const OPTIONS: &str = "run --alloc --max-races 1 --kill --detect watch --show benign --for 2m --overhead 50% \
                       --json report.json";

/// Runs `command`, whose only races are on one block. What is told of it, and what was said.
#[track_caller]
fn told_of(place: &Place, functions: &str, command: &str) -> (Value, Outcome) {
    let line = format!("{OPTIONS} {functions} -- {command}");
    let outcome = place.run(line.split_whitespace());
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    (report["races"][0]["what"].clone(), outcome)
}

/// The functions of the stack that allocated it, innermost first. That of the C library has other
/// names where its debug information is installed.
fn allocated_by(what: &Value) -> Vec<&str> {
    let stack = what["allocated"]["stack"].as_array();
    let frames = stack.map(Vec::as_slice).unwrap_or_default();
    let functions = frames.iter().filter_map(|frame| frame["function"].as_str());
    functions.collect()
}

#[test]
fn a_block_has_the_stack_of_its_latest_allocation() {
    let place = Place::with("allocated");
    let (what, outcome) = told_of(&place, "--function count", "./allocated");
    let functions = allocated_by(&what);
    assert!(functions[0].ends_with("malloc"), "{what:#}");
    assert_eq!(functions[1..3], ["make_later", "main"], "{what:#}");
    assert_eq!(what["block"]["size"], 48, "{what:#}");
    assert_eq!(what["allocated"]["thread"]["name"], "allocated", "{what:#}");
    assert!(outcome.says("(allocated) in make_later"), "{outcome:#?}");
}

#[test]
fn each_way_to_get_memory_is_seen() {
    let place = Place::with("allocated");
    let ways = [
        ("cleared", "calloc", "make_cleared", 48),
        ("larger", "realloc", "make_larger", 4800),
        ("aligned", "posix_memalign", "make_aligned", 48),
        ("large", "malloc", "make_large", 1 << 20),
    ];
    for (way, function, caller, size) in ways {
        let (what, _) = told_of(&place, "--function count", &format!("./allocated {way}"));
        let functions = allocated_by(&what);
        assert!(functions[0].ends_with(function), "{what:#}");
        assert_eq!(functions[1], caller, "{what:#}");
        assert_eq!(what["block"]["size"], size, "{what:#}");
    }
}

#[test]
fn an_allocator_in_place_of_the_c_librarys_is_seen() {
    let place = Place::with("allocated");
    place.build("own_allocator", "libown.so", &["-shared", "-fPIC", "-O2"]);
    let own = place.path("libown.so");
    let command = format!("env LD_PRELOAD={} ./allocated", own.display());
    let (what, _) = told_of(&place, "--function count", &command);
    let functions = allocated_by(&what);
    assert_eq!(
        functions.get(..2),
        Some(&["malloc", "make_later"][..]),
        "{what:#}"
    );
    assert_eq!(
        what["allocated"]["stack"][0]["module"], "libown.so",
        "{what:#}"
    );
    assert_eq!(what["block"]["size"], 48, "{what:#}");
}

#[test]
fn of_a_block_that_may_have_been_resized_nothing_is_told() {
    let place = Place::with("allocated");
    place.build("own_allocator", "libown.so", &["-shared", "-fPIC", "-O2"]);
    let own = place.path("libown.so");
    let command = format!("env LD_PRELOAD={} ./allocated resized", own.display());
    let (what, _) = told_of(&place, "--function count", &command);
    assert_eq!(what["allocated"], Value::Null, "{what:#}");
}

#[test]
fn an_object_of_cxx_is_told_by_the_programs_own_function() {
    let place = Place::new();
    place.build_cc("allocated", "allocated", &[]);
    let (what, outcome) = told_of(&place, "--function *add*", "./allocated");
    let functions = allocated_by(&what);
    let is_maker = |function: &&str| function.starts_with("make_counter");
    assert!(functions.iter().any(is_maker), "{what:#}");
    assert!(outcome.says("in make_counter"), "{outcome:#?}");
}

#[test]
fn a_box_is_told_by_the_programs_own_function() {
    let place = Place::new();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/redhanded/fixtures/allocated.rs"
    );
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let status = Command::new(compiler)
        .args(["-g", "-Copt-level=1", "--edition=2024", "-o"])
        .arg(place.path("allocated"))
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success());
    let (what, outcome) = told_of(&place, "--function *count*", "./allocated");
    let functions = allocated_by(&what);
    let is_maker = |function: &&str| function.ends_with("make_counter");
    assert!(functions.iter().any(is_maker), "{what:#}");
    assert!(outcome.says("in allocated::make_counter"), "{outcome:#?}");
}

#[test]
fn of_a_block_that_was_there_before_a_fork_nothing_is_told() {
    let place = Place::with("allocated");
    let (what, _) = told_of(&place, "--function count", "./allocated forked");
    assert_eq!(what["block"]["size"], 56, "{what:#}");
    assert_eq!(what["allocated"], Value::Null, "{what:#}");
}

#[test]
fn without_it_nobody_is_told() {
    let place = Place::with("allocated");
    let line = OPTIONS.replace("--alloc ", "");
    let line = format!("{line} --function count -- ./allocated");
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let what = &report["races"][0]["what"];
    assert!(what["block"].is_object(), "{what:#}");
    assert_eq!(what["allocated"], Value::Null, "{what:#}");
}

#[test]
fn the_program_does_what_it_does_alone() {
    let place = Place::with("allocated");
    for command in ["./allocated quiet", "env ./allocated quiet"] {
        let line = format!("run --alloc --overhead 50% -- {command}");
        let outcome = place.run(line.split_whitespace());
        assert_eq!(outcome.status, 7, "{outcome:#?}");
    }
    let line = "run --alloc --overhead 50% -- sh -c";
    let words = line.split_whitespace();
    let outcome = place.run(words.chain(["./allocated quiet; exit $?"]));
    assert_eq!(outcome.status, 7, "{outcome:#?}");
}

#[test]
fn a_sigtrap_that_the_program_holds_back_is_not_lost() {
    let place = Place::with("held_back");
    for command in ["./held_back", "./held_back handled"] {
        let line = format!("run --alloc --overhead 50% -- {command}");
        let outcome = place.run(line.split_whitespace());
        assert_eq!(outcome.status, 7, "{outcome:#?}");
    }
}

#[test]
fn it_is_refused_where_no_code_may_be_written() {
    let place = Place::with("allocated");
    let outcome = place.run("run --alloc --safe -- ./allocated".split_whitespace());
    outcome.refused(125, "--alloc needs breakpoints");
}
