//! The trial of one case: rounds under Redhanded until the demands are met or missed.
//! A case is a program of the corpus or a module of the kernel corpus.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use redhanded_model::Class;

use crate::claims::{Claims, Expectation, List};
use crate::judge::{Circumstances, begins, word};
use crate::redhanded::{Finding, NOT_APPLICABLE, Round};

/// A twin may take so many times the windows that the guarded case is silent in. Chance decides
/// in which window the threads meet, and there are hundreds of twins.
const TWIN_WINDOWS: u64 = 4;

/// What can be put on trial.
pub trait Case {
    /// The name in tables.
    fn title(&self) -> String;
    /// What must be reported, and what must not.
    fn claims(&self) -> &Claims;
    /// Whether it is built without its guard.
    fn is_twin(&self) -> bool;
    /// What the judge has to know besides the report.
    fn circumstances(&self) -> Result<Circumstances>;
    /// The patterns that select these functions in it.
    fn globs(&self, functions: &[String]) -> Vec<String>;
    /// Whether a race of this class does not count against a never case.
    fn tolerates(&self, class: Class) -> bool;
    /// Runs it under Redhanded.
    fn run(&self, round: &Round) -> Result<Finding>;
}

/// How much is asked of the cases.
pub struct Demands {
    /// The seeds that an expected case is tried with.
    pub seeds: Vec<u64>,
    /// The length of the first round; later ones are longer.
    pub first_round: Duration,
    /// In how many windows a never case must stay silent.
    pub windows: u64,
    /// The time in which an expected race must be found.
    pub found_within: Duration,
    /// The time in which the windows must be reached: else nothing was tested.
    pub windows_within: Duration,
}

/// The outcome of a trial.
pub struct TrialResult {
    /// Which case.
    pub title: String,
    /// How it went.
    pub state: State,
    /// How long it took.
    pub seconds: f64,
    /// Windows over all rounds.
    pub windows: u64,
    /// Samples over all rounds.
    pub samples: u64,
    /// Losses by reason over all rounds.
    pub losses: BTreeMap<String, u64>,
}

/// How a trial went.
pub enum State {
    /// It went as it must; says how well.
    Passed(String),
    /// This machine cannot run the case.
    NotApplicable,
    /// It did not; says what is wrong and how to repeat it.
    Failed(String),
}

/// One case on trial.
pub struct Trial<'a, C> {
    demands: &'a Demands,
    case: &'a C,
    windows: u64,
    samples: u64,
    losses: BTreeMap<String, u64>,
}

impl<'a, C: Case> Trial<'a, C> {
    /// A trial of `case`, which must be ready to run.
    pub fn new(demands: &'a Demands, case: &'a C) -> Self {
        Self {
            demands,
            case,
            windows: 0,
            samples: 0,
            losses: BTreeMap::new(),
        }
    }

    /// Runs as many rounds as it takes and judges them.
    pub fn run(mut self) -> TrialResult {
        let start = Instant::now();
        let outcome = match (self.case.claims().list, self.case.is_twin()) {
            (List::Expected, _) => self.expected(),
            (List::Never, false) => self.never(),
            (List::Never, true) => self.twin(),
        };
        TrialResult {
            title: self.case.title(),
            state: outcome.unwrap_or_else(|error| State::Failed(format!("{error:#}"))),
            seconds: start.elapsed().as_secs_f64(),
            windows: self.windows,
            samples: self.samples,
            losses: self.losses,
        }
    }

    fn round(&mut self, round: &Round) -> Result<Finding> {
        let finding = self.case.run(round)?;
        self.windows += finding.report.run.windows;
        self.samples += finding.report.run.samples;
        for (reason, count) in &finding.report.run.losses.0 {
            *self.losses.entry(word(reason)).or_default() += count;
        }
        Ok(finding)
    }

