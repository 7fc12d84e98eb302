//! What the form of an instruction says about an access.

use crate::Instruction;
use iced_x86::Mnemonic;
use redhanded_model::Form;

impl Instruction {
    /// How it accesses memory.
    #[must_use]
    pub fn form(&self) -> Form {
        if self.is_repeated() {
            return Form::Repeated;
        }
        // Element by element.
        if self.gather().is_some() {
            return Form::Wide;
        }
        let Some(access) = self.sampled_access() else {
            return Form::Unknown;
        };
        let moves = is_move(self.raw().mnemonic());
        match access.size {
            1 | 2 | 4 | 8 if moves => Form::Move,
            1 | 2 | 4 | 8 => Form::Operation,
            16 if moves => Form::Vector,
            _ => Form::Wide,
        }
    }
}

/// Whether the instruction only moves its operand. GCC extends the value of an atomic load
/// with the load itself (`movzx`).
fn is_move(mnemonic: Mnemonic) -> bool {
    let name = format!("{mnemonic:?}").to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    name.starts_with("mov") || name.starts_with("cmov") || matches!(name, "lddqu" | "xchg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], form: Form) {
        let instruction = Instruction::decode(code, 0x1000).unwrap();
        assert_eq!(instruction.form(), form, "{}", instruction.text());
    }

    #[test]
    fn moves_and_operations() {
        check(&[0x8b, 0x07], Form::Move); // mov eax, [rdi]
        check(&[0x0f, 0xb6, 0x07], Form::Move); // movzx eax, byte ptr [rdi]
        check(&[0xc7, 0x07, 1, 0, 0, 0], Form::Move); // mov dword ptr [rdi], 1
        check(&[0xf3, 0x0f, 0x10, 0x07], Form::Move); // movss xmm0, [rdi]
        check(&[0x0f, 0x44, 0x07], Form::Move); // cmove eax, [rdi]
        check(&[0x83, 0x3f, 3], Form::Operation); // cmp dword ptr [rdi], 3
        check(&[0x03, 0x07], Form::Operation); // add eax, [rdi]
        check(&[0xff, 0x07], Form::Operation); // inc dword ptr [rdi]
    }

    #[test]
    fn vectors_and_strings() {
        check(&[0x66, 0x0f, 0x6f, 0x07], Form::Vector); // movdqa xmm0, [rdi]
        check(&[0xc5, 0xf8, 0x29, 0x07], Form::Vector); // vmovaps [rdi], xmm0
        check(&[0x66, 0x0f, 0xfe, 0x07], Form::Wide); // paddd xmm0, [rdi]
        check(&[0xc5, 0xfe, 0x6f, 0x07], Form::Wide); // vmovdqu ymm0, [rdi]
        check(&[0xf3, 0x48, 0xab], Form::Repeated); // rep stosq
        // vpgatherdd ymm0, [rdi+ymm2], ymm1
        check(&[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x17], Form::Wide);
    }
}
