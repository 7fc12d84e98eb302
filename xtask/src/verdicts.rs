//! `cargo xtask verdicts`: runs the labelled races and prints how many verdicts are right, in
//! the form of the papers' tables.

mod kernel;
mod labels;
mod tables;

pub use labels::Label;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_model::{Race, combine};

use crate::judge::{self, begins};
use crate::results::Tally;
use crate::{command, jobs, paths};
use labels::Program;
use tables::Judged;

/// How long compiling may take.
const COMPILING: Duration = Duration::from_secs(120);
/// How long Redhanded may take beyond the time it was given.
const GRACE: Duration = Duration::from_secs(60);
/// What share of the benign races a stage must recognise.
const FILTERED: f64 = 0.9;

/// Options of `cargo xtask verdicts`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The seed of the first run; those of the others follow it
    #[arg(long, value_name = "N", default_value_t = 1)]
    first_seed: u64,
    /// How many seeds each program is run with
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Only optimised builds
    #[arg(long)]
    quick: bool,
    /// Only programs with a race that does harm
    #[arg(long)]
    harmful: bool,
    /// How many programs to run at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Only programs whose path contains this, e.g. held-out
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
    /// Judge the reports on modules that `cargo xtask kernel-corpus` left in DIR, instead of
    /// running programs
    #[arg(long, value_name = "DIR")]
    kernel_reports: Option<PathBuf>,
    /// How long each program is looked at, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    time: u64,
}

impl Options {
    /// The short form, as in `cargo xtask test`: whether a race that does harm is called benign.
    pub const fn short() -> Self {
        Self {
            first_seed: 1,
            seeds: 1,
            quick: true,
            harmful: true,
            jobs: 2,
            filter: String::new(),
            redhanded: None,
            kernel_reports: None,
            time: 2000,
        }
    }
}

/// Runs the set and prints the tables; a harmful race that is called benign has failed.
pub fn run(options: &Options) -> Result<Tally> {
    let judged = match &options.kernel_reports {
        Some(reports) => kernel::judged(reports, &paths::root().join("corpus/kernel/expected"))?,
        None => judged(options)?,
    };
    if options.kernel_reports.is_some() {
        judged.iter().for_each(|one| println!("{one}"));
    }
    ensure!(
        judged.iter().any(Judged::shows_something),
        "no race that does harm was judged, so nothing is shown"
    );
    // What is benign is not among those that do harm, and of modules there are too few.
    let is_whole = options.kernel_reports.is_none() && !options.harmful;
    Ok(tables::print(
        &judged,
        if is_whole { FILTERED } else { 0.0 },
    ))
}

/// Runs the programs that the options choose.
fn judged(options: &Options) -> Result<Vec<Judged>> {
    let redhanded = paths::redhanded(options.redhanded.as_deref())?;
    let folder = paths::target().join("verdicts");
    fs::create_dir_all(&folder)?;
    let programs = labels::read_all(&paths::root().join("corpus/verdicts"))?;
    let levels: &[char] = if options.quick { &['2'] } else { &['0', '2'] };
    let does_harm = |it: &Program| it.labels.iter().any(|label| label.harmful);
    let fits =
        |it: &&Program| it.path().contains(&options.filter) && (does_harm(it) || !options.harmful);
    let builds: Vec<(&Program, char)> = programs
        .iter()
        .filter(fits)
        .flat_map(|program| levels.iter().map(move |level| (program, *level)))
        .collect();
    let judged = jobs::run(&builds, options.jobs, |(program, level)| {
        let binary = compile(program, *level, &folder)?;
        let mut judged = Vec::new();
        for seed in (options.first_seed..).take(usize::try_from(options.seeds)?) {
            let races = observe(&redhanded, program, &binary, seed, options.time)?;
            for label in &program.labels {
                let title = format!("{} -O{level} seed {seed}", program.path());
                let one = judge(title, label, &races);
                println!("{one}");
                judged.push(one);
            }
        }
        Ok(judged)
    })?;
    let judged: Result<Vec<Vec<Judged>>> = judged.into_iter().collect();
    let judged = judged?;
    ensure!(!judged.is_empty(), "no program fits the filter");
    Ok(judged.into_iter().flatten().collect())
}

