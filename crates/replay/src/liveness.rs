//! Which registers a thread may still read after the end of its region.
//!
//! The code from there on is scanned, both ways at each branch. A register that every way
//! overwrites before reading it is dead. At calls and returns the calling convention
//! decides. Whatever the scan cannot decide is live.

use crate::machine::{Mode, Space, decode_at};
use crate::state::{R11, R12, RAX, RBP, RBX, RCX, RDX, RSP};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedRegister,
};
use std::collections::HashSet;

/// A set of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Registers {
    /// General-purpose ones, by number.
    pub general: u16,
    /// The lowest 16 bytes of vectors.
    pub low: u32,
    /// The other bytes of vectors.
    pub high: u32,
    pub masks: u8,
    /// Status flags.
    pub flags: u32,
}

impl Registers {
    pub const NONE: Self = Self {
        general: 0,
        low: 0,
        high: 0,
        masks: 0,
        flags: 0,
    };
    const ALL: Self = Self {
        general: u16::MAX,
        low: u32::MAX,
        high: u32::MAX,
        masks: u8::MAX,
        flags: u32::MAX,
    };

    const fn and(self, other: Self) -> Self {
        Self {
            general: self.general & other.general,
            low: self.low & other.low,
            high: self.high & other.high,
            masks: self.masks & other.masks,
            flags: self.flags & other.flags,
        }
    }

    const fn or(self, other: Self) -> Self {
        Self {
            general: self.general | other.general,
            low: self.low | other.low,
            high: self.high | other.high,
            masks: self.masks | other.masks,
            flags: self.flags | other.flags,
        }
    }

    const fn without(self, other: Self) -> Self {
        Self {
            general: self.general & !other.general,
            low: self.low & !other.low,
            high: self.high & !other.high,
            masks: self.masks & !other.masks,
            flags: self.flags & !other.flags,
        }
    }

    fn one(register: Register, whole: bool) -> Self {
        let mut set = Self::NONE;
        if register.is_gpr() {
            if !whole || register.size() >= 4 {
                set.general = 1 << (register.full_register().number() & 15);
            }
        } else if register.is_vector_register() {
            let bit = 1 << (register.number() & 31);
            set.low = bit;
            if !whole || register.size() == 64 {
                set.high = bit;
            }
        } else if register.is_k() {
            set.masks = 1 << (register.number() & 7);
        }
        set
    }
}

/// rbx, rbp and r12 to r15 belong to the caller, who is certain to need `rsp`.
const PRESERVED: u16 = 1 << RBX | 1 << RBP | 0xf << R12 | 1 << RSP;
/// A value is returned in rax and rdx; Rust and fast conventions add rcx.
const RETURNED: u16 = 1 << RAX | 1 << RDX | 1 << RCX;

const AFTER_RETURN: Registers = Registers {
    general: PRESERVED | RETURNED,
    low: 0xf,
    high: 0xf,
    masks: 0,
    flags: 0,
};

/// A program's callee gets everything but r11, in which linkage tables compute.
const fn at_call(mode: Mode) -> Registers {
    Registers {
        general: match mode {
            Mode::User => !(1 << R11),
            // Calls through thunks take their target in any register.
            Mode::Kernel => u16::MAX,
        },
        low: 0xff,
        high: 0xff,
        masks: 0,
        flags: 0,
    }
}

/// Instructions looked at, over all ways.
const MOST: usize = 400;

