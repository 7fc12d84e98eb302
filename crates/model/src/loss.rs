//! Losses: the counted reasons why a site, a sample or a trap showed nothing.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a sample or a trap did not become a collision although it might have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The debug registers were in use by other windows: the thread was resumed at
    /// once.
    NoDebugRegister,
    /// There are too few debug registers for all the bytes: the rest was only
    /// re-read.
    PartlyWatched,
    /// A trap of a window that had ended already.
    StaleTrap,
    /// The instruction that trapped does not access the watched bytes.
    NotOverlapping,
    /// The instruction before the trap could not be determined.
    UnknownInstruction,
    /// It overwrote its own address register, and the loaded value does not tell
    /// whether it accessed the watched bytes.
    AddressDestroyed,
    /// A trap in the kernel that no argument of the system call explains.
    KernelAccess,
    /// A vector read of a string function that may read past its data.
    OverRead,
    /// The sampled operand could not be computed or read.
    UnreadableOperand,
    /// The sampled thread was the only one, and its memory private: there was nothing to
    /// collide with.
    Alone,
    /// The budget was used up: the thread was resumed at once.
    OverBudget,
    /// As many windows were open as may be.
    TooManyWindows,
    /// The bytes at the site are not those of its file, so that it is left alone; or
    /// not those that the window was opened for, so that nothing is claimed.
    TextChanged,
    /// The code could not be written, so that no breakpoint could be set.
    CodeNotWritable,
    /// More breakpoints would be set than can be kept track of in case the tracer is
    /// killed.
    TooManyBreakpoints,
    /// The window ended because its thread or the target did.
    ThreadGone,
    /// A thread could not be watched.
    Unwatched,
    /// The sampled code is an interrupt's handler, which is not held.
    InInterrupt,
    /// The same address in another address space.
    OtherSpace,
    /// The bytes are a device's registers, and reading them could have effects.
    DeviceMemory,
}

impl Loss {
    /// The reason as reports print it.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NoDebugRegister => "no free debug register",
            Self::PartlyWatched => "too few debug registers for all bytes (rest re-read)",
            Self::StaleTrap => "trap of an earlier window",
            Self::NotOverlapping => "trap on neighbouring bytes",
            Self::UnknownInstruction => "trapping instruction unknown",
            Self::AddressDestroyed => "address register overwritten by its own load",
            Self::KernelAccess => "kernel access outside the system call's arguments",
            Self::OverRead => "string function reading past its data",
            Self::UnreadableOperand => "operand not readable",
            Self::Alone => "no other thread to collide with",
            Self::OverBudget => "over budget",
            Self::TooManyWindows => "too many windows open",
            Self::TextChanged => "text differs from its file",
            Self::CodeNotWritable => "code could not be written",
            Self::TooManyBreakpoints => "more breakpoints than can be kept track of",
            Self::ThreadGone => "thread or program ended in the window",
            Self::Unwatched => "threads without a watch",
            Self::InInterrupt => "in an interrupt's handler",
            Self::DeviceMemory => "memory of a device",
            Self::OtherSpace => "the same address in another process",
        }
    }
}

/// How often each loss happened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Losses(pub BTreeMap<Loss, u64>);

impl Losses {
    /// Counts one more.
    pub fn add(&mut self, loss: Loss) {
        *self.0.entry(loss).or_default() += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (loss, count) in &other.0 {
            *self.0.entry(*loss).or_default() += count;
        }
    }

    /// How often `loss` happened.
    #[must_use]
    pub fn get(&self, loss: Loss) -> u64 {
        self.0.get(&loss).copied().unwrap_or(0)
    }
}
