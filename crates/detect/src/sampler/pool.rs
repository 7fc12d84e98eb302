//! A set of sites from which any can be taken, by chance or by name, at once.

use super::Index;

/// Not in the set.
const OUT: u32 = u32::MAX;

/// The sites that can be drawn, in no order.
#[derive(Default)]
pub struct Pool {
    members: Vec<Index>,
    /// Where each site stands among the members.
    place: Vec<u32>,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn contains(&self, index: Index) -> bool {
        self.place
            .get(index as usize)
            .is_some_and(|place| *place != OUT)
    }

    /// The one at a place below [`Pool::len`].
    pub fn at(&self, place: usize) -> Index {
        self.members[place]
    }

    pub fn add(&mut self, index: Index) {
        if self.contains(index) {
            return;
        }
        if self.place.len() <= index as usize {
            self.place.resize(index as usize + 1, OUT);
        }
        self.place[index as usize] = self.members.len() as u32;
        self.members.push(index);
    }

    pub fn remove(&mut self, index: Index) {
        if !self.contains(index) {
            return;
        }
        let place = std::mem::replace(&mut self.place[index as usize], OUT) as usize;
        self.members.swap_remove(place);
        if let Some(moved) = self.members.get(place) {
            self.place[*moved as usize] = place as u32;
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
