//! Exit statuses: part of the stable interface.

use crate::screen;
use redhanded_image::ImageError;
use redhanded_provision::ProvisionError;
use redhanded_recorder::{NoEngine, RecordError};
use redhanded_recording::RecordingError;
use redhanded_report::WriteError;
use redhanded_session::LogError;
use redhanded_store::{StoreError, SuppressionsError};
use redhanded_sys::remedy;
use redhanded_target::{Ending, TargetError};
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// A race was found (as TSan and Go do).
pub const RACE: u8 = 66;
/// Too little was looked at to say that there is no race.
pub const TOO_LITTLE: u8 = 67;
/// A thread of a recording did something else when it was replayed.
pub const ASTRAY: u8 = 1;
/// Redhanded itself failed.
pub const FAILED: u8 = 125;
/// The program was found and cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// The program was not found.
const NOT_FOUND: u8 = 127;

/// Why Redhanded stops without a result.
#[derive(Debug, Error)]
pub enum Failure {
    /// The target cannot be started or driven.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A machine cannot be had or started.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// A file cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A report cannot be written.
    #[error(transparent)]
    Report(#[from] WriteError),
    /// There is no recorder.
    #[error(transparent)]
    NoRecorder(#[from] NoEngine),
    /// Nothing was recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The tracer could not do it.
    #[error("{message}")]
    Tracer {
        /// The exit status that goes with it.
        code: u8,
        /// What it said.
        message: String,
    },
    /// The tracer did not end as it should.
    #[error("the tracer {0}")]
    LostTracer(String),
    /// The namer gave no answer.
    #[error("the process that reads debug information and logs {0}")]
    Namer(String),
    /// The session log cannot be written or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The suppressions cannot be used.
    #[error(transparent)]
    Suppressions(#[from] SuppressionsError),
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// A file other than those above cannot be written, or not to its end.
    #[error("cannot write {what} to {}: {source}{}", .path.display(), remedy(.source))]
    File {
        /// What should be in it.
        what: &'static str,
        /// Its name, or that of its folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {source}{}", remedy(.source))]
    Stdout {
        /// The cause.
        source: std::io::Error,
    },
    /// Something cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
}

impl Failure {
    /// A signal came before there was anything to report.
    pub fn told_to_end(signal: i32, before: &str) -> Self {
        Self::Tracer {
            code: 128u8.wrapping_add(signal as u8),
            message: format!("told to end before {before}"),
        }
    }

    /// The exit status that goes with it.
    pub const fn status(&self) -> u8 {
        match self {
            Self::Target(TargetError::NotFound { .. }) => NOT_FOUND,
            Self::Target(TargetError::NotRunnable { .. })
            | Self::Record(RecordError::Target(TargetError::NotRunnable { .. }))
            | Self::Provision(ProvisionError::NotRunnable { .. }) => NOT_RUNNABLE,
            Self::Tracer { code, .. } => *code,
            _ => FAILED,
        }
    }
}

/// Takes note of a failure that does not end the work. The last is told at the end, those
/// before it now.
pub fn fail(failed: &mut Option<Failure>, failure: Failure) {
    if let Some(before) = failed.replace(failure) {
        screen::say(&format!("redhanded: {before}"));
    }
}

/// The status after clap had its say: help and version are no failures.
pub fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

/// The status of the program, as a shell would give it.
pub fn of_program(ending: Ending) -> ExitCode {
    ExitCode::from(match ending {
        Ending::Exited { status } => status as u8,
        Ending::Killed { signal, .. } => 128u8.wrapping_add(signal as u8),
        Ending::EndedByUs | Ending::LeftRunning | Ending::LeftStopped => 0,
    })
}
