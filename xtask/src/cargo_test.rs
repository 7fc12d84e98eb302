//! `cargo test` as a step: its counts are added up, and its slowest binaries are named.

use std::io::{BufRead, BufReader, pipe};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use redhanded_provision::cache_folder;

use crate::results::Tally;
use crate::{command, paths};

/// Whether there are kernels to test with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// In the cache folder.
    Provided,
    /// Tests that need them say that they are skipped.
    Missing,
}

/// What proptest draws its inputs from: the same in every run, so that a run judges the
/// change and not the draw. To look for more, set it to something else.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "2010");

/// How many tests run at a time. Where nothing else is set, it is the number of processors, but
/// at least [`LEAST_THREADS`].
const THREADS: &str = "RUST_TEST_THREADS";

/// Most tests wait for a program that they have started. Those that must not be disturbed take
/// turns.
const LEAST_THREADS: usize = 4;

/// How many test binaries are named as the slowest.
const SLOWEST: usize = 8;

/// All unit, integration and documentation tests.
pub fn all(kernels: Kernels) -> Result<Tally> {
    let mut variables = Vec::new();
    if kernels == Kernels::Provided {
        variables.push(("REDHANDED_KERNELS", cache_folder()?.into_os_string()));
    }
    run(&["--workspace"], variables)
}

/// Builds the tests that [`all`] runs, except those in documentation.
pub fn build() -> Result<()> {
    let words = ["test", "--no-run", "--workspace", "--quiet"];
    ensure!(
        command::shown(&paths::cargo(), &words)?,
        "the tests do not build"
    );
    Ok(())
}

/// The unit tests alone.
pub fn units() -> Result<Tally> {
    // The fuzzer is no test, and would be run as one.
    let which = [
        "--workspace",
        "--exclude",
        "redhanded-fuzz",
        "--lib",
        "--bins",
    ];
    run(&which, Vec::new())
}

fn run(which: &[&str], mut variables: Vec<(&str, std::ffi::OsString)>) -> Result<Tally> {
    let seed = std::env::var_os(SEED.0).unwrap_or_else(|| SEED.1.into());
    variables.push((SEED.0, seed));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var_os(THREADS)
        .unwrap_or_else(|| processors.max(LEAST_THREADS).to_string().into());
    variables.push((THREADS, threads));
    for (name, value) in &variables {
        println!("{name}={}", value.display());
    }
    let mut words = vec!["test", "--no-fail-fast"];
    words.extend(which);
    println!("$ {}", command::in_words("cargo", &words));
    let (output, input) = pipe().context("cannot make a pipe")?;
    // nohup and some shells have programs start with signals ignored, which tests of
    // signals would notice.
    let mut cargo = Command::new("env");
    cargo
        .arg("--default-signal")
        .arg(paths::cargo())
        .args(&words)
        .envs(variables)
        .current_dir(paths::root())
        // Both in one, because which binary runs is told on stderr.
        .stdout(input.try_clone()?)
        .stderr(input);
    let mut child = cargo.spawn().context("cannot start cargo")?;
    // Its copies of the pipe would keep the pipe open.
    drop(cargo);
    let mut results = Results::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read the output of cargo test")?;
        println!("{line}");
        results.take(&line);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    println!("{}", results.slowest());
    let mut tally = results.tally;
    if !status.success() && tally.failed == 0 {
        // It did not build, or a test binary died.
        tally += Tally::FAILED;
    }
    Ok(tally)
}

/// What the lines of `cargo test` said.
#[derive(Default)]
struct Results {
    tally: Tally,
    /// The binary that runs.
    running: String,
    took: Vec<(f64, String)>,
}

impl Results {
    fn take(&mut self, line: &str) {
        let running = ["     Running ", "   Doc-tests "]
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix));
        if let Some(what) = running {
            // `unittests src/lib.rs (target/debug/deps/redhanded_image-0123456789abcdef)`.
            let file = what.rsplit(['/', '(']).next().unwrap_or(what);
            let name = file.trim_end_matches(')');
            let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
            self.running = name.to_owned();
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.tally += counts(result);
            self.took
                .extend(seconds(result).map(|took| (took, self.running.clone())));
        }
    }

    /// `slowest: kernel 210.5 s, …`.
    fn slowest(&self) -> String {
        let mut took = self.took.clone();
        took.sort_by(|a, b| b.0.total_cmp(&a.0));
        let named = took.iter().take(SLOWEST);
        let named: Vec<_> = named
            .map(|(took, name)| format!("{name} {took:.1} s"))
            .collect();
        format!("slowest test binaries: {}", named.join(", "))
    }
}

/// The counts in `ok. 12 passed; 0 failed; …`.
fn counts(result: &str) -> Tally {
    let count = |word: &str| {
        let (before, _) = result.split_once(word)?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    Tally {
        passed: count(" passed").unwrap_or(0),
        failed: count(" failed").unwrap_or(0),
    }
}

/// The time in `…; finished in 1.25s`.
fn seconds(result: &str) -> Option<f64> {
    let (_, time) = result.split_once("finished in ")?;
    time.strip_suffix('s')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_are_read() {
        let mut results = Results::default();
        for line in [
            "   Compiling redhanded v0.1.0",
            "     Running unittests src/lib.rs (target/debug/deps/redhanded_image-0a1b2c3d4e5f6789)",
            "test a::b ... ok",
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.50s",
            "     Running tests/kernel/main.rs (target/debug/deps/kernel-0a1b2c3d4e5f6789)",
            "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 61.07s",
            "   Doc-tests redhanded_model",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s",
        ] {
            results.take(line);
        }
        assert_eq!(results.tally.to_string(), "20 passed, 3 failed");
        assert_eq!(
            results.slowest(),
            "slowest test binaries: kernel 61.1 s, redhanded_image 0.5 s, redhanded_model 0.2 s"
        );
    }
}
