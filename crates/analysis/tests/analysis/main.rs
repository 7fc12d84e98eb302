//! The analyses on hand-written traces, on the lecture's examples, and against naive ones.

mod happens_before;
mod laws;
mod lecture;
mod lockset;
mod naive;
mod random;
mod sequencers;
mod trace;
