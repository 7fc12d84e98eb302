//! The entries that the recorder writes, as it writes them.
//!
//! An entry has 16 bytes, two little-endian words, so that code inside the program can append
//! one with two stores. The first word has the kind in its top 8 bits, a size or an index in the
//! next 8, and an address or another number in the low 48. What the second word means depends on
//! the kind: for most a site (low 32 bits) and a context (high 32), which dictionaries translate;
//! for some a whole number.
//!
//! The recorder is written in C. `cargo xtask recorder` makes a header with the same numbers
//! from this file.
//!
//! # What is recorded
//!
//! A *sequencer* is an entry with a number. It is preceded by [`Kind::Number`]. Numbers are
//! global: they are drawn from one counter that all threads of all recorded processes share. A
//! thread's entries from one sequencer to the next are a *region*. Within a region an access is
//! left out if the same instruction accessed the same bytes before, in the same region and
//! context.
//!
//! Every entry of these kinds is numbered: [`Kind::Atomic`], [`Kind::Fence`], [`Kind::Call`],
//! [`Kind::Return`], [`Kind::SystemCall`], [`Kind::SystemReturn`], [`Kind::Signal`],
//! [`Kind::Start`], [`Kind::Exit`]. The number of an `Atomic` is drawn so that two atomic
//! accesses to the same bytes have numbers in the order in which they took effect. The others
//! are drawn when the entry is written: before what a call does, after what it did.
//!
//! Accesses inside a hooked [`Function`] (between `Call` and `Return`) are recorded like any
//! other; a reader may leave them out, because the call says what they mean.

/// How long an entry is, in bytes.
pub const ENTRY_SIZE: usize = 16;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Memory was read. The address, the size (0: in the first [`Kind::Value`] that follows),
    /// site and context.
    Read = 1,
    /// Memory was written.
    Write = 2,
    /// Memory was read and written by one instruction that is not locked.
    Update = 3,
    /// Memory was accessed by a locked instruction, or by `xchg`.
    Atomic = 4,
    /// The number of the next entry, in the second word.
    Number = 16,
    /// A further number of the entry before; the index is in the place of the size, from 0.
    Value = 17,
    /// A fence. Site and context.
    Fence = 18,
    /// A hooked function is entered. Its number ([`Function`]) in the place of the address; the
    /// site is the call's return address. Its arguments follow as values.
    Call = 19,
    /// A hooked function returns. Its result follows as a value.
    Return = 20,
    /// A system call begins. Its number in the place of the address, site and context; its six
    /// arguments follow as values.
    SystemCall = 21,
    /// A system call ended. Its result follows as a value, as the kernel gave it.
    SystemReturn = 22,
    /// A signal's handler starts. The signal in the place of the address, site and context of
    /// what it interrupts.
    Signal = 23,
    /// The first entry of a thread. Values: the base of its thread-local memory, then its stack
    /// pointer.
    Start = 24,
    /// The last entry of a thread.
    Exit = 25,
    /// Entries were lost here. How many, in the second word.
    Lost = 26,
    /// The count of instructions that the thread has run, in the second word, when it came to what
    /// the next [`Kind::Load`] belongs to.
    At = 32,
    /// The thread is about to read this word, and nothing that it did says what is in it. The
    /// address, a multiple of 8, and what is in it.
    Load = 33,
    /// Registers. How (see [`check`]) in the place of the size, the count of instructions that
    /// the thread has run in the second word; the program counter follows as a value. Those that
    /// have changed since the last of these follow as [`Kind::Register`].
    Check = 34,
    /// A register. Its number (see [`register`]) in the place of the address, and its value.
    Register = 35,
}

