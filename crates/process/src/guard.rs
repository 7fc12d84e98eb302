//! Keeps a target alive when its tracer is killed.
//!
//! Before a breakpoint byte is written, it is noted in a list that the tracer shares
//! with those who look after it, and the open memory of the target is sent to them. Who
//! opened it may differ from who may open it: a program can make itself undumpable. If
//! the tracer ends without saying goodbye, they restore every byte that is still there.

use super::space::open_memory;
use super::text::{PAGE, restore};
use super::tracer::FULL;
use super::vigil::{LOOK_EVERY, Vigil};
use redhanded_sys::{self as sys, Ledger, ReadyTo, Tid};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A line of the list, about one space.
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
    /// This process runs in the space.
    RunBy(Tid),
    /// The space is gone, or no longer observed.
    Ended,
}

impl Entry {
    fn words(self, space: u32) -> [u64; 2] {
        let (kind, byte, value) = match self {
            Self::Stands { address, original } => (0, original, address),
            Self::Gone { address } => (1, 0, address),
            Self::RunBy(pid) => (2, 0, u64::from(pid.cast_unsigned())),
            Self::Ended => (3, 0, 0),
        };
        let head = u64::from(space) << 32 | kind << 8 | u64::from(byte);
        [head, value]
    }
}

/// Room that is kept for lines that are not about breakpoints: which processes there
/// are must be known even when the list is full.
const RESERVE: usize = 1 << 16;

/// Notes something about a space. Returns whether there was room. A full list is
/// rewritten without the lines that no longer hold.
fn note(ledger: Ledger, space: u32, entry: Entry) -> bool {
    let is_breakpoint = matches!(entry, Entry::Stands { .. });
    if !is_breakpoint {
        ledger.flags().fetch_and(!FULL, Ordering::Relaxed);
    } else if ledger.flags().load(Ordering::Relaxed) & FULL != 0 {
        return false;
    }
    let reserve = if is_breakpoint { RESERVE } else { 0 };
    if ledger.room() <= reserve {
        let spaces = noted(ledger);
        ledger.replace(spaces.iter().flat_map(|(&number, space)| {
            let stands = space
                .text
                .iter()
                .map(|(&address, &original)| Entry::Stands { address, original });
            let entries = std::iter::once(Entry::RunBy(space.pid)).chain(stands);
            entries.map(move |entry| entry.words(number))
        }));
        if ledger.room() <= 2 * RESERVE {
            ledger.flags().fetch_or(FULL, Ordering::Relaxed);
        }
    }
    ledger.room() > reserve && ledger.append(entry.words(space))
}

/// What is noted about a space.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct NotedSpace {
    /// A process that runs in it.
    pub pid: Tid,
    /// The original bytes under its breakpoints.
    pub text: BTreeMap<u64, u8>,
}

/// The noted spaces by number.
pub type Noted = BTreeMap<u32, NotedSpace>;

/// Sums up the list.
pub fn noted(ledger: Ledger) -> Noted {
    let mut spaces = Noted::new();
    for [head, value] in ledger.entries() {
        let number = (head >> 32) as u32;
        let space = spaces.entry(number).or_default();
        match head >> 8 & 0xff {
            0 => drop(space.text.insert(value, head as u8)),
            1 => drop(space.text.remove(&value)),
            2 => space.pid = (value as u32).cast_signed(),
            _ => drop(spaces.remove(&number)),
        }
    }
    spaces
}

/// The number that says goodbye. No space has it.
const FAREWELL: u32 = 0;

/// The tracer's connections to those who look after it.
pub struct Lifelines {
    ledger: Ledger,
    /// Closed by the kernel when the tracing thread dies, before its tracees are freed.
    sockets: Vec<UnixStream>,
    /// The last number that was given to a space. No number is given twice, not even in
    /// another run.
    last: AtomicU32,
}

impl Lifelines {
    pub fn new(ledger: Ledger, sockets: Vec<UnixStream>) -> Self {
        Self {
            ledger,
            sockets,
            last: AtomicU32::new(FAREWELL),
        }
    }

    pub const fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// The descriptors, which no other thread may keep open.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Says that everything was restored.
    pub fn farewell(&self) {
        self.send(FAREWELL, None);
    }

    /// Sends the memory of a space, or says that it is no longer needed. Nobody waits for
    /// a receiver that is stopped: it can try to open the memory by itself.
    fn send(&self, space: u32, memory: Option<&File>) {
        let bytes = space.to_le_bytes();
        for socket in &self.sockets {
            let _ = match memory {
                Some(memory) => sys::send_file(socket.as_fd(), &bytes, memory.as_fd()),
                None => sys::send(socket.as_fd(), &bytes),
            };
        }
    }
}

