//! `redhanded check`: records a program, analyses the recording, and hunts what was found.
//!
//! Each step is a command of its own, run as a process of its own: what records a program, what
//! reads foreign files and what traces have nothing in common but files.

mod combined;

use crate::arguments::{Check, Enough, Remembering, Telling};
use crate::documents::repository;
use crate::exit::{self, FAILED, Failure};
use crate::memory::Memory;
use crate::observe::Quotes;
use crate::project::Project;
use crate::report::read_json;
use crate::screen;
use combined::combine;
use redhanded_model::{Candidate, Race, RaceStanding, Report};
use redhanded_process::Program;
use redhanded_recorder::Engine;
use redhanded_report::{SourceLine, Style, Terminal, Writer, open_private};
use redhanded_store::Moment;
use redhanded_sys::{self as sys, REQUESTS};
use redhanded_target::Signals;
use redhanded_verdict::judge;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
pub use combined::tests::race;

/// How often a step is looked after.
const TICK: Duration = Duration::from_millis(100);

/// Checks a program; the exit status.
pub fn check(arguments: &mut Check) -> Result<ExitCode, Failure> {
    // Before any thread is started.
    let signals = Signals::hold();
    let memory = arguments.telling.settle(&mut arguments.remembering)?;
    let arguments = &*arguments;
    let annotations = arguments.telling.findings.verdicts.read()?;
    arguments.telling.documents.check()?;
    Program::find(&arguments.program)?;
    Engine::find()?;
    // Other processes are told of it by its path.
    let folder = tempfile::tempdir_in(sys::temporary_place())?;
    let own = folder.path().join("recording");
    let recording = arguments.recording.as_deref().unwrap_or(&own);
    let mut steps = Steps::new(&signals);

    let began = Moment::now();
    say(arguments, "recording");
    let mut record = redhanded(&["record", "--quiet", "-o"]);
    record.arg(recording);
    let said = arguments.telling.findings.verdicts.annotations.as_deref();
    if let Some(said) = said {
        record.arg("--annotations").arg(said);
    }
    record.arg("--").args(&arguments.program);
    // A file of this name may be an earlier recording.
    let before = Written::at(recording);
    let recorded = steps.run(record)?;
    let written = Written::at(recording);
    if written == before || written.is_none_or(|written| written.length == 0) {
        return Ok(not_recorded(recorded));
    }

    say(arguments, "analysing the recording");
    let found = folder.path().join("analysed.json");
    let analysed = steps.run(analysis(
        recording,
        &arguments.telling.sources,
        said,
        &found,
    ))?;
    if !found.exists() {
        return Ok(status(analysed));
    }
    let mut report = read_json(&found)?;

    let is_over = steps.told_to_end.is_some();
    if !is_over && !arguments.hunt.is_zero() && report.races.iter().any(is_huntable) {
        let number = report.races.len();
        let hunt = arguments.hunt.as_secs_f64();
        say(
            arguments,
            &format!("hunting what was found ({number}) for up to {hunt} s"),
        );
        hunted(arguments, &mut steps, &found, folder.path(), &mut report)?;
    }
    judge(&mut report, &annotations);
    let is_whole = analysed.code() != Some(FAILED.into());
    tell(arguments, &memory, &mut report, began, is_whole)?;
    if !is_whole {
        return Ok(ExitCode::from(FAILED));
    }
    let findings = &arguments.telling.findings;
    let fail_on = findings.fail_on.unwrap_or_default();
    let failed = fail_on.status(&report, findings.exit_code);
    Ok(failed.unwrap_or_else(|| status(recorded)))
}

fn say(arguments: &Check, what: &str) {
    if !arguments.quiet {
        screen::say(&format!("redhanded: {what}"));
    }
}

/// This binary with these arguments.
fn redhanded(arguments: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap_or_else(|_| "redhanded".into());
    let mut command = Command::new(own);
    command.args(arguments);
    command
}

/// The exit status of a step as ours.
fn status(of: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = of.code().unwrap_or_else(|| 128 + of.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
}

/// The exit status if there is nothing to analyse: never success.
fn not_recorded(of: ExitStatus) -> ExitCode {
    if of.success() {
        ExitCode::from(FAILED)
    } else {
        status(of)
    }
}

/// A file with contents of some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Written {
    file: (u64, u64),
    changed: (i64, i64),
    length: u64,
}

impl Written {
    fn at(path: &Path) -> Option<Self> {
        let about = path.metadata().ok()?;
        Some(Self {
            file: (about.dev(), about.ino()),
            changed: (about.ctime(), about.ctime_nsec()),
            length: about.len(),
        })
    }
}

/// The step that analyses a recording. Its report is in `found` if there is one.
pub fn analysis(
    recording: &Path,
    sources: &[PathBuf],
    annotations: Option<&Path>,
    found: &Path,
) -> Command {
    // What is to be remembered is for whoever asked.
    let quietly = ["--quiet", "--no-project", "--fail-on", "never"];
    let mut analyse = redhanded(&["analyze"]);
    analyse
        .args(quietly)
        .arg("--json")
        .arg(found)
        .arg(recording);
    if let Some(annotations) = annotations {
        analyse.arg("--annotations").arg(annotations);
    }
    for folder in sources {
        analyse.arg("--sources").arg(folder);
    }
    analyse
}

