//! The breakpoint bytes in a process's text. Each one is remembered, and restored only
//! if it is still there.

use super::guard::{Entrusted, Entry};
use redhanded_model::{Avma, Loss};
use redhanded_sys::Tid;
use redhanded_target::Armed;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The breakpoint instruction.
pub const INT3: u8 = 0xcc;
/// The size of a page.
pub const PAGE: u64 = 4096;

/// Breakpoints in one address space.
pub struct Breakpoints {
    /// Where each byte is noted before it is written.
    entrusted: Option<Entrusted>,
    /// The original byte of every breakpoint that was ever set: a thread may have
    /// executed one before it was removed.
    originals: HashMap<u64, u8>,
    /// The addresses of breakpoints that are set.
    standing: BTreeSet<u64>,
    /// Recently removed breakpoints: a child may have been forked before that.
    removed: VecDeque<(Instant, u64)>,
}

/// How long after a breakpoint's removal a child that was forked before may be heard
/// of.
const FORK_TAKES: Duration = Duration::from_secs(10);

impl Breakpoints {
    /// None yet.
    pub fn new(entrusted: Option<Entrusted>) -> Self {
        Self {
            entrusted,
            originals: HashMap::new(),
            standing: BTreeSet::new(),
            removed: VecDeque::new(),
        }
    }

    fn note(&self, entry: Entry) -> bool {
        let entrusted = self.entrusted.as_ref();
        entrusted.is_none_or(|entrusted| entrusted.note(entry))
    }

    /// Notes that process `pid` runs in the space, because the one that did is gone.
    pub fn run_by(&self, pid: Tid) {
        self.note(Entry::RunBy(pid));
    }

    /// Writes breakpoints where the text is as expected. Tells what came of each.
    pub fn set(&mut self, memory: &File, sites: &[(Avma, u8)]) -> Vec<Armed> {
        if let Some(entrusted) = &mut self.entrusted {
            entrusted.give_memory(memory);
        }
        let mut done = vec![Armed::CodeGone; sites.len()];
        let mut order: Vec<usize> = (0..sites.len()).collect();
        order.sort_by_key(|index| sites[*index].0);
        // One read and one write for each page: thousands of sites of a small program
        // are armed before its first instruction.
        for page in order.chunk_by(|a, b| sites[*a].0.0 / PAGE == sites[*b].0.0 / PAGE) {
            let (Some(first), Some(last)) = (page.first(), page.last()) else {
                continue;
            };
            let start = sites[*first].0.0;
            let mut text = vec![0; (sites[*last].0.0 - start + 1) as usize];
            if memory.read_exact_at(&mut text, start).is_err() {
                continue;
            }
            let mut set = Vec::new();
            for index in page {
                let (avma, expected) = sites[*index];
                let byte = &mut text[(avma.0 - start) as usize];
                let known = self.originals.contains_key(&avma.0);
                let entry = Entry::Stands {
                    address: avma.0,
                    original: expected,
                };
                done[*index] = Armed::Refused(if *byte != expected || expected == INT3 {
                    Loss::TextChanged
                } else if known || self.note(entry) {
                    set.push((*index, avma.0, *byte));
                    *byte = INT3;
                    Loss::CodeNotWritable
                } else {
                    Loss::TooManyBreakpoints
                });
            }
            if memory.write_all_at(&text, start).is_ok() {
                for (index, avma, original) in set {
                    done[index] = Armed::Yes;
                    self.standing.insert(avma);
                    self.originals.insert(avma, original);
                }
            }
        }
        done
    }

    /// Removes the breakpoint at `address`, which a thread just executed. Returns
    /// whether there was one.
    pub fn remove(&mut self, memory: &File, address: u64) -> bool {
        let stood = self.standing.remove(&address);
        if stood {
            let now = Instant::now();
            while self
                .removed
                .front()
                .is_some_and(|(at, _)| now - *at > FORK_TAKES)
            {
                self.removed.pop_front();
            }
            self.removed.push_back((now, address));
        }
        let original = self.originals.get(&address);
        stood && original.is_some_and(|o| memory.write_all_at(&[*o], address).is_ok())
    }