/// How a [`Kind::Check`] was made, as bits.
pub mod check {
    /// Whatever the thread reads from here on is logged anew, and all registers follow that are
    /// not 0: a replay can begin here.
    pub const FRESH: u8 = 1;
    /// What was before it is not replayed: an instruction whose effects this tells, or a signal.
    pub const OPAQUE: u8 = 2;
    /// A signal interrupts the thread, somewhere in the block of instructions that begins with
    /// this count. The address has the block's length. Only registers that hold integers are told.
    pub const STOPPED: u8 = 4;
    /// The flags are not known.
    pub const NO_FLAGS: u8 = 8;
}

/// The numbers of registers in [`Kind::Register`]. The general-purpose ones have those that
/// instructions use for them.
pub mod register {
    /// The flags.
    pub const FLAGS: usize = 16;
    /// The base of the segment `fs`, then that of `gs`.
    pub const FS: usize = 17;
    /// Control and status of vector arithmetic.
    pub const MXCSR: usize = 19;
    /// The control word of the x87 part, its status word and its tags, as FXSAVE has them.
    pub const X87: usize = 20;
    /// The masks.
    pub const MASK: usize = 32;
    /// The x87 registers, two words each.
    pub const ST: usize = 64;
    /// The vector registers, eight words each.
    pub const VECTOR: usize = 128;
    /// How many there are.
    pub const ALL: usize = 384;
}

/// What the recorder is told if it is to record values.
pub const OPTION_VALUES: &str = "values";

impl Kind {
    /// The kind with this number.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::Update,
            4 => Self::Atomic,
            16 => Self::Number,
            17 => Self::Value,
            18 => Self::Fence,
            19 => Self::Call,
            20 => Self::Return,
            21 => Self::SystemCall,
            22 => Self::SystemReturn,
            23 => Self::Signal,
            24 => Self::Start,
            25 => Self::Exit,
            26 => Self::Lost,
            32 => Self::At,
            33 => Self::Load,
            34 => Self::Check,
            35 => Self::Register,
            _ => return None,
        })
    }
}

/// One entry, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it says.
    pub kind: Kind,
    /// A size in bytes, or the index of a value.
    pub size: u8,
    /// An address, or the number of a function, system call or signal.
    pub address: u64,
    /// The second word.
    pub word: u64,
}

impl Entry {
    /// The entry in these bytes; none if its kind is unknown.
    #[must_use]
    pub fn unpack(bytes: [u8; ENTRY_SIZE]) -> Option<Self> {
        let packed = u128::from_le_bytes(bytes);
        let first = packed as u64;
        Some(Self {
            kind: Kind::new((first >> 56) as u8)?,
            size: (first >> 48) as u8,
            address: first & ((1 << 48) - 1),
            word: (packed >> 64) as u64,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn pack(self) -> [u8; ENTRY_SIZE] {
        let first = u64::from(self.kind as u8) << 56
            | u64::from(self.size) << 48
            | self.address & ((1 << 48) - 1);
        (u128::from(first) | u128::from(self.word) << 64).to_le_bytes()
    }

    /// The site, where the second word has one.
    #[must_use]
    pub const fn site(self) -> u32 {
        self.word as u32
    }

    /// The context, where the second word has one.
    #[must_use]
    pub const fn context(self) -> u32 {
        (self.word >> 32) as u32
    }
}

/// What a chunk of the recorder's stream holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ChunkKind {
    /// The recorder is there. JSON: its version, the process, its parent, its program. The first
    /// chunk of each process; without it nothing is recorded.
    Hello = 1,
    /// Entries of one thread.
    Entries = 2,
    /// Sites: pairs of words, the site's number and the address of its instruction.
    Sites = 3,
    /// Contexts: pairs of words. The low half of the first is the context's number, its high half
    /// that of its caller's context (0: none); the second word is the return address.
    Contexts = 4,
    /// A file was mapped as code. JSON: the path, where it starts, the end, the offset in the
    /// file of its first part, the parts.
    Module = 5,
    /// A file is no longer mapped. JSON: where it started.
    Unmapped = 6,
    /// A thread's name, as text.
    Name = 7,
    /// The process ends in the ordinary way: everything was written.
    Goodbye = 8,
    /// Instructions that ran: for each a word with its address and, in the upper 16 bits, its
    /// length, and its bytes in [`INSTRUCTION_ROOM`] bytes.
    Code = 9,
}

/// Room for an instruction.
pub const INSTRUCTION_ROOM: usize = 16;

impl ChunkKind {
    /// The kind with this number.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Hello,
            2 => Self::Entries,
            3 => Self::Sites,
            4 => Self::Contexts,
            5 => Self::Module,
            6 => Self::Unmapped,
            7 => Self::Name,
            8 => Self::Goodbye,
            9 => Self::Code,
            _ => return None,
        })
    }
}

