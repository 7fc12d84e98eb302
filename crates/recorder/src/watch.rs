//! Runs a program to its end and keeps what it records.

use crate::chunks::Chunk;
use crate::engine::Engine;
use crate::launch::launch;
use crate::streams::{Came, Streams};
use redhanded_process::Program;
use redhanded_recording::wire::{ChunkKind, LONGEST_OWN, MOST_OWN};
use redhanded_recording::{Counts, Ending, MOST_THREADS, Writer};
use redhanded_sys::{self as sys, Change, Launch};
use redhanded_target::{Signals, TargetError};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thiserror::Error;

/// How long nothing happens before signals and the program's end are looked for.
const TURN: Duration = Duration::from_millis(20);
/// How long a program that is told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How long its threads then have to write what they hold.
const LAST: Duration = Duration::from_secs(1);

/// How long what comes after the program's end is waited for. Processes that it has left behind
/// may write for ever.
const AFTERMATH: Duration = Duration::from_secs(5);

/// The file in the private folder that names the program's own functions.
const FUNCTIONS: &str = "functions";

/// How a program is recorded.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// After this time nothing more is recorded.
    pub until: Option<Duration>,
    /// Whether the program is ended then.
    pub kill: bool,
    /// Functions of the program's own whose calls are recorded, too, by their symbols.
    pub functions: Vec<String>,
    /// Whether what its threads read is recorded, so that each can be replayed.
    pub values: bool,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What was recorded.
    pub counts: Counts,
    /// How long the file is.
    pub written: u64,
    /// How long it took.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// How long the file is.
    pub written: u64,
    /// How many processes were recorded.
    pub processes: u32,
    /// How many of their threads.
    pub threads: usize,
    /// How many processes could not be recorded, or not to their end.
    pub lost_processes: u64,
    /// Why the rest could not be written, if it could not.
    pub failure: Option<io::Error>,
}

/// Why nothing was recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The program cannot be started.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The recorder did not start.
    #[error(
        "the recorder did not start inside {0}, so nothing was recorded; what it printed above \
         says why, and `cargo xtask recorder` builds it anew"
    )]
    Silent(String),
    /// Something else that the system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RecordError {
    move |source| RecordError::System { what, source }
}

/// Names the program's own functions to the recorder, which finds them in `folder`.
fn name(functions: &[String], folder: &Path) -> io::Result<()> {
    let list: String = functions.iter().map(|name| format!("{name}\n")).collect();
    let lines = list.bytes().filter(|byte| *byte == b'\n').count();
    if functions.len() > MOST_OWN || list.len() > LONGEST_OWN || lines != functions.len() {
        let most = format!("there may be {MOST_OWN}, in {LONGEST_OWN} bytes, without line breaks");
        return Err(io::Error::other(most));
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(folder.join(FUNCTIONS))?;
    file.write_all(list.as_bytes())
}

/// Runs `program` under the recorder, and appends what it writes to `writer` until it ends.
///
/// # Errors
/// When nothing was recorded. Failures after that are in the outcome.
pub fn record<W: Write>(
    program: &Program,
    engine: &Engine,
    options: Options,
    signals: &Signals,
    mut writer: Writer<W>,
    mut show: impl FnMut(Progress),
) -> Result<Outcome, RecordError> {
    let folder = private_folder().map_err(system("make a private folder"))?;
    let mut streams = Streams::make(folder.path()).map_err(system("make pipes"))?;
    name(&options.functions, folder.path()).map_err(system("name functions to the recorder"))?;
    let started = Instant::now();
    let child = launch(
        program,
        engine,
        folder.path(),
        options.values,
        signals.held(),
    )?;
    child.go().map_err(system("start the program"))?;
    let mut watch = Watch {
        child,
        options,
        started,
        stopped: None,
        ending: None,
        ended: None,
    };
    let mut threads = HashSet::new();
    let mut failure = None;
    loop {
        let mut take = |process: u32, chunk: Chunk<'_>| {
            if failure.is_none()
                && chunk.kind == ChunkKind::Entries
                && !is_one_of(&mut threads, process, chunk.thread)
            {
                let why = format!("it has more than {MOST_THREADS} threads");
                failure = Some(io::Error::other(why));
            }
            if failure.is_none() {
                let appended = writer.append(process, chunk.kind, chunk.thread, chunk.bytes);
                failure = appended.err();
            }
        };
        // What an ended program has written is in the pipes by now.
        let wait = if watch.ending.is_some() {
            Duration::ZERO
        } else {
            TURN
        };
        let came = streams
            .read(wait, &mut take)
            .map_err(system("read from the program"))?;
        let is_late = watch.ended.is_some_and(|at| at.elapsed() >= AFTERMATH);
        if watch.ending.is_some() && (came == Came::Nothing || is_late) {
            break;
        }
        if failure.is_some() {
            // Nothing can be kept any more. The program goes on.
            let _ = streams.stop();
        }
        watch.look(signals, &streams);
        show(Progress {
            counts: writer.counts(),
            written: writer.written(),
            time: started.elapsed(),
        });
    }
    if let Some(error) = watch.child.failure() {
        return Err(TargetError::NotRunnable {
            program: engine.library.display().to_string(),
            why: error.to_string(),
        }
        .into());
    }
    if streams.greeted() == 0 {
        return Err(RecordError::Silent(program.path.display().to_string()));
    }
    // Processes that are left are not recorded any further.
    let _ = streams.stop();
    let ending = watch.ending.take().unwrap_or_default();
    let written = writer.written();
    let counts = writer.counts();
    if failure.is_none() {
        failure = writer.finish(&ending).err();
    }
    Ok(Outcome {
        ending: Ending { counts, ..ending },
        written,
        processes: streams.greeted(),
        threads: threads.len(),
        lost_processes: streams.refused() + u64::from(streams.damaged()),
        failure,
    })
}

