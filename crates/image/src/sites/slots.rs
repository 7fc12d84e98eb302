//! Which accesses to a function's frame may be to memory that other threads see.
//!
//! A slot of a frame is private as long as nobody else has its address. Where a function takes
//! an address in its frame, the object there may be lent to another thread. How long the
//! object is cannot be seen, so everything from there up to the end of its area counts: up to
//! the return address, or among the arguments that the caller pushed. Where a slot cannot be
//! placed, it counts as well: an exclusion hides a race for good.

use crate::frames::Top;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The return address and everything above it belong to the caller.
const RETURN_ADDRESS: i64 = -8;

/// The frame of one function: which addresses in it are taken, and what accesses it.
#[derive(Default)]
pub(super) struct Slots {
    /// Whether an address in a frame never leaves its thread: Go moves variables to the heap
    /// before it lends them.
    private: bool,
    taken: Vec<Instruction>,
    accesses: Vec<Instruction>,
}

impl Slots {
    pub fn new(private: bool) -> Self {
        Self {
            private,
            ..Self::default()
        }
    }

    /// Starts a new function.
    pub fn begin(&mut self) {
        self.taken.clear();
        self.accesses.clear();
    }

    /// Records an instruction that takes an address in the frame.
    pub fn take(&mut self, raw: &Instruction) {
        if !self.private {
            self.taken.push(*raw);
        }
    }

    /// Records an instruction that accesses the frame.
    pub fn access(&mut self, raw: &Instruction) {
        self.accesses.push(*raw);
    }

    /// The accesses to the frame.
    pub fn accesses(&self) -> &[Instruction] {
        &self.accesses
    }

    /// Whether each of them may be to a lent object; empty if none is. `top` says where the top
    /// of the frame is at an instruction.
    pub fn lent(&self, mut top: impl FnMut(u64) -> Option<Top>) -> Vec<bool> {
        if self.accesses.is_empty() {
            return Vec::new();
        }
        let mut lent = Lent::default();
        for raw in &self.taken {
            let becomes_frame = raw.op0_register() == Register::RBP
                && matches!(top(raw.next_ip()), Some(Top::FromRbp(_)));
            if !becomes_frame {
                lent.add(raw, top(raw.ip()));
            }
        }
        if !lent.any {
            return Vec::new();
        }
        let reached = |raw: &Instruction| lent.reaches(raw, || top(raw.ip()));
        self.accesses.iter().map(reached).collect()
    }
}

/// Where the addresses are that were taken, as distances from the top of the frame.
#[derive(Default)]
struct Lent {
    any: bool,
    /// Some of them cannot be placed.
    unplaced: bool,
    /// The lowest in the frame.
    in_frame: Option<i64>,
    /// The lowest among the arguments on the caller's side.
    in_arguments: Option<i64>,
}

impl Lent {
    fn add(&mut self, raw: &Instruction, top: Option<Top>) {
        let copied = raw.op1_kind() == OpKind::Register;
        if copied && raw.op1_register() == Register::RBP && !matches!(top, Some(Top::FromRbp(_))) {
            // It is not the frame.
            return;
        }
        self.any = true;
        // What is copied may be added to; only the stack pointer is often used as it is.
        let used_as_it_is =
            !copied || (raw.mnemonic() == Mnemonic::Mov && raw.op1_register() == Register::RSP);
        match place(raw, top).filter(|_| used_as_it_is) {
            None => self.unplaced = true,
            Some(at) => {
                let lowest = if at < RETURN_ADDRESS {
                    &mut self.in_frame
                } else {
                    &mut self.in_arguments
                };
                *lowest = Some(lowest.map_or(at, |known| known.min(at)));
            }
        }
    }

    fn reaches(&self, raw: &Instruction, top: impl FnOnce() -> Option<Top>) -> bool {
        if self.unplaced || raw.memory_index() != Register::None {
            return true;
        }
        let Some(at) = place(raw, top()) else {
            return true;
        };
        let size = i64::try_from(raw.memory_size().size()).unwrap_or(0);
        let end = at.saturating_add(size.max(1));
        let lowest = if at < RETURN_ADDRESS {
            self.in_frame
        } else {
            self.in_arguments
        };
        lowest.is_some_and(|lowest| end > lowest)
    }
}

/// Where the memory operand, or the register that is copied, is from the top of the frame.
fn place(raw: &Instruction, top: Option<Top>) -> Option<i64> {
    let (base, displacement) = if raw.memory_base() == Register::None {
        (raw.op1_register(), 0)
    } else {
        (raw.memory_base(), raw.memory_displacement64().cast_signed())
    };
    match (base, top?) {
        (Register::RSP, Top::FromRsp(distance)) | (Register::RBP, Top::FromRbp(Some(distance))) => {
            displacement.checked_sub(distance)
        }
        _ => None,
    }
}

/// Whether an instruction puts an address in the frame into another register, if its operand is
/// in the frame.
pub(super) fn takes_address(raw: &Instruction) -> bool {
    use Mnemonic as M;
    if raw.op0_kind() != OpKind::Register || raw.op0_register() == Register::RSP {
        return false;
    }
    match raw.mnemonic() {
        M::Lea => true,
        M::Mov | M::Add | M::Sub | M::Or => {
            raw.op1_kind() == OpKind::Register
                && matches!(raw.op1_register(), Register::RSP | Register::RBP)
        }
        _ => false,
    }
}
