//! How much later a program ends because it was started under Redhanded: alone, with an
//! empty cache, and with what the run before left in it. Compare the ratios; absolute
//! times depend on the machine.
//!
//! `cargo bench -p redhanded --bench startup -- PROGRAM ARGUMENTS...`; without a program,
//! it is `true`. A good one does nothing but start: `ffmpeg -version`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

fn main() {
    let given = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut command: Vec<String> = given.collect();
    if command.is_empty() {
        command.push("true".to_owned());
    }
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let cache = tempfile::tempdir().expect("a folder for the cache");
        // In turn, so that whatever else the machine does concerns all of them.
        for (times, way) in times.iter_mut().zip([None, Some(&cache), Some(&cache)]) {
            times.push(run(&command, way.map(tempfile::TempDir::path)));
        }
    }
    println!("{}, median of {ROUNDS}", command.join(" "));
    let [alone, first, second] = times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2].as_secs_f64() * 1e3
    });
    for (way, time) in [
        ("alone", alone),
        ("first time", first),
        ("second time", second),
    ] {
        let (ratio, added) = (time / alone, time - alone);
        println!("  {way:<12} {time:>9.1} ms  {ratio:>7.1} x  {added:>+9.1} ms");
    }
}

/// How long the program takes; under Redhanded, if there is a cache for that.
fn run(command: &[String], cache: Option<&Path>) -> Duration {
    let mut words = Vec::new();
    if cache.is_some() {
        words.extend([env!("CARGO_BIN_EXE_redhanded"), "run", "--quiet", "--"]);
    }
    words.extend(command.iter().map(String::as_str));
    let mut started = Command::new(words[0]);
    started.args(&words[1..]);
    if let Some(cache) = cache {
        started.env("XDG_CACHE_HOME", cache);
    }
    started
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = started.status().expect("the program can be started");
    assert!(status.success(), "{words:?}: {status}");
    start.elapsed()
}
