//! Reads a program's files: ELF, DWARF, unwind tables and instructions become functions,
//! sites, source lines, inlined frames, variables and fields.
//!
//! The crate takes paths and bytes and returns facts about a *file*. It never sees a live
//! target, and all its addresses are [`Svma`](redhanded_model::Svma)s. Expensive work is done
//! on first use. Untrusted bytes never make it panic: what cannot be parsed is an error or a
//! counted omission.

mod budget;
mod code;
mod debug;
mod elf;
mod file_bytes;
mod frames;
mod functions;
mod identity;
mod instruction;
pub mod kernel_file;
mod kernel_text;
mod layout;
mod link;
mod live;
mod named;
mod plt;
mod selection;
mod sequence;
mod sites;
mod unwind;
mod update;

pub use debug::{DebugInfo, DebugSearch, How, Part, SourceFrame, SourceSync, Variable};
pub use elf::{Image, ImageError, Segment};
pub use functions::{Function, Functions};
pub use identity::FileIdentity;
pub use instruction::{Access, After, Flow, Instruction, Operand, SegmentBase};
pub use link::{LinkError, link};
pub use selection::{Selected, Selection, SelectionError, SourceFacts, is_runtime};
pub use sites::{SamplingSet, SiteCache, user_cache};
pub use unwind::Unwinder;
