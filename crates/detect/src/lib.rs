//! Draws sites, plans windows, keeps the budget, confirms what windows report, and
//! folds collisions into races.
//!
//! [`watch`] takes any [`Target`](redhanded_target::Target), whatever its backend, and
//! gives confirmed collisions to a [`Sink`]; what it cannot confirm it counts as a
//! loss. A [`Folder`] behind the sink names the code and data, decides the class and
//! folds collisions with the same fingerprint, on another thread if need be: reading
//! debug information takes longer than a thread may be held.

mod budget;
mod confirm;
mod crash;
mod fold;
mod naming;
mod random;
mod sampler;
mod sampling_loop;
mod special;
mod suspects;
mod system_call;

pub use budget::{Budget, CREDIT};
pub use confirm::{Collision, Confirmed, confirm};
pub use crash::name_crash;
pub use fold::{Finding, Folded, Folder};
pub use random::Random;
pub use sampler::{Sampler, Start};
pub use sampling_loop::{Options, Outcome, Sink, Standing, watch};
