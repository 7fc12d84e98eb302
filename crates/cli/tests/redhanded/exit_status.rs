//! Exit statuses: the program's own, or what Redhanded has to say.

use crate::place::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::time::Duration;

/// As long as it takes to see one race, but not for ever.
const UNTIL_A_RACE: [&str; 5] = ["--max-races", "1", "--kill", "--for", "2m"];

#[test]
fn without_a_race_it_is_the_programs() {
    let place = Place::with("end");
    for (way, status) in [("0", 0), ("7", 7), ("255", 255), ("66", 66)] {
        let outcome = place.run(["run", "--quiet", "--", "./end", way]);
        assert_eq!(outcome.status, status, "{way}: {outcome:#?}");
        assert_eq!(outcome.stderr, "", "{way}");
    }
}

#[test]
fn a_death_by_signal_is_told_as_a_shell_does() {
    let place = Place::with("end");
    let deaths = [
        ("abort", 134),
        ("crash", 139),
        ("trap", 133),
        ("int3", 133),
        ("kill", 137),
        ("term", 143),
    ];
    for (way, status) in deaths {
        let outcome = place.run(["run", "--", "./end", way]);
        assert_eq!(outcome.status, status, "{way}: {outcome:#?}");
        let told = format!("killed by signal {}", status - 128);
        assert!(outcome.stderr.contains(&told), "{way}: {outcome:#?}");
    }
}

#[test]
fn a_program_may_end_before_it_begins() {
    let place = Place::new();
    place.build("end", "early", &["-DEARLY"]);
    let outcome = place.run(["run", "--", "./early"]);
    assert_eq!(outcome.status, 9, "{outcome:#?}");
    assert!(outcome.says("No race caught"), "{outcome:#?}");
}

#[test]
fn a_race_gives_66_or_what_was_asked_for() {
    let place = Place::with("racy");
    let outcome = place.run([&["run"], &UNTIL_A_RACE[..], &["--", "./racy"]].concat());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let other = ["--exit-code", "3", "--", "./racy"];
    let outcome = place.run([&["run"], &UNTIL_A_RACE[..], &other].concat());
    assert_eq!(outcome.status, 3, "{outcome:#?}");
}

