//! What a recorded execution says about races: happens-before, sequencers, lockset.
//!
//! The crate takes the events of an execution, one after the other, and gives the pairs of sites
//! whose accesses conflicted. [`Event`] says what the events are and in which order they must
//! come; [`merge()`] puts those of single threads into that order. Each analysis is a type with
//! `push` and `finish`. [`Annotations`] say which accesses to leave out.
//!
//! | analysis | finds | can be wrong about |
//! |---|---|---|
//! | [`HappensBefore`] | conflicting accesses that no synchronisation ordered in this execution | synchronisation that is no event |
//! | [`Sequencers`] | those of them whose regions overlapped | the same |
//! | [`Lockset`] | variables that no lock protects consistently | orders that need no lock |
//!
//! A pair is *unordered* if nothing can have ordered it, and *suspect* if moves that may be atomic
//! could have. Nothing here is ever *caught*: that takes a live execution.
//!
//! Nothing is read or written, nothing is named, and no stream of events makes an analysis panic.
//! A stream that breaks the rules of its order proves nothing: all that is found from then on is
//! suspect.

#![forbid(unsafe_code)]

mod annotations;
mod clock;
mod event;
mod findings;
mod happens_before;
mod held;
mod history;
mod levels;
mod locks;
mod lockset;
mod merge;
mod objects;
mod possible;
mod sequencers;
mod shadow;
mod threads;

pub use annotations::Annotations;
pub use event::{Access, Atomicity, Event, Mode, Object, ObjectKind, Ordering, Place, What};
pub use findings::{Finding, Instance, Side, Standing};
pub use happens_before::HappensBefore;
pub use lockset::{Lockset, Refine, State, Suspicion};
pub use merge::{Merge, Sequenced, merge};
pub use sequencers::Sequencers;
