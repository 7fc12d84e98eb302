//! A row of the table, and its four layouts.

use super::super::step::Reg;
use gimli::X86_64;

/// A row as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    stack_offset: i16,
    rbp_offset: i16,
    bits: u16,
}

/// How the stack's address is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// A register plus the offset.
    Register(Reg),
    /// The word at a register plus the offset.
    Behind(Reg),
    /// The word at the top of the stack, plus the offset: an interrupt's stack starts with
    /// the interrupted stack pointer.
    Top,
}

/// Where the caller's rbp is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Saved {
    /// Still in rbp.
    Kept,
    /// At this offset from the stack's address.
    FromStack(i16),
    /// At this offset from rbp.
    FromRbp(i16),
}

/// What is at the stack's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// There is no caller.
    Outermost,
    /// The caller's stack, with the return address below it.
    Call,
    /// All registers.
    Registers,
    /// What the processor pushes on an interrupt.
    Pushed,
}

/// What a row means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub base: Base,
    pub offset: i16,
    pub rbp: Saved,
    pub what: What,
    /// Whether it leads to interrupted code, not to a call.
    pub interrupted: bool,
}

/// How the bits above the two register numbers are used. It depends on the kernel's version,
/// which is not in the image, and distributions backport changes. But the table reveals it,
/// because nearly all rows describe calls relative to rsp. The number of a call is 2 in newer
/// layouts and 0 in older ones, where 2 is rare. The number of rsp is 3 in the newest layout
/// and 5 before, and in the other one that number is rdi's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Layout {
    /// Until 6.2: two bits of type, then one for the outermost frame.
    #[default]
    First,
    /// 6.3: two bits of type, one for interrupted code, one for the outermost frame.
    Second,
    /// From 6.4 on: three bits of type, one for interrupted code.
    Third,
    /// 7.x: the same with other register numbers.
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

    /// Whether it has no rule, which looks the same in every layout.
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
            // Relative to rsp or rbp, like calls.
            if matches!(row.base(), 3..=5) {
                zeros += u64::from(row.flags() & 7 == 0);
                twos += u64::from(row.flags() & 7 == 2);
            }
            // The outermost frame has no stack to find, so the first layout has this bit
            // alone and never the one above it.
            second |= row.flags() & 8 != 0 || (row.flags() & 4 != 0 && row.base() != 0);
        }
        match second {
            _ if twos > zeros && threes > fives => Self::Fourth,
            _ if twos > zeros => Self::Third,
            true => Self::Second,
            false => Self::First,
        }
    }

    /// `None` if the row has no rule or an unknown one.
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
            // The stack of the outermost frame is not needed.
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