/// A space that will be looked after if the tracer dies.
pub struct Entrusted {
    number: u32,
    lifelines: Arc<Lifelines>,
    has_memory: bool,
}

impl Entrusted {
    /// The space of process `pid`.
    pub fn new(lifelines: Arc<Lifelines>, pid: Tid) -> Self {
        let number = lifelines.last.fetch_add(1, Ordering::Relaxed) + 1;
        let entrusted = Self {
            number,
            lifelines,
            has_memory: false,
        };
        entrusted.note(Entry::RunBy(pid));
        entrusted
    }

    /// Notes something about the space. Returns whether there was room.
    pub fn note(&self, entry: Entry) -> bool {
        note(self.lifelines.ledger, self.number, entry)
    }

    /// Hands over the memory of the space, before its first breakpoint.
    pub fn give_memory(&mut self, memory: &File) {
        if !self.has_memory {
            self.has_memory = true;
            self.lifelines.send(self.number, Some(memory));
        }
    }
}

impl Drop for Entrusted {
    fn drop(&mut self) {
        self.note(Entry::Ended);
        if self.has_memory {
            self.lifelines.send(self.number, None);
        }
    }
}

/// Whoever looks after the tracer.
pub struct Guard {
    lifeline: UnixStream,
    ledger: Ledger,
    /// The memories of spaces, as the tracer has opened them.
    memories: HashMap<u32, File>,
}

/// What the tracer said.
enum Heard {
    Farewell,
    Something,
    Nothing,
    /// It is gone.
    End,
}

impl Guard {
    pub fn new(lifeline: UnixStream, ledger: Ledger) -> Self {
        Self {
            lifeline,
            ledger,
            memories: HashMap::new(),
        }
    }

    /// Waits for the tracer to end, and kills it if it hangs. `is_hurried` says whether it
    /// should end. Returns whether it said goodbye.
    pub fn watch_over(&mut self, mut vigil: Vigil, is_hurried: impl Fn() -> bool) -> bool {
        loop {
            match self.hear(LOOK_EVERY) {
                Heard::Farewell => return true,
                Heard::End => return false,
                Heard::Something => {}
                Heard::Nothing => {
                    let lifeline = self.lifeline.as_fd();
                    let says_nothing = || {
                        matches!(
                            sys::wait_ready(lifeline, ReadyTo::Read, Duration::ZERO),
                            Ok(false)
                        )
                    };
                    vigil.look(is_hurried(), says_nothing);
                }
            }
        }
    }

