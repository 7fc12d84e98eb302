//! The tests of all packages as a step: several binaries at a time, their counts added up, the
//! slowest named.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redhanded_provision::cache_folder;
use serde::Deserialize;

use crate::results::Tally;
use crate::{command, jobs, paths};

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

/// How many tests of a binary run at a time. Where nothing else is set, it is the number of
/// processors, but at least [`LEAST_THREADS`].
const THREADS: &str = "RUST_TEST_THREADS";

/// Most tests wait for a program that they have started. Those that must not be disturbed take
/// turns.
const LEAST_THREADS: usize = 4;

/// How many binaries run at a time. Those of the tool wait for programs and virtual machines, most
/// others compute.
const AT_A_TIME: usize = 2;

/// More than a binary takes, and than building does.
const LIMIT: Duration = Duration::from_secs(1800);

/// How many test binaries are named as the slowest.
const SLOWEST: usize = 8;

/// All unit, integration and documentation tests.
pub fn all(kernels: Kernels) -> Result<Tally> {
    let mut variables = vec![seed(), threads()];
    if kernels == Kernels::Provided {
        variables.push(("REDHANDED_KERNELS", cache_folder()?.into_os_string()));
    }
    for (name, value) in &variables {
        println!("{name}={}", value.display());
    }
    let binaries = run_all(&built()?, &variables)?;
    let mut documentation = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    let documentation = Ran::of("documentation", documentation.envs(variables))?;
    let all: Vec<Ran> = binaries.into_iter().chain([documentation]).collect();
    println!("{}", slowest(&all));
    Ok(all.iter().map(|ran| ran.tally).sum())
}

/// Builds the tests that [`all`] runs, except those in documentation.
pub fn build() -> Result<()> {
    built()?;
    Ok(())
}

/// The unit tests alone.
pub fn units() -> Result<Tally> {
    let unit_tests = built()?.into_iter().filter(TestBinary::has_unit_tests);
    let ran = run_all(&unit_tests.collect::<Vec<_>>(), &[seed(), threads()])?;
    Ok(ran.iter().map(|ran| ran.tally).sum())
}

type Variable = (&'static str, OsString);

fn seed() -> Variable {
    let given = std::env::var_os(SEED.0);
    (SEED.0, given.unwrap_or_else(|| SEED.1.into()))
}

fn threads() -> Variable {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let usual = || processors.max(LEAST_THREADS).to_string().into();
    (THREADS, std::env::var_os(THREADS).unwrap_or_else(usual))
}

fn cargo(words: &[&str]) -> Command {
    println!("$ {}", command::in_words("cargo", words));
    let mut cargo = Command::new(paths::cargo());
    cargo.args(words).current_dir(paths::root());
    cargo
}

/// A file of tests that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct TestBinary {
    /// The package and what is tested of it.
    name: String,
    kind: String,
    program: PathBuf,
    /// The folder of its package, where tests expect to run.
    folder: PathBuf,
}

impl TestBinary {
    fn has_unit_tests(&self) -> bool {
        self.kind != "test"
    }
}

/// Builds all tests; those of the tool first, because they take longest.
fn built() -> Result<Vec<TestBinary>> {
    let words = ["test", "--workspace", "--no-run", "--quiet"];
    let words = [&words[..], &["--message-format=json-render-diagnostics"]].concat();
    let outcome = command::captured(&mut cargo(&words), LIMIT)?;
    ensure!(
        outcome.success(),
        "the tests do not build\n{}",
        outcome.stderr
    );
    let mut binaries = binaries(&outcome.stdout)?;
    binaries.sort_by_key(|binary| !binary.folder.ends_with("crates/cli"));
    Ok(binaries)
}

/// What cargo says for each thing it has built, as far as it matters.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<BuiltTarget>,
    executable: Option<PathBuf>,
    profile: Option<BuiltProfile>,
}

#[derive(Deserialize)]
struct BuiltTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct BuiltProfile {
    test: bool,
}

