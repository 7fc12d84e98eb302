//! The plain data and pure rules of Redhanded: sites, accesses, windows, collisions
//! and races; when two accesses conflict, what counts as a loss, and what makes two
//! collisions the same race.
//!
//! All other crates speak in these types. Nothing here does I/O, and nothing knows how
//! a live target is driven or how a file is parsed.

mod access;
mod address;
mod candidate;
mod class;
mod context;
mod counts;
mod evidence;
mod fingerprint;
mod library;
mod lock;
mod loss;
mod notation;
mod pair;
mod place;
mod race;
mod registers;
mod run;
mod shown;
mod site;
pub mod system_call;
mod triage;
mod usage;
mod value;
mod vectors;
mod verdict;
mod watch;
mod window;

pub use access::{AccessKind, Bytes, pieces};
pub use address::{Avma, ModuleId, SpaceId, Svma, TaskId};
pub use candidate::{Candidate, Fit, HuntOutcome, Hunted, Pursuit, Sighting, Spot};
pub use class::{Class, Rule, Sort, classify, excluded};
pub use context::{Context, ContextKind};
pub use counts::Counts;
pub use evidence::{
    Certainty, Change, Covered, Declared, Doubt, Evidence, Expression, Extent, Fact, Form, Known,
    Marking, Provenance, SideEvidence, SourceEvidence,
};
pub use fingerprint::{Fingerprint, UNKNOWN_ORIGIN};
pub use library::{Allocator, allocator, is_runtime, library_function, memory_function};
pub use lock::{LockCall, lock_call};
pub use loss::{Loss, Losses};
pub use notation::rounded;
pub use pair::{MOST_PAIRS, Pair};
pub use place::unversioned;
pub use race::{
    AccessReport, Analysed, Analysis, BitField, Creation, Frame, Line, Pointee, PointeeSource,
    Race, RaceStanding, Region, SeenBy, Suspect, ThreadName, Values, What,
};
pub use registers::{Register, Registers};
pub use run::{
    Crash, CrashWindow, Ending, Quote, Recorded, Report, Run, SiteCounts, Standstill, Unseen,
};
pub use shown::ShownPlace;
pub use site::{Excluded, Exclusions, Site};
pub use triage::{Grounds, State, Suppressed, Triage};
pub use usage::{Bits, History, Step, Usage, Use};
pub use value::{AccessValue, Block, Typed};
pub use vectors::{SavedVectors, Vectors};
pub use verdict::{
    ANNOTATED_BENIGN, ANNOTATED_PROTECTED, Call, Differing, FAILED_REPLAY, GAUGE, Leaning, Leans,
    MARKED, ReplayTally, SAFE_FLAG, STATISTICS_COUNTER, TELLS, Verdict, combine,
};
pub use watch::{Watch, WatchFor};
pub use window::{Delays, Hit, Strategy, WindowEnd, WindowId, WindowPlan, WindowRecord};
