//! What system calls mean.
//!
//! Which descriptors are connected, and with what, is not recorded. So all of them are one
//! channel: what is sent by anyone comes before all that anyone receives later. A call that is in
//! none of the lists both sends and receives.

use super::memory::{Memory, bytes};
use super::{CHANNEL, Out, SIGNAL};
use crate::entries::Item;
use redhanded_analysis::{Mode, Object, ObjectKind, Place, What};
use redhanded_model::system_call::certain;
use redhanded_model::{AccessKind, Bytes};
use std::collections::HashMap;

/// A system call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Calling {
    number: u64,
    arguments: [u64; 6],
    pub place: Place,
    /// The number of its beginning.
    pub since: Option<u64>,
}

/// The numbers on x86-64.
mod number {
    pub const MMAP: u64 = 9;
    pub const MUNMAP: u64 = 11;
    pub const BRK: u64 = 12;
    pub const MREMAP: u64 = 25;
    pub const CLONE: u64 = 56;
    pub const VFORK: u64 = 58;
    pub const FUTEX: u64 = 202;
    pub const CLONE3: u64 = 435;
    pub const FUTEX_WAKE: u64 = 454;
    pub const FUTEX_WAIT: u64 = 455;
    pub const FUTEX_WAITV: u64 = 449;
    pub const FUTEX_REQUEUE: u64 = 456;
}

/// Calls by which nothing is sent and nothing received: memory, time, the thread's own affairs.
const HARMLESS: [u64; 49] = [
    8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 35, 39, 56, 57, 58, 60, 63, 96, 97, 98, 102,
    104, 107, 108, 110, 131, 141, 142, 145, 157, 158, 186, 201, 203, 204, 218, 228, 229, 230, 231,
    273, 302, 309, 318, 334, 435,
];

/// Calls after which somebody else may know that they were made, and that learn nothing
/// themselves: `write` and its like, `close`, `shutdown`, `msgsnd`, `mq_timedsend`,
/// `timerfd_settime`, `epoll_ctl`.
const SENDS: [u64; 16] = [
    1, 3, 18, 20, 44, 46, 48, 69, 74, 75, 233, 242, 286, 296, 307, 328,
];

/// Calls that come after what somebody else did, and that nobody learns of: `read` and its like,
/// `stat`, `poll`, `wait4`, `msgrcv`.
const RECEIVES: [u64; 23] = [
    0, 4, 5, 6, 7, 17, 19, 21, 23, 45, 47, 61, 70, 89, 208, 232, 247, 262, 270, 271, 281, 295, 332,
];

/// Calls that send a signal: `kill`, `tkill`, `tgkill`, `rt_sigqueueinfo` and others; timers.
const SIGNALS: [u64; 9] = [37, 38, 62, 129, 200, 223, 234, 297, 424];

/// Calls that wait for one: `pause`, `rt_sigtimedwait`, `rt_sigsuspend`.
const AWAITS_SIGNAL: [u64; 3] = [34, 128, 130];

/// The child has the memory of its parent.
const CLONE_VM: u64 = 0x100;

/// The parent waits until the child no longer uses its memory.
const CLONE_VFORK: u64 = 0x4000;

/// The kernel clears a word when the child ends.
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;

/// What stands for all futexes, for calls that wait for several.
const ANY_FUTEX: Object = Object {
    kind: ObjectKind::Futex,
    id: 0,
};

/// An operation on a futex, apart from its flags.
const OPERATION: u64 = 0x7f;

/// Futexes whose waiters were moved to others are one: each leads to another, or stands for all
/// that lead to it.
#[derive(Default)]
pub struct Futexes(HashMap<u64, u64>);

/// More are not remembered.
const MOST_FUTEXES: usize = 1 << 16;

impl Futexes {
    pub fn object(&mut self, address: u64) -> Object {
        Object {
            kind: ObjectKind::Futex,
            id: self.root(address),
        }
    }

    /// The futex that stands for all that this one was united with. What is on the way to it
    /// leads there at once from now on.
    fn root(&mut self, address: u64) -> u64 {
        let mut root = address;
        while let Some(above) = self.0.get(&root) {
            root = *above;
        }
        let mut at = address;
        while let Some(above) = self.0.get_mut(&at).filter(|above| **above != root) {
            at = std::mem::replace(above, root);
        }
        root
    }

    fn unite(&mut self, one: u64, other: u64) {
        let (id, was) = (self.root(one), self.root(other));
        if id != was && self.0.len() < MOST_FUTEXES {
            self.0.insert(was, id);
        }
    }
}

impl Calling {
    /// The call that this entry begins.
    pub fn new(item: &Item, place: Place) -> Self {
        let mut arguments = [0; 6];
        for (argument, value) in arguments.iter_mut().zip(item.values()) {
            *argument = *value;
        }
        Self {
            number: item.entry.address,
            arguments,
            place,
            since: item.number,
        }
    }

    /// What the kernel has certainly accessed for it, if it returned this.
    pub fn accesses(&self, result: i64) -> Vec<(&'static str, AccessKind, Bytes)> {
        certain(self.number, self.arguments, result)
    }

    /// Whether it makes a thread, or a process that has the same memory. One with a copy of it is
    /// no thread of this process, and nothing that it does comes before or after anything here.
    pub const fn creates(&self) -> bool {
        match self.number {
            number::CLONE => self.flags() & CLONE_VM != 0,
            number::CLONE3 | number::VFORK => true,
            _ => false,
        }
    }

