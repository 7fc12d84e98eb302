//! Instructions that somebody else can carry out for a thread that stands at a breakpoint which
//! has to stay: those that functions begin and end with.

use crate::Instruction;
use crate::found::value;
use crate::instruction::general;
use iced_x86::{Code, Mnemonic, OpKind, Register as Named};
use redhanded_model::{Register, Registers};

const WORD: u64 = 8;
const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// What a carried out instruction came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The registers after it.
    pub registers: Registers,
    /// The address and the word that it stores, if it does.
    pub stored: Option<(u64, u64)>,
}

impl Instruction {
    /// Whether it can be carried out, if memory can be read.
    #[must_use]
    pub fn can_be_carried_out(&self) -> bool {
        let at = Registers {
            rip: self.address(),
            ..Registers::default()
        };
        self.carry_out(&at, &mut |_, _| Some(())).is_some()
    }

    /// What it does, from the registers before it. `read` fills the bytes of an operand from
    /// memory at an address. `None` for all but a few simple instructions.
    #[must_use]
    pub fn carry_out(
        &self,
        before: &Registers,
        read: &mut dyn FnMut(u64, &mut [u8]) -> Option<()>,
    ) -> Option<Carried> {
        let raw = self.raw();
        if raw.has_lock_prefix() {
            return None;
        }
        let mut registers = *before;
        registers.rip = self.next();
        let mut stored = None;
        match raw.mnemonic() {
            Mnemonic::Nop | Mnemonic::Endbr64 => {}
            Mnemonic::Ret if raw.code() == Code::Retnq => {
                let stack = before.stack_pointer();
                registers.rip = word(read, stack, WORD as usize)?;
                registers.set(Register::Rsp, stack.wrapping_add(WORD));
            }
            Mnemonic::Push if raw.code() == Code::Push_r64 => {
                let stack = before.stack_pointer().wrapping_sub(WORD);
                stored = Some((stack, value(raw.op0_register(), before)?));
                registers.set(Register::Rsp, stack);
            }
            Mnemonic::Mov if raw.op0_kind() == OpKind::Register => {
                set(
                    &mut registers,
                    raw.op0_register(),
                    self.operand(1, before, read)?,
                )?;
            }
            Mnemonic::Lea => {
                let address = self.memory_operand()?.address(before);
                set(&mut registers, raw.op0_register(), address)?;
            }
            Mnemonic::Test => {
                let found = self.operand(0, before, read)? & self.operand(1, before, read)?;
                registers.rflags = result_flags(before.rflags, found, self.width(0)?);
            }
            Mnemonic::Xor if raw.op0_kind() == OpKind::Register => {
                let found = self.operand(0, before, read)? ^ self.operand(1, before, read)?;
                registers.rflags = result_flags(before.rflags, found, self.width(0)?);
                set(&mut registers, raw.op0_register(), found)?;
            }
            Mnemonic::Cmp | Mnemonic::Sub => {
                let one = self.operand(0, before, read)?;
                let other = self.operand(1, before, read)?;
                registers.rflags = difference_flags(before.rflags, one, other, self.width(0)?);
                if raw.mnemonic() == Mnemonic::Sub {
                    if raw.op0_kind() != OpKind::Register {
                        return None;
                    }
                    set(&mut registers, raw.op0_register(), one.wrapping_sub(other))?;
                }
            }
            _ => return None,
        }
        Some(Carried { registers, stored })
    }

    /// The value of an operand, in its lowest bytes.
    fn operand(
        &self,
        at: u32,
        registers: &Registers,
        read: &mut dyn FnMut(u64, &mut [u8]) -> Option<()>,
    ) -> Option<u64> {
        let raw = self.raw();
        match raw.op_kind(at) {
            OpKind::Register => value(raw.op_register(at), registers),
            OpKind::Memory => {
                let address = self.memory_operand()?.address(registers);
                word(read, address, raw.memory_size().size())
            }
            _ => raw.try_immediate(at).ok(),
        }
    }

