//! `cargo xtask corpus`: every access kernel under Redhanded, and what it said.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use globset::{Glob, GlobMatcher};

use crate::compile::{self, Program};
use crate::drive::{Driver, Finding, NOT_APPLICABLE, Round};
use crate::judge::{Circumstances, Symbols};
use crate::kernel::{self, Kernel, List};
use crate::place;

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
}

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

/// How much is asked of the kernels.
struct Demands {
    seeds: Vec<u64>,
    windows: u64,
    /// An expected race must be found in this time.
    found_within: Duration,
    /// The windows must be reached in this time, or nothing was tested.
    windows_within: Duration,
}

/// What became of one program.
struct Verdict {
    title: String,
    state: State,
    seconds: f64,
    windows: u64,
    losses: BTreeMap<String, u64>,
    samples: u64,
}

enum State {
    Passed(String),
    NotApplicable,
    Failed(String),
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
    };
    let seeds = options.seeds.unwrap_or(if options.full { 20 } else { 1 });
    let demands = Demands {
        seeds: (options.first_seed..)
            .take(usize::try_from(seeds)?)
            .collect(),
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
                let wanted = !twin || (kernel.list == List::Never && !variant.stripped);
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

fn matcher(glob: &str) -> Result<GlobMatcher> {
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
                    let verdict = Trial::new(driver, demands, program).verdict();
                    println!("{}", verdict.line());
                    if let State::Failed(why) = &verdict.state {
                        println!("{}", indented(why));
                    }
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

/// One program on trial.
struct Trial<'a> {
    driver: &'a Driver,
    demands: &'a Demands,
    program: &'a Program,
    windows: u64,
    samples: u64,
    losses: BTreeMap<String, u64>,
}

impl<'a> Trial<'a> {
    fn new(driver: &'a Driver, demands: &'a Demands, program: &'a Program) -> Self {
        Self {
            driver,
            demands,
            program,
            windows: 0,
            samples: 0,
            losses: BTreeMap::new(),
        }
    }

    fn verdict(mut self) -> Verdict {
        let start = Instant::now();
        let outcome = match (self.program.kernel.list, self.program.twin) {
            (List::Expected, _) => self.expected(),
            (List::Never, false) => self.never(),
            (List::Never, true) => self.twin(),
        };
        Verdict {
            title: self.program.title(),
            state: outcome.unwrap_or_else(|error| State::Failed(format!("{error:#}"))),
            seconds: start.elapsed().as_secs_f64(),
            windows: self.windows,
            samples: self.samples,
            losses: self.losses,
        }
    }

    fn circumstances(&self) -> Result<Circumstances> {
        let stripped = self
            .program
            .symbols
            .as_deref()
            .map(Symbols::read)
            .transpose()?;
        Ok(Circumstances {
            stripped,
            unprivileged: !nix::unistd::geteuid().is_root(),
        })
    }

    fn round(&mut self, round: &Round) -> Result<Finding> {
        let finding = self.driver.run(self.program, round)?;
        self.windows += finding.report.run.windows;
        self.samples += finding.report.run.samples;
        for (reason, count) in &finding.report.run.losses {
            *self.losses.entry(reason.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
        Ok(finding)
    }

    /// The races must be found in the time given, by all but one in twenty seeds.
    fn expected(&mut self) -> Result<State> {
        let circumstances = self.circumstances()?;
        let seeds = self.demands.seeds.clone();
        let mut misses = Vec::new();
        let mut slowest = Duration::ZERO;
        for &seed in &seeds {
            match self.found_with(&circumstances, seed)? {
                Some(Ok(after)) => slowest = slowest.max(after),
                Some(Err(miss)) => misses.push(miss),
                None => return Ok(State::NotApplicable),
            }
        }
        let found = seeds.len() - misses.len();
        let summary = format!(
            "found by {found} of {} seeds, the slowest in {:.1} s",
            seeds.len(),
            slowest.as_secs_f64()
        );
        if misses.len() * 20 <= seeds.len() {
            Ok(State::Passed(summary))
        } else {
            Ok(State::Failed(format!("{summary}\n{}", misses.join("\n"))))
        }
    }

    /// `None` when the machine cannot run it, else the time it took or what was missed.
    fn found_with(
        &mut self,
        circumstances: &Circumstances,
        seed: u64,
    ) -> Result<Option<Result<Duration, String>>> {
        let start = Instant::now();
        let mut missing: Vec<_> = self.program.kernel.expects.iter().collect();
        let mut time = Duration::from_millis(500);
        for number in 0.. {
            let left = self.demands.found_within.saturating_sub(start.elapsed());
            let round = Round {
                seed: seed * 1000 + number,
                time: time.min(left.max(Duration::from_millis(500))),
                windows: None,
                focus: Vec::new(),
            };
            let finding = self.round(&round)?;
            if finding.status == NOT_APPLICABLE {
                return Ok(None);
            }
            let races = &finding.report.races;
            for what in &self.program.kernel.silent {
                if races
                    .iter()
                    .any(|race| race.class == "race" && race.what.begins(what))
                {
                    bail!("`{what}` must not be reported\n{}", shown(&finding));
                }
            }
            missing.retain(|one| !races.iter().any(|race| circumstances.meets(one, race)));
            if missing.is_empty() {
                return Ok(Some(Ok(start.elapsed())));
            }
            if start.elapsed() >= self.demands.found_within {
                let miss = format!(
                    "seed {seed}: not reported: {missing:?}\n{}",
                    shown(&finding)
                );
                return Ok(Some(Err(miss)));
            }
            time = (time * 2).min(Duration::from_secs(2));
        }
        Ok(None)
    }

    /// Nothing may be reported: in windows on the guarded memory, nor anywhere.
    fn never(&mut self) -> Result<State> {
        let start = Instant::now();
        let mut windows = 0;
        for number in 0.. {
            let wanted = self.demands.windows - windows;
            let focus = self.globs(&self.program.kernel.focus);
            let finding = self.round(&Round {
                seed: number + 1,
                time: Duration::from_secs(5),
                windows: Some(wanted),
                focus,
            })?;
            self.assert_silent(&finding)?;
            windows += finding.report.run.windows;
            if windows >= self.demands.windows {
                break;
            }
            if start.elapsed() >= self.demands.windows_within {
                bail!(
                    "silent, but only {windows} of {} windows were opened\n{}",
                    self.demands.windows,
                    shown(&finding)
                );
            }
        }
        let finding = self.round(&Round {
            seed: 1,
            time: Duration::from_secs(1),
            windows: None,
            focus: Vec::new(),
        })?;
        self.assert_silent(&finding)?;
        Ok(State::Passed(format!(
            "silent over {windows} windows on the guarded memory"
        )))
    }

    fn assert_silent(&self, finding: &Finding) -> Result<()> {
        let tolerated = |class: &str| self.program.variant.stripped && class == "possibly-atomic";
        for race in &finding.report.races {
            if !tolerated(&race.class) {
                bail!("must be silent\n{}", shown(finding));
            }
        }
        Ok(())
    }

    /// The same program without its guard must be caught in as many windows.
    fn twin(&mut self) -> Result<State> {
        let start = Instant::now();
        let circumstances = self.circumstances()?;
        let mut missing: Vec<_> = self.program.kernel.expects.iter().collect();
        let mut windows = 0;
        let mut time = Duration::from_millis(500);
        for number in 0.. {
            let focus = self.globs(&self.program.kernel.twin_focus());
            let finding = self.round(&Round {
                seed: number + 1,
                time,
                windows: Some(self.demands.windows - windows),
                focus,
            })?;
            windows += finding.report.run.windows;
            let races = &finding.report.races;
            missing.retain(|one| !races.iter().any(|race| circumstances.meets(one, race)));
            if missing.is_empty() {
                break;
            }
            if windows >= self.demands.windows || start.elapsed() >= self.demands.windows_within {
                bail!(
                    "not reported in {windows} windows: {missing:?}\n{}",
                    shown(&finding)
                );
            }
            time = (time * 2).min(Duration::from_secs(2));
        }
        Ok(State::Passed(format!("found within {windows} windows")))
    }

    /// Names of C are whole symbols; those of C++ and Rust have more around them.
    fn globs(&self, functions: &[String]) -> Vec<String> {
        let c = self
            .program
            .kernel
            .source
            .extension()
            .is_some_and(|end| end == "c");
        // Without symbols no function has a name to select it by.
        if self.program.variant.stripped {
            return Vec::new();
        }
        let glob = |name: &String| if c { name.clone() } else { format!("*{name}*") };
        functions.iter().map(glob).collect()
    }
}

impl Verdict {
    fn line(&self) -> String {
        let (mark, note) = match &self.state {
            State::Passed(note) => ("ok", note.as_str()),
            State::NotApplicable => ("skipped", "this processor cannot run it"),
            State::Failed(why) => ("FAILED", why.lines().next().unwrap_or("")),
        };
        format!(
            "{:<44} {mark:<8} {:>6.1} s  {note}",
            self.title, self.seconds
        )
    }
}

fn print_table(verdicts: &[Verdict]) -> Tally {
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

/// All that is needed to look into a failure.
fn shown(finding: &Finding) -> String {
    format!(
        "$ {}\n{}\n(exit status {}, {} windows, {:.1} s)",
        finding.command,
        finding.told.trim_end(),
        finding.status,
        finding.report.run.windows,
        finding.took.as_secs_f64()
    )
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
            .filter(|program| program.kernel.list == List::Never)
        {
            let twin = programs
                .iter()
                .any(|other| other.twin && other.kernel.name == program.kernel.name);
            assert!(twin, "{} has no twin", program.title());
        }
    }
}
