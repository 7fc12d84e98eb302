//! Whether a locked update changes the bytes that it updates. A compare-exchange that fails, a
//! bit that is set already, or a lock's word that is exchanged for itself leave them as they are.

use crate::Instruction;
use crate::found::value;
use iced_x86::{Mnemonic, OpKind, Register as Named};
use redhanded_model::{Change, Registers};
use std::ops::Range;

/// The flags that say what became of it.
const CARRY: u64 = 1 << 0;
const ZERO: u64 = 1 << 6;

impl Instruction {
    /// Whether a locked update changed the bytes `part` of its operand. It left `now` there, the
    /// registers are as they are after it, and some time before it the operand held `before`.
    #[must_use]
    pub fn changed(
        &self,
        before: &[u8],
        now: &[u8],
        registers: &Registers,
        part: Range<usize>,
    ) -> Change {
        if !self.locked() {
            return Change::Made;
        }
        let flag = |mask: u64| registers.rflags & mask != 0;
        let by_flag = |changes: bool| {
            let bit = self.bit(registers);
            match (changes, bit) {
                (false, _) => Change::None,
                (true, Some(bit)) if !part.contains(&(bit / 8)) => Change::None,
                (true, _) => Change::Made,
            }
        };
        match self.raw().mnemonic() {
            Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => {
                if !flag(ZERO) {
                    return Change::None;
                }
                // It found what it compared with, and both are still in registers.
                let exchanged = self.exchanged(registers);
                of(exchanged.as_ref().map(|(old, new)| (&**old, &**new)), part)
            }
            Mnemonic::Bts => by_flag(!flag(CARRY)),
            Mnemonic::Btr => by_flag(flag(CARRY)),
            _ => match self.found(now, registers) {
                Some(found) => of(Some((&found, now)), part),
                None if self.may_change_nothing() => match of(Some((before, now)), part) {
                    Change::Made => Change::Made,
                    // It may have come before the operand was read.
                    Change::None | Change::Unknown => Change::Unknown,
                },
                None => Change::Made,
            },
        }
    }

    /// Whether a locked update changes the bytes `part` of its operand, as far as it tells by
    /// itself.
    #[must_use]
    pub fn changes(&self, part: Range<usize>) -> Change {
        // The bytes that meet may be those that stay as they are.
        let is_whole = self.size() == Some(part.len());
        if self.locked() && (self.may_change_nothing() || !is_whole) {
            Change::Unknown
        } else {
            Change::Made
        }
    }

    /// Whether what it finds decides whether it changes anything.
    fn may_change_nothing(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.raw().mnemonic(),
            M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b | M::Xchg | M::Or | M::And | M::Bts | M::Btr
        )
    }

    fn size(&self) -> Option<usize> {
        usize::try_from(self.sampled_access()?.size).ok()
    }

    /// The bit of its operand that it is about.
    fn bit(&self, registers: &Registers) -> Option<usize> {
        let number = self.second(registers)?;
        usize::try_from(number).ok()?.checked_rem(self.size()? * 8)
    }

    /// The operand that is not in memory.
    fn second(&self, registers: &Registers) -> Option<u64> {
        match self.raw().op1_kind() {
            OpKind::Register => value(self.raw().op1_register(), registers),
            _ => self.raw().try_immediate(1).ok(),
        }
    }

    /// What a compare-exchange compares with, and what it writes if it finds that.
    fn exchanged(&self, registers: &Registers) -> Option<(Vec<u8>, Vec<u8>)> {
        let size = self.size()?;
        let pair = |low: Named, high: Named, half: usize| {
            let word = |register| value(register, registers).map(u64::to_le_bytes);
            let (low, high) = (word(low)?, word(high)?);
            Some([low.get(..half)?, high.get(..half)?].concat())
        };
        match self.raw().mnemonic() {
            Mnemonic::Cmpxchg => {
                let old = value(Named::RAX, registers)?.to_le_bytes();
                let new = self.second(registers)?.to_le_bytes();
                Some((old.get(..size)?.to_vec(), new.get(..size)?.to_vec()))
            }
            Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => Some((
                pair(Named::RAX, Named::RDX, size / 2)?,
                pair(Named::RBX, Named::RCX, size / 2)?,
            )),
            _ => None,
        }
    }
}