/// Whether a thread is among those that a recording has room for. If one were left out, what it
/// ordered would seem to be unordered, so nothing is kept after the last.
fn is_one_of(threads: &mut HashSet<(u32, u32)>, process: u32, thread: u32) -> bool {
    let thread = (process, thread);
    threads.contains(&thread) || (threads.len() < MOST_THREADS && threads.insert(thread))
}

/// A program that is running.
struct Watch {
    child: Launch,
    options: Options,
    started: Instant,
    /// When the recording was stopped, and why.
    stopped: Option<(Instant, String)>,
    ending: Option<Ending>,
    /// When the program ended.
    ended: Option<Instant>,
}

impl Watch {
    /// Looks for signals, for the program's end and at the clock.
    fn look(&mut self, signals: &Signals, streams: &Streams) {
        while let Some(taken) = signals.wait(Duration::ZERO) {
            // The terminal sends its signals to the program as well.
            if taken.signal != libc::SIGCHLD && taken.by_process {
                let _ = sys::kill(self.child.pid, taken.signal);
            }
        }
        while let Ok(Some((pid, change))) = sys::poll_child() {
            if pid == self.child.pid {
                self.changed(change);
            }
        }
        let elapsed = self.started.elapsed();
        match (self.options.until, &self.stopped) {
            (Some(until), None) if elapsed >= until => {
                self.stopped = Some((Instant::now(), "the time was over".to_owned()));
                if self.options.kill {
                    // Its end is recorded, too: only then all threads are whole.
                    let _ = sys::kill(self.child.pid, libc::SIGTERM);
                } else {
                    let _ = streams.stop();
                }
            }
            (_, Some((since, _))) if self.options.kill && since.elapsed() >= GRACE => {
                let _ = streams.stop();
                if since.elapsed() >= GRACE + LAST {
                    let _ = sys::kill(self.child.pid, libc::SIGKILL);
                }
            }
            _ => {}
        }
    }

    fn changed(&mut self, change: Change) {
        let ending = Ending {
            stopped: self.stopped.as_ref().map(|(_, why)| why.clone()),
            milliseconds: self.started.elapsed().as_millis() as u64,
            ..Ending::default()
        };
        if !matches!(change, Change::Stopped(..)) {
            self.ended = Some(Instant::now());
        }
        match change {
            Change::Exited(status) => {
                self.ending = Some(Ending {
                    status: Some(status),
                    ..ending
                });
            }
            Change::Killed(signal, _) => {
                self.ending = Some(Ending {
                    signal: Some(signal),
                    ..ending
                });
            }
            // The shell learns that its job stopped, and continues both.
            Change::Stopped(signal, _) => sys::stop_self(signal),
        }
    }
}

/// A folder that only we can enter. It is reached by its path again and again, so nobody else may
/// be able to exchange it. The recorder is told of it in a list of options, so its name must not
/// have anything that separates them.
fn private_folder() -> io::Result<TempDir> {
    let plain = |path: &Path| {
        let harmless = |c: char| c.is_ascii_alphanumeric() || "/_.-+".contains(c);
        path.to_str().is_some_and(|text| text.chars().all(harmless))
    };
    let wanted = sys::temporary_place();
    let within = if plain(&wanted) {
        wanted
    } else {
        PathBuf::from("/tmp")
    };
    tempfile::Builder::new()
        .prefix("redhanded-record-")
        .tempdir_in(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_room_for_as_many_threads_as_a_reader_takes() {
        let mut threads = HashSet::new();
        for thread in 0..MOST_THREADS as u32 {
            assert!(is_one_of(&mut threads, thread % 3, thread));
        }
        assert!(is_one_of(&mut threads, 0, 0), "it is known");
        assert!(!is_one_of(&mut threads, 1, 0));
        assert_eq!(threads.len(), MOST_THREADS);
    }
}
