//! `redhanded kernel --gdb`: a machine that somebody else started.

use crate::machine::{Kernels, race_on, report};
use crate::place::Place;

#[test]
fn a_machine_runs_on_after_it_was_looked_at_and_can_be_again() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let module = kernels.module(&place.path("module"));
    let machine = kernels.boot(&module);
    let (gdb, module) = (machine.gdb(), module.to_str().unwrap());
    let look = |vmlinux: &str, more: &[&str]| {
        let mut arguments = vec!["kernel", "--gdb", &gdb, "--vmlinux", vmlinux];
        arguments.extend(["--modules", module, "--for", "8s", "--json", "seen.json"]);
        arguments.extend(more);
        let outcome = place.run(arguments);
        machine.runs_on();
        let report = report(&place.path("seen.json"), &outcome);
        assert!(
            report["run"]["windows"].as_u64().unwrap() > 0,
            "{outcome:#?}"
        );
        assert_eq!(report["run"]["ending"], "left running", "{outcome:#?}");
        (outcome, report)
    };
    // Its busiest code, the kernel's own, and by what the kernel itself holds.
    for number in 0..2 {
        // Few sites, so that a few seconds are enough on a busy machine.
        let counting = ["--module", "redhanded_demo.ko", "--function", "count_*"];
        let (outcome, report) = look(kernels.vmlinux(), &counting);
        assert_eq!(outcome.status, 66, "{number}: {outcome:#?}");
        let statistics = race_on(&report, "statistics", ["count_received", "count_sent"]);
        assert!(statistics.is_some(), "{number}: {outcome:#?}");
    }
    let (outcome, _) = look(
        kernels.vmlinux(),
        &["--module", "vmlinux-*", "--fail-on", "never"],
    );
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let (outcome, report) = look(
        kernels.kernel(),
        &["--module", "redhanded_demo.ko", "--log", "seen.log"],
    );
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let again = place.run(["report", "--json", "-", "seen.log"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again, report, "the log gives the same report");
    // A kernel patches itself, and is judged as it ran.
    let log = std::fs::read_to_string(place.path("seen.log")).unwrap();
    let modules = log.lines().filter(|line| line.starts_with("{\"module\""));
    let modules = modules.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let kernel = modules.map(|record| record["module"].clone());
    let mut kernel = kernel.filter(|record| record["module"]["name"] == "vmlinux");
    let live = &kernel.next().unwrap()["file"]["live"];
    assert!(live.as_array().unwrap().len() > 100, "{live}");
    let statistics = race_on(&report, "statistics", ["count_received", "count_sent"]);
    assert!(
        statistics.is_some(),
        "without debug information: {outcome:#?}"
    );
}
