//! Files that cannot be written to their end. Whatever is lost is told in a sentence that says
//! what to do, the status is 125, and nothing else is lost.

use crate::analyze::has_recorder;
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::process::Command;

const FULL: &str =
    "No space left on device (os error 28); make room there, or name a file elsewhere";

/// Observes the ledger until its race is caught.
fn observe(place: &Place, options: &str) -> Outcome {
    let line = format!("run --max-races 1 --for 2m --overhead 50% --kill {options} -- ./ledger");
    place.run(line.split_whitespace())
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

/// A store with the ledger's race.
fn stored() -> Place {
    let place = Place::with("ledger");
    let run = observe(&place, "--store races.db --fail-on new");
    assert_eq!(run.status, 0, "{run:#?}");
    place
}

/// The tool, after `prelude` in a shell.
fn after(place: &Place, prelude: &str, line: &str) -> Command {
    let mut command = place.command("sh");
    command
        .arg("-c")
        .arg(format!("{prelude}\nexec \"$@\""))
        .arg("sh");
    command.arg(env!("CARGO_BIN_EXE_redhanded"));
    command.args(line.split_whitespace());
    command
}

#[test]
fn one_report_that_cannot_be_written_costs_the_others_nothing() {
    let place = Place::with("ledger");
    let run = observe(
        &place,
        "--json /dev/full --sarif report.sarif --html /dev/full",
    );
    assert_eq!(run.status, 125, "{run:#?}");
    assert!(run.says("RACE 1 of 1"), "{run:#?}");
    let told = format!("redhanded: cannot write the report to /dev/full: {FULL}");
    let sentences = run.stderr.lines().filter(|line| **line == told);
    assert_eq!(sentences.count(), 2, "{run:#?}");
    let results = &json(&place, "report.sarif")["runs"][0]["results"];
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results:#}");
}

#[test]
fn events_that_cannot_be_written_are_told_and_cost_the_run_nothing() {
    let place = Place::with("ledger");
    let run = observe(
        &place,
        "--events /dev/full --json report.json --log session.log",
    );
    assert_eq!(run.status, 125, "{run:#?}");
    assert!(run.says("RACE 1 of 1"), "{run:#?}");
    let told = format!("redhanded: cannot write events to /dev/full: {FULL}");
    assert_eq!(run.stderr.lines().last(), Some(&*told), "{run:#?}");
    assert!(run.says("tells of no more events"), "{run:#?}");
    let races = &json(&place, "report.json")["races"];
    assert_eq!(races[0]["what"]["name"], "counter", "{races:#}");
    let log = place.run(["report", "session.log"]);
    assert_eq!(log.status, 0, "{log:#?}");
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let place = stored();
    for line in [
        "report races.db",
        "report --json - races.db",
        "report --runs races.db",
        "generate bash",
    ] {
        let mut command = place.redhanded(line.split(' '));
        command.stdout(
            fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        );
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{line}");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = format!("redhanded: cannot write to standard output: {FULL}\n");
        assert_eq!(said, told, "{line}");
    }
}

#[test]
fn a_store_that_may_not_grow_keeps_what_it_has() {
    let place = stored();
    let before = fs::read(place.path("races.db")).unwrap();
    // Twice what the file may have, and less than one argument may.
    let note = "x".repeat(100_000);
    let line = format!("triage --field counter --store races.db --note {note}");
    // In blocks of 512 bytes.
    let refused = place.finish(after(&place, "ulimit -f 96", &line));
    refused.refused(125, "races.db cannot be written (disk I/O error");
    assert!(refused.says("files may grow (ulimit -f)"), "{refused:#?}");
    assert!(
        fs::read(place.path("races.db")).unwrap() == before,
        "changed"
    );
    assert_eq!(place.run(line.split(' ')).status, 0);
}

fn on_full_disk(place: &Place, line: &str) -> Outcome {
    let prelude = "head -c 2000000 /dev/zero > small/fill 2> /dev/null";
    on_small_disk(place, prelude, line)
}

/// In a mount namespace of its own, so that nothing is left behind.
fn on_small_disk(place: &Place, prelude: &str, line: &str) -> Outcome {
    let mount = "mount -t tmpfs -o size=1m none small && cp races.db small/ || exit 99\n\
                 chmod 755 small\n";
    let prelude = &format!("{mount}{prelude}");
    let inner = after(place, prelude, line);
    let mut command = place.command("unshare");
    command
        .arg("-m")
        .arg(inner.get_program())
        .args(inner.get_args());
    place.finish(command)
}

#[test]
fn a_full_disk_is_told_before_the_program_starts_and_a_store_on_it_can_be_read() {
    let place = stored();
    fs::create_dir(place.path("small")).unwrap();
    let listed = on_full_disk(&place, "report small/races.db");
    if listed.stderr.contains("unshare") || listed.status == 99 {
        eprintln!("skipped: no file system can be mounted: {}", listed.stderr);
        return;
    }
    assert_eq!(listed.status, 0, "{listed:#?}");
    assert!(listed.stdout().contains("counter"), "{listed:#?}");
    let told = "small/races.db cannot be written (disk I/O error";
    let run = "run --store small/races.db -- ./ledger";
    on_full_disk(&place, run).refused(125, told);
    let note = "triage --field counter --store small/races.db --note x";
    on_full_disk(&place, note).refused(125, told);
    let new = "run --store small/new.db -- ./ledger";
    on_full_disk(&place, new).refused(125, "small/new.db cannot be written: the disk is full");
    let pages = on_full_disk(&place, "generate man small");
    pages.refused(125, "cannot write a man page to small/redhanded-");
    assert!(pages.says(FULL), "{pages:#?}");
    let sarif = on_full_disk(&place, "report --sarif small/report.sarif races.db");
    assert_eq!(sarif.status, 125, "{sarif:#?}");
    let told = format!("redhanded: cannot write the report to small/report.sarif: {FULL}");
    assert_eq!(sarif.stderr.lines().last(), Some(&*told), "{sarif:#?}");
}

#[test]
fn a_read_only_file_system_is_told_before_the_program_starts_and_a_store_on_it_can_be_read() {
    let place = stored();
    fs::create_dir(place.path("small")).unwrap();
    let on = |line: &str| on_small_disk(&place, "mount -o remount,ro small || exit 99", line);
    let listed = on("report small/races.db");
    if listed.stderr.contains("unshare") || listed.status == 99 {
        eprintln!("skipped: no file system can be mounted: {}", listed.stderr);
        return;
    }
    assert_eq!(listed.status, 0, "{listed:#?}");
    assert!(listed.stdout().contains("counter"), "{listed:#?}");
    for (line, name) in [
        ("run --store small/races.db -- ./ledger", "races"),
        (
            "triage --field counter --store small/races.db --note x",
            "races",
        ),
        ("run --store small/new.db -- ./ledger", "new"),
    ] {
        let told = format!(
            "redhanded: the store small/{name}.db cannot be written: the file system of small is \
             mounted read-only; name a file elsewhere with --store"
        );
        on(line).refused(125, &told);
    }
}

/// What was recorded before the disk was full can be analysed.
#[test]
fn a_recording_that_could_not_be_written_to_its_end_has_a_beginning() {
    if !has_recorder() {
        return;
    }
    let place = Place::with("recorded");
    // In blocks of 512 bytes: the whole is several times as long.
    let line = "record -o r -- ./recorded threads";
    let recorded = place.finish(after(&place, "ulimit -f 64", line));
    assert_eq!(recorded.status, 125, "{recorded:#?}");
    assert!(
        recorded.says("is kept and can be analysed"),
        "{recorded:#?}"
    );
    assert!(
        recorded.says("cannot write the recording to r"),
        "{recorded:#?}"
    );
    let analysed = place.run("analyze --json report.json r".split(' '));
    assert_eq!(analysed.status, 125, "{analysed:#?}");
    assert!(analysed.says("r is cut short or damaged"), "{analysed:#?}");
    let run = &json(&place, "report.json")["run"];
    assert!(run["recorded"]["entries"].as_u64() > Some(0), "{run:#}");
}
