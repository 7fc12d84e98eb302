//! Draws sites, plans windows, keeps the budget, confirms what windows report,
//! and folds collisions into races.
//!
//! [`watch`] is the loop: it drives any [`Target`](redhanded_target::Target) and
//! never asks which. What it confirms it pushes to a [`Sink`]; a [`Folder`]
//! behind it names the code and data, decides the class and folds collisions
//! that share a fingerprint, on another thread if need be, because reading debug
//! information takes longer than a thread may be held.

mod budget;
mod confirm;
mod crash;
mod fold;
mod naming;
mod random;
mod sampler;
mod session;
mod special;
mod suspects;
mod system_call;

pub use budget::{Budget, CREDIT};
pub use confirm::{Collision, Confirmed, confirm};
pub use crash::name_crash;
pub use fold::{Finding, Folded, Folder};
pub use random::Random;
pub use sampler::{Sampler, Start};
pub use session::{Options, Outcome, Sink, Standing, watch};
