//! `cargo xtask corpus`: every access kernel under Redhanded, and what it said.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use globset::{Glob, GlobMatcher};

use crate::claims::List;
use crate::compile::{self, Program};
use crate::drive::Driver;
use crate::kernel::{self, Kernel};
use crate::place;
use crate::trial::{Demands, State, Trial, Verdict};
use crate::tried::Tried;

/// Options of `cargo xtask corpus`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// 20 seeds for each expected kernel and 2,000 windows for each never kernel
    #[arg(long)]
    full: bool,
    /// Only kernels whose list, name and variant fit, e.g. 'never/*' or '*/mutex O2'
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How many seeds an expected kernel is tried with [default: 1, or 20 with --full]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first of the seeds, which follow each other
    #[arg(long, value_name = "N", default_value_t = 1)]
    first_seed: u64,
    /// How many programs to run at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
    /// Build the kernels and stop
    #[arg(long)]
    build_only: bool,
    /// More options for every run, e.g. '--watch ptrace'
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    with: Option<String>,
    /// Run as the user of this number instead of as root
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
}

impl Options {
    /// The short form, as in `cargo xtask test`. Most of its time is delays, in which
    /// another program can run.
    pub fn short() -> Self {
        Self {
            first_seed: 1,
            jobs: 2,
            ..Self::default()
        }
    }

    /// The short form as an ordinary user whom perf events are refused.
    pub fn as_ordinary_user() -> Self {
        let reachable = is_reachable(place::root()) && is_reachable(&place::target());
        if !reachable {
            println!("as ourselves: the folder of the project is closed to user {NOBODY}");
        }
        Self {
            with: Some("--watch ptrace".to_owned()),
            user: reachable.then_some(NOBODY),
            ..Self::short()
        }
    }
}

/// Whether the user without rights can look into a folder.
fn is_reachable(folder: &Path) -> bool {
    let mut ls = Command::new("ls");
    ls.arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
    ls.uid(NOBODY).gid(NOBODY);
    ls.status().is_ok_and(|status| status.success())
}

/// The user without rights.
const NOBODY: u32 = 65534;

/// How many cases passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As they should be.
    pub passed: u64,
    /// Not so.
    pub failed: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the corpus, prints the table and says how many cases passed.
pub fn run(options: &Options) -> Result<Tally> {
    ensure!(options.seeds != Some(0), "no seeds, nothing to try");
    let programs = select(options)?;
    let built = compile::build_all(&programs)?;
    println!("{} programs, {built} of them built now", programs.len());
    if options.build_only {
        return Ok(Tally::default());
    }
    let redhanded = match &options.redhanded {
        Some(path) => path.clone(),
        None => place::build_redhanded()?,
    };
    let driver = Driver {
        redhanded,
        reports: place::target().join("corpus/reports"),
        with: options
            .with
            .iter()
            .flat_map(|with| with.split_whitespace())
            .map(str::to_owned)
            .collect(),
        user: options.user,
    };
    let seeds = options.seeds.unwrap_or(if options.full { 20 } else { 1 });
    let demands = Demands {
        seeds: (options.first_seed..)
            .take(usize::try_from(seeds)?)
            .collect(),
        first_round: Duration::from_millis(500),
        windows: if options.full { 2000 } else { 150 },
        found_within: Duration::from_secs(20),
        windows_within: Duration::from_secs(if options.full { 600 } else { 60 }),
    };
    let verdicts = run_all(&driver, &demands, &programs, options.jobs.max(1))?;
    Ok(print_table(&verdicts))
}

fn select(options: &Options) -> Result<Vec<Program>> {
    let filter = options.filter.as_deref().map(matcher).transpose()?;
    let kernels = kernel::read_all(place::root(), Path::new("corpus"))?;
    let mut programs = Vec::new();
    for kernel in &kernels {
        for variant in &kernel.variants {
            for twin in [false, true] {
                let program = Program::new(kernel, variant, twin);
                // A stripped twin would show what the unstripped one shows, and
                // could hardly be told from a possibly atomic neighbour.
                let wanted = !twin || (kernel.claims.list == List::Never && !variant.stripped);
                if wanted && fits(filter.as_ref(), kernel, &program) {
                    programs.push(program);
                }
            }
        }
    }
    if programs.is_empty() {
        bail!(
            "no kernel fits the filter {}",
            options.filter.as_deref().unwrap_or("*")
        );
    }
    Ok(programs)
}

