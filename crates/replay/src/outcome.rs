//! What a replay says: how each thread's region ended, and how the orders differ.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One of the two threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub enum Side {
    /// The thread that stood before its access.
    A,
    /// The other one.
    B,
}

impl Side {
    /// The other thread.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// `the held thread`, which stood before its access, or `the caught thread`.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "the held thread",
            Self::B => "the caught thread",
        })
    }
}

/// Why a thread's region ended. The thread stands at the instruction that ended it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    /// A locked instruction, or an exchange with memory.
    Locked,
    /// A memory fence.
    Fence,
    /// A system call.
    SystemCall,
    /// It asks the processor what it can do.
    Cpuid,
    /// It reads a clock.
    Clock,
    /// It draws a random number.
    Random,
    /// A privileged instruction of a kernel, such as `wrmsr` or `iret`.
    Privileged,
    /// It has run for long, and comes back to the head of a loop or from a function: a place
    /// where it can be compared.
    Round,
    /// As many instructions as were allowed, or as much memory.
    Bound,
    /// It runs in a circle in which it neither reads nor writes memory: nobody can end it.
    Endless,
    /// It runs in a circle and only reads: it waits for memory to change, which neither this
    /// region nor the other one does. Somebody else may, or what comes after the regions.
    Waits,
    /// It did what the processor refuses.
    Fault(Fault),
    /// It raised a trap on purpose, as failed assertions do.
    Trap(Trap),
    /// An instruction that this processor does not replay, by name.
    Unsupported(String),
    /// Memory that the source could not give.
    UnknownMemory {
        /// Where.
        address: u64,
    },
}

impl End {
    /// Whether the program itself ends the region here. Elsewhere the replay gave up, and
    /// a thread that ends at another place in another order proves nothing.
    #[must_use]
    pub const fn is_of_the_program(&self) -> bool {
        !matches!(
            self,
            Self::Bound
                | Self::Unsupported(_)
                | Self::UnknownMemory { .. }
                | Self::Trap(Trap::Breakpoint)
        )
    }

    /// Whether no correct program does this, unless it handles the signal. A breakpoint says
    /// nothing: tracers and kernels put them into code that is not theirs.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        match self {
            Self::Fault(_) | Self::Endless => true,
            Self::Trap(trap) => !matches!(trap, Trap::Breakpoint),
            _ => false,
        }
    }

    /// Whether no correct program that handles these signals does this, one bit for each as
    /// `/proc/PID/status` has them. Runtimes find null pointers and take snapshots that way.
    #[must_use]
    pub fn is_failure_despite(&self, handled: u64) -> bool {
        const SIGILL: u64 = 1 << 3;
        const SIGBUS: u64 = 1 << 6;
        const SIGFPE: u64 = 1 << 7;
        const SIGSEGV: u64 = 1 << 10;
        let signals = match self {
            Self::Fault(Fault::Arithmetic) => SIGFPE,
            Self::Trap(Trap::Ud2) => SIGILL,
            Self::Fault(_) => SIGSEGV | SIGBUS,
            Self::Trap(Trap::Interrupt) => SIGSEGV,
            _ => 0,
        };
        self.is_failure() && handled & signals == 0
    }
}

/// What the thread does: `reaches a system call`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locked => "reaches a locked instruction",
            Self::Fence => "reaches a fence",
            Self::SystemCall => "reaches a system call",
            Self::Cpuid => "asks what the processor can do",
            Self::Clock => "reads a clock",
            Self::Random => "draws a random number",
            Self::Privileged => "runs a privileged instruction",
            Self::Round => "comes round",
            Self::Bound => "has run far enough",
            Self::Endless => "loops for ever",
            Self::Waits => "waits for somebody else",
            Self::Trap(Trap::Ud2) => "runs into an abort",
            Self::Trap(Trap::Breakpoint) => "reaches a breakpoint, which may be a tracer's",
            Self::Trap(_) => "runs into a trap",
            Self::Fault(fault) => return fault.fmt(f),
            Self::Unsupported(name) => return write!(f, "runs `{name}`, which is not replayed"),
            Self::UnknownMemory { address } => {
                return write!(f, "needs memory at {address:#x}, which is not known");
            }
        })
    }
}

/// What the processor refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Fault {
    /// An access where nothing is mapped.
    Unmapped {
        /// Where.
        address: u64,
    },
    /// A write to memory that may only be read.
    ReadOnly {
        /// Where.
        address: u64,
    },
    /// Running what may not be run.
    NotExecutable {
        /// Where.
        address: u64,
    },
    /// A division by zero or out of range, or an unmasked floating-point exception.
    Arithmetic,
    /// A general protection fault: an unaligned vector, a privileged instruction, an
    /// address that no page can have.
    Protection,
}

/// What the thread does: `accesses 0x0, where nothing is mapped`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmapped { address } => {
                write!(f, "accesses {address:#x}, where nothing is mapped")
            }
            Self::ReadOnly { address } => write!(f, "writes to {address:#x}, which is read-only"),
            Self::NotExecutable { address } => {
                write!(f, "jumps to {address:#x}, which is no code")
            }
            Self::Arithmetic => f.write_str("divides by zero or overflows"),
            Self::Protection => f.write_str("does what the processor refuses"),
        }
    }
}

/// A trap raised on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Trap {
    /// `ud2`: an abort of the compiler, or BUG and WARN of Linux.
    Ud2,
    /// `int3`.
    Breakpoint,
    /// Another software interrupt.
    Interrupt,
}

