//! What an update found in memory, from what it left there.

use crate::Instruction;
use crate::instruction::general;
use iced_x86::{Mnemonic, OpKind, Register as Named};
use redhanded_model::Registers;

impl Instruction {
    /// The bytes that an update of memory found, if it left `now` and the registers are as
    /// they are after it. `None` if the instruction is no update, or destroys what it finds.
    #[must_use]
    pub fn found(&self, now: &[u8], registers: &Registers) -> Option<Vec<u8>> {
        let raw = self.raw();
        if raw.op0_kind() != OpKind::Memory || now.is_empty() || now.len() > 8 {
            return None;
        }
        if self.sampled_access()?.size as usize != now.len() {
            return None;
        }
        let mut word = [0; 8];
        word.get_mut(..now.len())?.copy_from_slice(now);
        let now_word = u64::from_le_bytes(word);
        let operand = || match raw.op1_kind() {
            OpKind::Register => value(raw.op1_register(), registers),
            _ => raw.try_immediate(1).ok(),
        };
        let found = match raw.mnemonic() {
            Mnemonic::Inc => now_word.wrapping_sub(1),
            Mnemonic::Dec => now_word.wrapping_add(1),
            Mnemonic::Add => now_word.wrapping_sub(operand()?),
            Mnemonic::Sub => now_word.wrapping_add(operand()?),
            Mnemonic::Xor => now_word ^ operand()?,
            Mnemonic::Neg => now_word.wrapping_neg(),
            Mnemonic::Not => !now_word,
            // They leave it in a register.
            Mnemonic::Xadd | Mnemonic::Xchg => operand()?,
            Mnemonic::Cmpxchg => value(Named::RAX, registers)?,
            _ => return None,
        };
        found.to_le_bytes().get(..now.len()).map(<[u8]>::to_vec)
    }
}

/// What a general-purpose register holds, whatever part of it is named.
pub(crate) fn value(register: Named, registers: &Registers) -> Option<u64> {
    let value = registers.get(general(register)?);
    let is_high = matches!(register, Named::AH | Named::BH | Named::CH | Named::DH);
    Some(if is_high { value >> 8 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::Register;

    #[track_caller]
    fn check(code: &[u8], now: &[u8], expect: Option<&[u8]>) {
        let mut registers = Registers::default();
        registers.set(Register::Rax, 0x0105);
        registers.set(Register::Rsi, 7);
        let instruction = Instruction::decode(code, 0x1000).unwrap();
        let found = instruction.found(now, &registers);
        assert_eq!(found.as_deref(), expect, "{}", instruction.text());
    }

    #[test]
    fn arithmetic_can_be_undone() {
        let now = 269u64.to_le_bytes();
        let found = |number: u64| number.to_le_bytes();
        check(&[0x48, 0x83, 0x07, 1], &now, Some(&found(268))); // add qword ptr [rdi], 1
        check(&[0x48, 0x29, 0x37], &now, Some(&found(276))); // sub [rdi], rsi
        check(&[0x48, 0x83, 0x07, 0xff], &now, Some(&found(270))); // add qword ptr [rdi], -1
        check(&[0xff, 0x07], &[0, 0, 0, 0], Some(&[0xff; 4])); // inc dword ptr [rdi]
        check(&[0x34, 1], &[1], None); // xor al, 1
        check(&[0x30, 0x27], &[3], Some(&[2])); // xor [rdi], ah
        check(&[0xf6, 0x17], &[0xfe], Some(&[1])); // not byte ptr [rdi]
    }

    #[test]
    fn exchanges_leave_it_in_a_register() {
        check(
            &[0xf0, 0x0f, 0xc1, 0x37],
            &[9, 0, 0, 0],
            Some(&[7, 0, 0, 0]),
        ); // lock xadd [rdi], esi
        check(&[0x87, 0x37], &[9, 0, 0, 0], Some(&[7, 0, 0, 0])); // xchg [rdi], esi
        check(
            &[0xf0, 0x0f, 0xb1, 0x37],
            &[9, 0, 0, 0],
            Some(&[5, 1, 0, 0]),
        ); // lock cmpxchg [rdi], esi
    }

    #[test]
    fn what_is_overwritten_is_gone() {
        check(&[0x89, 0x37], &[7, 0, 0, 0], None); // mov [rdi], esi
        check(&[0x83, 0x0f, 1], &[1, 0, 0, 0], None); // or dword ptr [rdi], 1
        check(&[0x83, 0x07, 1], &[1, 0], None); // add dword ptr [rdi], 1: part of it
    }
}
