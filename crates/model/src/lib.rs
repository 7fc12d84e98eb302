//! The plain data and pure rules of Redhanded: sites, accesses, windows, collisions
//! and races; when two accesses conflict, what counts as a loss, and what makes two
//! collisions the same race.
//!
//! All other crates speak in these types. Nothing here does I/O, and nothing knows how
//! a live target is driven or how a file is parsed.

mod access;
mod address;
mod class;
mod context;
mod counts;
mod fingerprint;
mod loss;
mod notation;
mod race;
mod registers;
mod run;
mod site;
mod watch;
mod window;

pub use access::{AccessKind, Bytes, pieces};
pub use address::{Avma, ModuleId, SpaceId, Svma, TaskId};
pub use class::{AccessEvidence, Class, Evidence, Synchronisation, classify};
pub use context::{Context, ContextKind};
pub use counts::Counts;
pub use fingerprint::Fingerprint;
pub use loss::{Loss, Losses};
pub use notation::rounded;
pub use race::{
    AccessReport, BitField, Frame, Line, Race, Region, SeenBy, Suspect, ThreadName, Values, What,
};
pub use registers::{Register, Registers};
pub use run::{Crash, CrashWindow, Ending, Report, Run, SiteCounts, Standstill, Unseen};
pub use site::{Excluded, Exclusions, Site};
pub use watch::{Watch, WatchFor};
pub use window::{Delays, Hit, Strategy, WindowEnd, WindowId, WindowPlan, WindowRecord};
