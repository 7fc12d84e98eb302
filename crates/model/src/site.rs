//! Sites: the static instructions that may be sampled, and why others may not.

use crate::{AccessKind, Svma};
use serde::Serialize;
use std::collections::BTreeMap;

/// One static instruction that accesses memory and may be sampled.
///
/// Kept small on purpose: a large library has a million of them. The operand is
/// decoded again from the instruction's bytes when a sample needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Where the instruction is in its file.
    pub svma: Svma,
    /// Index of its function in the image's function table.
    pub function: u32,
    /// Bytes accessed; 0 for a repeated string instruction, whose length is in
    /// a register.
    pub size: u16,
    /// What it does to them.
    pub kind: AccessKind,
}

/// Why an instruction with a memory operand is not a site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excluded {
    /// In the function's own frame, in a slot whose address it does not take.
    Stack,
    /// push, pop, call, ret, enter, leave: the stack too.
    PushPopCall,
    /// `lock`-prefixed, or xchg with memory: synchronises by itself.
    Locked,
    /// lea, fences, prefetches, cache control, nops: access no data.
    NoData,
    /// fs- or gs-relative: private to the thread (or CPU).
    ThreadLocal,
    /// In a procedure linkage stub.
    Plt,
    /// The global offset table or data made read-only after relocation: lazy
    /// binding would be a race in every program.
    GotOrRelro,
    /// In a segment that is never writable.
    ReadOnly,
    /// The source says it is an atomic access.
    Atomic,
    /// The source says it is a volatile access.
    Volatile,
    /// Accesses bytes that depend on a mask (masked moves, saved state), or too many for a
    /// window.
    Unsupported,
    /// In a function whose range does not decode as code alone.
    DataInText,
    /// In a module, file or function the globs leave out.
    NotSelected,
    /// Runtime code (the C library linked into a static program).
    Runtime,
    /// Kernel code that runs only while the kernel or a module starts or ends, and whose
    /// memory is then reused.
    InitText,
    /// Kernel code that a trap must not interrupt: entry, idle and other code
    /// that forbids instrumentation.
    EntryText,
    /// Code that the kernel copies over other code to suit the processor; never
    /// executed in place.
    Alternative,
}

impl Excluded {
    /// The reason as `redhanded sites` prints it.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Stack => "stack access",
            Self::PushPopCall => "push, pop, call, ret",
            Self::Locked => "locked instruction",
            Self::NoData => "no data (lea, nop, fence, prefetch)",
            Self::ThreadLocal => "thread-local",
            Self::Plt => "PLT stub",
            Self::GotOrRelro => "GOT or RELRO",
            Self::ReadOnly => "read-only data",
            Self::Atomic => "atomic in the source",
            Self::Volatile => "volatile in the source",
            Self::Unsupported => "masked or too wide",
            Self::DataInText => "function with data in its text",
            Self::NotSelected => "not selected",
            Self::Runtime => "runtime library",
            Self::InitText => "kernel init and exit code",
            Self::EntryText => "kernel entry, idle and noinstr code",
            Self::Alternative => "replacement for patched kernel code",
        }
    }
}

/// How many instructions were left out, by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Exclusions(pub BTreeMap<Excluded, u64>);

impl Exclusions {
    /// Counts one more.
    pub fn add(&mut self, reason: Excluded) {
        self.add_many(reason, 1);
    }

    /// Counts `count` more.
    pub fn add_many(&mut self, reason: Excluded, count: u64) {
        if count > 0 {
            *self.0.entry(reason).or_default() += count;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (reason, count) in &other.0 {
            self.add_many(*reason, *count);
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}