fn compile(program: &Program, level: char, folder: &Path) -> Result<PathBuf> {
    let name = program.path().replace(['/', '.'], "-");
    let binary = folder.join(format!("{name}-O{level}"));
    let optimised = format!("-O{level}");
    let mut command = match program.source.extension().and_then(|end| end.to_str()) {
        Some("rs") => {
            let mut command = Command::new("rustc");
            command.args(["-g", "--edition", "2024", "-A", "warnings", "-C"]);
            command.arg(format!("opt-level={level}"));
            command
        }
        Some("cc") => {
            let mut command = Command::new("g++");
            command.args(["-g", "-pthread", "-std=c++20", &optimised]);
            command
        }
        _ => {
            let mut command = Command::new("gcc");
            command.args(["-g", "-pthread", &optimised]);
            command
        }
    };
    command.arg(&program.source).arg("-o").arg(&binary);
    let outcome = command::captured(&mut command, COMPILING)?;
    ensure!(
        outcome.success(),
        "{} does not build\n{}",
        program.path(),
        outcome.stderr
    );
    Ok(binary)
}

fn observe(
    redhanded: &Path,
    program: &Program,
    binary: &Path,
    seed: u64,
    time: u64,
) -> Result<Vec<Race>> {
    // Kept: whoever wonders about a verdict reads it there.
    let report = binary.with_extension(format!("seed-{seed}.json"));
    let notes = binary.with_extension("toml");
    let _ = fs::remove_file(&report);
    fs::write(&notes, &program.annotations)?;
    let mut command = Command::new(redhanded);
    command.args([
        "run",
        "--quiet",
        "--kill",
        "--overhead",
        "50%",
        "--fail-on",
        "never",
        "--seed",
    ]);
    command
        .arg(seed.to_string())
        .arg("--for")
        .arg(format!("{time}ms"));
    command
        .arg("--annotations")
        .arg(&notes)
        .arg("--json")
        .arg(&report);
    command.arg("--").arg(binary);
    let outcome = command::captured(&mut command, Duration::from_millis(time) + GRACE)?;
    let report = judge::read(&report)
        .with_context(|| format!("{} of {}\n{}", seed, program.path(), outcome.stderr))?;
    Ok(report.races)
}

/// What was called benign of the races on one variable: by the rules alone, by the replays
/// alone, and by both.
fn judge(title: String, label: &Label, races: &[Race]) -> Judged {
    let those = races.iter().filter(|race| begins(&race.what, &label.what));
    let verdicts: Vec<_> = those
        .filter_map(|race| Some((race.verdict.clone()?, race.instances)))
        .collect();
    let calls = |by: tables::Stage| {
        let calls = verdicts.iter().filter_map(|(verdict, instances)| {
            let verdict = verdict.clone();
            Some(match by {
                tables::Stage::Rules => combine(verdict.rules, None, *instances).call,
                tables::Stage::Replay => {
                    combine(Vec::new(), Some(verdict.replay?), *instances).call
                }
                tables::Stage::Both => verdict.call,
            })
        });
        calls.collect()
    };
    Judged {
        title,
        label: label.clone(),
        calls: tables::Stage::ALL.map(calls),
        rules: verdicts
            .iter()
            .flat_map(|(verdict, _)| verdict.rules.iter())
            .map(|rule| format!("{}{}", rule.rule, if rule.hint { "?" } else { "" }))
            .collect(),
        replays: verdicts
            .iter()
            .filter_map(|(verdict, _)| verdict.replay.clone())
            .collect(),
    }
}
