//! Reads a program's files: ELF, DWARF, unwind tables and instructions become functions,
//! sites, source lines, inlined frames, variables and fields.
//!
//! The crate takes paths and bytes and returns facts about a *file*. It never sees a live
//! target, and all its addresses are [`Svma`](redhanded_model::Svma)s. Expensive work is done
//! on first use. Untrusted bytes never make it panic: what cannot be parsed is an error or a
//! counted omission.

mod ahead;
mod budget;
mod carried;
mod changed;
mod code;
mod debug;
mod dropped;
mod elf;
mod file_bytes;
mod form;
mod found;
mod frames;
mod functions;
mod identity;
mod instruction;
pub mod kernel_file;
mod kernel_text;
mod layout;
mod likeness;
mod link;
mod live;
mod named;
mod parallel;
mod plt;
mod restartable;
mod returns;
mod selection;
mod sequence;
mod sites;
mod stored;
mod string_functions;
mod unwind;
mod update;
mod usage;
mod vector_copy;

pub use carried::Carried;
pub use debug::{
    CarriedSource, DebugInfo, DebugSearch, How, Named, Part, Pointed, Reading, Shown, Source,
    SourceFrame, SourceText, Step, Variable,
};
pub use elf::{Image, ImageError, Segment};
pub use functions::{Function, Functions};
pub use identity::FileIdentity;
pub use instruction::{Access, After, Flow, Gather, Instruction, Operand, SegmentBase};
pub use link::{LinkError, link};
pub use parallel::start_threads;
pub use selection::{
    Selected, Selection, SelectionError, SourceFacts, Spots, Suspected, fit_of_race, is_runtime,
    is_within_rust_runtime,
};
#[doc(hidden)]
pub use sites::decode_forged_sites;
pub use sites::{SamplingSet, SiteCache};
pub use string_functions::{Stop, StringFunction, Text};
pub use unwind::Unwinder;
pub use usage::Updates;
