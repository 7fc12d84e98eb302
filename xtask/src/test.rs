//! `cargo xtask test`: everything a change must pass.

use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use redhanded_provision::{Archive, cache_folder, provide_newer_qemu};

use crate::cargo_test::{self, Kernels};
use crate::results::Tally;
use crate::steps::Steps;
use crate::{
    command, corpus, deb, dependencies, fuzz, hostile, kernel_corpus, kills, packages, paths,
};

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub struct Options {
    /// Only format, lints and unit tests: nothing that runs a program under Redhanded
    #[arg(long)]
    quick: bool,
}

/// Runs all steps, even after one has failed; true if none did.
pub fn run(options: &Options) -> Result<bool> {
    let mut steps = Steps::new();
    if options.quick {
        steps.run("format", format);
        steps.run("lints", lints);
        steps.run("unit tests", cargo_test::units);
        return Ok(steps.print_result());
    }
    // Nothing can be tested without these.
    steps.run("packages", || {
        packages::provide()?;
        Ok(Tally::PASSED)
    });
    if steps.any_failed() {
        return Ok(steps.print_result());
    }
    // Fetching waits for the network, and what runs meanwhile computes. Everything
    // from the tests on runs alone: it is sensitive to delays.
    let kernels = thread::spawn(|| {
        let start = Instant::now();
        (provide_kernels(), start.elapsed())
    });
    steps.run("format", format);
    steps.run("dependencies", check_dependencies);
    steps.run("lints", lints);
    steps.run("release build", release_build);
    steps.run("fuzz, short run", || fuzz::run(&fuzz::Options::short()));
    let (provided, took) = kernels
        .join()
        .map_err(|_| anyhow!("fetching kernels panicked"))?;
    let kernels = match provided {
        Ok(()) => Kernels::Provided,
        Err(_) => Kernels::Missing,
    };
    steps.add(
        "kernels, fetched meanwhile",
        provided.map(|()| Tally::PASSED),
        took,
    );
    steps.run("tests", || cargo_test::all(kernels));
    steps.run("kills, a few", || kills::run(&kills::Options::short()));
    steps.run("hostile suite", || hostile::run(&hostile::Options::short()));
    steps.run("corpus, short form", || {
        corpus::run(&corpus::Options::short())
    });
    steps.run("corpus, as an ordinary user without perf", || {
        corpus::run(&corpus::Options::as_ordinary_user())
    });
    steps.run("kernel corpus, short form", || {
        kernel_corpus::run(&kernel_corpus::Options::short())
    });
    steps.run("kernel corpus, on a second kernel", || {
        kernel_corpus::run(&kernel_corpus::Options::on_second_kernel())
    });
    steps.run("kernel benchmark, short run", short_kernel_benchmark);
    steps.run("demo", demo);
    steps.run("Debian package", || deb::run(&deb::Options::default()));
    Ok(steps.print_result())
}

/// Fetches two kernels and two versions of QEMU.
fn provide_kernels() -> Result<()> {
    for archive in [Archive::Release, Archive::Backports] {
        kernel_corpus::provide_packages(archive)?;
    }
    provide_newer_qemu(&cache_folder()?, &mut |what| println!("{what}"))?;
    Ok(())
}

fn format() -> Result<Tally> {
    let tidy = command::shown(&paths::cargo(), &["fmt", "--all", "--check"])?;
    ensure!(tidy, "run `cargo fmt --all`");
    Ok(Tally::PASSED)
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
        command::shown(&paths::cargo(), &words)?,
        "clippy has warnings"
    );
    Ok(Tally::PASSED)
}

fn check_dependencies() -> Result<Tally> {
    dependencies::check()?;
    Ok(Tally::PASSED)
}

fn release_build() -> Result<Tally> {
    paths::redhanded(None)?;
    Ok(Tally::PASSED)
}

/// Checks that the benchmark works. Its numbers do not matter here, because the
/// machine may be busy.
fn short_kernel_benchmark() -> Result<Tally> {
    let words = ["bench", "-p", "redhanded", "--bench", "kernel", "--", "2"];
    let ran = command::shown(&paths::cargo(), &words)?;
    ensure!(ran, "the benchmark failed");
    Ok(Tally::PASSED)
}

fn demo() -> Result<Tally> {
    let redhanded = paths::redhanded(None)?;
    let caught = command::shown(&redhanded.to_string_lossy(), &["demo"])?;
    ensure!(caught, "the demo failed");
    Ok(Tally::PASSED)
}
