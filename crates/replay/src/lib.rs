//! The virtual processor: re-executes two threads over copied memory, in every order that
//! matters, and says whether the order makes a difference.
//!
//! It takes a [`Scene`] (the registers of two threads that stand at a race) and a source of
//! [`Memory`], and gives a [`Judgement`]. It never sees the live target: what the source
//! says of a page is what the threads see. The same question has the same answer on every
//! run.
//!
//! Nothing is executed in the calling process. A [`Worker`], a child locked down before it
//! hears the first question, does that; it has no files, cannot make system calls that
//! matter, and is killed when it takes too long. What it refuses to execute ends a thread's
//! region: that is data, not an error.

mod alone;
mod bytes;
mod client;
mod compare;
mod digest;
mod follow;
mod judge;
mod keeper;
mod landmark;
mod liveness;
mod machine;
mod memory;
mod native;
mod outcome;
mod ranges;
mod scenario;
mod scene;
mod schedule;
mod state;
mod steady;
mod undo;
mod wire;
mod worker;
mod xsave;

pub use alone::{AloneStep, Goal, Stretch, Stretched, Word};
pub use bytes::Bytes;
pub use client::{Alone, Worker, WorkerError};
pub use digest::digest;
pub use follow::{Followed, Part, Step};
pub use keeper::{Keeper, Workers};
pub use machine::Mode;
pub use memory::{Fetched, Keeping, Memory, PAGE, Page, Snapshot, page_of};
pub use outcome::{
    Call, Difference, End, Ended, Failure, Fault, Judgement, Order, Outcome, Side, Trap, number,
};
pub use ranges::Ranges;
pub use scenario::{MappedFile, Scenario, ScenarioError, SourceLine, pack, unpack};
pub use scene::{Limits, Scene, Start};
pub use state::{State, Vectors, flag};
pub use wire::Ran;
pub use worker::{serve, serve_on};
