//! `cargo xtask test`: everything a change must pass.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_provision::{Archive, cache_folder, provide_newer_qemu};

use crate::corpus::{self, Tally};
use crate::{command, fuzz, kernel_corpus, licences, packages, place};

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub struct Options {
    /// Leave out what runs programs and kernels under Redhanded: corpora and demo
    #[arg(long)]
    quick: bool,
}

/// What a step gives: how many of its cases passed and failed.
type Step = fn() -> Result<Tally>;

/// Runs all steps, also after one has failed; true if none did.
pub fn run(options: &Options) -> Result<bool> {
    let start = Instant::now();
    header("packages");
    packages::provide()?;
    let mut tests: Step = tests_without_kernels;
    if !options.quick {
        header("kernels");
        kernel_corpus::provide_packages(Archive::Release)?;
        kernel_corpus::provide_packages(Archive::Backports)?;
        provide_newer_qemu(&cache_folder()?, &mut |what| println!("{what}"))?;
        tests = tests_with_kernels;
    }
    let mut steps: Vec<(&str, Step)> = vec![
        ("format", format),
        ("lints", lints),
        ("tests", tests),
        ("licences", check_licences),
        ("fuzz, short run", short_fuzz),
    ];
    if !options.quick {
        steps.push(("corpus, short form", short_corpus));
        steps.push(("corpus, as an ordinary user without perf", ordinary_corpus));
        steps.push(("kernel corpus, short form", short_kernel_corpus));
        steps.push(("kernel corpus, on a second kernel", second_kernel_corpus));
        steps.push(("kernel benchmark, short run", short_kernel_benchmark));
        steps.push(("demo", demo));
    }
    let mut total = Tally::default();
    let mut failed = Vec::new();
    for (name, step) in steps {
        header(name);
        let tally = step().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally {
                passed: 0,
                failed: 1,
            }
        });
        if tally.failed > 0 {
            failed.push(name);
        }
        total += tally;
    }
    header("result");
    if failed.is_empty() {
        println!("all steps passed in {:.0} s", start.elapsed().as_secs_f64());
    } else {
        println!("failed: {}", failed.join(", "));
    }
    println!("{total}");
    Ok(total.failed == 0)
}

fn header(name: &str) {
    println!("\n== {name} ==");
}

const PASSED: Tally = Tally {
    passed: 1,
    failed: 0,
};

fn format() -> Result<Tally> {
    let tidy = command::shown(&place::cargo(), &["fmt", "--all", "--check"])?;
    ensure!(tidy, "run `cargo fmt --all`");
    Ok(PASSED)
}

fn lints() -> Result<Tally> {
    let words = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    ensure!(
        command::shown(&place::cargo(), &words)?,
        "clippy has warnings"
    );
    Ok(PASSED)
}

/// Those that need kernels then say that they are skipped.
fn tests_without_kernels() -> Result<Tally> {
    tests(&[])
}

fn tests_with_kernels() -> Result<Tally> {
    tests(&[("REDHANDED_KERNELS", cache_folder()?.into_os_string())])
}

/// What proptest's inputs are made from. The same in every run, so that a change is
/// judged by what it changes; who looks for more sets another.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "2010");

/// Unit, integration and doc tests, whose own counts are added up.
fn tests(variables: &[(&str, OsString)]) -> Result<Tally> {
    let words = ["test", "--workspace", "--no-fail-fast"];
    let seed = std::env::var_os(SEED.0).unwrap_or_else(|| SEED.1.into());
    let mut variables = variables.to_vec();
    variables.push((SEED.0, seed));
    for (name, value) in &variables {
        println!("{name}={}", value.display());
    }
    println!("$ {}", command::in_words("cargo", &words));
    // As on a terminal, though nohup or a shell may have had signals ignored.
    let mut child = Command::new("env")
        .arg("--default-signal")
        .arg(place::cargo())
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(place::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut tally = Tally::default();
    let output = child.stdout.take().context("cargo has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo test says")?;
        println!("{line}");
        if let Some(counts) = counts(&line) {
            tally += counts;
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tally.failed == 0 {
        // It did not even build, or died.
        tally.failed = 1;
    }
    Ok(tally)
}

/// The counts in `test result: ok. 12 passed; 0 failed; …`.
fn counts(line: &str) -> Option<Tally> {
    let rest = line.strip_prefix("test result: ")?;
    let count = |word: &str| -> Option<u64> {
        let (before, _) = rest.split_once(word)?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    Some(Tally {
        passed: count(" passed")?,
        failed: count(" failed")?,
    })
}

fn check_licences() -> Result<Tally> {
    licences::run()?;
    Ok(PASSED)
}

fn short_fuzz() -> Result<Tally> {
    fuzz::run(20)?;
    Ok(PASSED)
}

fn short_corpus() -> Result<Tally> {
    corpus::run(&corpus::Options::short())
}

fn ordinary_corpus() -> Result<Tally> {
    corpus::run(&corpus::Options::as_ordinary_user())
}

fn short_kernel_corpus() -> Result<Tally> {
    kernel_corpus::run(&kernel_corpus::Options::short())
}

fn second_kernel_corpus() -> Result<Tally> {
    kernel_corpus::run(&kernel_corpus::Options::on_second_kernel())
}

/// Whether it works, not what it prints: the machine may be busy.
fn short_kernel_benchmark() -> Result<Tally> {
    let words = ["bench", "-p", "redhanded", "--bench", "kernel", "--", "2"];
    let ran = command::shown(&place::cargo(), &words)?;
    ensure!(ran, "the benchmark did not end well");
    Ok(PASSED)
}

fn demo() -> Result<Tally> {
    let redhanded = place::build_redhanded()?;
    let caught = command::shown(&redhanded.to_string_lossy(), &["demo"])?;
    ensure!(caught, "the demo did not end well");
    Ok(PASSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_cargo_test_are_read() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(
            counts(line),
            Some(Tally {
                passed: 12,
                failed: 3
            })
        );
        assert_eq!(counts("test kernel::tests::x ... ok"), None);
    }
}
