//! One row of the table, and the four ways its bits were laid out.

use super::super::step::Reg;
use gimli::X86_64;

/// A row as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    stack_offset: i16,
    rbp_offset: i16,
    bits: u16,
}

/// What the stack's address is computed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// A register plus the offset.
    Register(Reg),
    /// The word at a register plus the offset.
    Behind(Reg),
    /// The word at the top of the stack, plus the offset: the first thing on an
    /// interrupt's stack is where the interrupted one ended.
    Top,
}

/// Where the caller's rbp is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Saved {
    /// Still in rbp.
    Kept,
    /// This far from the stack's address.
    FromStack(i16),
    /// This far from where rbp points.
    FromRbp(i16),
}

/// What is at the stack's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// There is no caller.
    Outermost,
    /// The caller's stack; the return address is below it.
    Call,
    /// All registers.
    Registers,
    /// What the processor pushes by itself.
    Pushed,
}

/// What a row means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub base: Base,
    pub offset: i16,
    pub rbp: Saved,
    pub what: What,
    /// Whether it leads to an instruction that did not call.
    pub interrupted: bool,
}

/// How the bits above the two register numbers are used. It depends on the
/// kernel's version, which an image does not state, and distributions carry
/// changes back into older ones. The table itself shows it: nearly all its rows
/// describe calls found from rsp. A call's number is 2 in the newer layouts and 0
/// before, where 2 is a rare thing; and rsp's is 3 in the newest and 5 before, each
/// of which is rdi's in the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Layout {
    /// Until 6.2: two bits of type, then one for the outermost frame.
    #[default]
    First,
    /// 6.3: two bits of type, one for interrupted code, one for the outermost
    /// frame.
    Second,
    /// From 6.4 on: three bits of type, one for interrupted code.
    Third,
    /// 7.x: the same, and other numbers for the registers.
    Fourth,
}

impl Row {
    pub fn read([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self {
            stack_offset: i16::from_le_bytes([a, b]),
            rbp_offset: i16::from_le_bytes([c, d]),
            bits: u16::from_le_bytes([e, f]),
        }
    }

    const fn base(self) -> u16 {
        self.bits & 0xf
    }

    const fn flags(self) -> u16 {
        self.bits >> 8
    }

    /// Whether it says that nothing is known: the same in every layout.
    pub const fn is_undefined(self) -> bool {
        self.base() == 0 && self.flags() == 0
    }
}

impl Layout {
    pub fn of(rows: impl Iterator<Item = Row>) -> Self {
        let (mut zeros, mut twos, mut second) = (0u64, 0u64, false);
        let (mut threes, mut fives) = (0u64, 0u64);
        for row in rows {
            threes += u64::from(row.base() == 3);
            fives += u64::from(row.base() == 5);
            // Found from rsp or rbp, as calls are.
            if matches!(row.base(), 3..=5) {
                zeros += u64::from(row.flags() & 7 == 0);
                twos += u64::from(row.flags() & 7 == 2);
            }
            // The outermost frame has no stack to find. So a first layout has
            // its bit alone, and never the one above.
            second |= row.flags() & 8 != 0 || (row.flags() & 4 != 0 && row.base() != 0);
        }
        match second {
            _ if twos > zeros && threes > fives => Self::Fourth,
            _ if twos > zeros => Self::Third,
            true => Self::Second,
            false => Self::First,
        }
    }

    /// `None` where the row says nothing, or nothing that is known.
    pub fn rule(self, row: Row) -> Option<Rule> {
        let flags = row.flags();
        let (what, interrupted) = match self {
            Self::First | Self::Second => {
                let outermost = if self == Self::First { 4 } else { 8 };
                let what = match flags & 3 {
                    _ if flags & outermost != 0 => What::Outermost,
                    0 => What::Call,
                    1 => What::Registers,
                    2 => What::Pushed,
                    _ => return None,
                };
                let interrupted = match self {
                    Self::First => matches!(what, What::Registers | What::Pushed),
                    _ => flags & 4 != 0,
                };
                (what, interrupted)
            }
            Self::Third | Self::Fourth => {
                let what = match flags & 7 {
                    1 => What::Outermost,
                    2 => What::Call,
                    3 => What::Registers,
                    4 => What::Pushed,
                    _ => return None,
                };
                (what, flags & 8 != 0)
            }
        };
        let newest = self == Self::Fourth;
        let base = match row.base() {
            1 if newest => Base::Register(X86_64::RAX),
            2 => Base::Register(X86_64::RDX),
            3 if newest => Base::Register(X86_64::RSP),
            3 => Base::Register(X86_64::RDI),
            4 => Base::Register(X86_64::RBP),
            5 if newest => Base::Register(X86_64::RDI),
            5 => Base::Register(X86_64::RSP),
            6 => Base::Register(X86_64::R10),
            7 => Base::Register(X86_64::R13),
            8 if !newest => Base::Behind(X86_64::RBP),
            9 => Base::Top,
            10 if newest => Base::Behind(X86_64::RBP),
            // Nobody asks where the outermost one's stack is.
            _ if what == What::Outermost => Base::Top,
            _ => return None,
        };
        let rbp = match row.bits >> 4 & 0xf {
            0 => Saved::Kept,
            1 if !newest => Saved::FromStack(row.rbp_offset),
            8 if newest => Saved::FromStack(row.rbp_offset),
            4 => Saved::FromRbp(row.rbp_offset),
            _ => return None,
        };
        Some(Rule {
            base,
            offset: row.stack_offset,
            rbp,
            what,
            interrupted,
        })
    }
}
