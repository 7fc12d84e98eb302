//! Less than all rights: it works with what there is, or says what is missing.

use crate::place::{Outcome, Place};
use nix::unistd::geteuid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Numbers of x86-64 system calls.
const PTRACE: &str = "101";
const PERF_EVENT_OPEN: &str = "298";
const NOBODY: u32 = 65534;

/// Runs the tool with one system call refused.
fn without(place: &Place, system_call: &str, line: &str) -> Outcome {
    place.build("refuse", "refuse", &[]);
    let mut command = place.command(place.path("refuse"));
    command
        .arg(system_call)
        .arg(env!("CARGO_BIN_EXE_redhanded"))
        .args(line.split(' '));
    place.finish(command)
}

#[test]
fn without_perf_events_ptrace_sets_the_watches() {
    let place = Place::with("racy");
    let line = "run --max-races 1 --kill --for 2m --detect watch --json report.json -- ./racy";
    let outcome = without(&place, PERF_EVENT_OPEN, line);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(place.path("report.json")).unwrap()).unwrap();
    for race in report["races"].as_array().unwrap() {
        assert_eq!(race["seen_by"], "watch", "{race:#}");
        assert_eq!(race["accesses"].as_array().unwrap().len(), 2, "{race:#}");
    }
}

#[test]
fn where_only_perf_is_wanted_the_bytes_are_read_again() {
    let place = Place::with("racy");
    let line = "run --watch perf --max-races 1 --kill --for 2m --json report.json -- ./racy";
    let outcome = without(&place, PERF_EVENT_OPEN, line);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let told = outcome.stderr.split_whitespace().collect::<Vec<_>>();
    let told = told.join(" ");
    assert!(told.contains("perf events were refused"), "{outcome:#?}");
    assert!(told.contains("perf_event_paranoid"), "{outcome:#?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(place.path("report.json")).unwrap()).unwrap();
    for race in report["races"].as_array().unwrap() {
        assert_eq!(race["seen_by"], "value", "{race:#}");
        assert_eq!(race["accesses"].as_array().unwrap().len(), 1, "{race:#}");
    }
}

#[test]
fn where_only_perf_is_wanted_nothing_can_be_watched_only() {
    let place = Place::with("surroundings");
    let line = "run --watch perf --detect watch -- ./surroundings";
    let outcome = without(&place, PERF_EVENT_OPEN, line);
    outcome.refused(125, "--detect watch is impossible");
}

#[test]
fn without_ptrace_nothing_is_started() {
    let place = Place::with("surroundings");
    let outcome = without(&place, PTRACE, "run -- ./surroundings");
    outcome.refused(125, "ptrace refused");
}

/// An ordinary user's command, if that can be had.
fn as_ordinary_user(command: &mut Command) {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

#[test]
fn an_ordinary_user_needs_no_more() {
    let place = Place::with("racy");
    // The folder of the build may be closed to others.
    let tool = std::fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
    let mut command = place.command(place.executable("redhanded", &tool));
    command.args("run --max-races 1 --kill --for 2m -- ./racy".split(' '));
    as_ordinary_user(&mut command);
    let outcome = place.finish(command);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
}

#[test]
fn a_program_that_may_not_be_read() {
    let place = Place::with("end");
    let program = std::fs::read(place.path("end")).unwrap();
    place.file("secret", &program, 0o111);
    let tool = std::fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
    let mut command = place.command(place.executable("redhanded", &tool));
    command.args(["run", "--", "./secret"]);
    as_ordinary_user(&mut command);
    place.finish(command).refused(126, "may not be read");
}

#[test]
fn a_store_in_a_folder_that_cannot_be_written_is_told_with_what_to_do() {
    let place = Place::with("ledger");
    let made = "run --store races.db --max-races 1 --for 2m --overhead 50% --kill -- ./ledger";
    assert_eq!(place.run(made.split(' ')).status, 66);
    let tool = std::fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
    let tool = place.executable("redhanded", &tool);
    let closed = place.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::copy(place.path("races.db"), closed.join("races.db")).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&closed.join("races.db"), 0o644);
    mode(&closed, 0o555);
    let run = |line: &str| {
        let mut command = place.command(tool.clone());
        command.args(line.split(' '));
        as_ordinary_user(&mut command);
        place.finish(command)
    };
    let listed = run("report closed/races.db");
    assert_eq!(listed.status, 0, "{listed:#?}");
    for line in [
        "run --store closed/new.db -- ./ledger",
        "run --store closed/races.db -- ./ledger",
        "triage --field counter --store closed/races.db --note x",
    ] {
        let told = "cannot be written: you may not write to the folder closed; name a file";
        run(line).refused(125, told);
    }
    mode(&closed, 0o755);
}
