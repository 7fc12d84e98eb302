//! Modules that come and go while they are looked at.

use crate::machine::{Kernels, corpus, race_on, report};
use crate::place::Place;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// A module whose two threads change `TIDE` without a lock. What is before it has the
/// modules differ in where it is.
const SOURCE: &str = r#"
#include "../lib/crew.h"

static unsigned long before[SIZE];
static unsigned long TIDE;

KEEP static void TIDE_rises(void)
{
    TIDE += 2;
}

KEEP static void TIDE_falls(void)
{
    TIDE -= 1;
    before[0] = SIZE;
}

CREW_MODULE(TIDE_rises, TIDE_falls, "comes and goes");
"#;

fn source(tide: &str, size: &str) -> String {
    SOURCE.replace("TIDE", tide).replace("SIZE", size)
}

#[test]
fn a_module_in_the_place_of_another_is_told_from_it() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let tides = [("ebb", source("ebb", "1")), ("flood", source("flood", "9"))];
    let sources = tides.each_ref().map(|(name, text)| (*name, text.as_str()));
    let built = kernels.modules(&place.path("module"), &sources);
    // Under such a name it is brought along, and not loaded for us.
    let mut options = vec!["--kernel", kernels.kernel(), "--vmlinux", kernels.vmlinux()];
    let brought: Vec<String> = built
        .iter()
        .map(|module| {
            let copy = module.with_extension("bin");
            fs::copy(module, &copy).unwrap();
            copy.to_str().unwrap().to_owned()
        })
        .collect();
    for file in &brought {
        options.extend(["--add", file]);
    }
    let folder = built[0].parent().unwrap().to_str().unwrap();
    options.extend([
        "--modules",
        folder,
        "--module",
        "ebb.ko",
        "--module",
        "flood.ko",
    ]);
    let script = "
        for turn in 1 2 3; do
            for tide in ebb flood; do
                insmod $tide.bin && sleep 4 && rmmod $tide || exit 1
            done
        done";
    let workload = [
        "--accel", "tcg", "--json", "run.json", "--", "sh", "-c", script,
    ];
    let outcome = place.run(["kernel"].into_iter().chain(options).chain(workload));
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place.path("run.json"), &outcome);
    for (tide, _) in &tides {
        let (rises, falls) = (format!("{tide}_rises"), format!("{tide}_falls"));
        let race = race_on(&report, tide, [&rises, &falls]);
        assert!(race.is_some(), "{tide}: {outcome:#?}");
    }
    // Nothing of the one is called by a name of the other.
    for race in report["races"].as_array().unwrap() {
        let accesses = race["accesses"].as_array().unwrap();
        let functions = accesses
            .iter()
            .map(|access| access["function"].as_str().unwrap());
        let mut of: BTreeSet<&str> = functions.filter_map(|f| f.split('_').next()).collect();
        of.insert(race["what"]["name"].as_str().unwrap());
        assert_eq!(of.len(), 1, "{race:#}");
    }
}

#[test]
fn what_a_sequence_counter_may_guard_is_no_race_without_debug_information() {
    let Some(kernels) = Kernels::get() else {
        return;
    };
    let place = Place::new();
    let text = fs::read_to_string(corpus().join("never/seqlock.c")).unwrap();
    let built = kernels.modules(&place.path("module"), &[("seqlock", &text)]);
    let module = built[0].to_str().unwrap();
    let stripped = Command::new("strip")
        .args(["--strip-debug", module])
        .status();
    assert!(stripped.unwrap().success());
    let options = [
        "--accel",
        "tcg",
        "--kernel",
        kernels.kernel(),
        "--add",
        module,
    ];
    let windows = ["--module", "seqlock.ko", "--max-windows", "300"];
    let workload = ["--json", "run.json", "--", "sleep", "1000"];
    let arguments = ["kernel"].into_iter().chain(options).chain(windows);
    let outcome = place.run(arguments.chain(workload));
    let report = report(&place.path("run.json"), &outcome);
    let races = report["races"].as_array().unwrap();
    let of = |class: &str| races.iter().filter(|race| race["class"] == class).count();
    assert_eq!(of("race"), 0, "{outcome:#?}");
    // The reader and the writer did meet.
    assert!(of("possibly-atomic") > 0, "{outcome:#?}");
}
