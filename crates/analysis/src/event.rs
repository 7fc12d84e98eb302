//! The events of a recorded execution, which is all that the analyses see of it.
//!
//! # The order of events
//!
//! A *sequencer* is an event with a number. The events of a thread after one of its sequencers,
//! up to its next one, are a *region*. The stream that an analysis is given must keep three
//! rules; [`merge`](crate::merge()) makes such a stream of one list for each thread.
//!
//! 1. The events of a thread come in the order in which the thread made them.
//! 2. Sequencers come in the order of their numbers. If one number is lower than another, the
//!    first event really came before the second.
//! 3. A region comes whole: the events of a thread follow its sequencer before the next
//!    sequencer of any thread.
//!
//! Events of two overlapping regions have no known order, and no analysis goes by the order in
//! which the stream has them. Numbers are only compared, so they may have gaps. An access whose
//! place in the order is known by other means (an atomic read that returned what only one write
//! can have written) may be given a number of its own.
//!
//! A thread that nobody created is taken to come after all that the stream has before it. For
//! threads that existed when the recording began, let the first of them create the others.
//!
//! # What must have a number
//!
//! Every event but [`What::Access`] is a sequencer. An access is one if the processor makes it
//! one: a locked instruction, or `xchg` with memory. A release is numbered before it takes
//! effect, and an acquisition after it. A lock that passes from one thread to another then has
//! numbers in that order. The same holds for [`What::Free`] (before) and [`What::Allocate`]
//! (after), for [`What::Create`] (before) and [`What::Start`], [`What::Exit`] and
//! [`What::Join`] (after).

use redhanded_model::{AccessKind, Bytes, TaskId};

/// Where in the code an event was made: the address of an instruction, or any number that
/// stands for one. Equal places are one site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place(pub u64);

/// One event of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Who made it. A number is never used again for another thread.
    pub thread: TaskId,
    /// Where in the code.
    pub place: Place,
    /// Its place in the order of all sequencers, if it is one.
    pub number: Option<u64>,
    /// What was done.
    pub what: What,
}

/// What an event did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Memory was accessed, by the program or by the kernel for it.
    Access(Access),
    /// A fence. It ends a region and orders nothing by itself.
    Fence,
    /// A system call. It ends a region and orders nothing by itself; what it sends or receives
    /// are events of their own, and so is the memory that it accesses.
    SystemCall,
    /// A thread was started, or a process forked: the child comes after this.
    Create {
        /// The new thread, or the only thread of the new process.
        child: TaskId,
    },
    /// The first event of a thread. Its stack, if it may have been used before, is allocated
    /// next ([`What::Allocate`]).
    Start,
    /// The last event of a thread.
    Exit,
    /// The end of a thread was waited for, and came.
    Join {
        /// The thread that has ended.
        child: TaskId,
    },
    /// Something was taken, awaited or received: a lock is held now, a semaphore was passed, a
    /// message arrived.
    Acquire {
        /// What.
        object: Object,
        /// Shared for a lock that several readers may hold, else exclusive.
        mode: Mode,
    },
    /// Something was given back, posted or sent. It is no error to release what is not held.
    Release {
        /// What.
        object: Object,
    },
    /// A semaphore got this count. Without this event its count is taken to be 1.
    SetCount {
        /// The address of the semaphore.
        semaphore: u64,
        /// How many may pass.
        count: u32,
    },
    /// A thread came to a barrier.
    Arrive {
        /// The address of the barrier.
        barrier: u64,
    },
    /// A thread goes on after a barrier that all others have come to as well.
    Depart {
        /// The address of the barrier.
        barrier: u64,
    },
    /// Memory begins a new life: it was allocated or mapped, is the stack of a new thread, or an
    /// annotation says that a private allocator handed it out.
    Allocate {
        /// Which bytes.
        bytes: Bytes,
    },
    /// The life of memory ends.
    Free {
        /// Which bytes.
        bytes: Bytes,
        /// The bytes of which this counts as a write, as far as accesses before it go: a call gave
        /// them back, and who still uses them uses what may be another's. Who holds which locks
        /// does not matter.
        written: Option<Bytes>,
    },
    /// Memory behind a block that began its life or ended it, which may be used as a part of it because
    /// allocators round up. Who accessed it does not matter any more. What was synchronised
    /// there does: it may be the next block's.
    Slack {
        /// Which bytes.
        bytes: Bytes,
    },
    /// A processor now admits only interrupts above this level. For kernels.
    SetInterruptLevel {
        /// The level; 0 admits all.
        level: u32,
    },
}

