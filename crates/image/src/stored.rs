//! What a store writes, where its instruction and the integer registers tell.

use crate::Instruction;
use crate::found::value;
use iced_x86::{Mnemonic, OpKind};
use redhanded_model::Registers;

impl Instruction {
    /// The bytes that a plain store writes. Its registers are the same before and after it,
    /// so it does not matter which are given. `None` for what computes or exchanges, and for
    /// stores of vectors.
    #[must_use]
    pub fn stored(&self, registers: &Registers) -> Option<Vec<u8>> {
        let raw = self.raw();
        let is_store = matches!(raw.mnemonic(), Mnemonic::Mov | Mnemonic::Movnti);
        if !is_store || raw.op0_kind() != OpKind::Memory {
            return None;
        }
        let written = match raw.op1_kind() {
            OpKind::Register => value(raw.op1_register(), registers)?,
            _ => raw.try_immediate(1).ok()?,
        };
        let size = usize::try_from(self.sampled_access()?.size).ok()?;
        written.to_le_bytes().get(..size).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::Register;

    #[track_caller]
    fn check(code: &[u8], expect: Option<&[u8]>) {
        let mut registers = Registers::default();
        registers.set(Register::Rax, 0x1122_3344_5566_7788);
        let instruction = Instruction::decode(code, 0x1000).unwrap();
        let stored = instruction.stored(&registers);
        assert_eq!(stored.as_deref(), expect, "{}", instruction.text());
    }

    #[test]
    fn a_store_writes_its_register_or_its_constant() {
        check(&[0x89, 0x07], Some(&[0x88, 0x77, 0x66, 0x55])); // mov [rdi], eax
        check(&[0x88, 0x27], Some(&[0x77])); // mov [rdi], ah
        check(&[0xc6, 0x07, 5], Some(&[5])); // mov byte ptr [rdi], 5
        check(
            &[0x48, 0xc7, 0x07, 0xff, 0xff, 0xff, 0xff],
            Some(&[0xff; 8]),
        ); // mov qword ptr [rdi], -1
        check(&[0x0f, 0xc3, 0x07], Some(&[0x88, 0x77, 0x66, 0x55])); // movnti [rdi], eax
    }

    #[test]
    fn what_else_is_written_is_not_known() {
        check(&[0x8b, 0x07], None); // mov eax, [rdi]
        check(&[0x01, 0x07], None); // add [rdi], eax
        check(&[0x87, 0x07], None); // xchg [rdi], eax
        check(&[0xf3, 0x0f, 0x11, 0x07], None); // movss [rdi], xmm0
        check(&[0x8c, 0x1f], None); // mov [rdi], ds
    }
}