    /// The flags of what it makes, as far as they are known.
    const fn flags(&self) -> u64 {
        match self.number {
            number::CLONE => self.arguments[0],
            // The recorder reads them from memory.
            number::CLONE3 => self.arguments[2],
            number::VFORK => CLONE_VFORK,
            _ => 0,
        }
    }

    /// Whether it returns when the child has ended or is another program.
    pub const fn waits_for_child(&self) -> bool {
        self.flags() & CLONE_VFORK != 0
    }

    /// The word that the kernel clears, and wakes waiters of, when the child has ended.
    pub const fn cleared_by_child(&self) -> Option<u64> {
        match self.flags() & CLONE_CHILD_CLEARTID {
            0 => None,
            // Of both calls it is the fourth.
            _ => Some(self.arguments[3]),
        }
    }
}

/// What an operation on a futex does: wake, wait, or move waiters to a second one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Futex {
    Wakes,
    Waits,
    Moves,
}

const fn futex(calling: &Calling) -> Option<Futex> {
    match calling.number {
        number::FUTEX_WAKE => Some(Futex::Wakes),
        number::FUTEX_WAIT => Some(Futex::Waits),
        number::FUTEX_REQUEUE => Some(Futex::Moves),
        number::FUTEX => match calling.arguments[1] & OPERATION {
            1 | 5 | 7 | 10 => Some(Futex::Wakes),
            0 | 6 | 8 | 9 | 11 | 13 => Some(Futex::Waits),
            3 | 4 | 12 => Some(Futex::Moves),
            _ => None,
        },
        _ => None,
    }
}

/// A system call begins. It is `inner` if it is part of a call that says what it means.
pub fn entered(
    calling: &Calling,
    is_inner: bool,
    memory: &mut Memory,
    futexes: &mut Futexes,
    out: &mut Out<'_>,
) {
    let [first, second, ..] = calling.arguments;
    match calling.number {
        number::MUNMAP | number::MREMAP => {
            let gone = bytes(first, second);
            memory.unmap(gone);
            out.put(What::Free {
                bytes: gone,
                written: None,
            });
        }
        _ if is_inner => out.put(What::SystemCall),
        _ if futex(calling).is_some() => match futex(calling) {
            Some(Futex::Wakes) => {
                out.release(futexes.object(first));
                out.release(ANY_FUTEX);
                // The operation that wakes waiters of a second one, too.
                if calling.number == number::FUTEX && calling.arguments[1] & OPERATION == 5 {
                    out.release(futexes.object(calling.arguments[4]));
                }
            }
            Some(Futex::Moves) => {
                // What was released to either goes on to whoever waits for the one they become.
                let second = calling.arguments[4];
                for object in [futexes.object(first), futexes.object(second)] {
                    out.acquire(object, Mode::Exclusive);
                }
                futexes.unite(first, second);
                out.release(futexes.object(first));
                out.release(ANY_FUTEX);
            }
            Some(Futex::Waits) | None => out.put(What::SystemCall),
        },
        call if SIGNALS.contains(&call) => {
            out.release(SIGNAL);
            // It may be read from a descriptor.
            out.release(CHANNEL);
        }
        call if HARMLESS.contains(&call) || RECEIVES.contains(&call) => out.put(What::SystemCall),
        // What is not known may be anything.
        _ => out.release(CHANNEL),
    }
}

/// A system call returns.
pub fn left(
    calling: &Calling,
    result: i64,
    is_inner: bool,
    memory: &mut Memory,
    futexes: &mut Futexes,
    out: &mut Out<'_>,
) {
    let [first, second, third, ..] = calling.arguments;
    let address = u64::try_from(result).ok().filter(|address| *address != 0);
    match calling.number {
        number::MMAP | number::MREMAP => match address {
            Some(start) => {
                let length = if calling.number == number::MMAP {
                    second
                } else {
                    third
                };
                let mapped = bytes(start, length.min(u64::MAX - start));
                memory.map(mapped);
                out.put(What::Allocate { bytes: mapped });
            }
            None => out.put(What::SystemCall),
        },
        number::BRK => {
            let (old, new) = (memory.end_of_heap, address.unwrap_or(0));
            memory.end_of_heap = new;
            if old != 0 && old < new {
                let bytes = bytes(old, new - old);
                out.put(What::Allocate { bytes });
            } else {
                out.put(What::SystemCall);
            }
        }
        _ if is_inner => out.put(What::SystemCall),
        // Also if it failed: it has seen that the word had changed.
        number::FUTEX | number::FUTEX_WAIT if futex(calling) == Some(Futex::Waits) => {
            out.acquire(futexes.object(first), Mode::Exclusive);
        }
        // Which of its words woke it, only memory tells.
        number::FUTEX_WAITV => out.acquire(ANY_FUTEX, Mode::Exclusive),
        call if AWAITS_SIGNAL.contains(&call) => out.acquire(SIGNAL, Mode::Exclusive),
        call if HARMLESS.contains(&call)
            || SENDS.contains(&call)
            || SIGNALS.contains(&call)
            || futex(calling).is_some() =>
        {
            out.put(What::SystemCall);
        }
        _ => out.acquire(CHANNEL, Mode::Exclusive),
    }
}