/// A pattern of the command line.
pub fn matcher(glob: &str) -> Result<GlobMatcher> {
    Ok(Glob::new(glob)?.compile_matcher())
}

fn fits(filter: Option<&GlobMatcher>, kernel: &Kernel, program: &Program) -> bool {
    let Some(filter) = filter else { return true };
    let title = program.title();
    let without_variant = title.split(' ').next().unwrap_or("");
    [title.as_str(), without_variant, kernel.name.as_str()]
        .iter()
        .any(|text| filter.is_match(text))
}

fn run_all(
    driver: &Driver,
    demands: &Demands,
    programs: &[Program],
    jobs: usize,
) -> Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(index) else {
                        break;
                    };
                    let verdict = Trial::new(demands, &Tried { driver, program }).verdict();
                    tell(&verdict);
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts.push((index, verdict));
                    }
                }
            });
        }
    });
    let mut verdicts = verdicts
        .into_inner()
        .map_err(|_| anyhow!("a trial panicked"))?;
    verdicts.sort_by_key(|(index, _)| *index);
    Ok(verdicts.into_iter().map(|(_, verdict)| verdict).collect())
}

/// Prints how one case went, as soon as that is known.
pub fn tell(verdict: &Verdict) {
    println!("{}", verdict.line());
    if let State::Failed(why) = &verdict.state {
        println!("{}", indented(why));
    }
}

/// Prints what all cases had in common; how many passed.
pub fn print_table(verdicts: &[Verdict]) -> Tally {
    let mut tally = Tally::default();
    let mut losses: BTreeMap<&str, u64> = BTreeMap::new();
    for verdict in verdicts {
        match verdict.state {
            State::Passed(_) => tally.passed += 1,
            State::Failed(_) => tally.failed += 1,
            State::NotApplicable => {}
        }
        for (reason, count) in &verdict.losses {
            *losses.entry(reason).or_default() += count;
        }
    }
    let samples: u64 = verdicts.iter().map(|verdict| verdict.samples).sum();
    let windows: u64 = verdicts.iter().map(|verdict| verdict.windows).sum();
    println!("\n{samples} samples, {windows} windows; losses by reason:");
    for (reason, count) in losses.iter().filter(|(_, count)| **count > 0) {
        #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
        let share = 100.0 * *count as f64 / samples.max(1) as f64;
        println!("  {reason:<40} {count:>8}  {share:5.2} % of samples");
    }
    for verdict in verdicts {
        if !matches!(verdict.state, State::Passed(_)) {
            println!("{}", verdict.line());
        }
    }
    tally
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_a_list_a_kernel_or_a_variant() {
        let titles = |filter: &str| -> Vec<String> {
            let options = Options {
                filter: Some(filter.to_owned()),
                ..Options::default()
            };
            select(&options)
                .unwrap()
                .iter()
                .map(Program::title)
                .collect()
        };
        assert!(titles("mutex").contains(&"never/mutex O2 twin".to_owned()));
        assert_eq!(titles("never/mutex O2"), ["never/mutex O2"]);
        assert!(
            titles("expected/*")
                .iter()
                .all(|title| title.starts_with("expected/"))
        );
    }

    #[test]
    fn a_filter_that_fits_nothing_is_an_error() {
        let options = Options {
            filter: Some("no-such-kernel".to_owned()),
            ..Options::default()
        };
        assert!(select(&options).is_err());
    }

    #[test]
    fn every_never_kernel_has_a_twin_to_be_found() {
        let programs = select(&Options::default()).unwrap();
        for program in programs
            .iter()
            .filter(|program| program.kernel.claims.list == List::Never)
        {
            let twin = programs
                .iter()
                .any(|other| other.twin && other.kernel.name == program.kernel.name);
            assert!(twin, "{} has no twin", program.title());
        }
    }
}