fn binaries(messages: &str) -> Result<Vec<TestBinary>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("cannot understand cargo")?;
        let is_test = message.profile.is_some_and(|profile| profile.test);
        if let (Some(target), Some(program)) = (message.target, message.executable)
            && message.reason == "compiler-artifact"
            && is_test
        {
            let folder = message.manifest_path.parent();
            let folder = folder.unwrap_or(Path::new("")).to_owned();
            let package = folder.file_name().unwrap_or_default().display();
            found.push(TestBinary {
                name: format!("{package}/{}", target.name),
                kind: target.kind.into_iter().next().unwrap_or_default(),
                program,
                folder,
            });
        }
    }
    Ok(found)
}

fn run_all(binaries: &[TestBinary], variables: &[Variable]) -> Result<Vec<Ran>> {
    jobs::run(binaries, AT_A_TIME, |binary| {
        // nohup and some shells have programs start with signals ignored, which tests of
        // signals would notice.
        let mut tests = Command::new("env");
        tests
            .arg("--default-signal")
            .arg(&binary.program)
            .current_dir(&binary.folder)
            .envs(variables.iter().cloned());
        Ran::of(&binary.name, &mut tests)
    })?
    .into_iter()
    .collect()
}

/// A binary that has run.
struct Ran {
    name: String,
    tally: Tally,
    seconds: f64,
}

impl Ran {
    fn of(name: &str, command: &mut Command) -> Result<Self> {
        let outcome = command::captured(command, LIMIT)?;
        print!("\n-- {name} --\n{}{}", outcome.stdout, outcome.stderr);
        let mut ran = Self::read(name, &outcome.stdout);
        if !outcome.success() && ran.tally.failed == 0 {
            println!("{name}: {}", outcome.status_in_words());
            ran.tally += Tally::FAILED;
        }
        Ok(ran)
    }

    /// From what it printed.
    fn read(name: &str, output: &str) -> Self {
        let mut ran = Self {
            name: name.to_owned(),
            tally: Tally::default(),
            seconds: 0.0,
        };
        let results = output.lines();
        for result in results.filter_map(|line| line.strip_prefix("test result: ")) {
            ran.tally += counts(result);
            ran.seconds += seconds(result).unwrap_or(0.0);
        }
        ran
    }
}

/// `slowest test binaries: cli/kernel 210.5 s, …`.
fn slowest(ran: &[Ran]) -> String {
    let mut ran: Vec<&Ran> = ran.iter().collect();
    ran.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let named: Vec<_> = ran
        .iter()
        .take(SLOWEST)
        .map(|ran| format!("{} {:.1} s", ran.name, ran.seconds))
        .collect();
    format!("slowest test binaries: {}", named.join(", "))
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
        let read = |name: &str, result: &str| {
            let rest = "0 measured; 0 filtered out; finished in";
            let output = format!("test a::b ... ok\n\ntest result: {result}; {rest}");
            Ran::read(name, &format!("{output} 0.50s\n{output} 61.07s\n"))
        };
        let one = read("cli/kernel", "FAILED. 12 passed; 3 failed; 1 ignored");
        assert_eq!(one.tally.to_string(), "24 passed, 6 failed");
        let other = Ran::read("model/model", "running 0 tests\n");
        assert_eq!(
            slowest(&[other, one]),
            "slowest test binaries: cli/kernel 61.6 s, model/model 0.0 s"
        );
    }

    #[test]
    fn only_what_is_built_as_a_test_is_run() {
        let artifact = |name: &str, kind: &str, test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/p/cli/Cargo.toml\",\
                 \"target\":{{\"name\":\"{name}\",\"kind\":[\"{kind}\"]}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            )
        };
        let messages = [
            artifact("redhanded", "bin", false, "\"/t/redhanded\""),
            artifact("redhanded", "bin", true, "\"/t/redhanded-1\""),
            artifact("kernel", "test", true, "\"/t/kernel-2\""),
            artifact("model", "lib", false, "null"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let found = binaries(&messages.join("\n")).unwrap();
        let names: Vec<_> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["cli/redhanded", "cli/kernel"]);
        assert!(found[0].has_unit_tests() && !found[1].has_unit_tests());
        assert_eq!(found[1].folder, Path::new("/p/cli"));
        assert!(binaries("no JSON").is_err());
    }
}