/// Whether the bytes `part` of the two differ.
fn of(found_and_left: Option<(&[u8], &[u8])>, part: Range<usize>) -> Change {
    let both = found_and_left
        .and_then(|(found, left)| Some((found.get(part.clone())?, left.get(part.clone())?)));
    match both {
        Some((found, left)) if found == left => Change::None,
        Some(_) => Change::Made,
        None => Change::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::Register;

    const COMPARE_EXCHANGE: &[u8] = &[0xf0, 0x0f, 0xb1, 0x37]; // lock cmpxchg [rdi], esi
    const EXCHANGE: &[u8] = &[0x87, 0x37]; // xchg [rdi], esi
    const ADD: &[u8] = &[0xf0, 0x0f, 0xc1, 0x37]; // lock xadd [rdi], esi
    const OR: &[u8] = &[0xf0, 0x83, 0x0f, 1]; // lock or dword ptr [rdi], 1
    const SET_BIT: &[u8] = &[0xf0, 0x0f, 0xba, 0x2f, 9]; // lock bts dword ptr [rdi], 9
    const PLAIN: &[u8] = &[0x0f, 0xb1, 0x37]; // cmpxchg [rdi], esi

    /// With 5 in `rax` and `second` in `rsi`.
    fn registers(second: u64, flags: u64) -> Registers {
        let mut registers = Registers {
            rflags: flags,
            ..Registers::default()
        };
        registers.set(Register::Rax, 5);
        registers.set(Register::Rsi, second);
        registers
    }

    #[track_caller]
    fn after(code: &[u8], [before, now]: [u32; 2], registers: &Registers, expect: Change) {
        let instruction = Instruction::decode(code, 0x1000).unwrap();
        let (before, now) = (before.to_le_bytes(), now.to_le_bytes());
        let change = instruction.changed(&before, &now, registers, 0..4);
        assert_eq!(change, expect, "{}", instruction.text());
    }

    #[test]
    fn a_compare_exchange_that_failed_changed_nothing() {
        after(COMPARE_EXCHANGE, [5, 5], &registers(6, 0), Change::None);
        // The flag decides: who came later may have changed them.
        after(COMPARE_EXCHANGE, [5, 9], &registers(6, 0), Change::None);
        after(COMPARE_EXCHANGE, [5, 6], &registers(6, ZERO), Change::Made);
        after(COMPARE_EXCHANGE, [5, 5], &registers(5, ZERO), Change::None);
        // One that is not locked writes in any case.
        after(PLAIN, [5, 5], &registers(6, 0), Change::Made);
    }

    #[test]
    fn other_locked_updates_may_change_nothing_too() {
        after(EXCHANGE, [1, 1], &registers(1, 0), Change::None);
        after(EXCHANGE, [0, 1], &registers(0, 0), Change::Made);
        after(ADD, [1, 1], &registers(1, 0), Change::None);
        after(ADD, [1, 3], &registers(1, 0), Change::Made);
        after(SET_BIT, [0x200, 0x200], &registers(0, CARRY), Change::None);
        after(SET_BIT, [0, 0x200], &registers(0, 0), Change::Made);
        after(OR, [0, 1], &registers(0, 0), Change::Made);
        after(OR, [1, 1], &registers(0, 0), Change::Unknown);
    }

    #[test]
    fn only_the_bytes_that_meet_count() {
        let ticket = Instruction::decode(ADD, 0x1000).unwrap();
        let (found, now) = ([5, 0, 0, 0], [5, 0, 1, 0]);
        let change = |part| ticket.changed(&found, &now, &registers(5, 0), part);
        assert_eq!(change(0..2), Change::None);
        assert_eq!(change(2..4), Change::Made);
    }

    #[test]
    fn pairs_of_words_are_compared_whole() {
        let code = [0xf0, 0x48, 0x0f, 0xc7, 0x0f]; // lock cmpxchg16b [rdi]
        let instruction = Instruction::decode(&code, 0x1000).unwrap();
        let mut registers = registers(0, ZERO);
        registers.set(Register::Rbx, 6);
        let change = |part| instruction.changed(&[], &[], &registers, part);
        assert_eq!(change(0..8), Change::Made);
        assert_eq!(change(8..16), Change::None);
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let change = |code: &[u8], part| {
            let instruction = Instruction::decode(code, 0x1000).unwrap();
            instruction.changes(part)
        };
        assert_eq!(change(COMPARE_EXCHANGE, 0..4), Change::Unknown);
        assert_eq!(change(EXCHANGE, 0..4), Change::Unknown);
        assert_eq!(change(ADD, 0..4), Change::Made);
        assert_eq!(change(ADD, 0..2), Change::Unknown);
        assert_eq!(change(PLAIN, 0..4), Change::Made);
    }
}
