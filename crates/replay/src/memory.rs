//! Where memory comes from: a catch, a stored scenario, or a recording.

use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The size of a page.
pub const PAGE: u64 = 4096;

/// The page that an address is in.
#[must_use]
pub const fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The bytes of one page and what may be done with them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page {
    /// What it holds.
    pub bytes: Box<Bytes<4096>>,
    /// Whether the threads may write to it.
    pub writable: bool,
    /// Whether the threads may run it.
    pub executable: bool,
}

/// What a source says of a page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Fetched {
    /// Its bytes.
    Page(Page),
    /// Nothing is mapped there: a thread that touches it faults.
    Unmapped,
    /// The source does not know. A thread that touches it has to stop.
    Unknown,
    /// The page changes by itself, as the clock pages of the vDSO do. Touching it ends a
    /// region.
    Changing,
}

/// Memory as both threads see it at the start. Asked once for each page that they touch.
pub trait Memory {
    /// The page at this address, which is a multiple of [`PAGE`].
    fn fetch(&mut self, page: u64) -> Fetched;

    /// What was fetched will be fetched again, to see whether it has changed.
    fn look_again(&mut self) {}
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn fetch(&mut self, page: u64) -> Fetched {
        (**self).fetch(page)
    }

    fn look_again(&mut self) {
        (**self).look_again();
    }
}

/// Pages kept in memory: what a stored scenario has, and what tests make.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pages: BTreeMap<u64, Fetched>,
    /// What to say of pages that are not listed.
    complete: bool,
}

impl Snapshot {
    /// No pages yet. In a complete snapshot a page that is missing is unmapped; otherwise
    /// it is unknown.
    #[must_use]
    pub const fn new(complete: bool) -> Self {
        Self {
            pages: BTreeMap::new(),
            complete,
        }
    }

    /// Keeps what a source said of a page.
    pub fn insert(&mut self, page: u64, fetched: Fetched) {
        self.pages.insert(page_of(page), fetched);
    }

    /// Writes bytes, on new writable pages where there are none yet.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let page = self.page(at);
            page.bytes.0[(at % PAGE) as usize] = *byte;
        }
    }

    /// The page of an address, made if it is not there yet.
    pub fn page(&mut self, address: u64) -> &mut Page {
        let fetched = self
            .pages
            .entry(page_of(address))
            .or_insert(Fetched::Unknown);
        if !matches!(fetched, Fetched::Page(_)) {
            *fetched = Fetched::Page(Page {
                bytes: Box::default(),
                writable: true,
                executable: true,
            });
        }
        let Fetched::Page(page) = fetched else {
            unreachable!("it was just made a page")
        };
        page
    }

    /// The page at this address, which is a multiple of [`PAGE`], if it has its bytes.
    #[must_use]
    pub fn get(&self, page: u64) -> Option<&Page> {
        match self.pages.get(&page)? {
            Fetched::Page(page) => Some(page),
            Fetched::Unmapped | Fetched::Unknown | Fetched::Changing => None,
        }
    }

    /// How many pages with bytes it has.
    #[must_use]
    pub fn pages(&self) -> usize {
        let with_bytes = |f: &&Fetched| matches!(f, Fetched::Page(_));
        self.pages.values().filter(with_bytes).count()
    }
}

impl Memory for Snapshot {
    fn fetch(&mut self, page: u64) -> Fetched {
        let missing = if self.complete {
            Fetched::Unmapped
        } else {
            Fetched::Unknown
        };
        self.pages.get(&page).cloned().unwrap_or(missing)
    }
}

/// Hands on what another source says and keeps it: afterwards it has all that one replay
/// used, which is what a scenario stores and what is to be read again for changes.
#[derive(Debug)]
pub struct Keeping<M> {
    source: M,
    /// What was used.
    pub kept: Snapshot,
}

impl<M: Memory> Keeping<M> {
    /// Nothing was used yet.
    pub const fn new(source: M) -> Self {
        Self {
            source,
            kept: Snapshot::new(false),
        }
    }

    /// Asks the source again, and gives the pages that have changed since: any of their bytes
    /// that were used (as start and end, see [`crate::Judgement::used`]), any byte of code, or
    /// what may be done with them.
    pub fn changed(&mut self, used: &[(u64, u64)]) -> Vec<u64> {
        let Self { source, kept } = self;
        source.look_again();
        let changed = |(page, before): (&u64, &Fetched)| {
            let same = match (before, source.fetch(*page)) {
                (Fetched::Page(before), Fetched::Page(now)) => {
                    let may = |p: &Page| (p.writable, p.executable);
                    let whole = before.executable && before.bytes == now.bytes;
                    may(before) == may(&now)
                        && (whole
                            || !before.executable && same_where_used(*page, before, &now, used))
                }
                (before, now) => *before == now,
            };
            (!same).then_some(*page)
        };
        kept.pages.iter().filter_map(changed).collect()
    }
}

fn same_where_used(page: u64, before: &Page, now: &Page, used: &[(u64, u64)]) -> bool {
    used.iter().all(|(start, end)| {
        let from = start.saturating_sub(page).min(PAGE) as usize;
        let to = end.saturating_sub(page).min(PAGE) as usize;
        before.bytes.0[from..to] == now.bytes.0[from..to]
    })
}

impl<M: Memory> Memory for Keeping<M> {
    fn fetch(&mut self, page: u64) -> Fetched {
        let fetched = self.source.fetch(page);
        self.kept.insert(page, fetched.clone());
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_were_used_count_as_changed() {
        let mut snapshot = Snapshot::new(true);
        snapshot.write(0x1000, &[1, 2, 3]);
        snapshot.page(0x1000).executable = false;
        let mut keeping = Keeping::new(snapshot);
        keeping.fetch(0x1000);
        keeping.fetch(0x5000);
        keeping.source.write(0x1002, &[9]);
        assert!(
            keeping
                .changed(&[(0x1000, 0x1002), (0x900, 0x980)])
                .is_empty()
        );
        assert_eq!(keeping.changed(&[(0xfff, 0x1003)]), [0x1000]);
        keeping.source.write(0x5000, &[1]);
        assert_eq!(keeping.changed(&[]), [0x5000], "it was unmapped");
    }

    #[test]
    fn a_snapshot_says_the_same_after_it_was_stored() {
        let mut snapshot = Snapshot::new(false);
        snapshot.write(0x1ffe, &[1, 2, 3]);
        snapshot.insert(0x9000, Fetched::Changing);
        let stored = postcard::to_allocvec(&snapshot).expect("stored");
        let mut again: Snapshot = postcard::from_bytes(&stored).expect("read");
        assert_eq!(again, snapshot);
        assert_eq!(again.pages(), 2);
        assert_eq!(again.fetch(0x3000), Fetched::Unknown);
        assert_eq!(again.fetch(0x9000), Fetched::Changing);
    }
}
