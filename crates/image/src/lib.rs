//! A file becomes facts: ELF, DWARF, unwind tables and instructions turned into
//! functions, sites, source lines, inlined frames, variables and fields.
//!
//! Takes paths and bytes, gives facts about a *file*; never sees a live target.
//! What it is asked about a running program it answers from the file alone, in
//! [`Svma`](redhanded_model::Svma)s. Everything expensive is done on first use.
//! Foreign bytes never make it panic: what cannot be parsed is an error or a
//! counted omission.

mod code;
mod debug;
mod elf;
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
