//! The threads of a stream: small indices for them, and whether the stream keeps its rules.

use crate::shadow::QuickHash;
use crate::{Event, What};
use redhanded_model::TaskId;
use std::collections::HashMap;

/// The regions of a thread are known by the number of the sequencer that began them. A sequencer
/// is a region of its own, because what it does comes after all that ended before it and before
/// all that begins after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Region(u64);

impl Region {
    /// The moment of a sequencer.
    pub const fn moment(number: u64) -> Self {
        Self(number.saturating_mul(2).saturating_add(2))
    }

    /// What comes after a sequencer.
    pub const fn after(number: u64) -> Self {
        Self(number.saturating_mul(2).saturating_add(3))
    }

    /// What comes before the first sequencer of a thread.
    pub const FIRST: Self = Self(1);

    /// The number of the sequencer.
    pub const fn number(self) -> u64 {
        (self.0 / 2).saturating_sub(1)
    }

    /// The region of that rank.
    pub const fn at_rank(rank: u64) -> Self {
        Self(rank)
    }

    /// A number that grows from region to region, and is never 0.
    pub const fn rank(self) -> u64 {
        self.0
    }
}

/// Indices of threads, and the check of the stream's rules.
#[derive(Default)]
pub struct Threads {
    indices: HashMap<TaskId, u32, QuickHash>,
    ids: Vec<TaskId>,
    latest: Option<(TaskId, u32)>,
    /// The last sequencer of the stream, and whose it was: only that thread's unnumbered events
    /// may follow.
    sequencer: Option<(u64, TaskId)>,
    broken: u64,
}

impl Threads {
    /// The index of a thread, and whether it is new.
    pub fn index(&mut self, id: TaskId) -> (u32, bool) {
        if let Some((latest, index)) = self.latest
            && latest == id
        {
            return (index, false);
        }
        let next = self.ids.len();
        let mut is_new = false;
        let ids = &mut self.ids;
        let index = *self.indices.entry(id).or_insert_with(|| {
            is_new = true;
            ids.push(id);
            u32::try_from(next).expect("thread numbers are of 32 bits")
        });
        self.latest = Some((id, index));
        (index, is_new)
    }

    /// The index of a thread that has been seen.
    pub fn known(&self, id: TaskId) -> Option<u32> {
        self.indices.get(&id).copied()
    }

    /// The thread of an index.
    pub fn id(&self, index: u32) -> TaskId {
        self.ids[index as usize]
    }

    /// Checks that the event may come here, and counts it if it may not.
    pub fn check(&mut self, event: &Event) {
        let is_access = matches!(event.what, What::Access(_));
        let in_order = match event.number {
            Some(number) => self.sequencer.is_none_or(|(last, _)| last < number),
            None if !is_access => false,
            None => self
                .sequencer
                .is_none_or(|(_, thread)| thread == event.thread),
        };
        if let Some(number) = event.number {
            self.sequencer = Some((number, event.thread));
        }
        self.broken += u64::from(!in_order);
    }

    /// How many events came where they must not.
    pub const fn broken(&self) -> u64 {
        self.broken
    }
}
