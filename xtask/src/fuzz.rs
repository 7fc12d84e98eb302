//! `cargo xtask fuzz`: the parsers of foreign bytes, fed with inputs that reach more and
//! more of its code.
//!
//! The engine is libFuzzer, in the package `fuzz`. The compiler counts what each input
//! reaches, for which a stable one has the options. The seeds are made here from a few
//! programs, so that they fit the machine's compiler; `fuzz/corpus` holds the small ones
//! that cannot be made.

mod documents;
mod kernel;
mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;

use crate::results::Tally;
use crate::{command, jobs, paths};
use seeds::Seed;

/// Options of `cargo xtask fuzz`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// For how many seconds each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Only this target
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How many targets at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// What the changes of inputs are drawn from [default: the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
}

impl Options {
    /// As in `cargo xtask test`.
    pub const fn short() -> Self {
        Self {
            seconds: 6,
            target: None,
            jobs: 2,
            // The same in every run, so that a run judges the change and not the draw.
            seed: Some(2010),
        }
    }
}

/// An input that takes longer counts as a hang, in seconds. Generous, because other work
/// may share the processors.
const INPUT_SECONDS: u64 = 20;
/// An input that takes more memory counts as a finding, in MiB.
const MEMORY: u64 = 1024;
/// A larger file would make every input slow.
const LARGEST: usize = 128 << 10;
/// What starting, reading the seeds and the last input may take beyond the time.
const GRACE: Duration = Duration::from_secs(240);

/// One target: its name, and which seeds it takes.
struct Target {
    name: &'static str,
    takes: fn(&Seed) -> bool,
}

const TARGETS: [Target; 22] = [
    Target::new("file", |seed| seed.is_elf()),
    Target::new("instruction", |seed| seed.name == "tiny"),
    Target::new("kernel", |seed| {
        ["kernel", "vmlinuz"].contains(&seed.name.as_str())
    }),
    Target::new("btf", |seed| seed.name == "btf"),
    Target::new("module", |seed| seed.name == "object"),
    Target::new("source", |seed| seed.name == "asked.c"),
    Target::new("packets", |seed| seed.name.starts_with("packets")),
    Target::new("description", |seed| seed.name == "description"),
    Target::new("log", |seed| seed.name == "log"),
    Target::new("report", |seed| seed.name == "report"),
    Target::new("sites", |seed| seed.name == "sites"),
    Target::new("maps", |seed| seed.name == "maps"),
    Target::new("scenario", |seed| seed.name.starts_with("scenario")),
    Target::new("suspects", |seed| seed.name.starts_with("suspects")),
    Target::new("recording", |seed| seed.name.starts_with("recording")),
    Target::new("chunks", |seed| seed.name == "chunks"),
    Target::new("guest", |seed| seed.name == "guest"),
    Target::new("console", |seed| seed.name == "console"),
    Target::new("libraries", |seed| seed.is_elf() || seed.name == "script"),
    Target::new("names", |seed| seed.name == "names"),
    Target::new("judgements", |seed| seed.name == "judgements"),
    Target::new("settings", |seed| seed.name.starts_with("settings")),
];

impl Target {
    const fn new(name: &'static str, takes: fn(&Seed) -> bool) -> Self {
        Self { name, takes }
    }
}

/// Fuzzes all targets; an error or a failed case names the input, which is kept.
pub fn run(options: &Options) -> Result<Tally> {
    let fuzzer = build()?;
    let folder = folder()?;
    let seeds = seeds::gather(&made(&folder)?)?;
    let wanted = |name: &str| options.target.as_ref().is_none_or(|only| only == name);
    let targets: Vec<&Target> = TARGETS.iter().filter(|it| wanted(it.name)).collect();
    ensure!(!targets.is_empty(), "no such target");
    println!("each for {} s, {} at a time", options.seconds, options.jobs);
    println!(
        "{:<12} {:>12} {:>9} {:>8}  {:>6}",
        "target", "executions", "per s", "edges", "inputs"
    );
    let results = jobs::run(&targets, options.jobs, |target| {
        match fuzz(target, &fuzzer, &folder, &seeds, options) {
            Ok(line) => {
                println!("{line}");
                Tally::PASSED
            }
            Err(why) => {
                println!("{:<12} FAILED\n{why:#}", target.name);
                Tally::FAILED
            }
        }
    })?;
    Ok(results.into_iter().sum())
}

