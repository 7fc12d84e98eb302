//! Ten thousand races and a million instances in a store: how long it takes to write them, and
//! then to list, filter, show, decide about and render them with the tool itself. The races are
//! those of the demo, with their stacks, evidence and verdicts, under other names.
//!
//! `cargo bench -p redhanded --bench reports`; after `--`, another binary may be named.

use redhanded_model::{Fingerprint, Race, Report};
use redhanded_report::json;
use redhanded_store::{Access, Moment, SqliteStore, Store};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const RACES: usize = 10_000;
/// As many instances of each.
const ROUNDS: i64 = 100;

/// The tool to measure.
fn binary() -> String {
    let named = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_redhanded").to_owned())
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = act();
    println!("{what:<42} {:>7.2} s", start.elapsed().as_secs_f64());
    done
}

fn size(what: &str, path: &Path) {
    let bytes = fs::metadata(path).map_or(0, |about| about.len());
    println!("{what:<42} {:>7.1} MB", bytes as f64 / 1e6);
}

/// Runs the tool; what it prints.
fn redhanded(folder: &TempDir, line: &str) -> String {
    let mut command = Command::new(binary());
    command.args(line.split(' ')).current_dir(folder.path());
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Real races, under as many names as are wanted.
fn report(folder: &TempDir) -> Report {
    let path = folder.path().join("demo.json");
    let demo = Command::new(binary())
        .args(["demo", "--json"])
        .arg(&path)
        .stderr(Stdio::null())
        .status();
    assert!(demo.unwrap().success(), "the demo");
    let report = json::read(&fs::read(path).unwrap()).unwrap();
    let races = report.races.iter().cycle().enumerate().take(RACES);
    let races = races.map(|(number, race)| {
        let mut race: Race = race.clone();
        let name = race.what.name.take().unwrap_or_default();
        race.what.name = Some(format!("{name}_{number}"));
        race.fingerprint = Fingerprint(format!("{} {number}", race.fingerprint.0));
        race.triage = None;
        race
    });
    Report {
        races: races.collect(),
        ..report
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(&folder);
    let path = folder.path().join("races.db");
    timed("write the races", || {
        let mut store = SqliteStore::open(&path, Access::Write).unwrap();
        let now = Moment::now();
        let run = store.begin(&report.run.program, now).unwrap();
        store.finish(run, &report, true, now).unwrap();
    });
    let again: Vec<_> = report
        .races
        .iter()
        .map(|race| (race.fingerprint.clone(), 1))
        .collect();
    timed("write a million instances", || {
        let mut store = SqliteStore::open(&path, Access::Write).unwrap();
        let run = store.begin(&report.run.program, Moment::now()).unwrap();
        for race in &report.races {
            store.saw(run, race, Moment::now()).unwrap();
        }
        for _ in 1..ROUNDS {
            store.saw_again(run, &again, Moment::now()).unwrap();
        }
        store.finish(run, &report, true, Moment::now()).unwrap();
    });
    size("the store", &path);
    let listed = |line: &str, most: usize| {
        let text = timed(line, || redhanded(&folder, line));
        let races = text.lines().filter(|line| line.contains('[')).count();
        assert!((1..=most).contains(&races), "{races} of {line}");
    };
    listed("report races.db", RACES);
    listed("report --harmful races.db", RACES);
    listed("report --in */demo/src/* races.db", RACES);
    listed("report --since 1d races.db", RACES);
    listed("report --run 2 --compare 1 races.db", RACES);
    let one = report.races[RACES / 2].id();
    listed(&format!("report --race {one} races.db"), 4);
    timed("report --full races.db", || {
        redhanded(&folder, "report --full races.db")
    });
    timed("report --runs races.db", || {
        redhanded(&folder, "report --runs races.db")
    });
    for format in ["json", "sarif", "html"] {
        let line = format!("report --{format} report.{format} races.db");
        timed(&line, || redhanded(&folder, &line));
        size("", &folder.path().join(format!("report.{format}")));
    }
    let decide =
        "triage --function *count_statistics --state deferred --because later --store races.db";
    timed("triage --function, a quarter of them", || {
        redhanded(&folder, decide)
    });
}
