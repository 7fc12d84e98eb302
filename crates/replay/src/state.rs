//! What a thread's registers hold.

use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The numbers of those general-purpose registers that instructions use without naming them, or
/// calling conventions do.
pub(crate) const RAX: usize = 0;
pub(crate) const RCX: usize = 1;
pub(crate) const RDX: usize = 2;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;
pub(crate) const R11: usize = 11;
pub(crate) const R12: usize = 12;

/// Bits of the flags register.
#[expect(missing_docs, reason = "these are the flags' own names")]
pub mod flag {
    pub const CF: u64 = 1;
    pub const PF: u64 = 1 << 2;
    pub const AF: u64 = 1 << 4;
    pub const ZF: u64 = 1 << 6;
    pub const SF: u64 = 1 << 7;
    pub const TF: u64 = 1 << 8;
    pub const IF: u64 = 1 << 9;
    pub const DF: u64 = 1 << 10;
    pub const OF: u64 = 1 << 11;
    pub const NT: u64 = 1 << 14;
    pub const AC: u64 = 1 << 18;
    pub const ID: u64 = 1 << 21;
    /// Those that arithmetic sets.
    pub const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
}

/// All registers of one thread that its unprivileged code can see.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The general-purpose registers by their number in the encoding: rax, rcx, rdx, rbx,
    /// rsp, rbp, rsi, rdi, r8 to r15.
    pub general: [u64; 16],
    /// The next instruction.
    pub ip: u64,
    /// The flags.
    pub flags: u64,
    /// Base of the `fs` segment.
    pub fs_base: u64,
    /// Base of the `gs` segment.
    pub gs_base: u64,
    /// Vector, mask and floating-point registers.
    pub vectors: Box<Vectors>,
}

/// The registers that XSAVE keeps, up to AVX-512.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Vectors {
    /// `zmm0` to `zmm31`, 64 bytes each, lowest byte first.
    pub zmm: Bytes<2048>,
    /// `k0` to `k7`.
    pub masks: [u64; 8],
    /// Control and status of vector arithmetic.
    pub mxcsr: u32,
    /// The x87 control word.
    pub x87_control: u16,
    /// The x87 status word.
    pub x87_status: u16,
    /// One bit for each x87 register in use, as FXSAVE has it.
    pub x87_tags: u8,
    /// `st0` to `st7`, which are `mm0` to `mm7` too, 16 bytes each.
    pub x87: Bytes<128>,
}

impl Default for Vectors {
    fn default() -> Self {
        Self {
            zmm: Bytes::default(),
            masks: [0; 8],
            mxcsr: 0x1f80,
            x87_control: 0x37f,
            x87_status: 0,
            x87_tags: 0,
            x87: Bytes::default(),
        }
    }
}

impl Vectors {
    /// The lowest `size` bytes of one vector register.
    #[must_use]
    pub fn register(&self, number: usize, size: usize) -> &[u8] {
        &self.zmm.0[number * 64..][..size]
    }
}