/// How long the header of a chunk is in the recorder's stream: "RHRC", the kind, three bytes of 0,
/// the thread, the length of what follows (each of the last two four bytes, little-endian).
pub const CHUNK_HEADER_SIZE: usize = 16;

/// What a chunk of the recorder's stream begins with.
pub const CHUNK_MAGIC: [u8; 4] = *b"RHRC";

/// A recording has no more processes.
pub const MOST_PROCESSES: u32 = 4096;

/// No chunk of the recorder's stream is longer.
pub const LONGEST_CHUNK: u32 = 4 << 20;

/// The number of the first of the program's own functions that the recorder was told to hook: its
/// place in [`Header::functions`](crate::Header::functions) is added.
pub const FIRST_OWN: u64 = 1024;

/// No more of them are hooked.
pub const MOST_OWN: usize = 256;

/// Nor are longer names, all together, with a byte for the end of each.
pub const LONGEST_OWN: usize = 32 << 10;

/// How many of their arguments are recorded.
pub const OWN_ARGUMENTS: usize = 3;

macro_rules! functions {
    ($($name:ident = $number:literal: $symbol:literal, $arguments:literal;)*) => {
        /// A function whose calls and returns are recorded.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        #[expect(missing_docs, reason = "each is called like the function it stands for")]
        pub enum Function {
            $($name = $number,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The function with this number.
            #[must_use]
            pub const fn new(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its symbol.
            #[must_use]
            pub const fn symbol(self) -> &'static str {
                match self {
                    $(Self::$name => $symbol,)*
                }
            }

            /// How many of its arguments are recorded.
            #[must_use]
            pub const fn arguments(self) -> usize {
                match self {
                    $(Self::$name => $arguments,)*
                }
            }
        }
    };
}

functions! {
    MutexLock = 1: "pthread_mutex_lock", 1;
    MutexTryLock = 2: "pthread_mutex_trylock", 1;
    MutexTimedLock = 3: "pthread_mutex_timedlock", 1;
    MutexClockLock = 4: "pthread_mutex_clocklock", 1;
    MutexUnlock = 5: "pthread_mutex_unlock", 1;
    MutexInit = 6: "pthread_mutex_init", 1;
    MutexDestroy = 7: "pthread_mutex_destroy", 1;
    ReadLock = 10: "pthread_rwlock_rdlock", 1;
    ReadTryLock = 11: "pthread_rwlock_tryrdlock", 1;
    ReadTimedLock = 12: "pthread_rwlock_timedrdlock", 1;
    WriteLock = 13: "pthread_rwlock_wrlock", 1;
    WriteTryLock = 14: "pthread_rwlock_trywrlock", 1;
    WriteTimedLock = 15: "pthread_rwlock_timedwrlock", 1;
    ReadWriteUnlock = 16: "pthread_rwlock_unlock", 1;
    ReadClockLock = 17: "pthread_rwlock_clockrdlock", 1;
    WriteClockLock = 18: "pthread_rwlock_clockwrlock", 1;
    SpinLock = 20: "pthread_spin_lock", 1;
    SpinTryLock = 21: "pthread_spin_trylock", 1;
    SpinUnlock = 22: "pthread_spin_unlock", 1;
    ConditionWait = 30: "pthread_cond_wait", 2;
    ConditionTimedWait = 31: "pthread_cond_timedwait", 2;
    ConditionClockWait = 32: "pthread_cond_clockwait", 2;
    ConditionSignal = 33: "pthread_cond_signal", 1;
    ConditionBroadcast = 34: "pthread_cond_broadcast", 1;
    BarrierInit = 40: "pthread_barrier_init", 3;
    BarrierWait = 41: "pthread_barrier_wait", 1;
    SemaphoreInit = 50: "sem_init", 3;
    SemaphoreWait = 51: "sem_wait", 1;
    SemaphoreTryWait = 52: "sem_trywait", 1;
    SemaphoreTimedWait = 53: "sem_timedwait", 1;
    SemaphoreClockWait = 54: "sem_clockwait", 1;
    SemaphorePost = 55: "sem_post", 1;
    Once = 60: "pthread_once", 2;
    GuardAcquire = 61: "__cxa_guard_acquire", 1;
    GuardRelease = 62: "__cxa_guard_release", 1;
    GuardAbort = 63: "__cxa_guard_abort", 1;
    ThreadCreate = 70: "pthread_create", 3;
    ThreadJoin = 71: "pthread_join", 1;
    ThreadTryJoin = 72: "pthread_tryjoin_np", 1;
    ThreadTimedJoin = 73: "pthread_timedjoin_np", 1;
    ThreadClockJoin = 74: "pthread_clockjoin_np", 1;
    Malloc = 80: "malloc", 1;
    Calloc = 81: "calloc", 2;
    Realloc = 82: "realloc", 2;
    Free = 83: "free", 1;
    AlignedAlloc = 84: "aligned_alloc", 2;
    Memalign = 85: "memalign", 2;
    PosixMemalign = 86: "posix_memalign", 3;
    Valloc = 87: "valloc", 1;
    ReallocArray = 88: "reallocarray", 3;
    Pvalloc = 89: "pvalloc", 1;
    GompParallel = 100: "GOMP_parallel", 3;
    GompBarrier = 101: "GOMP_barrier", 0;
    GompCriticalStart = 102: "GOMP_critical_start", 0;
    GompCriticalEnd = 103: "GOMP_critical_end", 0;
    GompCriticalNameStart = 104: "GOMP_critical_name_start", 1;
    GompCriticalNameEnd = 105: "GOMP_critical_name_end", 1;
    GompAtomicStart = 106: "GOMP_atomic_start", 0;
    GompAtomicEnd = 107: "GOMP_atomic_end", 0;
    OmpSetLock = 108: "omp_set_lock", 1;
    OmpUnsetLock = 109: "omp_unset_lock", 1;
    OmpTestLock = 110: "omp_test_lock", 1;
    OmpSetNestLock = 111: "omp_set_nest_lock", 1;
    OmpUnsetNestLock = 112: "omp_unset_nest_lock", 1;
    OmpTestNestLock = 113: "omp_test_nest_lock", 1;
    GompSingleCopyStart = 114: "GOMP_single_copy_start", 0;
    GompSingleCopyEnd = 115: "GOMP_single_copy_end", 1;
    GompOrderedStart = 116: "GOMP_ordered_start", 0;
    GompOrderedEnd = 117: "GOMP_ordered_end", 0;
    GompTaskwait = 118: "GOMP_taskwait", 0;
    GompTaskgroupEnd = 119: "GOMP_taskgroup_end", 0;
    GompLoopEnd = 120: "GOMP_loop_end", 0;
    GompSectionsEnd = 121: "GOMP_sections_end", 0;
    GompTask = 122: "GOMP_task", 3;
    GompBarrierCancel = 123: "GOMP_barrier_cancel", 0;
    GompLoopEndCancel = 124: "GOMP_loop_end_cancel", 0;
    GompSectionsEndCancel = 125: "GOMP_sections_end_cancel", 0;
    GompParallelSections = 126: "GOMP_parallel_sections", 3;
    GompParallelReductions = 127: "GOMP_parallel_reductions", 3;
    GompParallelLoopStatic = 128: "GOMP_parallel_loop_static", 3;
    GompParallelLoopDynamic = 129: "GOMP_parallel_loop_dynamic", 3;
    GompParallelLoopGuided = 130: "GOMP_parallel_loop_guided", 3;
    GompParallelLoopRuntime = 131: "GOMP_parallel_loop_runtime", 3;
    GompParallelLoopNonmonotonicDynamic = 132: "GOMP_parallel_loop_nonmonotonic_dynamic", 3;
    GompParallelLoopNonmonotonicGuided = 133: "GOMP_parallel_loop_nonmonotonic_guided", 3;
    GompParallelLoopNonmonotonicRuntime = 134: "GOMP_parallel_loop_nonmonotonic_runtime", 3;
    GompParallelLoopMaybeNonmonotonicRuntime = 135:
        "GOMP_parallel_loop_maybe_nonmonotonic_runtime", 3;
    GompTaskloop = 136: "GOMP_taskloop", 3;
    GompTaskloopLong = 137: "GOMP_taskloop_ull", 3;
    GompDoacrossPost = 138: "GOMP_doacross_post", 1;
    GompDoacrossWait = 139: "GOMP_doacross_wait", 1;
    GompDoacrossLongPost = 140: "GOMP_doacross_ull_post", 1;
    GompDoacrossLongWait = 141: "GOMP_doacross_ull_wait", 1;
    GompDynamicStart = 142: "GOMP_loop_dynamic_start", 0;
    GompDynamicNext = 143: "GOMP_loop_dynamic_next", 0;
    GompGuidedStart = 144: "GOMP_loop_guided_start", 0;
    GompGuidedNext = 145: "GOMP_loop_guided_next", 0;
    GompRuntimeStart = 146: "GOMP_loop_runtime_start", 0;
    GompRuntimeNext = 147: "GOMP_loop_runtime_next", 0;
    GompNonmonotonicDynamicStart = 148: "GOMP_loop_nonmonotonic_dynamic_start", 0;
    GompNonmonotonicDynamicNext = 149: "GOMP_loop_nonmonotonic_dynamic_next", 0;
    GompNonmonotonicGuidedStart = 150: "GOMP_loop_nonmonotonic_guided_start", 0;
    GompNonmonotonicGuidedNext = 151: "GOMP_loop_nonmonotonic_guided_next", 0;
    GompNonmonotonicRuntimeStart = 152: "GOMP_loop_nonmonotonic_runtime_start", 0;
    GompNonmonotonicRuntimeNext = 153: "GOMP_loop_nonmonotonic_runtime_next", 0;
    GompMaybeNonmonotonicRuntimeStart = 154: "GOMP_loop_maybe_nonmonotonic_runtime_start", 0;
    GompMaybeNonmonotonicRuntimeNext = 155: "GOMP_loop_maybe_nonmonotonic_runtime_next", 0;
    GompSectionsStart = 156: "GOMP_sections_start", 0;
    GompSectionsNext = 157: "GOMP_sections_next", 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_unpacked_as_it_was_packed() {
        let entry = Entry {
            kind: Kind::Update,
            size: 8,
            address: 0x7fff_1234_5678,
            word: 0x0000_0007_0000_002a,
        };
        assert_eq!(Entry::unpack(entry.pack()), Some(entry));
        assert_eq!((entry.site(), entry.context()), (42, 7));
        assert_eq!(Entry::unpack([0xff; ENTRY_SIZE]), None);
    }

    #[test]
    fn a_number_names_one_function() {
        for &function in Function::ALL {
            assert_eq!(Function::new(function as u64), Some(function));
        }
    }
}
