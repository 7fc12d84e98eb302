//! One access of an instruction, and where it is before and after.

use super::operand::Operand;
use redhanded_model::{AccessKind, Avma, Bytes, Register, Registers};

/// How far back a repeated string instruction's trap may be reported: the
/// processor moves whole cache lines at a time.
const FAST_STRING: u64 = 64;

/// One access to contiguous bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What it does to them.
    pub kind: AccessKind,
    /// How many bytes; 0 for a repeated string instruction, whose length is in
    /// rcx.
    pub size: u32,
    /// Whether it is the implicit stack access of push, pop, call, ret, leave.
    pub stack_engine: bool,
    /// How its address is computed before the instruction runs.
    pub operand: Operand,
    pub(super) recovery: Recovery,
}

/// How to find the address after the instruction ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    /// The same way as before.
    Same,
    /// The same way, with this added: the stack pointer moved.
    Moved(u64),
    /// Of a string instruction whose pointer moves by `element`.
    String {
        /// Bytes per iteration.
        element: u8,
        /// How it is repeated.
        repeat: Repeat,
    },
    /// At the stack pointer, with this added.
    FromStack(u64),
    /// Not at all; the loaded value is in this part of a register.
    Lost(Option<RegisterPart>),
}

/// How often a string instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// Once.
    Once,
    /// As often as rcx (ecx with 32-bit addresses) says.
    Counted,
    /// As often at most, and until a comparison ends it: only the first element
    /// is sure to be accessed.
    Compared,
}

/// Some low bytes of a register, or its second byte.
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

/// Where an access was, told from the registers after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Exactly there.
    Exact(Bytes),
    /// A repeated string instruction: somewhere in these bytes, the last ones it
    /// processed. As long as a trap can be late, so the run may have begun
    /// within them.
    Recent(Bytes),
    /// The instruction overwrote its own address register.
    Destroyed {
        /// What it loaded, in the low `size` bytes, where that is what it wrote
        /// over the address.
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

    /// The bytes, from the registers before the instruction runs. No bytes for a
    /// repeated string instruction that runs zero times; of one that may stop
    /// early (`repe cmps`, `repne scas`) the first element. `None` where they
    /// would wrap around the end of the address space.
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
            // The first element is the highest one.
            checked(address.checked_sub(len - element)?, len)
        } else {
            checked(address, len)
        }
    }

    /// Where the bytes were, from the registers right after the instruction, or
    /// after some iterations of a repeated one.
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
                    // The pointer stands one element below the last one.
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
