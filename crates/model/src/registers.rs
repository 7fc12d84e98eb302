//! The integer registers of one x86-64 task.

use serde::{Deserialize, Serialize};

/// A general-purpose register, by its number in the instruction encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "these are the registers' own names")]
pub enum Register {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

impl Register {
    /// All, by their numbers.
    pub const ALL: [Self; 16] = [
        Self::Rax,
        Self::Rcx,
        Self::Rdx,
        Self::Rbx,
        Self::Rsp,
        Self::Rbp,
        Self::Rsi,
        Self::Rdi,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
        Self::R12,
        Self::R13,
        Self::R14,
        Self::R15,
    ];

    /// Those that hold the arguments of a system call, in their order.
    pub const SYSTEM_CALL_ARGUMENTS: [Self; 6] = [
        Self::Rdi,
        Self::Rsi,
        Self::Rdx,
        Self::R10,
        Self::R8,
        Self::R9,
    ];

    /// Those that hold the first arguments of a function, in their order.
    pub const ARGUMENTS: [Self; 6] = [
        Self::Rdi,
        Self::Rsi,
        Self::Rdx,
        Self::Rcx,
        Self::R8,
        Self::R9,
    ];

    /// Those that a called function may change.
    pub const CHANGED_BY_CALLS: [Self; 9] = [
        Self::Rax,
        Self::Rcx,
        Self::Rdx,
        Self::Rsi,
        Self::Rdi,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
    ];

    /// All, by their numbers in DWARF, which has its own order for the first eight.
    pub const BY_DWARF: [Self; 16] = [
        Self::Rax,
        Self::Rdx,
        Self::Rcx,
        Self::Rbx,
        Self::Rsi,
        Self::Rdi,
        Self::Rbp,
        Self::Rsp,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
        Self::R12,
        Self::R13,
        Self::R14,
        Self::R15,
    ];
}

/// What a stopped task's registers hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Registers {
    /// The general-purpose registers, indexed by [`Register`].
    pub gpr: [u64; 16],
    /// The instruction pointer.
    pub rip: u64,
    /// The flags.
    pub rflags: u64,
    /// Base of the `fs` segment (thread-local storage of programs).
    pub fs_base: u64,
    /// Base of the `gs` segment (per-CPU data of kernels).
    pub gs_base: u64,
    /// The number of the system call the task is in or was last in, if the
    /// backend knows: -1 otherwise.
    pub system_call: i64,
}

impl Registers {
    /// The value of one register.
    #[must_use]
    pub const fn get(&self, register: Register) -> u64 {
        self.gpr[register as usize]
    }

    /// Sets one register.
    pub const fn set(&mut self, register: Register, value: u64) {
        self.gpr[register as usize] = value;
    }

    /// The stack pointer.
    #[must_use]
    pub const fn stack_pointer(&self) -> u64 {
        self.get(Register::Rsp)
    }

    /// Whether interrupts are enabled.
    #[must_use]
    pub const fn interrupts_enabled(&self) -> bool {
        self.rflags & (1 << 9) != 0
    }

    /// Whether string instructions run towards lower addresses.
    #[must_use]
    pub const fn direction_down(&self) -> bool {
        self.rflags & (1 << 10) != 0
    }
}
