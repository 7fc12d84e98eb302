//! Barriers that more threads use than they are for.
//!
//! The number of a call is drawn before the thread arrives. If more threads are at a barrier than
//! it lets through, nothing shows which of them met. Then whoever departs comes after all that
//! arrived before.

use redhanded_analysis::{Object, ObjectKind};
use std::collections::HashMap;

/// More are not remembered.
const MOST: usize = 1 << 16;

/// The barriers of a process.
#[derive(Default)]
pub struct Barriers(HashMap<u64, Barrier>);

#[derive(Default)]
struct Barrier {
    /// How many threads meet, if that was seen.
    count: Option<u32>,
    /// How many are there.
    inside: u32,
    is_crowded: bool,
}

impl Barriers {
    /// A barrier is for as many threads.
    pub fn init(&mut self, barrier: u64, count: u32) {
        self.put(barrier, |known| {
            *known = Barrier {
                count: Some(count),
                ..Barrier::default()
            };
        });
    }

    /// A thread arrives.
    pub fn arrived(&mut self, barrier: u64) {
        self.put(barrier, |known| {
            known.inside = known.inside.saturating_add(1);
            known.is_crowded |= known.count.is_none_or(|count| known.inside > count);
        });
    }

    /// A thread departs. Says whether nobody knows whom it met.
    pub fn departed(&mut self, barrier: u64) -> bool {
        self.0.get_mut(&barrier).is_none_or(|known| {
            known.inside = known.inside.saturating_sub(1);
            known.is_crowded
        })
    }

    fn put(&mut self, barrier: u64, change: impl FnOnce(&mut Barrier)) {
        if self.0.len() < MOST || self.0.contains_key(&barrier) {
            change(self.0.entry(barrier).or_default());
        }
    }
}

/// What stands for all that arrived at a barrier.
pub const fn all_of(barrier: u64) -> Object {
    Object {
        kind: ObjectKind::Channel,
        id: barrier,
    }
}
