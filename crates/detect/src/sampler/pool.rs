//! A set of sites with constant-time removal, of a random site or of a given one.

use super::Index;

/// The position of a site that is not in the set.
const ABSENT: u32 = u32::MAX;

/// The sites that can be drawn, in no order.
#[derive(Default)]
pub struct Pool {
    members: Vec<Index>,
    /// The position of each site among the members.
    position: Vec<u32>,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn contains(&self, index: Index) -> bool {
        self.position
            .get(index as usize)
            .is_some_and(|position| *position != ABSENT)
    }

    /// The one at a position below [`Pool::len`].
    pub fn at(&self, position: usize) -> Index {
        self.members[position]
    }

    pub fn add(&mut self, index: Index) {
        if self.contains(index) {
            return;
        }
        if self.position.len() <= index as usize {
            self.position.resize(index as usize + 1, ABSENT);
        }
        self.position[index as usize] = self.members.len() as u32;
        self.members.push(index);
    }

    pub fn remove(&mut self, index: Index) {
        if !self.contains(index) {
            return;
        }
        let position = std::mem::replace(&mut self.position[index as usize], ABSENT) as usize;
        self.members.swap_remove(position);
        if let Some(moved) = self.members.get(position) {
            self.position[*moved as usize] = position as u32;
        }
    }

    pub fn retain(&mut self, keep: impl Fn(&Index) -> bool) {
        let gone: Vec<Index> = self.members.iter().copied().filter(|i| !keep(i)).collect();
        for index in gone {
            self.remove(index);
        }
    }
}

impl Extend<Index> for Pool {
    fn extend<T: IntoIterator<Item = Index>>(&mut self, sites: T) {
        for index in sites {
            self.add(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0u32..40), 0..200)) {
            let (mut pool, mut set) = (Pool::default(), BTreeSet::new());
            for (add, index) in steps {
                if add {
                    pool.add(index);
                    set.insert(index);
                } else {
                    pool.remove(index);
                    set.remove(&index);
                }
                let members: BTreeSet<Index> = (0..pool.len()).map(|at| pool.at(at)).collect();
                prop_assert_eq!(&members, &set);
                prop_assert_eq!(pool.len(), set.len());
                prop_assert!((0..40).all(|i| pool.contains(i) == set.contains(&i)));
            }
        }
    }
}
