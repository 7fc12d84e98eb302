//! `redhanded run`, and what `attach` shares with it.

use crate::arguments::{FailOn, Run, Tracing, Watch, WatchHow};
use crate::exit::{self, Failure};
use crate::observe::{Display, Observation, Observed, Subject, observe};
use crate::{screen, select};
use redhanded_detect::{Budget, CREDIT, Options, Start};
use redhanded_model::{Class, Delays, Race, Report};
use redhanded_process::{Program, Settings, WatchBy};
use redhanded_report::json::Json;
use redhanded_report::{Progress, Shown, SourceFiles, Terminal, Writer, check, write_file};
use redhanded_target::Signals;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What is held of a program's time, unless told otherwise.
const OVERHEAD: f64 = 0.05;
/// The longest a thread of a program is held, unless told otherwise.
const DELAY: Duration = Duration::from_millis(2);

/// Runs a program under observation; the exit status.
pub fn run(arguments: Run) -> Result<ExitCode, Failure> {
    // Before any thread is started.
    let signals = Signals::hold();
    let program = Program::find(&arguments.program)?;
    let watch = arguments.watch;
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
    let observation = Observation {
        until: arguments.until,
        each: arguments.each,
        repeat: arguments.repeat,
        kill: arguments.kill,
        ..arguments.tracing.observation(watch.observation(
            Subject::Program(program),
            signals,
            &display,
        )?)
    };
    watch.tell(observe(observation, &display)?, &display)
}

impl Watch {
    /// What can be known to be wrong before anything is touched.
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(json) = &self.json {
            check(json)?;
        }
        Ok(())
    }

    /// How the run is shown where the target may share the terminal, or not.
    pub fn display(&self, shared: bool) -> Arc<Display> {
        display(self.quiet, screen::shown(self.progress, self.quiet, shared))
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
            images: select::images(&self.select, display)?,
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
            core: None,
            log: self.log.clone(),
            on_race: None,
        })
    }

    /// Shows and writes the report; the exit status.
    pub fn tell(&self, observed: Observed, display: &Display) -> Result<ExitCode, Failure> {
        let report = &observed.report;
        if !self.quiet || !report.races.is_empty() {
            let mut text = Vec::new();
            display.terminal.write(report, &mut text)?;
            // A closed stderr must not change the program's status.
            let _ = std::io::stderr().write_all(&text);
        }
        if let Some(path) = &self.json {
            write_file(&Json, report, path)?;
        }
        if let Some(failure) = observed.failure {
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
        }
        let failed = self.fail_on.status(report, self.exit_code);
        Ok(failed.unwrap_or_else(|| exit::of_program(observed.ending)))
    }
}

impl FailOn {
    /// The exit status, if these findings make it fail.
    pub fn status(self, report: &Report, code: u8) -> Option<ExitCode> {
        let is_race = |race: &Race| race.class == Class::Race;
        let failed = self == Self::Any && report.races.iter().any(is_race);
        failed.then(|| ExitCode::from(code))
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
            },
            stop_on_race: self.stop_on_race,
            core: self.core.clone(),
            ..observation
        }
    }
}

/// How a run is shown, unless it is to be quiet.
pub fn display(quiet: bool, progress: Shown) -> Arc<Display> {
    let source = SourceFiles::default();
    Arc::new(Display {
        terminal: Terminal::new(screen::style())
            .with_source(move |file, line| source.line(file, line)),
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
