//! What judging one instance of a race costs: how long both threads stand for a replay of all
//! orders, and how much of the program's time all windows and replays take together. It runs
//! labelled races at the default overhead.
//!
//! `cargo bench -p redhanded --bench judging`

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Counters, locks, pointers, copies, loops that wait: regions of all lengths.
const SOURCES: [&str; 6] = [
    "counters.c",
    "double_check.c",
    "pointers.c",
    "references.c",
    "torn.c",
    "waiting.c",
];
const SECONDS: u32 = 10;

fn main() {
    let place = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "", "instances", "median", "9 of 10", "longest", "held"
    );
    for source in SOURCES {
        let (times, held) = run(source, place.path());
        tell(source, &times, Some(held));
        all.extend(times);
    }
    all.sort_by(f64::total_cmp);
    tell("all", &all, None);
}

fn tell(name: &str, times: &[f64], held: Option<f64>) {
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1)))
    };
    let [median, most, longest] = [0.5, 0.9, 1.0]
        .map(|share| at(share).map_or_else(|| "-".to_owned(), |time| format!("{time:.2} ms")));
    let held = held.map_or_else(String::new, |share| format!("{:.2} %", share * 100.0));
    let count = times.len();
    println!("{name:<16} {count:>9} {median:>9} {most:>9} {longest:>9} {held:>8}");
}

/// How long each replay took, in milliseconds, sorted; the share of time held.
fn run(source: &str, place: &Path) -> (Vec<f64>, f64) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/verdicts");
    let binary = place.join(source).with_extension("");
    let mut compile = Command::new("gcc");
    compile.args(["-g", "-O2", "-pthread", "-o"]).arg(&binary);
    let compiled = compile.arg(corpus.join(source)).status();
    assert!(compiled.expect("gcc is needed").success());
    let (log, report) = (place.join("log"), place.join("report.json"));
    let _ = fs::remove_file(&log);
    let mut redhanded = Command::new(env!("CARGO_BIN_EXE_redhanded"));
    redhanded.args([
        "run",
        "--quiet",
        "--kill",
        "--fail-on",
        "never",
        "--seed",
        "1",
    ]);
    redhanded.arg("--for").arg(format!("{SECONDS}s"));
    redhanded.arg("--log").arg(&log).arg("--json").arg(&report);
    redhanded.arg("--").arg(&binary);
    redhanded.stdout(Stdio::null()).stderr(Stdio::null());
    redhanded.status().expect("redhanded can be started");
    let text = fs::read_to_string(&log).expect("a log");
    let records = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let took = |record: Value| {
        let took = record.pointer("/collision/collision/replay/took")?.clone();
        Some(took["secs"].as_f64()? * 1e3 + took["nanos"].as_f64()? / 1e6)
    };
    let mut times: Vec<f64> = records.filter_map(took).collect();
    times.sort_by(f64::total_cmp);
    let report: Value =
        serde_json::from_slice(&fs::read(&report).expect("a report")).expect("JSON");
    let second = |key: &str| report["run"][key].as_f64().unwrap_or(0.0);
    (times, second("held_s") / second("thread_s"))
}
