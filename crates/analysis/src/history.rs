//! The accesses to a word that a later access may race with.
//!
//! FastTrack keeps the last write and the reads after it, which finds the first race of a word.
//! Here every pair of sites is wanted, so the latest access of each thread by each site stays.
//! The latest is enough: whatever is not ordered after an earlier one is not ordered after it
//! either. It may be possibly ordered where the earlier one is not; then the pair is called
//! suspect although an instance was unordered. What every thread knows of is dropped when a list grows long. Accesses are looked
//! through one by one only where something is found: two stamps for each thread, of its last read
//! and of its last write, tell whether there is anything, as epochs do in FastTrack.

use crate::shadow::Word;
use crate::threads::Region;
use crate::{Access, Atomicity, Place};
use redhanded_model::AccessKind;

/// A list is looked through for what is no longer needed when it has this many entries, and then
/// each time it has doubled.
const LONG: usize = 16;

/// An access to some bytes of a word.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// In which region of its thread.
    pub region: Region,
    /// Where in the code.
    pub place: Place,
    /// At which tick of its thread.
    pub tick: u32,
    /// The index of the thread.
    pub thread: u32,
    /// Which bytes of the word.
    pub mask: u8,
    /// What was done.
    pub kind: AccessKind,
    /// Whether it was atomic.
    pub atomicity: Atomicity,
    /// The latest region, up to this access, in which its thread read something that may have
    /// acquired. What overlaps that region may come before this access.
    pub followed: Option<Region>,
    /// Whether that may order it after the other access of a pair.
    pub may_follow: bool,
}

impl Entry {
    /// An access to the bytes of `mask`, of nobody and at no time yet.
    pub const fn new(place: Place, access: &Access, thread: u32, region: Region) -> Self {
        Self {
            region,
            place,
            tick: 0,
            thread,
            mask: 0,
            kind: access.kind,
            atomicity: access.atomicity,
            followed: None,
            may_follow: false,
        }
    }

    /// Whether the two are of different threads and conflict.
    pub const fn conflicts(&self, other: &Self) -> bool {
        self.thread != other.thread
            && self.mask & other.mask != 0
            && self.kind.conflicts(other.kind)
            && !(self.atomicity.is_atomic() && other.atomicity.is_atomic())
    }

    /// Whether what the other one reads may have been written, and released, by this one.
    pub const fn may_release_to(&self, other: &Self) -> bool {
        self.thread != other.thread
            && self.mask & other.mask != 0
            && self.kind.writes()
            && self.atomicity.releases()
    }

    /// Whether a thread did the same at the same place, to whatever bytes.
    pub fn is_by_the_same_site(&self, other: &Self) -> bool {
        self.thread == other.thread
            && self.place == other.place
            && self.kind == other.kind
            && self.atomicity == other.atomicity
    }

    /// Whether a later one of the two may take the place of the other.
    fn is_like(&self, other: &Self) -> bool {
        self.is_by_the_same_site(other)
            && self.mask == other.mask
            && self.followed == other.followed
    }
}

/// The accesses to a word, by thread. Most words are used by one thread only.
#[derive(Default)]
pub struct History {
    first: Option<Lane>,
    others: Vec<Lane>,
}

/// The accesses of one thread to a word.
pub struct Lane {
    /// The latest one is apart: often the next access is the same.
    latest: Entry,
    older: Vec<Entry>,
    /// The highest stamps of accesses that only read, and of those that write. What is ordered
    /// after these is ordered after all, so that the accesses need not be looked through.
    read: u64,
    written: u64,
}

impl Lane {
    fn new(entry: Entry, stamp: u64) -> Self {
        let mut lane = Self {
            latest: entry,
            older: Vec::new(),
            read: 0,
            written: 0,
        };
        lane.raise(entry.kind, stamp);
        lane
    }

    fn raise(&mut self, kind: AccessKind, stamp: u64) {
        let highest = if kind.writes() {
            &mut self.written
        } else {
            &mut self.read
        };
        *highest = stamp.max(*highest);
    }

    /// The index of the thread.
    pub const fn thread(&self) -> u32 {
        self.latest.thread
    }

    /// The highest stamp of those accesses that one of this kind may conflict with.
    pub fn highest(&self, kind: AccessKind) -> u64 {
        if kind.writes() {
            self.read.max(self.written)
        } else {
            self.written
        }
    }

    /// The accesses, the latest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.latest).chain(&self.older)
    }

    fn add(&mut self, entry: Entry, stamp: u64, needed: impl Fn(&Entry) -> bool) {
        self.raise(entry.kind, stamp);
        let latest = std::mem::replace(&mut self.latest, entry);
        if latest.is_like(&entry) {
            return;
        }
        if let Some(same) = self.older.iter_mut().find(|older| older.is_like(&entry)) {
            *same = latest;
            return;
        }
        if self.older.len() >= LONG && self.older.len().is_power_of_two() {
            self.older.retain(needed);
        }
        self.older.push(latest);
    }
}

impl History {
    /// Whether the latest access of its thread was the same, in the same region and at the same
    /// tick: then there is nothing new to learn, because whoever came since was compared with it.
    pub fn repeats(&self, entry: &Entry) -> bool {
        let mut lanes = self.lanes();
        let lane = lanes.find(|lane| lane.thread() == entry.thread);
        lane.is_some_and(|lane| {
            let latest = &lane.latest;
            latest.is_like(entry) && latest.tick == entry.tick && latest.region == entry.region
        })
    }

    /// The accesses by thread.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.first.iter().chain(&self.others)
    }

    /// Adds an access. The stamp must not be lower than that of the same thread's earlier ones.
    /// `needed` says of an older access whether any access to come may race with it.
    pub fn add(&mut self, entry: Entry, stamp: u64, needed: impl Fn(&Entry) -> bool) {
        let Some(first) = &mut self.first else {
            self.first = Some(Lane::new(entry, stamp));
            return;
        };
        let mut lanes = std::iter::once(first).chain(&mut self.others);
        if let Some(lane) = lanes.find(|lane| lane.thread() == entry.thread) {
            lane.add(entry, stamp, needed);
        } else {
            if self.others.is_empty() {
                // There are as many words as the program shares, most of them by two threads.
                self.others.reserve_exact(1);
            }
            self.others.push(Lane::new(entry, stamp));
        }
    }
}

impl Word for History {
    fn forget(&mut self, mask: u8) {
        if mask == 0xff {
            *self = Self::default();
            return;
        }
        let lanes: Vec<Lane> = self
            .first
            .take()
            .into_iter()
            .chain(self.others.drain(..))
            .collect();
        for lane in lanes {
            let mut left = lane.entries().copied().filter_map(|entry| {
                let mask = entry.mask & !mask;
                (mask != 0).then_some(Entry { mask, ..entry })
            });
            if let Some(latest) = left.next() {
                let older = left.collect();
                self.others.push(Lane {
                    latest,
                    older,
                    ..lane
                });
            }
        }
    }
}