    /// How many bits an operand has.
    fn width(&self, at: u32) -> Option<u32> {
        let raw = self.raw();
        let bytes = match raw.op_kind(at) {
            OpKind::Register => raw.op_register(at).size(),
            OpKind::Memory => raw.memory_size().size(),
            _ => return None,
        };
        matches!(bytes, 1 | 2 | 4 | 8).then_some(u32::try_from(bytes).ok()? * 8)
    }
}

/// The number in the `size` bytes at an address.
fn word(
    read: &mut dyn FnMut(u64, &mut [u8]) -> Option<()>,
    address: u64,
    size: usize,
) -> Option<u64> {
    let mut word = [0; size_of::<u64>()];
    read(address, word.get_mut(..size)?)?;
    Some(u64::from_le_bytes(word))
}

/// Sets a register of four or eight bytes. Setting four clears the rest.
fn set(registers: &mut Registers, register: Named, value: u64) -> Option<()> {
    let value = match register.size() {
        8 => value,
        4 => value & 0xffff_ffff,
        _ => return None,
    };
    registers.set(general(register)?, value);
    Some(())
}

const fn mask(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

/// The flags that depend on the result alone, with the others clear, as logic leaves them.
fn result_flags(before: u64, result: u64, width: u32) -> u64 {
    let result = result & mask(width);
    let mut flags = before & !(CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW);
    if (result & 0xff).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    if result == 0 {
        flags |= ZERO;
    }
    if result >> (width - 1) != 0 {
        flags |= SIGN;
    }
    flags
}

/// The flags of a subtraction.
fn difference_flags(before: u64, one: u64, other: u64, width: u32) -> u64 {
    let (one, other) = (one & mask(width), other & mask(width));
    let result = one.wrapping_sub(other) & mask(width);
    let mut flags = result_flags(before, result, width);
    if one < other {
        flags |= CARRY;
    }
    if (one ^ other ^ result) & 0x10 != 0 {
        flags |= ADJUST;
    }
    if ((one ^ other) & (one ^ result)) >> (width - 1) != 0 {
        flags |= OVERFLOW;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;

    fn before() -> Registers {
        let mut registers = Registers {
            rip: START,
            rflags: 0x202 | CARRY | OVERFLOW,
            fs_base: 0x9000,
            ..Registers::default()
        };
        registers.set(Register::Rsp, 0x8000);
        registers.set(Register::Rdi, 5);
        registers.set(Register::Rsi, 0xffff_ffff_8000_0000);
        registers
    }

    fn carry(code: &[u8]) -> Option<Carried> {
        let mut read = |at: u64, bytes: &mut [u8]| {
            bytes.copy_from_slice(&(at + 0x11).to_le_bytes()[..bytes.len()]);
            Some(())
        };
        Instruction::decode(code, START)
            .unwrap()
            .carry_out(&before(), &mut read)
    }

    /// What else than the pc differs afterwards.
    #[track_caller]
    fn check(code: &[u8], change: impl Fn(&mut Registers), stored: Option<(u64, u64)>) {
        let mut expect = before();
        expect.rip = START + code.len() as u64;
        change(&mut expect);
        let carried = carry(code).unwrap();
        assert_eq!(carried.registers, expect, "{code:x?}");
        assert_eq!(carried.stored, stored, "{code:x?}");
    }

    #[test]
    fn what_functions_begin_with_is_carried_out() {
        check(&[0xf3, 0x0f, 0x1e, 0xfa], |_| {}, None); // endbr64
        check(
            &[0x57], // push rdi
            |after| after.set(Register::Rsp, 0x7ff8),
            Some((0x7ff8, 5)),
        );
        check(
            &[0x54], // push rsp
            |after| after.set(Register::Rsp, 0x7ff8),
            Some((0x7ff8, 0x8000)),
        );
        check(
            &[0x89, 0xf0], // mov eax, esi
            |after| after.set(Register::Rax, 0x8000_0000),
            None,
        );
        check(
            &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], // mov rax, [rip + 0x10]
            |after| after.set(Register::Rax, START + 7 + 0x10 + 0x11),
            None,
        );
        check(
            &[0x64, 0x48, 0x8b, 0x07], // mov rax, fs:[rdi]
            |after| after.set(Register::Rax, 0x9005 + 0x11),
            None,
        );
        check(
            &[0x48, 0x8d, 0x46, 0xff], // lea rax, [rsi - 1]
            |after| after.set(Register::Rax, 0xffff_ffff_7fff_ffff),
            None,
        );
    }

    #[test]
    fn a_return_takes_its_address_from_the_stack() {
        let after = carry(&[0xc3]).unwrap().registers;
        assert_eq!(after.rip, 0x8011);
        assert_eq!(after.stack_pointer(), 0x8008);
    }

    #[test]
    fn flags_are_those_of_the_processor() {
        let with = |flags: u64| move |after: &mut Registers| after.rflags = 0x202 | flags;
        check(&[0x48, 0x85, 0xff], with(PARITY), None); // test rdi, rdi: 5
        check(&[0x48, 0x85, 0xf6], with(SIGN | PARITY), None); // test rsi, rsi
        check(&[0x48, 0x85, 0xc0], with(ZERO | PARITY), None); // test rax, rax: 0
        // cmp rdi, 5; cmp rdi, 6; cmp rdi, 0x1000
        check(&[0x48, 0x83, 0xff, 5], with(ZERO | PARITY), None);
        let below = CARRY | SIGN | PARITY;
        check(&[0x48, 0x83, 0xff, 6], with(below | ADJUST), None);
        check(&[0x48, 0x81, 0xff, 0, 0x10, 0, 0], with(below), None);
        // cmp esi, 1: the smallest number becomes the largest.
        check(&[0x83, 0xfe, 1], with(OVERFLOW | ADJUST | PARITY), None);
        // cmp byte ptr [rip + 0x10], 0x28: what is there is 0x1028.
        check(
            &[0x80, 0x3d, 0x10, 0, 0, 0, 0x28],
            with(ZERO | PARITY),
            None,
        );
        check(
            &[0x48, 0x83, 0xec, 8], // sub rsp, 8
            |after| {
                after.rflags = 0x202 | ADJUST;
                after.set(Register::Rsp, 0x7ff8);
            },
            None,
        );
        check(
            &[0x31, 0xf6], // xor esi, esi
            |after| {
                after.rflags = 0x202 | ZERO | PARITY;
                after.set(Register::Rsi, 0);
            },
            None,
        );
    }

    #[test]
    fn no_more_is_read_than_the_operand_has() {
        let carry = |code: &[u8]| {
            let mut sizes = Vec::new();
            let mut read = |_, bytes: &mut [u8]| {
                sizes.push(bytes.len());
                Some(())
            };
            let instruction = Instruction::decode(code, START).unwrap();
            let carried = instruction.carry_out(&before(), &mut read);
            assert!(carried.is_some(), "{code:x?}");
            sizes
        };
        assert_eq!(carry(&[0x80, 0x3d, 0x10, 0, 0, 0, 0x28]), [1]); // cmp byte ptr [rip + 0x10], 0x28
        assert_eq!(carry(&[0x66, 0x39, 0x07]), [2]); // cmp [rdi], ax
        assert_eq!(carry(&[0x8b, 0x07]), [4]); // mov eax, [rdi]
        assert_eq!(carry(&[0x48, 0x8b, 0x07]), [8]); // mov rax, [rdi]
        assert_eq!(carry(&[0xc3]), [8]); // ret
        assert_eq!(carry(&[0x48, 0x8d, 0x07]), []); // lea rax, [rdi]
    }

    #[test]
    fn nothing_else_is() {
        for code in [
            &[0xe8, 0, 0, 0, 0][..],   // call
            &[0x74, 0],                // je
            &[0xc2, 8, 0],             // ret 8
            &[0x48, 0x89, 0x07],       // mov [rdi], rax
            &[0x48, 0x29, 0x07],       // sub [rdi], rax
            &[0xb0, 1],                // mov al, 1
            &[0x48, 0x31, 0x07],       // xor [rdi], rax
            &[0xf0, 0x48, 0x29, 0x07], // lock sub [rdi], rax
            &[0x66, 0x57],             // push di
        ] {
            assert_eq!(carry(code), None, "{code:x?}");
            assert!(
                !Instruction::decode(code, START)
                    .unwrap()
                    .can_be_carried_out()
            );
        }
    }
}
