//! Watches: what a debug register looks for.

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
    /// A run that one register covers.
    pub bytes: Bytes,
    /// Which accesses.
    pub watch_for: WatchFor,
    /// Comes back with hits.
    pub number: u64,
}