#[test]
fn a_race_can_be_told_without_failing() {
    let place = Place::with("racy");
    let options = "run --fail-on never --repeat 20 --json report.json";
    let outcome = place.run(options.split(' ').chain(["--", "./racy", "5"]));
    assert_eq!(outcome.status, 5, "{outcome:#?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(place.path("report.json")).unwrap()).unwrap();
    assert_ne!(report["races"], Value::Array(Vec::new()), "{outcome:#?}");
}

#[test]
fn what_a_verdict_says_may_decide_whether_a_race_fails() {
    let place = Place::with("racy");
    let options = "run --fail-on proven --repeat 20 --json report.json";
    // A lost count proves nothing.
    let outcome = place.run(options.split(' ').chain(["--", "./racy", "5"]));
    assert_eq!(outcome.status, 5, "{outcome:#?}");
    let text = std::fs::read_to_string(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_ne!(report["races"], Value::Array(Vec::new()), "{outcome:#?}");
    let calls = [
        ("proven-harmful", 66, 66),
        ("likely-harmful", 0, 66),
        ("undecided", 0, 0),
        ("likely-benign", 0, 0),
    ];
    for (call, proven, harmful) in calls {
        let to = format!("\"{call}\"");
        let judged = calls.iter().fold(text.clone(), |text, (from, ..)| {
            text.replace(&format!("\"{from}\""), &to)
        });
        std::fs::write(place.path("judged.json"), judged).unwrap();
        let statuses = [("proven", proven), ("harmful", harmful), ("any", 66)];
        for (least, status) in statuses {
            let line = format!("report -q --fail-on {least} judged.json");
            let outcome = place.run(line.split(' '));
            assert_eq!(outcome.status, status, "{call}, {least}: {outcome:#?}");
        }
    }
}

#[test]
fn the_first_failure_of_a_repetition_counts() {
    let place = Place::new();
    place.executable(
        "second",
        b"#!/bin/sh\necho >> turns\n[ $(wc -l < turns) != 2 ] || exit 8\n",
    );
    let outcome = place.run("run --quiet --repeat 3 -- ./second".split(' '));
    assert_eq!(outcome.status, 8, "{outcome:#?}");
    assert_eq!(std::fs::read(place.path("turns")).unwrap(), b"\n\n\n");
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_the_next_begins() {
    let place = Place::new();
    let script = b"#!/bin/sh\n[ -e hung ] && exit 0\n: > hung\nsleep 1000\n";
    place.executable("hangs", script);
    let line = "run --repeat 3 --each 8s --json report.json -- ./hangs";
    let outcome = place.run(line.split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(outcome.says("3 runs, 1 cut off by --each"), "{outcome:#?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(place.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["run"]["cut_off"], 1, "{report:#}");
    assert_eq!(
        report["run"]["ending"], "exited with status 0",
        "{report:#}"
    );
}

#[test]
fn no_run_that_hangs_is_left_behind() {
    let place = Place::new();
    let script = b"#!/bin/sh\necho $$ >> started\nexec sleep 1000\n";
    place.executable("hangs", script);
    let outcome = place.run("run --for 6s --each 4s -- ./hangs".split(' '));
    assert!(!outcome.says("left running"), "{outcome:#?}");
    let started = std::fs::read_to_string(place.path("started")).unwrap();
    assert!(!started.is_empty());
    for pid in started.lines() {
        assert!(!std::path::Path::new("/proc").join(pid).exists(), "{pid}");
    }
}

#[test]
fn each_needs_several_runs() {
    let place = Place::with("end");
    let outcome = place.run("run --each 1s -- ./end 0".split(' '));
    outcome.refused(125, "it needs --for or --repeat");
}

/// A tracer that is killed, with the program started for it or not.
#[test]
fn a_lost_tracer_is_a_failure() {
    let place = Place::with("handler");
    let mut running = place.start(place.redhanded("run --quiet -- ./handler".split(' ')));
    running.until_printed("ready");
    let program = crate::interruption::program(&running);
    let field = crate::interruption::status_field(program, "TracerPid");
    let tracer = Pid::from_raw(field.parse().unwrap());
    kill(tracer, Signal::SIGKILL).unwrap();
    // A thread that was just being stopped may have taken the program with it, and what is gone
    // has no fields.
    let traced = || {
        let tracer = crate::interruption::status_field(program, "TracerPid");
        !["", "0"].contains(&tracer.as_str())
    };
    while traced() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = kill(Pid::from_raw(program.cast_signed()), Signal::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(
        outcome.says("its tracer was killed by signal 9"),
        "{outcome:#?}"
    );
    let last = outcome.stderr.lines().last().unwrap();
    assert_eq!(last, "redhanded: the tracer was killed by signal 9");
}

/// Whatever fails for want of memory, in whichever process: it is told, and the
/// status is not that of a run that was observed.
#[test]
fn too_little_memory_is_a_failure() {
    let place = Place::with("end");
    let mut failed = 0;
    for kilobytes in (40..480).step_by(20).map(|megabytes| megabytes << 10) {
        let line = format!(
            "ulimit -v {kilobytes}; exec {} run --json {kilobytes}.json -- ./end 7",
            env!("CARGO_BIN_EXE_redhanded")
        );
        let mut command = place.command("sh");
        command.args(["-c", &line]);
        let outcome = place.finish(command);
        match outcome.status {
            125 => {
                failed += 1;
                assert!(outcome.says("redhanded: "), "{kilobytes} kB: {outcome:#?}");
            }
            status => {
                assert_eq!(status, 7, "{kilobytes} kB: {outcome:#?}");
                assert!(place.path(format!("{kilobytes}.json")).exists());
            }
        }
    }
    assert!(failed > 1, "it was never too little");
}
