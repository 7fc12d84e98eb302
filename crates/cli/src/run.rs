//! `redhanded run`, and what `attach` shares with it.

use crate::arguments::{Detail, FailOn, Run, Tracing, Watch, WatchHow};
use crate::debuginfod;
use crate::documents::repository;
use crate::exit::{self, Failure};
use crate::hunt::nothing_found;
use crate::memory::Memory;
use crate::observe::{Display, Observation, Observed, Quotes, Subject, observe};
use crate::project::Project;
use crate::screen;
use crate::select::Selecting;
use redhanded_detect::{Budget, CREDIT, Options, Start};
use redhanded_model::{Call, Class, Delays, Race, Report};
use redhanded_process::{Program, Settings, WatchBy};
use redhanded_report::{Progress, Shown, Terminal, Writer};
use redhanded_target::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What is held of a program's time, unless told otherwise.
const OVERHEAD: f64 = 0.05;
/// The longest a thread of a program is held, unless told otherwise.
const DELAY: Duration = Duration::from_millis(2);

/// Runs a program under observation; the exit status.
pub fn run(arguments: Run) -> Result<ExitCode, Failure> {
    if arguments.watch.overhead != Some(0.0) {
        debuginfod::for_program(&arguments.program, arguments.watch.quiet);
    }
    // Before any thread is started.
    let signals = Signals::hold();
    let program = Program::find(&arguments.program)?;
    let mut watch = arguments.watch;
    watch.settle()?;
    watch.check()?;
    arguments.tracing.check()?;
    let once = arguments.until.is_none() && arguments.repeat.is_none();
    if once && arguments.each.is_some() {
        return Err(Failure::Usage(
            "--each limits each of several runs, so it needs --for or --repeat".to_owned(),
        ));
    }
    if watch.overhead == Some(0.0) {
        // Nothing may be held, so nothing would be seen: it costs nothing at all.
        return Err(program.become_it(&signals).into());
    }
    if program.has_rights_of_its_own() {
        screen::say(&format!(
            "redhanded: {} is setuid, and the kernel gives a traced program no privileges of its \
             own, so it runs unobserved; run redhanded as root to observe it",
            program.path.display()
        ));
        return Err(program.become_it(&signals).into());
    }
    if let Some(interpreter) = &program.interpreter
        && !watch.quiet
    {
        screen::say(&format!(
            "redhanded: {} is a script; Redhanded samples its interpreter {interpreter} and the \
             programs it starts",
            program.path.display()
        ));
    }
    // Its standard error is ours.
    let display = watch.display(true);
    let tracing = &arguments.tracing;
    let observation = Observation {
        until: arguments.until,
        each: arguments.each,
        repeat: arguments.repeat,
        kill: arguments.kill,
        ..tracing.observation(watch.observation(Subject::Program(program), signals, &display)?)
    };
    let observation = tracing.hunt(&watch, observation)?;
    watch.tell(observe(observation, &display)?, &display)
}

impl Watch {
    /// Takes from the project's settings what the command line leaves open.
    pub fn settle(&mut self) -> Result<(), Failure> {
        let select = &mut self.select;
        let sources = &mut select.sources;
        let project = Project::settle(&mut self.findings, &mut self.remembering, sources)?;
        let enough = &mut self.enough;
        enough.min_samples = enough.min_samples.or(project.min_samples);
        enough.min_coverage = enough.min_coverage.or(project.min_coverage);
        for (asked, settled) in [
            (&mut select.module, project.module),
            (&mut select.file, project.file),
            (&mut select.function, project.function),
        ] {
            if asked.is_empty() {
                *asked = settled;
            }
        }
        Ok(())
    }

    /// What can be known to be wrong before anything is touched.
    pub fn check(&self) -> Result<(), Failure> {
        self.findings.verdicts.read()?;
        self.documents.check()
    }

    /// How the run is shown where the target may share the terminal, or not.
    pub fn display(&self, shared: bool) -> Arc<Display> {
        let progress = screen::shown(self.progress, self.quiet, shared);
        let benign = self.findings.verdicts.shows_benign();
        let mut display = display(self.quiet, &self.findings.detail, benign, progress);
        if let Some(display) = Arc::get_mut(&mut display) {
            display.indexing = screen::shown_at_once(self.progress, self.quiet, shared);
        }
        display
    }

    /// The observation of `subject` that is asked for.
    pub fn observation(
        &self,
        subject: Subject,
        signals: Arc<Signals>,
        display: &Arc<Display>,
    ) -> Result<Observation, Failure> {
        Ok(Observation {
            subject,
            selecting: Selecting::new(&self.select, display)?,
            rights: None,
            signals,
            options: Options {
                rate: self.rate,
                delay: Delays::of_tasks(self.delay.unwrap_or(DELAY)),
                budget: Budget {
                    overhead: self.overhead.unwrap_or(OVERHEAD),
                    credit: CREDIT,
                },
                strategy: self.detect.into(),
                until: None,
                max_windows: None,
                start: Start::AtOnce,
            },
            settings: Settings::default(),
            seed: self.seed.unwrap_or_else(clock),
            until: None,
            each: None,
            repeat: None,
            kill: false,
            max_windows: self.max_windows,
            max_races: self.max_races,
            stop_on_race: false,
            replay: !self.no_replay,
            scenarios: None,
            core: None,
            log: self.log.clone(),
            events: self.events.clone(),
            memory: Memory::of(
                &self.remembering,
                self.enough,
                self.findings.fail_on.unwrap_or_default(),
            )?,
            on_race: None,
            annotations: self.findings.verdicts.read()?,
            suspects: Vec::new(),
        })
    }

