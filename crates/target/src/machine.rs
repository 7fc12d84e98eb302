//! A backend of the window driver, and how it can fail or end.

use crate::{Batch, Control, Inspect};
use std::io;
use thiserror::Error;

/// What the window driver needs of a backend.
pub trait Machine: Control + Inspect + Batch {}

impl<T: Control + Inspect + Batch> Machine for T {}

/// Why a target cannot be started or driven.
#[derive(Debug, Error)]
pub enum TargetError {
    /// There is no such program.
    #[error("cannot start {program}: {why}")]
    NotFound {
        /// The program as it was given.
        program: String,
        /// What is wrong.
        why: String,
    },
    /// There is one, but it cannot be run or traced.
    #[error("cannot run {program}: {why}")]
    NotRunnable {
        /// The program as it was given.
        program: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried, and what to do if it is refused.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// What was asked for is not possible on this machine.
    #[error("{0}")]
    Unsupported(String),
}