    fn hear(&mut self, limit: Duration) -> Heard {
        let lifeline = self.lifeline.as_fd();
        if let Ok(false) = sys::wait_ready(lifeline, ReadyTo::Read, limit) {
            return Heard::Nothing;
        }
        let mut number = [0; 4];
        match sys::receive_file(lifeline, &mut number) {
            Ok((4, memory)) => {
                let number = u32::from_le_bytes(number);
                match memory {
                    Some(memory) => drop(self.memories.insert(number, memory.into())),
                    None => drop(self.memories.remove(&number)),
                }
                if number == FAREWELL {
                    Heard::Farewell
                } else {
                    Heard::Something
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock
                ) =>
            {
                Heard::Something
            }
            Ok(_) | Err(_) => Heard::End,
        }
    }

    /// Restores every breakpoint byte that is still there. Returns in how many spaces.
    pub fn restore_all(&self, noted: &Noted) -> usize {
        let mut restored = 0;
        for (number, space) in noted {
            let opened;
            let memory = match self.memories.get(number) {
                Some(memory) => memory,
                None if space.text.is_empty() => continue,
                None => match open_memory(space.pid) {
                    Ok(memory) => {
                        opened = memory;
                        &opened
                    }
                    Err(_) => continue,
                },
            };
            let bytes: Vec<(u64, u8)> = space.text.iter().map(|(at, byte)| (*at, *byte)).collect();
            let pages = bytes.chunk_by(|(a, _), (b, _)| a / PAGE == b / PAGE);
            restored += usize::from(pages.filter(|page| restore(memory, page)).count() > 0);
        }
        restored
    }

    pub const fn ledger(&self) -> Ledger {
        self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vigil::Looker;

    /// A tracer and its guard.
    fn connected() -> (Arc<Lifelines>, Guard) {
        let ledger = Ledger::new().unwrap();
        let (lifeline, socket) = UnixStream::pair().unwrap();
        let lifelines = Arc::new(Lifelines::new(ledger, vec![socket]));
        (lifelines, Guard::new(lifeline, ledger))
    }

    const fn stands(address: u64, original: u8) -> Entry {
        Entry::Stands { address, original }
    }

    #[test]
    fn what_is_noted_is_put_back_and_nothing_else() {
        let mut text = vec![0xcc_u8; 64];
        text[7] = 0x90;
        let at = |offset: usize| text.as_ptr() as u64 + offset as u64;
        let (one, two, three, four) = (at(1), at(7), at(9), at(11));
        let (lifelines, mut guard) = connected();
        let pid = std::process::id().cast_signed();
        let space = Entrusted::new(Arc::clone(&lifelines), pid);
        for entry in [stands(one, 0x22), stands(two, 0x33), stands(three, 0x44)] {
            assert!(space.note(entry));
        }
        assert!(space.note(stands(four, 0x55)));
        assert!(space.note(Entry::Gone { address: four }));
        // Nothing is known about a space that is gone.
        let ended = Entrusted::new(Arc::clone(&lifelines), pid);
        assert!(ended.note(stands(one, 0x66)));
        drop(ended);
        std::mem::forget(space);
        drop(lifelines);
        let noted = noted(guard.ledger());
        assert_eq!(noted.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(noted[&1].pid, pid);
        assert_eq!(guard.restore_all(&noted), 1);
        let text = std::hint::black_box(&text);
        assert_eq!((text[1], text[7]), (0x22, 0x90), "only where it stands");
        assert_eq!((text[9], text[11], text[12]), (0x44, 0xcc, 0xcc));
        assert!(matches!(guard.hear(Duration::ZERO), Heard::Nothing));
    }

    #[test]
    fn memory_that_was_sent_is_used_whoever_has_the_number() {
        let text = vec![0xcc_u8; 4];
        let at = text.as_ptr() as u64;
        let (lifelines, mut guard) = connected();
        // Nobody has this number.
        let mut space = Entrusted::new(Arc::clone(&lifelines), Tid::MAX);
        let own = std::process::id().cast_signed();
        space.give_memory(&open_memory(own).unwrap());
        space.give_memory(&open_memory(own).unwrap());
        assert!(space.note(stands(at, 0x11)));
        assert!(matches!(guard.hear(Duration::ZERO), Heard::Something));
        assert!(matches!(guard.hear(Duration::ZERO), Heard::Nothing), "once");
        assert_eq!(guard.restore_all(&noted(guard.ledger())), 1);
        assert_eq!(std::hint::black_box(&text)[0], 0x11);
        drop(space);
        assert!(matches!(guard.hear(Duration::ZERO), Heard::Something));
        assert!(guard.memories.is_empty() && noted(guard.ledger()).is_empty());
        lifelines.farewell();
        let vigil = Vigil::new(guard.ledger(), Looker::First);
        assert!(guard.watch_over(vigil, || false));
        drop(lifelines);
        let vigil = Vigil::new(guard.ledger(), Looker::First);
        assert!(!guard.watch_over(vigil, || false));
    }

    #[test]
    fn a_full_list_is_rewritten_and_a_list_of_what_holds_is_not() {
        let ledger = Ledger::new().unwrap();
        let room = ledger.room() as u64;
        assert!(note(ledger, 7, Entry::RunBy(70)));
        assert!(note(ledger, 7, stands(1, 0x11)));
        for run in 0..3 * room / 1000 {
            let space = 1000 + run as u32;
            for address in 0..998 {
                assert!(note(ledger, space, stands(address, 0x11)), "run {run}");
            }
            assert!(note(ledger, space, Entry::Ended), "run {run}");
        }
        let kept: Vec<_> = noted(ledger).into_iter().collect();
        let text = BTreeMap::from([(1, 0x11)]);
        assert_eq!(kept, [(7, NotedSpace { pid: 70, text })]);
        let set = (0..room).take_while(|at| note(ledger, 8, stands(*at, 0x11)));
        assert!(set.count() as u64 > room / 2);
        assert!(
            !note(ledger, 8, stands(u64::MAX, 0x11)),
            "all that holds is kept"
        );
        assert!(note(ledger, 8, Entry::Ended) && note(ledger, 9, stands(2, 0x11)));
        assert_eq!(noted(ledger).len(), 2, "and there is room for what ends");
    }
}
