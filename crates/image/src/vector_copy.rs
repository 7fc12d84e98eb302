//! Vectors that are only copied.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// How many instructions after the load are looked at.
const MAX_INSTRUCTIONS: usize = 32;

/// Whether the vector that the first instruction of `code` loads is stored as it is, so that all
/// of its bytes are meant.
pub(crate) fn is_copied(code: &[u8], address: u64) -> bool {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let load = decoder.decode();
    if !is_move(&load) || load.op0_kind() != OpKind::Register {
        return false;
    }
    let loaded = load.op0_register().full_register();
    for next in decoder.into_iter().take(MAX_INSTRUCTIONS) {
        if next.is_invalid() || next.flow_control() != FlowControl::Next {
            return false;
        }
        let uses = |operand: u32| {
            next.op_kind(operand) == OpKind::Register
                && next.op_register(operand).full_register() == loaded
        };
        if (1..next.op_count()).any(uses) {
            return is_move(&next) && next.op0_kind() == OpKind::Memory;
        }
        if next.op_count() > 0 && uses(0) {
            return false;
        }
    }
    false
}

/// Whether it moves a whole vector.
fn is_move(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic as M;
    let vector = (0..instruction.op_count())
        .map(|operand| instruction.op_register(operand))
        .any(|register| register != Register::None && register.is_vector_register());
    vector
        && matches!(
            instruction.mnemonic(),
            M::Movups
                | M::Movaps
                | M::Movupd
                | M::Movapd
                | M::Movdqu
                | M::Movdqa
                | M::Vmovups
                | M::Vmovaps
                | M::Vmovupd
                | M::Vmovapd
                | M::Vmovdqu
                | M::Vmovdqa
                | M::Vmovdqu8
                | M::Vmovdqu16
                | M::Vmovdqu32
                | M::Vmovdqu64
                | M::Vmovdqa32
                | M::Vmovdqa64
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_that_is_stored_is_copied() {
        // movups xmm0, [rdi]; mov eax, 1; movups [rsi], xmm0
        let copy = [0x0f, 0x10, 0x07, 0xb8, 1, 0, 0, 0, 0x0f, 0x11, 0x06, 0xc3];
        assert!(is_copied(&copy, 0));
        // movups xmm0, [rdi]; paddd xmm1, xmm0; movups [rsi], xmm0
        let sum = [0x0f, 0x10, 0x07, 0x66, 0x0f, 0xfe, 0xc8, 0x0f, 0x11, 0x06];
        assert!(!is_copied(&sum, 0));
        // movups xmm0, [rdi]; movups xmm0, [rsi]; movups [rsi], xmm0
        let overwritten = [0x0f, 0x10, 0x07, 0x0f, 0x10, 0x06, 0x0f, 0x11, 0x06];
        assert!(!is_copied(&overwritten, 0));
        assert!(!is_copied(&[0x0f, 0x10, 0x07, 0xc3], 0));
        assert!(!is_copied(&[], 0));
    }
}