/// Where the fuzzer and its inputs are.
fn folder() -> Result<PathBuf> {
    let folder = paths::target().join("fuzz");
    fs::create_dir_all(&folder).with_context(|| format!("no folder {}", folder.display()))?;
    Ok(folder)
}

/// Where the seeds are made. A seed may have the name of a target, which has a folder of its own.
fn made(folder: &Path) -> Result<PathBuf> {
    let made = folder.join("made");
    fs::create_dir_all(&made).with_context(|| format!("no folder {}", made.display()))?;
    Ok(made)
}

/// Builds the fuzzer with coverage and copies it to its folder, because an ordinary build has the
/// same place for it.
pub fn build() -> Result<PathBuf> {
    let status = Command::new(paths::cargo())
        // All packages of the workspace have a say in features, as they do for the tests.
        .args(["build", "--quiet", "--workspace", "--bin", "redhanded-fuzz"])
        .env(
            "RUSTC_WORKSPACE_WRAPPER",
            paths::root().join("fuzz/rustc-with-coverage"),
        )
        .current_dir(paths::root())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the fuzzer does not build");
    let fuzzer = folder()?.join("redhanded-fuzz");
    fs::copy(paths::target().join("debug/redhanded-fuzz"), &fuzzer)
        .context("cannot copy the fuzzer")?;
    Ok(fuzzer)
}

/// Runs one target. Returns what it came to in one line.
fn fuzz(
    target: &Target,
    fuzzer: &Path,
    folder: &Path,
    seeds: &[Seed],
    options: &Options,
) -> Result<String> {
    let seconds = options.seconds;
    let place = folder.join(target.name);
    let (found, given) = (place.join("corpus"), place.join("seeds"));
    let _ = fs::remove_dir_all(&given);
    for folder in [&found, &given] {
        fs::create_dir_all(folder).with_context(|| format!("no folder {}", folder.display()))?;
    }
    for seed in seeds.iter().filter(|seed| (target.takes)(seed)) {
        fs::write(given.join(&seed.name), &seed.bytes).context("cannot write a seed")?;
    }
    fs::copy(made(folder)?.join("asked"), place.join("program"))
        .context("no program to ask about")?;
    let mut run = Command::new(fuzzer);
    run.env("REDHANDED_FUZZ_TARGET", target.name)
        .env("REDHANDED_FUZZ_FOLDER", &place)
        .current_dir(&place)
        .arg(format!("-max_total_time={seconds}"))
        // 0 is the clock.
        .arg(format!("-seed={}", options.seed.unwrap_or(0)))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-max_len={LARGEST}"))
        .arg(format!("-artifact_prefix={}/", place.display()))
        .args(["-print_final_stats=1", "-detect_leaks=0"])
        .args([&found, &given]);
    let kept = paths::root().join("fuzz/corpus").join(target.name);
    if kept.is_dir() {
        run.arg(kept);
    }
    let outcome = command::captured(&mut run, Duration::from_secs(seconds) + GRACE)?;
    if !outcome.success() {
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        bail!("{}\n{tail}", outcome.status_in_words());
    }
    figures(target.name, &outcome.stderr).ok_or_else(|| anyhow!("no figures:\n{}", outcome.stderr))
}

/// The line of a table, from what libFuzzer says at its end.
fn figures(name: &str, said: &str) -> Option<String> {
    let after = |line: &str, word: &str| -> Option<u64> {
        let (_, rest) = line.split_once(word)?;
        let digits: String = rest
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    };
    let done = said.lines().rev().find(|line| line.contains(" cov: "))?;
    let stat = |word: &str| said.lines().find_map(|line| after(line, word));
    let (executions, rate) = (
        stat("stat::number_of_executed_units:")?,
        stat("stat::average_exec_per_sec:")?,
    );
    let (edges, inputs) = (after(done, " cov:")?, after(done, " corp:")?);
    Some(format!(
        "{name:<12} {executions:>12} {rate:>9} {edges:>8}  {inputs:>6}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_last_words_give_a_line() {
        let said = "#2 INITED cov: 7 ft: 7 corp: 1/1b exec/s: 0 rss: 27Mb\n\
                    #99 DONE   cov: 812 ft: 9 corp: 31/5b lim: 4 exec/s: 2 rss: 27Mb\n\
                    stat::number_of_executed_units: 3246\n\
                    stat::average_exec_per_sec:     202\n";
        let line = figures("btf", said).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["btf", "3246", "202", "812", "31"]);
        assert!(figures("btf", "nothing").is_none());
    }
}