/// What the code from `ip` on may read of what the registers hold.
pub(crate) fn live_at(space: &mut Space<'_>, mode: Mode, ip: u64) -> Registers {
    let mut factory = InstructionInfoFactory::new();
    let mut live = Registers::NONE;
    let mut seen = HashSet::new();
    let mut ways = vec![(ip, Registers::ALL)];
    while let Some((ip, open)) = ways.pop() {
        let open = open.without(live);
        if open == Registers::NONE || !seen.insert((ip, open)) {
            continue;
        }
        if seen.len() > MOST {
            return live
                .or(open)
                .or(ways.iter().fold(Registers::NONE, |all, (_, o)| all.or(*o)));
        }
        let Ok((bytes, length)) = space.code(ip) else {
            live = live.or(open);
            continue;
        };
        let i = decode_at(ip, &bytes[..length]);
        let (read, overwritten) = effects(&mut factory, &i);
        live = live.or(open.and(read));
        let open = open.without(read).without(overwritten);
        let next = i.next_ip();
        match i.flow_control() {
            _ if i.is_invalid() => live = live.or(open),
            FlowControl::Next => ways.push((next, open)),
            FlowControl::ConditionalBranch => {
                ways.push((next, open));
                ways.push((i.near_branch_target(), open));
            }
            FlowControl::UnconditionalBranch if i.is_jmp_short_or_near() => {
                ways.push((i.near_branch_target(), open));
            }
            FlowControl::Call if i.mnemonic() == Mnemonic::Syscall => {
                // The kernel keeps all but these two.
                let lost = Registers {
                    general: 1 << RCX | 1 << R11,
                    ..Registers::NONE
                };
                live = live.or(open.without(lost));
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                live = live.or(open.and(at_call(mode)));
            }
            FlowControl::Return if i.mnemonic() == Mnemonic::Ret => {
                live = live.or(open.and(AFTER_RETURN));
            }
            // Nobody reads anything after an abort; a kernel's warning goes on, though.
            FlowControl::Exception if mode == Mode::User => {}
            _ => live = live.or(open),
        }
    }
    live
}

/// What an instruction reads, and what it overwrites whatever happens.
fn effects(factory: &mut InstructionInfoFactory, i: &Instruction) -> (Registers, Registers) {
    let mut read = Registers::NONE;
    let mut overwritten = Registers::NONE;
    let reads = |used: &&UsedRegister| {
        matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let info = factory.info(i);
    for used in info.used_registers().iter().filter(reads) {
        read = read.or(Registers::one(used.register(), false));
    }
    for used in info.used_registers() {
        if used.access() == OpAccess::Write {
            overwritten = overwritten.or(Registers::one(used.register(), true));
        }
    }
    read.flags = i.rflags_read();
    // Flags that are undefined may also stay as they are.
    overwritten.flags = i.rflags_written() | i.rflags_cleared() | i.rflags_set();
    (read, overwritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Snapshot;

    fn live(code: &[u8]) -> Registers {
        let mut snapshot = Snapshot::new(true);
        snapshot.write(0x1000, code);
        live_at(&mut Space::new(&mut snapshot), Mode::User, 0x1000)
    }

    #[test]
    fn overwritten_before_read_is_dead() {
        // mov eax, 1; mov rcx, rbx; ret
        let live = live(&[0xb8, 1, 0, 0, 0, 0x48, 0x89, 0xd9, 0xc3]);
        assert_eq!(
            live.general & 0b1111,
            0b1100,
            "rax and rcx are dead: {live:?}"
        );
        assert_eq!(live.flags, 0);
        assert_eq!(live.low >> 4, 0);
    }

    #[test]
    fn a_part_that_is_overwritten_leaves_the_rest_alive() {
        // mov al, 1; ret
        assert_eq!(live(&[0xb0, 1, 0xc3]).general & 1, 1);
        // movaps xmm9, xmm0; jmp back: the upper half of ymm9 survives
        let live = live(&[0x44, 0x0f, 0x28, 0xc8, 0xeb, 0xfa]);
        assert_eq!(live.low >> 9 & 1, 0);
    }

    #[test]
    fn a_register_read_on_one_way_is_live() {
        // test edi, edi; je +2; mov eax, esi (2 bytes); ret
        let live = live(&[0x85, 0xff, 0x74, 0x02, 0x89, 0xf0, 0xc3]);
        assert_ne!(live.general & 1 << 6, 0, "rsi");
        assert_ne!(live.general & 1 << 7, 0, "rdi");
        assert_eq!(live.general & 1 << 8, 0, "r8");
    }

    #[test]
    fn unknown_code_leaves_all_alive() {
        assert_eq!(live(&[0xff, 0xe0]).general, u16::MAX, "jmp rax");
    }
}
