//! Draws sites, plans windows, keeps the budget, confirms what windows report, and
//! folds collisions into races.
//!
//! [`watch`] takes any [`Target`](redhanded_target::Target), whatever its backend, and
//! gives confirmed collisions to a [`Sink`]; what it cannot confirm it counts as a
//! loss. A [`Folder`] behind the sink names the code and data, decides the class and
//! folds collisions with the same fingerprint, on another thread if need be: reading
//! debug information takes longer than a thread may be held.

mod around;
mod budget;
mod capture;
mod codes;
mod confirm;
mod crash;
mod evidence;
mod exposure;
mod fingerprint;
mod fold;
mod hunt;
mod merge;
mod naming;
mod over_read;
mod pointee;
mod random;
mod sampler;
mod sampling_loop;
mod sink;
mod suspects;
mod system_call;
mod tally;
mod typed;
mod usage;
mod ways;

pub use around::Around;
pub use budget::{Budget, CREDIT};
pub use capture::{Captured, Replay, replay};
pub use confirm::{Collision, Confirmed, confirm};
pub use crash::name_crash;
pub use evidence::{Sorted, Touch, sort_of};
pub use exposure::Exposure;
pub use fold::{Finding, Folded, Folder};
pub use hunt::Hunt;
pub use random::Random;
pub use sampler::{Sampler, Start};
pub use sampling_loop::{Options, Outcome, hunt, watch};
pub use sink::{Disposition, Sink};
pub use tally::{name_code, name_data, tally};
