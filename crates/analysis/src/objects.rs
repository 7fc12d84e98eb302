//! What threads synchronise with, as happens-before sees it: who releases one, and what whoever
//! acquires it learns.

use crate::clock::{Clock, Released};
use crate::levels::change;
use crate::shadow::{QuickHash, Shadow, Word, words_of};
use crate::{Mode, Object};
use redhanded_model::Bytes;
use std::collections::HashMap;

/// All objects but atomic variables.
#[derive(Default)]
pub struct Objects {
    objects: HashMap<Object, ByMode, QuickHash>,
    /// Locks that threads hold in shared mode, as often as they are in it.
    shared: Vec<(u32, Object)>,
    barriers: HashMap<u64, Barrier, QuickHash>,
    levels: HashMap<u32, u32, QuickHash>,
}

/// What was released by those who were alone, and by all.
#[derive(Default)]
struct ByMode {
    exclusive: Released,
    all: Released,
}

/// A barrier is used again and again. A thread may arrive for the next round while others have
/// not yet departed from this one.
#[derive(Default)]
struct Barrier {
    round: u64,
    /// Whether a thread has departed, so that the round is complete.
    is_complete: bool,
    rounds: HashMap<u64, Round, QuickHash>,
    /// The round that each thread is in.
    arrived: HashMap<u32, u64, QuickHash>,
}

#[derive(Default)]
struct Round {
    known: Released,
    inside: usize,
}

impl Objects {
    /// What a thread learns that acquires the object. Who shares a lock comes after those who held
    /// it alone, not after others who shared it.
    pub fn acquired(&mut self, thread: u32, object: Object, mode: Mode) -> Released {
        if mode == Mode::Shared {
            self.shared.push((thread, object));
        }
        let Some(known) = self.objects.get(&object) else {
            return Released::default();
        };
        match mode {
            Mode::Shared => known.exclusive.clone(),
            Mode::Exclusive => known.all.clone(),
        }
    }

    /// A thread releases the object.
    pub fn released(&mut self, thread: u32, object: Object, known: &Released) {
        let entry = self.objects.entry(object).or_default();
        entry.all.join(known);
        let held = self
            .shared
            .iter()
            .position(|held| *held == (thread, object));
        if let Some(held) = held {
            self.shared.swap_remove(held);
        } else {
            entry.exclusive.join(known);
        }
    }

    /// A thread comes to a barrier.
    pub fn arrived(&mut self, thread: u32, barrier: u64, known: &Released) {
        let barrier = self.barriers.entry(barrier).or_default();
        if std::mem::take(&mut barrier.is_complete) {
            barrier.round += 1;
        }
        let round = barrier.rounds.entry(barrier.round).or_default();
        round.known.join(known);
        if barrier.arrived.insert(thread, barrier.round) != Some(barrier.round) {
            round.inside += 1;
        }
    }

    /// A thread goes on after a barrier. Says what all have released who came to it.
    pub fn departed(&mut self, thread: u32, barrier: u64) -> Released {
        let Some(barrier) = self.barriers.get_mut(&barrier) else {
            return Released::default();
        };
        let round = barrier.arrived.remove(&thread).unwrap_or(barrier.round);
        barrier.is_complete |= round == barrier.round;
        let Some(entry) = barrier.rounds.get_mut(&round) else {
            return Released::default();
        };
        entry.inside = entry.inside.saturating_sub(1);
        if entry.inside > 0 {
            return entry.known.clone();
        }
        let last = barrier.rounds.remove(&round);
        last.map(|round| round.known).unwrap_or_default()
    }

    /// A processor changes its interrupt level, and so acquires or releases the locks that stand
    /// for levels. Says what it learns.
    pub fn set_level(&mut self, thread: u32, level: u32, known: &Released) -> Released {
        let change = change(self.levels.insert(thread, level).unwrap_or(0), level);
        let mut learned = Released::default();
        for object in change.acquired() {
            learned.join(&self.acquired(thread, object, Mode::Exclusive));
        }
        for object in change.released() {
            self.released(thread, object, known);
        }
        learned
    }
}

/// Atomic variables: what certain atomic writes released.
#[derive(Default)]
pub struct Atomics(Shadow<Writes>);

#[derive(Default)]
struct Writes(Vec<(u8, Clock<u32>)>);

impl Word for Writes {
    fn forget(&mut self, mask: u8) {
        self.0.retain_mut(|(bytes, _)| {
            *bytes &= !mask;
            *bytes != 0
        });
    }
}

impl Atomics {
    /// Raises the clock of a reader by what was written to these bytes.
    pub fn read(&mut self, bytes: Bytes, reader: &mut Clock<u32>) {
        for (word, mask) in words_of(bytes) {
            let Some(writes) = self.0.existing(word) else {
                continue;
            };
            for (_, known) in writes.0.iter().filter(|(written, _)| written & mask != 0) {
                reader.join(known);
            }
        }
    }

    /// A write releases what its thread knows.
    pub fn write(&mut self, bytes: Bytes, known: &Clock<u32>) {
        for (word, mask) in words_of(bytes) {
            let writes = &mut self.0.word(word).0;
            match writes.iter_mut().find(|(written, _)| *written == mask) {
                Some((_, released)) => {
                    released.join(known);
                }
                None => writes.push((mask, known.clone())),
            }
        }
    }

    /// Memory begins a new life, or ends one.
    pub fn forget(&mut self, bytes: Bytes) {
        self.0.forget(bytes);
    }
}