/// An order of the two threads' accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// This thread runs its whole region, then the other one.
    First(Side),
    /// This thread runs until it has made so many accesses to memory that both use, then
    /// the other one runs its whole region, then this one goes on. An unlocked update by
    /// one instruction is two accesses, its read and its write.
    Split {
        /// Who is interrupted.
        side: Side,
        /// After how many accesses.
        after: u32,
    },
    /// This thread runs its whole region, then the other one, who does not see one of its
    /// stores yet: that arrives last. This processor delays a store only past later loads; a
    /// compiler or another processor may delay it past anything that is not ordered.
    Delayed {
        /// Whose store is late.
        side: Side,
        /// Which of its stores to memory that both use, from 1 on.
        store: u32,
    },
}

impl Order {
    /// Whether the machine that it was seen on can do it. What others do proves nothing there.
    #[must_use]
    pub const fn is_of_this_machine(&self) -> bool {
        !matches!(self, Self::Delayed { .. })
    }
}

/// How one thread ended in one order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Why.
    pub end: End,
    /// Where.
    pub ip: u64,
    /// After how many instructions.
    pub steps: u64,
    /// The functions that it has called and not left, the innermost last.
    pub calls: Vec<u64>,
}

/// What happened in one order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The order.
    pub order: Order,
    /// How the threads ended, A and B.
    pub ended: [Ended; 2],
}

/// Something that two orders leave behind differently.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Difference {
    /// Bytes of memory.
    Memory {
        /// The first of them.
        address: u64,
        /// What they hold after the first order.
        this: Vec<u8>,
        /// What they hold after the other one.
        that: Vec<u8>,
        /// The eight aligned bytes around the first of them, after either order.
        #[serde(default)]
        words: [u64; 2],
    },
    /// A register that the thread may still read.
    Register {
        /// Whose.
        side: Side,
        /// Its name.
        name: String,
        /// Its value after the first order; of a vector, the lowest bytes.
        this: u64,
        /// After the other one.
        that: u64,
    },
    /// A thread ends its region somewhere else, or for another reason.
    Path {
        /// Which thread.
        side: Side,
    },
}

/// The orders' common result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// All orders leave the same state.
    NoStateChange,
    /// Two orders leave different states.
    StateChange {
        /// What all others are compared with.
        this: Order,
        /// The first order that differs from it.
        that: Order,
        /// In what these two differ.
        differences: Vec<Difference>,
        /// In what else later orders that are about the race differ from the first one.
        #[serde(default)]
        further: Vec<(Order, Difference)>,
        /// Why more may differ than is told here, if it may.
        #[serde(default)]
        untold: Option<Failure>,
    },
    /// These orders end in a fault, a trap or an endless loop, and others do not.
    Fault {
        /// Which.
        orders: Vec<Order>,
    },
    /// Nothing can be said. Counts as potentially harmful.
    ReplayFailure(Failure),
}

/// Why nothing can be said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Failure {
    /// What the trapped thread's access overwrote cannot be found out.
    CannotUndo(String),
    /// The threads stopped at different places because the replay gave up.
    Incomparable {
        /// The thread that did.
        side: Side,
        /// Why it stopped.
        end: End,
    },
    /// More differs than is listed.
    ManyDifferences,
    /// Another thread changed memory that the replay used, again and again.
    MemoryChanged {
        /// The page.
        address: u64,
    },
    /// It took so long that there was no time for another look.
    NoTime,
    /// Every order faults: then the memory, not the race, is at fault.
    FaultsInEveryOrder,
    /// A thread could not run even its access.
    NoStart {
        /// Which thread.
        side: Side,
        /// Why it stopped.
        end: End,
    },
    /// All orders left the same state, but both threads write, and this one writes back what it
    /// has read. With other values the other one's write would be lost.
    WritesBack {
        /// Which thread.
        side: Side,
    },
}

impl Call {
    /// The orders that show something, those that show most first: that fail, or leave something
    /// else than the first order.
    #[must_use]
    pub fn telling(&self) -> Vec<Order> {
        match self {
            Self::NoStateChange | Self::ReplayFailure(_) => Vec::new(),
            Self::Fault { orders } => orders.clone(),
            Self::StateChange { that, further, .. } => {
                let mut orders = vec![*that];
                orders.extend(further.iter().map(|(order, _)| *order));
                orders.dedup();
                orders
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotUndo(why) => write!(f, "the caught access cannot be taken back: {why}"),
            Self::Incomparable { side, end } => write!(f, "{side} {end}"),
            Self::ManyDifferences => f.write_str("the orders differ in too much to list it"),
            Self::MemoryChanged { .. } => {
                f.write_str("another thread changed the memory meanwhile")
            }
            Self::NoTime => f.write_str("there was no time to look again"),
            Self::FaultsInEveryOrder => f.write_str("every order fails"),
            Self::NoStart { side, end } => write!(f, "{side} cannot run its access: {end}"),
            Self::WritesBack { side } => {
                write!(f, "{side} writes back what it has read, by chance the same")
            }
        }
    }
}

/// The answer to one question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// The result.
    pub call: Call,
    /// Each order that was run, with how it ended.
    pub outcomes: Vec<Outcome>,
    /// The bytes of data that were used, as start and end. A live source reads them again.
    pub used: Vec<(u64, u64)>,
    /// Instructions executed, over all orders.
    pub steps: u64,
}

/// Bytes as a number where that is how people read them.
#[must_use]
pub fn number(bytes: &[u8]) -> String {
    if bytes.len() <= 8 {
        let number = bytes
            .iter()
            .rev()
            .fold(0_u64, |n, b| n << 8 | u64::from(*b));
        return format!("{number:#x}");
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
