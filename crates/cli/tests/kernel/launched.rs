//! `redhanded kernel --kernel … -- WORKLOAD`: a machine that is started for it.

use crate::machine::{Kernels, processes_with, race_on, report};
use crate::place::{Outcome, Place};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Runs the tool on a machine that can be told from others by its name.
#[track_caller]
fn run(place: &Place, name: &str, arguments: &[&str]) -> Outcome {
    let name = format!("{name}-{}", std::process::id());
    let named = [
        "kernel",
        "--accel",
        "tcg",
        "--qemu-arg",
        "-name",
        "--qemu-arg",
    ];
    let outcome = place.run(
        named
            .into_iter()
            .chain([name.as_str()])
            .chain(arguments.iter().copied()),
    );
    let left = processes_with(&name);
    assert!(left.is_empty(), "left behind: {left:#?}");
    outcome
}

#[test]
fn a_workload_has_its_output_and_its_status() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let script = "echo out; echo err >&2; exit 7";
    let quiet = ["--quiet", "--fail-on", "never", "--json", "run.json"];
    let workload = ["--kernel", kernels.kernel(), "--", "sh", "-c", script];
    let outcome = run(&place, "status", &[&quiet[..], &workload].concat());
    assert_eq!(outcome.status, 7, "{outcome:#?}");
    assert_eq!(outcome.stdout(), "out\n", "{outcome:#?}");
    assert!(outcome.stderr.contains("err"), "{outcome:#?}");
    let report = report(&place.path("run.json"), &outcome);
    assert_eq!(report["run"]["ending"], "exited with status 7");
}

#[test]
fn what_was_found_before_a_panic_is_kept() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let module = kernels.module(&place.path("module"));
    let options = ["--kernel", kernels.kernel(), "--vmlinux", kernels.vmlinux()];
    let added = [
        "--add",
        module.to_str().unwrap(),
        "--module",
        "redhanded_demo.ko",
        "--function",
        "count_*",
    ];
    let script = "sleep 12; echo c > /proc/sysrq-trigger; sleep 1000";
    let workload = ["--json", "run.json", "--", "sh", "-c", script];
    let outcome = run(&place, "panic", &[&options[..], &added, &workload].concat());
    assert!(outcome.stderr.contains("panic"), "{outcome:#?}");
    let report = report(&place.path("run.json"), &outcome);
    let statistics = race_on(&report, "statistics", ["count_received", "count_sent"]);
    assert!(statistics.is_some(), "{outcome:#?}");
    let told = report["run"].to_string();
    assert!(told.contains("panic"), "{told}");
    assert_eq!(outcome.status, 66, "{outcome:#?}");
}

#[test]
fn a_module_that_the_kernel_does_not_take_is_told() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    place.file("broken.ko", b"no module at all", 0o644);
    let options = ["--kernel", kernels.kernel(), "--add", "broken.ko"];
    let workload = ["--quiet", "--", "sleep", "1000"];
    let outcome = run(&place, "module", &[&options[..], &workload].concat());
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.stderr.contains("broken.ko"), "{outcome:#?}");
}

#[test]
fn a_signal_ends_a_machine_that_boots_or_runs_unobserved() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let name = format!("signalled-{}", std::process::id());
    for overhead in ["0", "5%"] {
        let place = Place::new();
        let machine = ["kernel", "--accel", "tcg", "--qemu-arg=-name"];
        let named = format!("--qemu-arg={name}");
        let run = [
            "--overhead",
            overhead,
            "--kernel",
            kernels.kernel(),
            "--",
            "sleep",
            "1000",
        ];
        let arguments = machine.into_iter().chain([named.as_str()]).chain(run);
        let running = place.start(place.redhanded(arguments));
        while processes_with(&name).iter().all(|p| !p.contains("-gdb")) {
            std::thread::yield_now();
        }
        let pid = Pid::from_raw(running.child.id().cast_signed());
        kill(pid, Signal::SIGTERM).unwrap();
        let outcome = running.end();
        assert_eq!(outcome.status, 128 + 15, "{outcome:#?}");
        let left = processes_with(&name);
        assert!(left.is_empty(), "left behind: {left:#?}");
    }
}
