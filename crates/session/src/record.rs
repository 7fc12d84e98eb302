//! The records.

use crate::{ImageFile, path};
use redhanded_detect::{Captured, Collision, Exposure, Finding, Outcome};
use redhanded_model::{Counts, Crash, ModuleId, Pursuit, ReplayTally, Run, Unseen};
use redhanded_sys::Rights;
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
    /// Whose rights to sources the target has from now on. Not kept in a file.
    Rights(Rights),
    /// A confirmed collision.
    Collision {
        /// What was seen.
        collision: Box<Collision>,
        /// Windows so far, in all runs.
        windows: u64,
    },
    /// What replaying the next collision needs. Not kept in a file.
    Captured(#[serde(with = "packed")] Box<Captured>),
    /// What the collision before it was judged to be.
    Finding(Finding),
    /// What replaying the collision of the last finding came to, in names.
    Replayed(ReplayTally),
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
    /// How often each site was sampled in the run that ended. Not kept in a file.
    Exposure(Vec<Exposure>),
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

/// Memory as a line of text.
mod packed {
    use redhanded_detect::Captured;
    use redhanded_replay::{pack, unpack};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(captured: &Captured, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = pack(captured).into_iter().flat_map(|byte| {
            [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]))
        });
        serializer.serialize_str(&digits.collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Captured>, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks_exact(2).map(byte).collect();
        let captured = bytes.and_then(|bytes| unpack(&bytes)).map(Box::new);
        captured.ok_or_else(|| D::Error::custom("damaged memory"))
    }
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
    /// What was done to catch each candidate, if there were any.
    #[serde(default)]
    pub pursuits: Vec<Pursuit>,
    /// How the last run's session ended.
    pub outcome: Outcome,
    /// How the program ended, as far as it has.
    pub ending: Ending,
}