    /// Shows and writes the report; the exit status.
    pub fn tell(&self, mut observed: Observed, display: &Display) -> Result<ExitCode, Failure> {
        let notes = observed.memory.annotate(&mut observed.report);
        let report = &observed.report;
        if !self.quiet || !report.races.is_empty() {
            let mut text = Vec::new();
            display.terminal.write(report, &mut text)?;
            // Nor does a closed stderr change the program's status.
            screen::show(&text);
        }
        if !self.quiet {
            for note in notes {
                screen::say(&format!("redhanded: {note}"));
            }
        }
        let store = observed.memory.store.as_deref();
        if let Err(failure) = (self.documents).write(report, &display.source(), store) {
            exit::fail(&mut observed.failure, failure);
        }
        if let Some(failure) = observed.failure {
            return Err(failure);
        }
        if let Some(failure) = nothing_found(&report.run) {
            return Err(failure);
        }
        if report.run.sites.total == 0 {
            let globs = self.select.globs();
            if !globs.is_empty() {
                return Err(Failure::Usage(format!(
                    "nothing was sampled: no code that was loaded and can be sampled matches {globs}"
                )));
            }
            if self.quiet {
                screen::say(
                    "redhanded: nothing was sampled, because there was no code that can be; run it \
                     without --quiet to see why",
                );
            }
        } else if self.quiet && report.run.samples == 0 && !self.select.globs().is_empty() {
            // Whoever asked for this code takes silence for an answer about it.
            screen::say(&format!(
                "redhanded: nothing was sampled: no code that matches {} ran while it was armed",
                self.select.globs()
            ));
        }
        let fail_on = self.findings.fail_on.unwrap_or_default();
        if let Some(failed) = fail_on.status(report, self.findings.exit_code) {
            return Ok(failed);
        }
        if let Some(why) = observed.memory.too_little(&report.run) {
            screen::say(&format!("redhanded: {why}"));
            return Ok(ExitCode::from(exit::TOO_LITTLE));
        }
        Ok(exit::of_program(observed.ending))
    }
}

impl FailOn {
    /// The exit status, if these findings make it fail.
    pub fn status(self, report: &Report, code: u8) -> Option<ExitCode> {
        let call = |race: &Race| race.verdict.as_ref().map(|verdict| verdict.call);
        let asked = |race: &Race| match self {
            Self::Any => race.class == Class::Race,
            Self::New => race.class == Class::Race && race.is_new(),
            Self::Harmful => call(race).is_some_and(Call::is_harmful),
            Self::Proven => call(race) == Some(Call::ProvenHarmful),
            Self::Never => false,
        };
        let fails = |race: &Race| asked(race) && !race.is_accepted() && !race.is_suspect();
        report.races.iter().any(fails).then(|| ExitCode::from(code))
    }
}

impl Tracing {
    /// What can be known to be wrong before anything is touched.
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(core) = &self.core
            && !core.is_dir()
        {
            return Err(Failure::Usage(format!(
                "cannot write cores to {}: there is no such folder",
                core.display()
            )));
        }
        if self.safe && self.watch == WatchHow::Ptrace {
            return Err(Failure::Usage(
                "--safe needs perf events, which the kernel clears when Redhanded is killed; \
                 drop --watch ptrace"
                    .to_owned(),
            ));
        }
        if self.safe && self.alloc {
            return Err(Failure::Usage(
                "--alloc needs breakpoints in the allocator's code, which --safe never writes; \
                 drop one of them"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// With what is asked for of processes.
    pub fn observation(&self, observation: Observation) -> Observation {
        Observation {
            settings: Settings {
                follow: self.follow.into(),
                watch_by: if self.safe {
                    WatchBy::Perf
                } else {
                    self.watch.into()
                },
                safe: self.safe,
                allocations: self.alloc,
            },
            stop_on_race: self.stop_on_race,
            core: self.core.clone(),
            scenarios: self.scenarios.clone(),
            ..observation
        }
    }
}

/// How a run is shown, unless it is to be quiet.
pub fn display(quiet: bool, detail: &Detail, shows_benign: bool, progress: Shown) -> Arc<Display> {
    let quotes = Arc::new(Quotes::default());
    Arc::new(Display {
        terminal: Terminal::new(screen::style())
            .verbose(detail.verbose)
            .explaining(detail.explain)
            .with_assembly(detail.asm)
            .showing_benign(shows_benign)
            .with_base(repository())
            .with_source(Quotes::lines(&quotes)),
        quotes,
        progress: Progress::new(progress),
        announce: !quiet,
        indexing: progress,
    })
}

/// A seed that differs from run to run.
pub fn clock() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}
