//! `redhanded record`.

use crate::arguments::{Record, ShowProgress};
use crate::exit::{self, Failure};
use crate::screen;
use crate::verdicts::read_annotations;
use redhanded_process::Program;
use redhanded_recorder::{Engine, Options, Outcome, Progress};
use redhanded_recording::wire::Function;
use redhanded_recording::{Ending, Header, Writer};
use redhanded_report::open_private;
use redhanded_target as target;
use redhanded_target::Signals;
use std::io::{BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often progress is shown.
const EVERY: Duration = Duration::from_secs(1);

/// Records a program; its exit status.
pub fn record(arguments: &Record) -> Result<ExitCode, Failure> {
    // Before any thread is started.
    let signals = Signals::hold();
    let program = Program::find(&arguments.program)?;
    if program.has_rights_of_its_own() {
        return Err(Failure::Usage(format!(
            "{} is setuid and would run without its owner's rights, so it is not recorded; run \
             redhanded as root to record it",
            program.path.display()
        )));
    }
    let annotations = read_annotations(arguments.annotations.as_deref())?;
    let functions = annotations.functions().map(|(name, ..)| name.to_owned());
    let functions: Vec<String> = functions.collect();
    let is_known = |name: &String| Function::ALL.iter().any(|known| known.symbol() == name);
    if let Some(known) = functions.iter().find(|name| is_known(name)) {
        return Err(Failure::Usage(format!(
            "{known} cannot be annotated: what it does is known"
        )));
    }
    let engine = Engine::find()?;
    let path = arguments
        .output
        .clone()
        .unwrap_or_else(|| default(&program));
    let failed = |source| Failure::File {
        what: "the recording",
        path: path.clone(),
        source,
    };
    let file = open_private(&path).map_err(failed)?;
    let empty = file.try_clone().map_err(failed)?;
    let writer =
        Writer::new(BufWriter::new(file), &header(&program, &functions)).map_err(failed)?;
    let options = Options {
        until: arguments.until,
        kill: arguments.kill,
        functions,
        values: arguments.values,
    };
    let mut shown = Display::new(arguments);
    let outcome = redhanded_recorder::record(&program, &engine, options, &signals, writer, |at| {
        shown.show(at);
    });
    shown.clear();
    let outcome = outcome.inspect_err(|_| {
        // Nothing was recorded, and nothing is left that could be taken for a recording.
        let _ = empty.set_len(0);
    })?;
    if outcome.lost_processes > 0 {
        screen::say(&format!(
            "redhanded: {} processes could not be recorded, or not to their end: they changed their \
             user or their root folder, wrote to pipes that are not theirs, or were more than can be \
             recorded",
            outcome.lost_processes
        ));
    }
    if !arguments.quiet {
        screen::say(&format!("redhanded: {}", summary(&outcome, &path)));
    }
    if let Some(source) = outcome.failure {
        screen::say("redhanded: what was written until then is kept and can be analysed");
        return Err(failed(source));
    }
    let ending = ending(&outcome.ending);
    let unknown = || Failure::Usage("how the program ended is not known".to_owned());
    ending.map(exit::of_program).ok_or_else(unknown)
}

/// The program's name with an ending that says what it is.
fn default(program: &Program) -> PathBuf {
    let mut name = program.path.file_name().unwrap_or_default().to_owned();
    name.push(".recording");
    name.into()
}

fn header(program: &Program, functions: &[String]) -> Header {
    let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
    let folder = std::env::current_dir().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        program: std::path::absolute(&program.path)
            .unwrap_or_else(|_| program.path.clone())
            .to_string_lossy()
            .into_owned(),
        arguments: program.arguments.iter().skip(1).map(text).collect(),
        folder: folder.to_string_lossy().into_owned(),
        started: now.map_or(0, |time| time.as_secs()),
        functions: functions.to_vec(),
    }
}

/// How the program ended, if that was seen.
fn ending(ending: &Ending) -> Option<target::Ending> {
    match (ending.status, ending.signal) {
        (_, Some(signal)) => Some(target::Ending::Killed {
            signal,
            core: false,
        }),
        (status, None) => status.map(|status| target::Ending::Exited { status }),
    }
}

fn summary(outcome: &Outcome, path: &Path) -> String {
    let plural = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}"),
    };
    let entries = outcome.ending.counts.entries;
    format!(
        "recorded {} of {} in {}, {} in {:.1} s, to {}",
        plural(entries, if entries == 1 { "entry" } else { "entries" }),
        plural(
            outcome.threads as u64,
            if outcome.threads == 1 {
                "thread"
            } else {
                "threads"
            }
        ),
        plural(
            outcome.processes.into(),
            if outcome.processes == 1 {
                "process"
            } else {
                "processes"
            }
        ),
        size(outcome.written),
        outcome.ending.milliseconds as f64 / 1000.0,
        path.display()
    )
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// The line that shows how far it is.
struct Display {
    in_place: bool,
    lines: bool,
    last: Instant,
}

impl Display {
    fn new(arguments: &Record) -> Self {
        let wanted = !arguments.quiet && arguments.progress != ShowProgress::Never;
        let terminal = std::io::stderr().is_terminal();
        // What the program prints to the same terminal would be mixed with it.
        let free = terminal && !std::io::stdout().is_terminal();
        Self {
            in_place: wanted && free,
            lines: wanted && !free && arguments.progress == ShowProgress::Always,
            last: Instant::now(),
        }
    }

    fn show(&mut self, at: Progress) {
        if !(self.in_place || self.lines) || self.last.elapsed() < EVERY {
            return;
        }
        self.last = Instant::now();
        let line = format!(
            "redhanded: {} entries, {}, {:.0} s",
            at.counts.entries,
            size(at.written),
            at.time.as_secs_f64()
        );
        if self.in_place {
            screen::show(format!("\r\x1b[K{line}").as_bytes());
        } else {
            screen::say(&line);
        }
    }

    fn clear(&self) {
        if self.in_place {
            screen::show(b"\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_that_nobody_saw_is_no_success() {
        let of = |status, signal| {
            ending(&Ending {
                status,
                signal,
                ..Ending::default()
            })
        };
        assert_eq!(of(None, None), None);
        assert_eq!(
            of(Some(0), None),
            Some(target::Ending::Exited { status: 0 })
        );
        assert!(matches!(
            of(None, Some(9)),
            Some(target::Ending::Killed { signal: 9, .. })
        ));
    }
}
