//! The namer: a process that reads debug information and sources for the others.
//!
//! Both are foreign bytes, in a format that is hard to read, so whoever reads them is
//! confined and may die of them. The tracer and the front each have a socket to the namer and
//! ask it: [`Asker`] is their end, [`serve`] the namer's. Without an answer, a collision is
//! still a collision, told in addresses.

mod asker;
mod desk;

pub use asker::{Asker, Lost};
pub use desk::serve;

use crate::{ImageFile, LoggedReport, path};
use redhanded_detect::{Collision, Finding, Sorted, Touch};
use redhanded_model::{Avma, Crash, Marking, ModuleId, Quote, ReplayTally, Sighting, Spot, Svma};
use redhanded_replay::SourceLine;
use redhanded_sys::Rights;
use redhanded_target::Module;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the namer is told or asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Whose rights to sources the target has from now on. No answer.
    Rights(Rights),
    /// A program was started; modules are numbered anew. No answer.
    Started,
    /// A file is mapped. No answer.
    Module {
        /// Where it is.
        module: Module,
        /// What is mapped.
        file: Option<ImageFile>,
    },
    /// What is this collision?
    Collision(Box<Collision>),
    /// What are these accesses?
    Sorts {
        /// The modules that were mapped.
        modules: Vec<ModuleId>,
        /// The accesses.
        touches: Vec<Touch>,
    },
    /// What are the names of these frames?
    Crash {
        /// With addresses alone.
        crash: Crash,
        /// The modules that were mapped.
        modules: Vec<ModuleId>,
    },
    /// What does the source say of code at these addresses?
    Facts {
        /// The file with the code.
        file: ImageFile,
        /// What is of interest.
        about: About,
        /// The addresses.
        at: Vec<Svma>,
    },
    /// Which of these addresses fit one of these places?
    Sightings {
        /// The file with the code.
        file: ImageFile,
        /// The places.
        spots: Vec<Spot>,
        /// The addresses.
        at: Vec<Svma>,
    },
    /// What are the names of these addresses?
    Places {
        /// The modules that were mapped.
        modules: Vec<ModuleId>,
        /// Instructions.
        code: Vec<Avma>,
        /// Data, with the number of bytes.
        data: Vec<(Avma, u64)>,
    },
    /// What does the session log tell that the namer was given, and that is called so?
    Log(#[serde(with = "path")] PathBuf),
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To a collision.
    Finding {
        /// What it was judged to be.
        finding: Finding,
        /// The source lines that a report of it quotes.
        quotes: Vec<Quote>,
        /// What replaying it came to, if that was done.
        replay: Option<ReplayTally>,
    },
    /// One for each access.
    Sorts(Vec<Sorted>),
    /// To a crash: with names.
    Crash(Crash),
    /// One for each address.
    Facts(Vec<Fact>),
    /// Those that fit.
    Sightings(Vec<Sighting>),
    /// To addresses, in their order.
    Places {
        /// Of the instructions.
        code: Vec<SourceLine>,
        /// Of the data.
        data: Vec<Option<String>>,
    },
    /// To a log; or why it cannot be read.
    Log(Result<Box<LoggedReport>, String>),
}

/// What is asked about code. Each takes time, so only what is needed is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// [`Fact::covered`].
    Covered,
    /// [`Fact::toolchain`].
    Toolchain,
    /// [`Fact::function`] and [`Fact::file`].
    Function,
    /// [`Fact::marking`] and [`Fact::whole`].
    Marking,
}

/// What the source says of an address, as far as it was asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fact {
    /// Whether there is debug information.
    #[serde(skip_serializing_if = "is_false")]
    pub covered: bool,
    /// Whether it was compiled with the toolchain, not by the user.
    #[serde(skip_serializing_if = "is_false")]
    pub toolchain: bool,
    /// The function that it belongs to, callers of inlined ones before these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file of that function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether the access is atomic or volatile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marking: Option<Marking>,
    /// Whether what it accesses is a variable of its own, and no part of anything larger.
    #[serde(skip_serializing_if = "is_false")]
    pub whole: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}
