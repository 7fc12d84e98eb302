//! ORC, the unwind table of Linux on x86-64. For every address of the kernel's text, it tells
//! in six bytes where the caller's stack is.
//!
//! It consists of two sections. `.orc_unwind_ip` has sorted addresses, each relative to its
//! own position. `.orc_unwind` has a row for each, which is valid up to the next address. A
//! row has two 16-bit offsets, and 16 bits that tell what they are relative to and what is
//! there: the return address of a call, or the registers that an interrupt saved.
//!
//! The rows are searched in the mapped file; nothing is copied.

mod row;
#[cfg(test)]
mod tests;

use super::step::{FrameRegisters, Reg, Step};
use super::table::Section;
use crate::Image;
use crate::frames::Top;
use crate::kernel_text::KernelText;
use gimli::X86_64;
use object::{Object, ObjectSection};
use row::{Base, Layout, Row, Rule, Saved, What};
use std::ops::Range;
use std::sync::Arc;

/// The layout in which interrupt entry code saves registers (`struct pt_regs`). The
/// processor's own part starts with the instruction pointer.
const SAVED_REGISTERS: [(Reg, u64); 15] = [
    (X86_64::R15, 0),
    (X86_64::R14, 8),
    (X86_64::R13, 16),
    (X86_64::R12, 24),
    (X86_64::RBP, 32),
    (X86_64::RBX, 40),
    (X86_64::R11, 48),
    (X86_64::R10, 56),
    (X86_64::R9, 64),
    (X86_64::R8, 72),
    (X86_64::RAX, 80),
    (X86_64::RCX, 88),
    (X86_64::RDX, 96),
    (X86_64::RSI, 104),
    (X86_64::RDI, 112),
];

/// The offset of the processor's part.
const PUSHED: u64 = 128;

/// The table of a kernel or module.
#[derive(Debug)]
pub(crate) struct Orc {
    /// The address of `.orc_unwind_ip`, since its entries are relative to themselves.
    start: u64,
    distances: Section,
    rows: Section,
    layout: Layout,
    /// Code that has no caller according to the tables of kernels before 6.3. They never
    /// unwind from it, but we may stop there. Its caller is found as for a function that
    /// has not used the stack yet.
    thunks: Range<u64>,
}

impl Orc {
    fn of(image: &Image) -> Option<Self> {
        let object = image.object()?;
        let find = |name| object.section_by_name(name);
        let (distances, rows) = (find(".orc_unwind_ip")?, find(".orc_unwind")?);
        let mut table = Self {
            start: distances.address(),
            distances: Section::of(image, &distances)?,
            rows: Section::of(image, &rows)?,
            layout: Layout::default(),
            thunks: image
                .kernel_text()
                .and_then(KernelText::thunks)
                .unwrap_or_default(),
        };
        let (rows, _) = table.rows.as_chunks::<6>();
        table.layout = Layout::of(rows.iter().map(|bytes| Row::read(*bytes)));
        let rows = rows.len();
        // An unsorted table would give wrong answers. In a module's file it is unsorted.
        (rows > 0 && rows == table.distances().len() && table.is_sorted()).then_some(table)
    }

    fn distances(&self) -> &[[u8; 4]] {
        self.distances.as_chunks().0
    }

    fn address(&self, index: usize) -> u64 {
        let distance = self.distances().get(index).copied().unwrap_or_default();
        address(self.start, index, distance)
    }

    fn is_sorted(&self) -> bool {
        (1..self.distances().len()).all(|i| self.address(i - 1) <= self.address(i))
    }