/// An access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The bytes.
    pub bytes: Bytes,
    /// What was done to them.
    pub kind: AccessKind,
    /// Whether the source asks for an atomic access.
    pub atomicity: Atomicity,
}

/// Whether an access is an atomic one in the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomicity {
    /// Certainly not: it can neither order others nor be excused itself.
    Plain,
    /// A plain move that may be an atomic one: nothing shows what the source says.
    Doubtful,
    /// Certainly: a locked instruction, or a move that is known to be an atomic access.
    Atomic(Ordering),
}

/// What an atomic access orders. Where it is not known, `AcquireRelease` is the careful choice:
/// it can only hide a race, never make one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ordering {
    /// Nothing.
    Relaxed,
    /// Later accesses come after what is read.
    Acquire,
    /// Earlier accesses come before what is written.
    Release,
    /// Both.
    AcquireRelease,
}

/// How something is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Together with others who hold it in this mode.
    Shared,
    /// Alone.
    Exclusive,
}

/// Something that threads use to wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Object {
    /// What it is. Objects of different kinds are different, whatever their identity.
    pub kind: ObjectKind,
    /// Its identity among its kind: an address, or any other number.
    pub id: u64,
}

/// The kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// A mutex, a spin lock or a read-write lock. The thread that takes it gives it back.
    Lock,
    /// A lock of the program's own that an annotation names. It may be at the address of another
    /// lock, and what is said of it may be wrong: it must not use up what is known of that one.
    Annotated,
    /// A semaphore: waiting acquires, posting releases.
    Semaphore,
    /// A condition variable: waking others releases, being woken acquires. The mutex that goes
    /// with it is released and acquired by events of its own.
    Condition,
    /// Something done once: the initialiser's end releases, and whoever finds it done acquires.
    /// Guards of C++ statics are of this kind.
    Once,
    /// A futex: waking releases, being woken acquires.
    Futex,
    /// A pipe, an eventfd or a socket: sending releases, receiving acquires.
    Channel,
    /// A signal: sending releases, the handler's start acquires.
    Signal,
    /// A level of interrupts. [`What::SetInterruptLevel`] acquires and releases these.
    InterruptLevel,
    /// What every certainly atomic access holds, in the sets of the lockset analysis. No event
    /// acquires it.
    Atomicity,
}

impl Event {
    /// The access that this event is.
    #[must_use]
    pub const fn access(&self) -> Option<&Access> {
        match &self.what {
            What::Access(access) => Some(access),
            _ => None,
        }
    }
}

impl What {
    /// The access that giving memory back counts as.
    pub(crate) const fn as_access(&self) -> Option<Access> {
        match self {
            Self::Free {
                written: Some(bytes),
                ..
            } => Some(Access {
                bytes: *bytes,
                kind: AccessKind::Write,
                atomicity: Atomicity::Plain,
            }),
            _ => None,
        }
    }
}

impl Access {
    /// Whether the two accesses, if nothing orders them, are a race: they share a byte, one of
    /// them writes, and not both are certainly atomic.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.bytes.overlaps(other.bytes)
            && self.kind.conflicts(other.kind)
            && !(self.atomicity.is_atomic() && other.atomicity.is_atomic())
    }
}

impl Atomicity {
    /// Whether the access is certainly atomic.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic(_))
    }

    /// Whether what the access reads may come before later accesses.
    pub(crate) const fn acquires(self) -> bool {
        matches!(
            self,
            Self::Doubtful | Self::Atomic(Ordering::Acquire | Ordering::AcquireRelease)
        )
    }

    /// Whether earlier accesses may come before what the access writes.
    pub(crate) const fn releases(self) -> bool {
        matches!(
            self,
            Self::Doubtful | Self::Atomic(Ordering::Release | Ordering::AcquireRelease)
        )
    }
}
