//! What an analysis found: each pair of sites once, with its instances.

use crate::history::Entry;
use crate::shadow::{QuickHash, bytes_of};
use crate::threads::Threads;
use crate::{Atomicity, Place};
use redhanded_model::{AccessKind, Bytes, TaskId};
use std::collections::HashMap;

/// How many instances of a pair are kept whole. The others are counted.
const KEPT: usize = 16;

/// One of the two accesses of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// Whose access it was.
    pub thread: TaskId,
    /// Where in the code.
    pub place: Place,
    /// Which bytes, as far as they are in the word where the two met.
    pub bytes: Bytes,
    /// What was done to them.
    pub kind: AccessKind,
    /// Whether the access is an atomic one in the source.
    pub atomicity: Atomicity,
    /// The sequencer that the access is, or else the last one of its thread before it; 0 if there
    /// is none.
    pub sequencer: u64,
}

/// What is known about the order of two conflicting accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Standing {
    /// Nothing ordered them in this execution, not even if every move that may be atomic is.
    Unordered,
    /// Moves that may be atomic could have ordered them.
    Suspect,
}

/// Two conflicting accesses that met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance {
    /// What is known about their order.
    pub standing: Standing,
    /// The two accesses, in the order of the stream, which says nothing about their real order.
    pub sides: [Side; 2],
}

/// A pair of sites whose accesses conflicted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The two sites, the lower one first. They are equal if a site met itself.
    pub places: [Place; 2],
    /// How many instances are unordered. An access that its thread repeats at once, in the same
    /// region, counts once.
    pub unordered: u64,
    /// How many are suspect.
    pub suspect: u64,
    /// The first instances, unordered ones before suspect ones.
    pub instances: Vec<Instance>,
}

impl Finding {
    /// Unordered, if any instance is.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        if self.unordered > 0 {
            Standing::Unordered
        } else {
            Standing::Suspect
        }
    }

    /// Whether a side of the first instance may be an atomic access, so that the pair may be no
    /// race at all.
    #[must_use]
    pub fn possibly_atomic(&self) -> bool {
        self.instances.first().is_some_and(|instance| {
            let mut sides = instance.sides.iter();
            sides.any(|side| side.atomicity == Atomicity::Doubtful)
        })
    }
}

/// The two accesses of an instance as the histories have them.
#[derive(Clone, Copy)]
pub struct Met {
    /// The address of the word.
    pub word: u64,
    /// The two accesses.
    pub entries: [Entry; 2],
}

impl Met {
    /// Adds what was met in a word to what the same access met in other words. Accesses by one
    /// site in one region are met once.
    pub fn note(known: &mut Vec<Self>, word: u64, entries: [Entry; 2]) {
        let met = Self { word, entries };
        let alike = known.iter_mut().find(|known| {
            let first = &known.entries[0];
            first.place == entries[0].place && first.region == entries[0].region
        });
        match alike {
            Some(alike) if alike.may_be_ordered() && !met.may_be_ordered() => *alike = met,
            Some(_) => {}
            None => known.push(met),
        }
    }

    /// Whether something that one of the two read before may have ordered them.
    pub fn may_be_ordered(&self) -> bool {
        self.entries.iter().any(|entry| entry.may_follow)
    }
}

/// The pairs found so far, in the order in which they were first met.
#[derive(Default)]
pub struct Findings {
    indices: HashMap<[Place; 2], usize, QuickHash>,
    found: Vec<Finding>,
}

impl Findings {
    /// The pair of two sites.
    pub fn index(&mut self, first: Place, second: Place) -> usize {
        let places = [first.min(second), first.max(second)];
        *self.indices.entry(places).or_insert_with(|| {
            self.found.push(Finding {
                places,
                unordered: 0,
                suspect: 0,
                instances: Vec::new(),
            });
            self.found.len() - 1
        })
    }

    /// Adds instances of a pair, of which one is given.
    pub fn add(&mut self, pair: usize, standing: Standing, count: u64, met: &Met, ids: &Threads) {
        let finding = &mut self.found[pair];
        match standing {
            Standing::Unordered => finding.unordered += count,
            Standing::Suspect => finding.suspect += count,
        }
        let kept = &mut finding.instances;
        let place = kept.partition_point(|instance| instance.standing <= standing);
        if place < KEPT {
            kept.truncate(KEPT - 1);
            let sides = met.entries.map(|entry| Side {
                thread: ids.id(entry.thread),
                place: entry.place,
                bytes: bytes_of(met.word, entry.mask),
                kind: entry.kind,
                atomicity: entry.atomicity,
                sequencer: entry.region.number(),
            });
            kept.insert(place, Instance { standing, sides });
        }
    }

    /// All of them.
    pub fn finish(mut self) -> Vec<Finding> {
        self.found.retain(|finding| !finding.instances.is_empty());
        self.found
    }
}
