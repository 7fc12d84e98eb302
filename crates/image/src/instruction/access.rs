//! One memory access of an instruction, and how to find its bytes before and after it.

use super::operand::Operand;
use redhanded_model::{AccessKind, Avma, Bytes, Register, Registers};

/// How late the trap of a repeated string instruction may come: the processor moves whole
/// cache lines at a time.
const FAST_STRING: u64 = 64;

/// One access to contiguous bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Whether it reads or writes the bytes, or both.
    pub kind: AccessKind,
    /// The number of bytes; 0 for a repeated string instruction, whose length is in rcx.
    pub size: u32,
    /// Whether it is the implicit stack access of push, pop, call, ret, leave.
    pub stack_engine: bool,
    /// How its address is computed before the instruction runs.
    pub operand: Operand,
    pub(super) recovery: Recovery,
}

/// How to find the address after the instruction has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    /// The same way as before.
    Same,
    /// The same way, plus this: the stack pointer has moved.
    Moved(u64),
    /// From the pointer of a string instruction, which moves by `element`.
    String {
        /// Bytes per iteration.
        element: u8,
        /// How it is repeated.
        repeat: Repeat,
    },
    /// At the stack pointer, plus this.
    FromStack(u64),
    /// It is lost; the loaded value is in this part of a register.
    Lost(Option<RegisterPart>),
}

/// How often a string instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// Once.
    Once,
    /// As many times as rcx says (ecx with 32-bit addresses).
    Counted,
    /// At most as many times, until a comparison ends it. Only the first element is sure to
    /// be accessed.
    Compared,
}

/// The low bytes of a register, or its second byte (`ah`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RegisterPart {
    pub register: Register,
    pub shift: u8,
    pub bytes: u8,
}

impl RegisterPart {
    fn value(self, registers: &Registers) -> u64 {
        let value = registers.get(self.register) >> self.shift;
        match self.bytes {
            8.. => value,
            bytes => value & ((1u64 << (u32::from(bytes) * 8)) - 1),
        }
    }
}

/// Where an access was, as far as the registers after it tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Exactly there.
    Exact(Bytes),
    /// By a repeated string instruction, somewhere in the last bytes that it processed.
    /// There are as many as a trap can be late, so the first may be before its start.
    Recent(Bytes),
    /// The instruction overwrote its own address register.
    Destroyed {
        /// The loaded value in the low `size` bytes, if that is what replaced the address.
        value: Option<u64>,
    },
}

impl Access {
    pub(super) const NONE: Self = Self {
        kind: AccessKind::Read,
        size: 0,
        stack_engine: false,
        operand: Operand::at(Register::Rax, 0),
        recovery: Recovery::Same,
    };

    /// The bytes, computed from the registers before the instruction runs. They are empty if
    /// a repeated string instruction runs zero times, and the first element if it may stop
    /// early (`repe cmps`, `repne scas`). `None` if they would wrap around the end of the
    /// address space.
    #[must_use]
    pub fn bytes_before(&self, registers: &Registers) -> Option<Bytes> {
        let address = self.operand.address(registers);
        let Recovery::String { element, repeat } = self.recovery else {
            return checked(address, u64::from(self.size));
        };
        let element = u64::from(element);
        if repeat == Repeat::Once {
            return checked(address, element);
        }
        let mut count = registers.get(Register::Rcx);
        if self.operand.narrow {
            count &= 0xffff_ffff;
        }
        if repeat == Repeat::Compared {
            count = count.min(1);
        }
        let len = count.checked_mul(element)?;
        if registers.direction_down() && count > 0 {
            // The first element has the highest address.
            checked(address.checked_sub(len - element)?, len)
        } else {
            checked(address, len)
        }
    }

    /// Where the bytes were, computed from the registers after the instruction, or after some
    /// iterations of a repeated one.
    #[must_use]
    pub fn bytes_after(&self, registers: &Registers) -> After {
        let exact = |address: u64, len: u64| {
            checked(address, len).map_or(After::Destroyed { value: None }, After::Exact)
        };
        let size = u64::from(self.size);
        let address = self.operand.address(registers);
        match self.recovery {
            Recovery::Same => exact(address, size),
            Recovery::Moved(by) => exact(address.wrapping_add(by), size),
            Recovery::FromStack(by) => exact(registers.get(Register::Rsp).wrapping_add(by), size),
            Recovery::Lost(part) => After::Destroyed {
                value: part.map(|part| part.value(registers)),
            },
            Recovery::String { element, repeat } => {
                let element = u64::from(element);
                let back = match repeat {
                    Repeat::Once => element,
                    Repeat::Counted | Repeat::Compared => FAST_STRING,
                };
                let start = if registers.direction_down() {
                    // The pointer is one element below the last one accessed.
                    address.saturating_add(element)
                } else {
                    address.saturating_sub(back)
                };
                match repeat {
                    Repeat::Once => exact(start, back),
                    _ => After::Recent(Bytes::new(Avma(start), back)),
                }
            }
        }
    }
}

fn checked(start: u64, len: u64) -> Option<Bytes> {
    start.checked_add(len)?;
    Some(Bytes::new(Avma(start), len))
}