/// What a step said last, without our name.
pub fn last_words(said: &Path) -> Option<String> {
    let said = std::fs::read(said).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().last()?;
    Some(last.strip_prefix("redhanded: ").unwrap_or(last).to_owned())
}

/// Whether both sides have names by which they can be found again.
fn is_huntable(race: &Race) -> bool {
    Candidate::of_race(race).is_some()
}

/// Runs the steps one after the other.
pub struct Steps<'s> {
    signals: &'s Signals,
    /// The signal that asked us to end.
    told_to_end: Option<i32>,
}

impl<'s> Steps<'s> {
    /// None yet.
    pub const fn new(signals: &'s Signals) -> Self {
        Self {
            signals,
            told_to_end: None,
        }
    }

    /// Runs a step to its end. Whoever asks us to end asks the step.
    pub fn run(&mut self, mut step: Command) -> Result<ExitStatus, Failure> {
        self.signals.held().spare(&mut step);
        let mut child = step.spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if let Some(taken) = self.signals.wait(TICK)
                && REQUESTS.contains(&taken.signal)
            {
                self.told_to_end = Some(taken.signal);
                // The terminal has told it already.
                if taken.by_process {
                    let _ = sys::kill(child.id().cast_signed(), taken.signal);
                }
            }
        }
    }
}

/// Hunts what was found, and puts what was caught into the report.
fn hunted(
    arguments: &Check,
    steps: &mut Steps<'_>,
    found: &Path,
    folder: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let caught = folder.join("hunted.json");
    let said = folder.join("said");
    let limit = format!("{}ms", arguments.hunt.as_millis());
    let mut hunt = redhanded(&["run", "--quiet", "--no-project", "--fail-on", "never"]);
    hunt.args(["--kill", "--for"]).arg(limit);
    hunt.arg("--suspects").arg(found);
    hunt.arg("--json").arg(&caught);
    for folder in &arguments.telling.sources {
        hunt.arg("--sources").arg(folder);
    }
    hunt.arg("--").args(&arguments.program);
    // What the program prints was printed when it was recorded.
    hunt.stdin(Stdio::null()).stdout(Stdio::null());
    hunt.stderr(open_private(&said)?);
    steps.run(hunt)?;
    if !caught.exists() {
        let why = last_words(&said);
        let why = why.as_deref().unwrap_or("it ended unexpectedly");
        screen::say(&format!("redhanded: the hunt failed: {why}"));
        return Ok(());
    }
    combine(report, read_json(&caught)?);
    Ok(())
}

fn standing(race: &Race) -> Option<RaceStanding> {
    race.analysed.as_ref().map(|known| known.standing)
}

/// Keeps the run if it is to be kept, shows the report and writes it.
fn tell(
    arguments: &Check,
    memory: &Memory,
    report: &mut Report,
    began: Moment,
    counts: bool,
) -> Result<(), Failure> {
    // A store that fails costs nobody the report.
    let mut failure = memory.keep(report, began, counts).err();
    let notes = memory.annotate(report);
    let source = Quotes::lines(&Quotes::of(report));
    let mut told = report.clone();
    if arguments.quiet {
        // Races were asked for. The documents have the suspects.
        told.races
            .retain(|race| standing(race) != Some(RaceStanding::Suspect));
    }
    if !arguments.quiet || !told.races.is_empty() {
        let terminal = arguments.telling.terminal(screen::style(), &source);
        let mut text = Vec::new();
        terminal.write(&told, &mut text)?;
        screen::show(&text);
    }
    if !arguments.quiet {
        for note in notes {
            screen::say(&format!("redhanded: {note}"));
        }
    }
    let store = memory.store.as_deref();
    if let Err(unwritten) = arguments.telling.documents.write(report, &source, store) {
        exit::fail(&mut failure, unwritten);
    }
    failure.map_or(Ok(()), Err)
}

impl Telling {
    /// Takes from the project's settings what the command line leaves open, and reads what is
    /// remembered.
    pub fn settle(&mut self, asked: &mut Remembering) -> Result<Memory, Failure> {
        Project::settle(&mut self.findings, asked, &mut self.sources)?;
        let fail_on = self.findings.fail_on.unwrap_or_default();
        // A recording has all that the program did: how many samples are enough is no question.
        Memory::of(asked, Enough::default(), fail_on)
    }

    /// What a report is shown with.
    pub fn terminal(&self, style: Style, source: &SourceLine) -> Terminal {
        Terminal::new(style)
            .explaining(self.findings.detail.explain)
            .verbose(self.findings.detail.verbose)
            .with_assembly(self.findings.detail.asm)
            .showing_benign(self.findings.verdicts.shows_benign())
            .with_base(repository())
            .with_source(Arc::clone(source))
    }
}
