//! What a replay starts from.

use crate::machine::Mode;
use crate::state::State;
use serde::{Deserialize, Serialize};

/// How one thread stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Start {
    /// Before its access.
    Before(State),
    /// After it, as a watch leaves a thread. The access is undone where that can be
    /// solved.
    After {
        /// Its registers now.
        state: State,
        /// The instruction that made the access.
        ip: u64,
        /// The first byte that it accessed.
        address: u64,
        /// The first of these bytes of which is known what they held before.
        from: u64,
        /// What the bytes from there on held, as far as known.
        before: Vec<u8>,
    },
}

/// Two threads and the race between them. Memory comes on its own, on demand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scene {
    /// Whose code it is.
    pub mode: Mode,
    /// The threads, A and B.
    pub threads: [Start; 2],
    /// The bytes they race for, as start and end.
    pub race: Vec<(u64, u64)>,
    /// The signals that the program handles: a fault that raises one of them proves nothing.
    pub handled: u64,
}

/// How far a replay goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Instructions of one thread in one order.
    pub steps: u64,
    /// Orders that interrupt a thread between two accesses, for each thread.
    pub splits: u32,
    /// Orders of a weaker memory model, which delay a store, for each thread. None usually.
    pub delays: u32,
}

impl Limits {
    /// With orders of a weaker memory model.
    #[must_use]
    pub const fn with_weak_memory(self) -> Self {
        Self { delays: 4, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 3_000,
            splits: 8,
            delays: 0,
        }
    }
}
