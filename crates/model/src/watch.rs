//! Watches: what a debug register is set to.

use crate::Bytes;

/// Which accesses a watch fires on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFor {
    /// Writes.
    Writes,
    /// Reads and writes: the hardware cannot watch for reads alone.
    ReadsAndWrites,
}

/// What a debug register is to watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// The bytes; one register must be able to cover them.
    pub bytes: Bytes,
    /// Which accesses.
    pub watch_for: WatchFor,
    /// Returned with each hit.
    pub number: u64,
}