    /// The races must be found in the time given, by all but one in twenty seeds.
    fn expected(&mut self) -> Result<State> {
        let circumstances = self.case.circumstances()?;
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

    /// The time it took, or an error that names what was missed; `None` if this machine
    /// cannot run the case.
    fn found_with(
        &mut self,
        circumstances: &Circumstances,
        seed: u64,
    ) -> Result<Option<Result<Duration, String>>> {
        let start = Instant::now();
        let mut missing: Vec<_> = self.case.claims().expects.iter().collect();
        let mut time = self.demands.first_round;
        for number in 0.. {
            let left = self.demands.found_within.saturating_sub(start.elapsed());
            let round = Round {
                seed: seed * 1000 + number,
                time: time.min(left.max(self.demands.first_round)),
                windows: None,
                focus: Vec::new(),
            };
            let finding = self.round(&round)?;
            if finding.status == NOT_APPLICABLE {
                return Ok(None);
            }
            let races = &finding.report.races;
            for what in &self.case.claims().silent {
                if races
                    .iter()
                    .any(|race| race.class == Class::Race && begins(&race.what, what))
                {
                    bail!("`{what}` must not be reported\n{}", shown(&finding));
                }
            }
            for what in &self.case.claims().once {
                if races.iter().filter(|race| begins(&race.what, what)).count() > 1 {
                    bail!("`{what}` is reported more than once\n{}", shown(&finding));
                }
            }
            for one in &self.case.claims().expects {
                if races.iter().any(|race| circumstances.misstates(one, race)) {
                    bail!("told as unchanged: {one}\n{}", shown(&finding));
                }
            }
            missing.retain(|one| !races.iter().any(|race| circumstances.meets(one, race)));
            if missing.is_empty() {
                return Ok(Some(Ok(start.elapsed())));
            }
            if start.elapsed() >= self.demands.found_within {
                let miss = format!(
                    "seed {seed}: not reported: {}\n{}",
                    listed(&missing),
                    shown(&finding)
                );
                return Ok(Some(Err(miss)));
            }
            time = (time * 2).min(self.demands.first_round * 4);
        }
        Ok(None)
    }

    /// Nothing may be reported, neither on the guarded memory nor elsewhere.
    fn never(&mut self) -> Result<State> {
        let start = Instant::now();
        let mut windows = 0;
        for number in 0.. {
            let wanted = self.demands.windows - windows;
            let focus = self.case.globs(&self.case.claims().focus);
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
        for race in &finding.report.races {
            if !self.case.tolerates(race.class) {
                bail!("must be silent\n{}", shown(finding));
            }
        }
        Ok(())
    }

    /// Without its guard, the same source must be caught within a few times as many windows.
    fn twin(&mut self) -> Result<State> {
        let start = Instant::now();
        let most = self.demands.windows * TWIN_WINDOWS;
        let circumstances = self.case.circumstances()?;
        let mut missing: Vec<_> = self.case.claims().expects.iter().collect();
        let mut windows = 0;
        let mut time = self.demands.first_round;
        for number in 0.. {
            let focus = self.case.globs(&self.case.claims().twin_focus());
            let finding = self.round(&Round {
                seed: number + 1,
                time,
                windows: Some(most - windows),
                focus,
            })?;
            windows += finding.report.run.windows;
            let races = &finding.report.races;
            missing.retain(|one| !races.iter().any(|race| circumstances.meets(one, race)));
            if missing.is_empty() {
                break;
            }
            if windows >= most || start.elapsed() >= self.demands.windows_within {
                bail!(
                    "not reported in {windows} windows: {}\n{}",
                    listed(&missing),
                    shown(&finding)
                );
            }
            time = (time * 2).min(self.demands.first_round * 4);
        }
        Ok(State::Passed(format!("found within {windows} windows")))
    }
}

impl TrialResult {
    /// One line for the table.
    pub fn line(&self) -> String {
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

fn listed(missing: &[&Expectation]) -> String {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    missing.join("; ")
}

/// What it takes to look into a failure.
fn shown(finding: &Finding) -> String {
    format!(
        "$ {}\n{}\n(exit status {}, {} windows, {:.1} s)",
        finding.command,
        finding.text.trim_end(),
        finding.status,
        finding.report.run.windows,
        finding.took.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::corpus::case::ProgramCase;
    use crate::corpus::compile::Build;
    use crate::corpus::program::Program;
    use crate::judge::sample;
    use crate::paths;
    use crate::redhanded::Redhanded;

    const CAUGHT: &str = r#"{"class":"race","what":{"name":"balance","field":null},
        "accesses":[{"function":"bump"},{"function":"bump"}]}"#;

    /// A detector that always gives the same report.
    fn oracle(name: &str, windows: u64, races: &[&str], status: i32) -> Redhanded {
        let folder: PathBuf = paths::target().join("xtask-oracles").join(name);
        fs::create_dir_all(&folder).unwrap();
        let races = races.iter().map(|race| sample::race(race)).collect();
        let report = sample::document(&sample::report(windows, races));
        fs::write(folder.join("answer.json"), report).unwrap();
        fs::write(folder.join("status"), status.to_string()).unwrap();
        // The script is a file of the repository. One written here might still be open
        // for writing in a process that another test forks, and could not be started.
        Redhanded {
            path: paths::root().join("xtask/testdata/oracle.sh"),
            reports: folder,
            with: Vec::new(),
            user: None,
        }
    }

    fn judged(redhanded: &Redhanded, list: List, twin: bool) -> State {
        let directives = match list {
            List::Expected => {
                "//@ build: O0\n//@ expect: what=balance functions=bump,bump\n//@ silent: what=lock\n\
                 //@ once: what=balance\n"
            }
            List::Never => {
                "//@ build: O0\n//@ focus: bump\n//@ twin-expect: what=balance functions=bump,bump\n"
            }
        };
        let program = Program::parse(list, Path::new("corpus/x/k.c"), directives).unwrap();
        let build = &Build::new(&program, &program.variants[0], twin);
        let demands = Demands {
            seeds: vec![1],
            first_round: Duration::from_millis(500),
            windows: 150,
            found_within: Duration::ZERO,
            windows_within: Duration::ZERO,
        };
        Trial::new(&demands, &ProgramCase { redhanded, build })
            .run()
            .state
    }

    #[track_caller]
    fn assert_failed(state: State, why: &str) {
        let State::Failed(reason) = state else {
            panic!("it passed")
        };
        assert!(reason.contains(why), "{reason}");
        assert!(reason.contains("run --json"), "no command line in {reason}");
    }

    #[test]
    fn an_expected_race_that_is_not_reported_fails() {
        let found = oracle("found", 9, &[CAUGHT], 66);
        assert!(matches!(
            judged(&found, List::Expected, false),
            State::Passed(_)
        ));
        let nothing = oracle("nothing", 9, &[], 0);
        assert_failed(judged(&nothing, List::Expected, false), "not reported");
        let other = oracle("other", 9, &[&CAUGHT.replace("bump", "leap")], 66);
        assert_failed(judged(&other, List::Expected, false), "not reported");
    }

    #[test]
    fn a_guarded_neighbour_that_is_reported_fails() {
        let lock = CAUGHT.replace("balance", "lock");
        let both = oracle("both", 9, &[CAUGHT, &lock], 66);
        assert_failed(
            judged(&both, List::Expected, false),
            "`lock` must not be reported",
        );
    }

    #[test]
    fn a_race_that_is_listed_twice_fails() {
        let twice = oracle("twice", 9, &[CAUGHT, CAUGHT], 66);
        assert_failed(
            judged(&twice, List::Expected, false),
            "`balance` is reported more than once",
        );
    }

    #[test]
    fn a_never_program_fails_on_a_report_and_on_inactivity() {
        let silent = oracle("silent", 150, &[], 0);
        assert!(matches!(
            judged(&silent, List::Never, false),
            State::Passed(_)
        ));
        let idle = oracle("idle", 3, &[], 0);
        assert_failed(judged(&idle, List::Never, false), "only 3 of 150 windows");
        let loud = oracle("loud", 150, &[CAUGHT], 66);
        assert_failed(judged(&loud, List::Never, false), "must be silent");
        let softly = CAUGHT.replace("\"race\"", "\"possibly-atomic\"");
        let soft = oracle("soft", 150, &[&softly], 0);
        assert_failed(judged(&soft, List::Never, false), "must be silent");
    }

    #[test]
    fn a_twin_must_be_caught() {
        let found = oracle("twin-found", 9, &[CAUGHT], 66);
        assert!(matches!(
            judged(&found, List::Never, true),
            State::Passed(_)
        ));
        let silent = oracle("twin-silent", 150, &[], 0);
        assert_failed(
            judged(&silent, List::Never, true),
            "not reported in 150 windows",
        );
    }

    #[test]
    fn the_exit_status_must_fit_the_report() {
        let denied = oracle("denied", 9, &[CAUGHT], 0);
        assert_failed(
            judged(&denied, List::Expected, false),
            "does not fit the report",
        );
        let broken = oracle("broken", 9, &[], 125);
        assert_failed(judged(&broken, List::Expected, false), "exit status 125");
        let unfit = oracle("unfit", 0, &[], 77);
        assert!(matches!(
            judged(&unfit, List::Expected, false),
            State::NotApplicable
        ));
    }
}
