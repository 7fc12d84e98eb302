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
            normalised(&raw, &mut hash);
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
    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn number(&mut self, number: u64) {
        let bytes = number.to_le_bytes();
        bytes.into_iter().for_each(|byte| self.add(byte));
    }

    /// A name of the instruction set, with an end.
    fn name(&mut self, name: &str) {
        name.bytes().chain([0]).for_each(|byte| self.add(byte));
    }
}

/// What an instruction does and to which registers. Instructions and registers go by their names:
/// the numbers that the decoder has for them are other ones in its next version.
fn normalised(raw: &Instruction, hash: &mut Hash) {
    // A longer encoding of the same branch is chosen by distance.
    hash.name(&format!("{:?}", raw.mnemonic()));
    for operand in 0..raw.op_count() {
        match raw.op_kind(operand) {
            OpKind::Register => register(raw.op_register(operand), hash),
            OpKind::Memory => memory(raw, hash),
            OpKind::NearBranch16
            | OpKind::NearBranch32
            | OpKind::NearBranch64
            | OpKind::FarBranch16
            | OpKind::FarBranch32 => hash.name("branch"),
            _ => match raw.try_immediate(operand) {
                Ok(immediate) => hash.number(small(immediate)),
                // Strings and the like, which the instruction implies.
                Err(_) => hash.name("implied"),
            },
        }
    }
}

fn register(register: Register, hash: &mut Hash) {
    hash.name(&format!("{register:?}"));
}

fn memory(raw: &Instruction, hash: &mut Hash) {
    let base = raw.memory_base();
    register(base, hash);
    register(raw.memory_index(), hash);
    hash.number(u64::from(raw.memory_index_scale()));
    hash.number(raw.memory_size().size() as u64);
    let is_address = matches!(base, Register::RIP | Register::None);
    hash.number(if is_address {
        0
    } else {
        small(raw.memory_displacement64())
    });
}

fn small(number: u64) -> u64 {
    let distance = number.cast_signed().unsigned_abs();
    if distance < SMALL { number } else { SMALL }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn hash(code: &[u8], at: u64) -> u64 {
        let mut hash = Hash::default();
        for raw in Decoder::with_ip(64, code, at, DecoderOptions::NONE) {
            normalised(&raw, &mut hash);
        }
        hash.0
    }

    /// lock add dword [rax+8], 1; mov ecx, [rip+0x10]; jne back; movsb; ret
    const CODE: &[u8] = &[
        0xf0, 0x83, 0x40, 0x08, 0x01, 0x8b, 0x0d, 0x10, 0, 0, 0, 0x75, 0xf3, 0xa4, 0xc3,
    ];

    /// Stores keep it. If this fails with another version of the decoder, its names have changed:
    /// give the old ones.
    #[test]
    fn the_hash_of_code_never_changes() {
        assert_eq!(hash(CODE, 0x1000), 0xc23e_0560_a5b2_deec);
    }

    #[test]
    fn addresses_do_not_count_and_fields_do() {
        let known = hash(CODE, 0x1000);
        let changed = |at: usize, byte: u8| {
            let mut code = CODE.to_vec();
            code[at] = byte;
            hash(&code, 0x20_0000)
        };
        assert_eq!(known, changed(7, 0x40), "another address");
        assert_eq!(known, changed(12, 0xf0), "another distance");
        assert_ne!(known, changed(3, 0x0c), "another field");
        assert_ne!(known, changed(4, 0x02), "another constant");
        assert_ne!(known, changed(5, 0x89), "a store");
    }
}
