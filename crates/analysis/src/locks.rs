//! Sets of locks as small numbers.
//!
//! A program has few different sets of locks, however many variables it has. Each set gets an
//! index that stays valid; the result of each operation on two indices is kept, so that it is
//! computed once.

use crate::Object;
use crate::shadow::QuickHash;
use std::collections::HashMap;

/// The index of a set of locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockSet(u32);

impl LockSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
}

/// All sets so far.
pub struct LockSets {
    sets: Vec<Box<[Object]>>,
    indices: HashMap<Box<[Object]>, LockSet, QuickHash>,
    intersections: HashMap<(LockSet, LockSet), LockSet, QuickHash>,
    added: HashMap<(LockSet, Object), LockSet, QuickHash>,
    removed: HashMap<(LockSet, Object), LockSet, QuickHash>,
}

impl Default for LockSets {
    fn default() -> Self {
        Self {
            sets: vec![Box::default()],
            indices: HashMap::from_iter([(Box::default(), LockSet::EMPTY)]),
            intersections: HashMap::default(),
            added: HashMap::default(),
            removed: HashMap::default(),
        }
    }
}

impl LockSets {
    /// The locks of a set, in ascending order.
    pub fn locks(&self, set: LockSet) -> &[Object] {
        &self.sets[set.0 as usize]
    }

    /// The locks that are in both sets.
    pub fn intersection(&mut self, first: LockSet, second: LockSet) -> LockSet {
        if first == second {
            return first;
        }
        let key = if first.0 < second.0 {
            (first, second)
        } else {
            (second, first)
        };
        if key.0 == LockSet::EMPTY {
            return LockSet::EMPTY;
        }
        if let Some(known) = self.intersections.get(&key) {
            return *known;
        }
        let others = self.locks(key.1);
        let both = self.locks(key.0).iter().copied();
        let both = both
            .filter(|lock| others.binary_search(lock).is_ok())
            .collect();
        let set = self.index(both);
        self.intersections.insert(key, set);
        set
    }

    /// A set and one more lock.
    pub fn with(&mut self, set: LockSet, lock: Object) -> LockSet {
        if let Some(known) = self.added.get(&(set, lock)) {
            return *known;
        }
        let mut locks = self.locks(set).to_vec();
        if let Err(place) = locks.binary_search(&lock) {
            locks.insert(place, lock);
        }
        let with = self.index(locks);
        self.added.insert((set, lock), with);
        with
    }

    /// A set without a lock.
    pub fn without(&mut self, set: LockSet, lock: Object) -> LockSet {
        if let Some(known) = self.removed.get(&(set, lock)) {
            return *known;
        }
        let mut locks = self.locks(set).to_vec();
        locks.retain(|held| *held != lock);
        let without = self.index(locks);
        self.removed.insert((set, lock), without);
        without
    }

    fn index(&mut self, locks: Vec<Object>) -> LockSet {
        let locks = locks.into_boxed_slice();
        if let Some(known) = self.indices.get(&locks) {
            return *known;
        }
        let set = LockSet(u32::try_from(self.sets.len()).expect("fewer sets than events"));
        self.sets.push(locks.clone());
        self.indices.insert(locks, set);
        set
    }
}
