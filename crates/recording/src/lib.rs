//! Recordings: what every thread of an execution did, in a file.
//!
//! The recorder runs inside the program and writes [`wire`] entries; a [`Writer`] keeps them in a
//! file as they came, compressed. A [`Recording`] reads them back thread by thread, [`steps`] puts
//! those of all threads of a process into one order, and [`translate`] makes events of them.
//!
//! A file that was cut anywhere, or damaged, is read up to there. Nothing in a file is trusted:
//! no file makes a reader panic, hang or use more memory than the limits in `reader.rs` allow.

#![forbid(unsafe_code)]

mod blocks;
mod container;
mod entries;
mod notes;
mod reader;
mod steps;
mod stretches;
pub mod translate;
pub mod wire;
mod writer;

pub use blocks::Source;
pub use container::is_recording;
pub use entries::{Entries, Item, MOST_VALUES};
pub use notes::{Counts, Ending, Header, Hello, Module, Part, Unmapped};
pub use reader::{MOST_THREADS, Mapped, Process, Recording, RecordingError, Thread};
pub use steps::{Damage, Step, became_another, steps};
pub use stretches::{Code, Instruction, Load, Registers, Stretch, Stretches, Until};
pub use writer::Writer;
