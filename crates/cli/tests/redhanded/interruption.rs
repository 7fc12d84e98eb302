//! Ways to stop looking: the program lives on, or ends, as it was asked for,
//! and always with its own code.

use crate::place::{Place, Running, members};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

fn signal(to: u32, signal: Signal) {
    kill(Pid::from_raw(to.cast_signed()), signal).unwrap();
}

/// The number that `handler` printed.
pub fn program(running: &Running) -> u32 {
    let printed = running.printed();
    let (_, number) = printed.split_once("ready ").unwrap();
    number.lines().next().unwrap().parse().unwrap()
}

#[test]
fn a_signal_is_passed_on_and_the_code_restored() {
    let place = Place::with("handler");
    for (sent, number) in [(Signal::SIGTERM, 15), (Signal::SIGINT, 2)] {
        for _ in 0..3 {
            let command = place.redhanded("run --fail-on never -- ./handler".split(' '));
            let mut running = place.start(command);
            running.until_printed("ready");
            signal(running.child.id(), sent);
            let outcome = running.end();
            assert_eq!(outcome.status, 0, "{sent}: {outcome:#?}");
            let asked = format!("asked by {number}\n");
            assert!(outcome.stdout().ends_with(&asked), "{sent}: {outcome:#?}");
            assert!(outcome.stderr.contains("sites"), "{sent}: {outcome:#?}");
        }
    }
}

#[test]
fn a_signal_that_kills_the_program_gives_its_status() {
    let place = Place::with("handler");
    let command = place.redhanded("run --quiet --fail-on never -- ./handler".split(' '));
    let mut running = place.start(command);
    running.until_printed("ready");
    signal(running.child.id(), Signal::SIGHUP);
    let outcome = running.end();
    assert_eq!(outcome.status, 129, "{outcome:#?}");
}

/// As `nohup` starts programs, and shells those in the background.
#[test]
fn a_signal_that_is_ignored_from_the_start_ends_nothing() {
    let place = Place::with("handler");
    let mut command = place.command("env");
    command.args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_redhanded")]);
    command.args("run --quiet --fail-on never -- ./handler".split(' '));
    let mut running = place.start(command);
    running.until_printed("ready");
    let redhanded = running.child.id();
    signal(redhanded, Signal::SIGHUP);
    let has_hangup = |pid, field| {
        let signals = status_field(pid, field);
        u64::from_str_radix(&signals, 16).unwrap() & 1 == 1
    };
    assert!(has_hangup(program(&running), "SigIgn"));
    assert!(has_hangup(redhanded, "SigIgn") && !has_hangup(redhanded, "SigBlk"));
    signal(redhanded, Signal::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(outcome.stdout().ends_with("asked by 15\n"), "{outcome:#?}");
}

#[test]
fn a_signal_to_the_program_alone_is_its_own() {
    let place = Place::with("handler");
    let command = place.redhanded("run --quiet --fail-on never -- ./handler".split(' '));
    let mut running = place.start(command);
    running.until_printed("ready");
    signal(program(&running), Signal::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(outcome.stdout().ends_with("asked by 15\n"), "{outcome:#?}");
}

#[test]
fn a_program_that_is_stopped_and_continued() {
    let place = Place::with("handler");
    let command = place.redhanded("run --quiet --fail-on never -- ./handler".split(' '));
    let mut running = place.start(command);
    running.until_printed("ready");
    let program = program(&running);
    signal(program, Signal::SIGSTOP);
    // Stopped, as its user wants it: not by us, and not for a moment.
    while status_field(program, "State") != "T (stopped)"
        && status_field(program, "State") != "t (tracing stop)"
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(program, Signal::SIGCONT);
    signal(program, Signal::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.status, 0, "{outcome:#?}");
}

pub fn status_field(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

#[test]
fn after_its_time_a_program_is_left_running() {
    let place = Place::with("handler");
    let command = place.redhanded("run --fail-on never --for 300ms -- ./handler".split(' '));
    let mut running = place.start(command);
    let outcome = running.end_leaving_some();
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(outcome.says("left running"), "{outcome:#?}");
    // On a busy machine it may be left before it has said anything.
    while !running.printed().contains("ready") {
        assert_ne!(members(running.child.id()), [], "it died: {outcome:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let program = program(&running);
    assert_eq!(status_field(program, "TracerPid"), "0");
    for task in fs::read_dir(format!("/proc/{program}/task")).unwrap() {
        let task = task.unwrap().file_name().into_string().unwrap();
        let state = status_field(task.parse().unwrap(), "State");
        assert!(!state.to_lowercase().starts_with('t'), "{task}: {state}");
    }
    signal(program, Signal::SIGTERM);
    while !members(running.child.id()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(running.printed().ends_with("asked by 15\n"));
}

#[test]
fn after_its_time_a_program_is_ended_if_asked() {
    let place = Place::with("handler");
    let outcome = place.run("run --fail-on never --kill --for 300ms -- ./handler".split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(!outcome.stdout().contains("asked by"), "{outcome:#?}");
}

/// As nginx's workers are: children that run on until somebody ends them.
#[test]
fn with_the_program_its_children_are_ended() {
    let place = Place::with("handler");
    // What is left of the group is seen by `Running::end`.
    let script = "./handler & ./handler & sleep 1000 & wait";
    // Long enough for all of them to start on a busy machine.
    let options = "run --fail-on never --kill --for 10s -- sh -c";
    let outcome = place.run(options.split(' ').chain([script]));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert_eq!(outcome.stdout().matches("ready").count(), 2, "{outcome:#?}");
}

#[test]
fn enough_windows_are_enough() {
    let place = Place::with("handler");
    let options = "run --fail-on never --kill --max-windows 5 --json r.json -- ./handler";
    let outcome = place.run(options.split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("r.json")).unwrap()).unwrap();
    assert_eq!(report["run"]["windows"], 5, "{report:#}");
}