    /// Removes all breakpoints except those that `stays` keeps.
    pub fn clear(&mut self, memory: &File, stays: impl Fn(u64) -> bool) {
        let (stay, standing): (BTreeSet<u64>, BTreeSet<u64>) = std::mem::take(&mut self.standing)
            .into_iter()
            .partition(|address| stays(*address));
        self.standing = stay;
        self.restore_at(memory, &standing);
        let now = Instant::now();
        self.removed
            .extend(standing.iter().map(|address| (now, *address)));
    }

    /// Restores the bytes in a copy of the text in another space. The copy may be older
    /// than the removal of some breakpoints.
    pub fn restore_in(&self, memory: &File) {
        let lately = self.removed.iter().map(|(_, address)| *address);
        let all = self.standing.iter().copied().chain(lately).collect();
        self.restore_at(memory, &all);
    }

    fn restore_at(&self, memory: &File, addresses: &BTreeSet<u64>) {
        let originals: Vec<(u64, u8)> = addresses
            .iter()
            .filter_map(|address| Some((*address, *self.originals.get(address)?)))
            .collect();
        for page in originals.chunk_by(|(a, _), (b, _)| a / PAGE == b / PAGE) {
            restore(memory, page);
        }
    }

    /// Forgets the breakpoints in a range that was unmapped.
    pub fn forget(&mut self, range: &std::ops::Range<u64>) {
        for address in self.originals.keys().filter(|at| range.contains(at)) {
            self.note(Entry::Gone { address: *address });
        }
        self.standing.retain(|address| !range.contains(address));
        self.originals.retain(|address, _| !range.contains(address));
    }

    /// The byte under the breakpoint at `address`.
    pub fn original_at(&self, address: u64) -> Option<u8> {
        self.originals.get(&address).copied()
    }

    /// Whether a breakpoint is set at `address`.
    pub fn stands_at(&self, address: u64) -> bool {
        self.standing.contains(&address)
    }

    /// Whether a breakpoint was set at `address` and is removed.
    pub fn was_at(&self, address: u64) -> bool {
        self.originals.contains_key(&address) && !self.standing.contains(&address)
    }

    /// Puts the original bytes into a copy of memory.
    pub fn hide(&self, address: u64, buffer: &mut [u8]) {
        if self.standing.is_empty() {
            return;
        }
        for (offset, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(offset as u64);
            if *byte == INT3
                && self.standing.contains(&at)
                && let Some(original) = self.originals.get(&at)
            {
                *byte = *original;
            }
        }
    }
}

/// Restores the breakpoints of one page if they are still there; the program may have
/// put other text in their place. Returns whether any was.
pub fn restore(memory: &File, page: &[(u64, u8)]) -> bool {
    let (Some((start, _)), Some((last, _))) = (page.first(), page.last()) else {
        return false;
    };
    let mut text = vec![0; (last - start + 1) as usize];
    if memory.read_exact_at(&mut text, *start).is_err() {
        return false;
    }
    let mut any = false;
    for (address, original) in page {
        let byte = &mut text[(address - start) as usize];
        if *byte == INT3 {
            *byte = *original;
            any = true;
        }
    }
    any && memory.write_all_at(&text, *start).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::open_memory;

    #[test]
    fn each_breakpoint_is_told_of() {
        let mut text = [0x90_u8, 0x55, 0xcc];
        let at = std::hint::black_box(&raw mut text) as u64;
        let own = std::process::id().cast_signed();
        let memory = open_memory(own).unwrap();
        let mut breakpoints = Breakpoints::new(None);
        // The first page of memory is never mapped.
        let sites = [(at, 0x90), (at + 1, 0x56), (at + 2, INT3), (8, 0x90)];
        let sites = sites.map(|(address, byte)| (Avma(address), byte));
        let changed = Armed::Refused(Loss::TextChanged);
        let told = breakpoints.set(&memory, &sites);
        assert_eq!(told, [Armed::Yes, changed, changed, Armed::CodeGone]);
        assert!(breakpoints.stands_at(at) && !breakpoints.stands_at(at + 1));
        breakpoints.clear(&memory, |_| false);
        assert_eq!(*std::hint::black_box(&text), [0x90, 0x55, 0xcc]);
    }
}
