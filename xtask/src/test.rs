//! `cargo xtask test`: everything a change must pass.

use anyhow::{Result, ensure};
use clap::Args;
use redhanded_provision::{Archive, cache_folder, provide_newer_qemu};

use crate::cargo_test::{self, Kernels};
use crate::results::Tally;
use crate::steps::Steps;
use crate::{
    check, command, corpus, deb, dependencies, fuzz, hostile, kernel_corpus, kills, packages,
    paths, recorder, verdicts,
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
    // All that is compiled and fetched. Fetching waits for the network, and at its end every
    // build has nothing to do for one of two processors. The lanes use different folders of
    // cargo's; two builds in one folder would wait for each other.
    steps.side_by_side(&[
        &[
            (PACKAGES, provide_packages),
            ("recorder, built", build_recorder),
            ("corpus, built", build_corpus),
            (KERNELS, provide_kernels),
        ],
        &[
            ("format", format),
            ("lints", lints),
            ("fuzzer, built", build_fuzzer),
            ("tests, built", build_tests),
        ],
        &[
            ("dependencies", check_dependencies),
            ("release build", release_build),
        ],
    ]);
    // Nothing can be tested without these.
    if !steps.passed(PACKAGES) {
        return Ok(steps.print_result());
    }
    let kernels = if steps.passed(KERNELS) {
        Kernels::Provided
    } else {
        Kernels::Missing
    };
    steps.run("fuzz, short run", || fuzz::run(&fuzz::Options::short()));
    steps.run("tests", || cargo_test::all(kernels));
    // From here on everything runs alone: it is sensitive to delays.
    steps.run("kills, a few", || kills::run(&kills::Options::short()));
    steps.run("hostile suite", || hostile::run(&hostile::Options::short()));
    steps.run("check, short form", || check::run(&check::Options::short()));
    steps.run("corpus, short form", || {
        corpus::run(&corpus::Options::short())
    });
    steps.run("verdicts, short form", || {
        verdicts::run(&verdicts::Options::short())
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

const PACKAGES: &str = "packages";
const KERNELS: &str = "kernels, fetched and their modules built";

fn provide_packages() -> Result<Tally> {
    packages::provide()?;
    Ok(Tally::PASSED)
}

/// Fetches two kernels and two versions of QEMU, and builds the modules of the kernel corpus.
fn provide_kernels() -> Result<Tally> {
    for archive in [Archive::Release, Archive::Backports] {
        kernel_corpus::prepare(archive)?;
    }
    provide_newer_qemu(&cache_folder()?, &mut |what| println!("{what}"))?;
    Ok(Tally::PASSED)
}

fn build_recorder() -> Result<Tally> {
    recorder::build(&recorder::Options::default())?;
    Ok(Tally::PASSED)
}

fn build_corpus() -> Result<Tally> {
    corpus::build(&corpus::Options::short())?;
    Ok(Tally::PASSED)
}

fn build_fuzzer() -> Result<Tally> {
    fuzz::build()?;
    Ok(Tally::PASSED)
}

fn build_tests() -> Result<Tally> {
    cargo_test::build()?;
    Ok(Tally::PASSED)
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
    let words = ["bench", "-p", "redhanded", "--bench", "kernel", "--no-run"];
    let built = command::shown(&paths::cargo(), &words)?;
    ensure!(built, "the benchmark does not build");
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
