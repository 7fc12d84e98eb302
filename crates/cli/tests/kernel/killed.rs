//! Whatever becomes of the tool, somebody's machine is left neither standing nor
//! armed.

use crate::machine::{Kernels, Machine};
use crate::place::{Outcome, Place, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// No test waits this long for anything.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Begins to look at a machine; returns while it is in the middle of it.
fn looking(place: &Place, kernels: &Kernels, machine: &Machine, module: &Path) -> Running {
    let gdb = machine.gdb();
    let mut arguments = vec!["kernel", "--gdb", &gdb, "--vmlinux", kernels.vmlinux()];
    arguments.extend(["--modules", module.to_str().unwrap()]);
    arguments.extend(["--module", "redhanded_demo.ko", "--json", "seen.json"]);
    let mut running = place.start(place.redhanded(arguments));
    let start = Instant::now();
    // A race is told as soon as it is found, and then more are looked for.
    while !said(place).contains("RACE") {
        assert_eq!(running.child.try_wait().unwrap(), None, "{}", said(place));
        assert!(start.elapsed() < HANGS_AFTER, "{}", said(place));
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

fn said(place: &Place) -> String {
    fs::read_to_string(place.path(".stderr")).unwrap()
}

/// The process that drives the machine.
fn tracer_of(running: &Running) -> Pid {
    let front = running.child.id();
    let children = fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    // The other one reads debug information, and is confined.
    let is_free = |pid: &&str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("NoNewPrivs:\t0")
    };
    let tracers: Vec<&str> = children.split_whitespace().filter(is_free).collect();
    let [tracer] = tracers[..] else {
        panic!("one of them should be the tracer: {children}");
    };
    Pid::from_raw(tracer.parse().unwrap())
}

#[test]
fn a_machine_outlives_whoever_looks_at_it() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let module = kernels.module(&place.path("module"));
    let machine = kernels.boot(&module);
    let look = || looking(&place, &kernels, &machine, &module);

    let running = look();
    let tracer = tracer_of(&running);
    kill(tracer, Signal::SIGKILL).unwrap();
    let outcome = running.end();
    told_and_kept(&place, &outcome);
    machine.runs_on();

    let mut running = look();
    let tracer = tracer_of(&running);
    kill(pid(&running), Signal::SIGKILL).unwrap();
    assert_eq!(running.end_leaving_some().status, 137);
    gone(tracer);
    machine.runs_on();

    // Stopped for good, it is noticed to hang, and the machine goes on.
    let running = look();
    let tracer = tracer_of(&running);
    kill(tracer, Signal::SIGSTOP).unwrap();
    kill(pid(&running), Signal::SIGTERM).unwrap();
    let outcome = running.end();
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.says("hung and was"), "{outcome:#?}");
    gone(tracer);
    machine.runs_on();

    // Asked politely, it reports and lets go.
    let running = look();
    kill(pid(&running), Signal::SIGTERM).unwrap();
    let outcome = running.end();
    assert!(outcome.says("left running"), "{outcome:#?}");
    machine.runs_on();
}

fn pid(running: &Running) -> Pid {
    Pid::from_raw(running.child.id().cast_signed())
}

fn gone(process: Pid) {
    let start = Instant::now();
    while kill(process, None).is_ok() {
        assert!(start.elapsed() < HANGS_AFTER, "the tracer stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The tool says what happened, and what was found before is not lost.
#[track_caller]
fn told_and_kept(place: &Place, outcome: &Outcome) {
    assert!(
        outcome.says("its tracer was killed by signal 9"),
        "{outcome:#?}"
    );
    let report = crate::machine::report(&place.path("seen.json"), outcome);
    assert!(
        !report["races"].as_array().unwrap().is_empty(),
        "{outcome:#?}"
    );
    assert_eq!(outcome.status, 125, "{outcome:#?}");
}
