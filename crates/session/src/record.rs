//! The records.

use crate::{ImageFile, path};
use redhanded_detect::{Collision, Finding, Outcome};
use redhanded_model::{Counts, Crash, ModuleId, Run, Unseen};
use redhanded_target::{Ending, Module};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The format, and the version of it that is written and read.
pub const FORMAT: &str = "redhanded-log/1";

/// One record of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// The first record of a file.
    Header(Header),
    /// A program was started or attached to. Modules are numbered anew from here.
    Started {
        /// Its process, or 0 for a machine.
        pid: u32,
    },
    /// A file is mapped. Later records refer to it by its number.
    Module {
        /// Where it is.
        module: Module,
        /// What is mapped; a scripted target has no files.
        file: Option<ImageFile>,
    },
    /// A confirmed collision.
    Collision {
        /// What was seen.
        collision: Box<Collision>,
        /// Windows so far, in all runs.
        windows: u64,
    },
    /// What the collision before it was judged to be.
    Finding(Finding),
    /// A source line that a report quotes.
    Source {
        /// The file, as the debug information names it.
        file: String,
        /// The line.
        line: u32,
        /// Its text.
        text: String,
    },
    /// A signal is about to kill the program.
    Crash {
        /// The crash. In a file its frames have names; from the tracer they are
        /// addresses.
        crash: Crash,
        /// The modules that were mapped.
        modules: Vec<ModuleId>,
    },
    /// A core file was written, or why not.
    Core(#[serde(with = "path::or_error")] Result<PathBuf, String>),
    /// The numbers so far, in all runs.
    Counts(Counts),
    /// Tracing ended in the ordinary way.
    Finished(Box<Finished>),
    /// Tracing was not possible.
    Failed {
        /// The exit status that goes with it.
        code: u8,
        /// Why.
        message: String,
    },
    /// The last record of a file: what was done. The findings give the
    /// races.
    Run(Box<Run>),
}

/// What a file begins with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The version of Redhanded that wrote it.
    pub version: String,
    /// The program and its arguments.
    pub program: Vec<String>,
}

impl Header {
    /// The header of a session that observes `program`.
    #[must_use]
    pub fn new(program: Vec<String>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program,
        }
    }
}

/// The end of tracing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The numbers of all runs.
    pub counts: Counts,
    /// What could not be looked at.
    pub unseen: Vec<Unseen>,
    /// How the last run's session ended.
    pub outcome: Outcome,
    /// How the program ended, as far as it has.
    pub ending: Ending,
}
