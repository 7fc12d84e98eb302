//! What code without a name is known by: its instructions, whatever their addresses.

use crate::Image;
use iced_x86::{Instruction, OpKind, Register};
use redhanded_model::Svma;

/// Numbers up to this are sizes, offsets of fields and constants of the source. Larger ones
/// may be addresses, which move when anything else in the file does.
const SMALL: u64 = 4096;

impl Image {
    /// A hash of the function at `svma`: of its instructions, without the places that they
    /// refer to. It is the same where the function was moved, and in another build of the
    /// same code.
    #[must_use]
    pub fn code_hash(&self, svma: Svma) -> Option<u64> {
        let function = self.function_at(svma)?;
        let mut hash = Hash::default();
        let mut any = false;
        for raw in self.instructions(function) {
            any = true;
            normalised(&raw, |word| hash.add(word));
        }
        any.then_some(hash.0)
    }
}

/// FNV-1a, which no toolchain changes.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// An instruction in numbers: what it does and to which registers.
fn normalised(raw: &Instruction, mut add: impl FnMut(u64)) {
    // A longer encoding of the same branch is chosen by distance.
    add(raw.mnemonic() as u64);
    for operand in 0..raw.op_count() {
        match raw.op_kind(operand) {
            OpKind::Register => add(raw.op_register(operand) as u64),
            OpKind::Memory => memory(raw, &mut add),
            OpKind::NearBranch16
            | OpKind::NearBranch32
            | OpKind::NearBranch64
            | OpKind::FarBranch16
            | OpKind::FarBranch32 => add(1),
            kind => {
                add(2 + kind as u64);
                add(small(raw.try_immediate(operand).unwrap_or(0)));
            }
        }
    }
}

fn memory(raw: &Instruction, add: &mut impl FnMut(u64)) {
    let base = raw.memory_base();
    add(base as u64);
    add(raw.memory_index() as u64);
    add(u64::from(raw.memory_index_scale()));
    add(raw.memory_size() as u64);
    let is_address = matches!(base, Register::RIP | Register::None);
    add(if is_address {
        0
    } else {
        small(raw.memory_displacement64())
    });
}

fn small(number: u64) -> u64 {
    let distance = number.cast_signed().unsigned_abs();
    if distance < SMALL { number } else { SMALL }
}
