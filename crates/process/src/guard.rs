//! Keeps a target alive when its tracer is killed.
//!
//! Before a breakpoint byte is written, it is noted in a list that the tracer shares
//! with the front. If the tracer ends without saying goodbye, the front restores every
//! byte that is still there.

use super::space::open_memory;
use super::text::{PAGE, restore};
use super::tracer::FULL;
use redhanded_sys::{Ledger, Tid};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A line of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A breakpoint is or is about to be at `address`, in place of `original`.
    Stands {
        /// Where it is.
        address: u64,
        /// What it replaces.
        original: u8,
    },
    /// The text at an address was replaced or unmapped.
    Gone {
        /// Where it was.
        address: u64,
    },
    /// All text of the process was replaced or unmapped.
    AllGone,
    /// The process has ended, and its number may be used again.
    Ended,
}

impl Entry {
    fn words(self, pid: Tid) -> [u64; 2] {
        let (kind, byte, address) = match self {
            Self::Stands { address, original } => (0, original, address),
            Self::Gone { address } => (1, 0, address),
            Self::AllGone => (2, 0, 0),
            Self::Ended => (3, 0, 0),
        };
        let head = u64::from(pid.cast_unsigned()) << 32 | kind << 8 | u64::from(byte);
        [head, address]
    }
}

/// Room that is kept for the ends of processes: a line about one that has ended must not
/// be taken for one about the next process of that number.
const RESERVE: usize = 1 << 16;
/// Notes something about process `pid`. Returns whether there was room. A full list is
/// rewritten without the lines that no longer hold.
pub fn note(ledger: Ledger, pid: Tid, entry: Entry) -> bool {
    let is_breakpoint = matches!(entry, Entry::Stands { .. });
    if !is_breakpoint {
        ledger.flags().fetch_and(!FULL, Ordering::Relaxed);
    } else if ledger.flags().load(Ordering::Relaxed) & FULL != 0 {
        return false;
    }
    let reserve = if is_breakpoint { RESERVE } else { 0 };
    if ledger.room() <= reserve {
        let texts = noted(ledger);
        ledger.replace(texts.iter().flat_map(|(&pid, text)| {
            let stands = text
                .iter()
                .map(|(&address, &original)| Entry::Stands { address, original });
            let entries = std::iter::once(Entry::AllGone).chain(stands);
            entries.map(move |entry| entry.words(pid))
        }));
        if ledger.room() <= 2 * RESERVE {
            ledger.flags().fetch_or(FULL, Ordering::Relaxed);
        }
    }
    ledger.room() > reserve && ledger.append(entry.words(pid))
}

/// The noted processes, and the original bytes under their breakpoints.
pub type Noted = BTreeMap<Tid, BTreeMap<u64, u8>>;

/// Sums up the list.
pub fn noted(ledger: Ledger) -> Noted {
    let mut texts = Noted::new();
    for [head, address] in ledger.entries() {
        let pid = ((head >> 32) as u32).cast_signed();
        let text = texts.entry(pid).or_default();
        match head >> 8 & 0xff {
            0 => drop(text.insert(address, head as u8)),
            1 => drop(text.remove(&address)),
            2 => text.clear(),
            _ => drop(texts.remove(&pid)),
        }
    }
    texts
}

/// Restores every breakpoint byte that is still there. Returns in how many processes.
pub fn restore_all(ledger: Ledger) -> usize {
    let mut restored = 0;
    for (pid, text) in noted(ledger) {
        let Ok(memory) = open_memory(pid) else {
            continue;
        };
        let bytes: Vec<(u64, u8)> = text.into_iter().collect();
        let pages = bytes.chunk_by(|(a, _), (b, _)| a / PAGE == b / PAGE);
        restored += usize::from(pages.filter(|page| restore(&memory, page)).count() > 0);
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_put_back_and_nothing_else() {
        let mut text = vec![0xcc_u8; 64];
        text[7] = 0x90;
        let at = |offset: usize| text.as_ptr() as u64 + offset as u64;
        let (one, two, three, four) = (at(1), at(7), at(9), at(11));
        let ledger = Ledger::new().unwrap();
        let pid = std::process::id().cast_signed();
        let stands = |address, original| Entry::Stands { address, original };
        for entry in [stands(one, 0x11), Entry::AllGone, stands(one, 0x22)] {
            assert!(note(ledger, pid, entry));
        }
        assert!(note(ledger, pid, stands(two, 0x33)));
        assert!(note(ledger, pid, stands(three, 0x44)));
        assert!(note(ledger, pid, stands(four, 0x55)));
        assert!(note(ledger, pid, Entry::Gone { address: four }));
        // Nothing is known about a process that has ended, not even its number.
        assert!(note(ledger, 1, stands(one, 0x66)));
        assert!(note(ledger, 1, Entry::Ended));
        assert!(!noted(ledger).contains_key(&1));
        assert_eq!(restore_all(ledger), 1);
        let text = std::hint::black_box(&text);
        assert_eq!((text[1], text[7]), (0x22, 0x90), "only where it stands");
        assert_eq!((text[9], text[11], text[12]), (0x44, 0xcc, 0xcc));
    }

    #[test]
    fn a_full_list_is_rewritten_and_a_list_of_what_holds_is_not() {
        let ledger = Ledger::new().unwrap();
        let room = ledger.room() as u64;
        let stands = |address| Entry::Stands {
            address,
            original: 0x11,
        };
        assert!(note(ledger, 7, stands(1)));
        for run in 0..3 * room / 1000 {
            let pid = 1000 + (run % 100) as Tid;
            for address in 0..998 {
                assert!(note(ledger, pid, stands(address)), "run {run}");
            }
            assert!(note(ledger, pid, Entry::Ended), "run {run}");
        }
        let kept: Vec<_> = noted(ledger).into_iter().collect();
        assert_eq!(kept, [(7, BTreeMap::from([(1, 0x11)]))]);
        let set = (0..room).take_while(|at| note(ledger, 8, stands(*at)));
        assert!(set.count() as u64 > room / 2);
        assert!(!note(ledger, 8, stands(u64::MAX)), "all that holds is kept");
        assert!(note(ledger, 8, Entry::Ended) && note(ledger, 9, stands(2)));
        assert_eq!(noted(ledger).len(), 2, "and there is room for what ends");
    }
}