    /// The rule for the code at `svma`.
    fn rule_at(&self, svma: u64) -> Option<Rule> {
        // If there are several rows for an address, the last one counts.
        let (mut low, mut high) = (0, self.distances().len());
        while low < high {
            let middle = low.midpoint(high);
            if self.address(middle) <= svma {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let bytes = self.rows.as_chunks().0.get(low.checked_sub(1)?)?;
        self.layout.rule(Row::read(*bytes))
    }

    /// Where the top of the frame is at `svma`.
    pub(crate) fn top(&self, svma: u64) -> Option<Top> {
        let rule = self.rule_at(svma)?;
        match rule.base {
            Base::Register(X86_64::RBP) => Some(Top::FromRbp(Some(i64::from(rule.offset)))),
            Base::Behind(X86_64::RBP) => Some(Top::FromRbp(None)),
            Base::Register(X86_64::RSP) => Some(Top::FromRsp(i64::from(rule.offset))),
            _ => None,
        }
    }

    /// Steps from the frame at `svma` to its caller's or to the interrupted one; `None` if
    /// the table has no rule.
    pub(super) fn step(&self, svma: u64, frame: &mut FrameRegisters<'_>) -> Option<Step> {
        let rule = self.rule_at(svma)?;
        if rule.what == What::Outermost {
            return (!self.thunks.contains(&svma)).then_some(Step::Outermost);
        }
        let before = frame.sp();
        let stack = rule.stack(frame)?;
        match rule.what {
            What::Outermost => Some(Step::Outermost),
            What::Call => {
                let pc = frame.word(stack.wrapping_sub(8))?;
                let rbp = rule.caller_rbp(frame, stack);
                frame.forget();
                frame.set(X86_64::RBP, rbp);
                frame.set(X86_64::RSP, Some(stack));
                frame.set(X86_64::RA, Some(pc));
                Some(match pc {
                    0 => Step::Outermost,
                    _ if rule.interrupted => Step::Interrupted,
                    // To the interrupted stack, which may be anywhere.
                    _ if rule.base != Base::Register(X86_64::RSP) && stack <= before => {
                        Step::Switched
                    }
                    _ => Step::Called,
                })
            }
            What::Registers => {
                // This restores rbp, too.
                for (register, offset) in SAVED_REGISTERS {
                    let value = frame.word(stack.wrapping_add(offset));
                    frame.set(register, value);
                }
                pushed(frame, stack.wrapping_add(PUSHED), rule.interrupted)
            }
            // The entry code has neither saved nor changed the other registers yet.
            What::Pushed => {
                let rbp = rule.caller_rbp(frame, stack);
                frame.set(X86_64::RBP, rbp);
                pushed(frame, stack, rule.interrupted)
            }
        }
    }
}

/// Follows what the processor pushed: rip, cs, flags, rsp, ss.
fn pushed(frame: &mut FrameRegisters<'_>, at: u64, interrupted: bool) -> Option<Step> {
    const USER: u64 = 3;
    let pc = frame.word(at)?;
    let code_segment = frame.word(at.wrapping_add(8))?;
    if code_segment & USER != 0 {
        return Some(Step::Outermost);
    }
    let stack = frame.word(at.wrapping_add(24))?;
    frame.set(X86_64::RSP, Some(stack));
    frame.set(X86_64::RA, Some(pc));
    Some(if interrupted {
        Step::Interrupted
    } else {
        Step::Switched
    })
}

impl Rule {
    /// The caller's stack pointer, or where the registers were saved.
    fn stack(&self, frame: &mut FrameRegisters<'_>) -> Option<u64> {
        let offset = i64::from(self.offset);
        match self.base {
            Base::Register(register) => Some(frame.get(register)?.wrapping_add_signed(offset)),
            Base::Behind(register) => {
                let at = frame.get(register)?.wrapping_add_signed(offset);
                frame.word(at)
            }
            Base::Top => {
                let top = frame.get(X86_64::RSP)?;
                Some(frame.word(top)?.wrapping_add_signed(offset))
            }
        }
    }

    fn caller_rbp(&self, frame: &mut FrameRegisters<'_>, stack: u64) -> Option<u64> {
        let rbp = frame.get(X86_64::RBP);
        match self.rbp {
            Saved::Kept => rbp,
            Saved::FromStack(offset) => frame.word(stack.wrapping_add_signed(i64::from(offset))),
            Saved::FromRbp(offset) => frame.word(rbp?.wrapping_add_signed(i64::from(offset))),
        }
    }
}

fn address(start: u64, index: usize, distance: [u8; 4]) -> u64 {
    start
        .wrapping_add((index as u64).wrapping_mul(4))
        .wrapping_add_signed(i64::from(i32::from_le_bytes(distance)))
}

/// Sorts a table whose addresses begin at `start`, as the kernel does when it loads a
/// module.
pub(crate) fn sort(start: u64, distances: &mut [u8], rows: &mut [u8]) {
    let (distances, _) = distances.as_chunks_mut::<4>();
    let (rows, _) = rows.as_chunks_mut::<6>();
    let mut table: Vec<(u64, bool, [u8; 6])> = distances
        .iter()
        .enumerate()
        .zip(rows.iter())
        .map(|((index, distance), row)| {
            // The end of a function may be the start of another. The row with a rule has
            // to come last.
            let says = !Row::read(*row).is_undefined();
            (address(start, index, *distance), says, *row)
        })
        .collect();
    table.sort_by_key(|(address, says, _)| (*address, *says));
    let places = distances.iter_mut().enumerate().zip(rows.iter_mut());
    for ((address, _, sorted), ((index, distance), row)) in table.into_iter().zip(places) {
        let here = start.wrapping_add((index as u64).wrapping_mul(4));
        let bytes = address.wrapping_sub(here).to_le_bytes();
        if let Some(low) = bytes.first_chunk() {
            *distance = *low;
        }
        *row = sorted;
    }
}

impl Image {
    /// The kernel's unwind table, if it has one.
    pub(crate) fn orc(&self) -> Option<&Arc<Orc>> {
        self.code
            .orc
            .get_or_init(|| Orc::of(self).map(Arc::new))
            .as_ref()
    }
}
