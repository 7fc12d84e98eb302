//! Jumps, calls and returns.

use super::Machine;
use super::decode::{Decoded, unsupported};
use crate::outcome::{End, Fault};
use crate::state::{RSP, flag};
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// Calls within each other that are remembered. Deeper ones say nothing more.
const MOST_CALLS: usize = 64;

impl Machine<'_> {
    pub(super) fn control(&mut self, decoded: &Decoded) -> Result<(), End> {
        let i = &decoded.instruction;
        let next = decoded.next;
        if i.is_jcc_short_or_near() {
            let taken = self.holds(i.condition_code());
            self.ip = if taken { i.near_branch_target() } else { next };
            return Ok(());
        }
        if i.is_jcx_short() {
            let counter = self.register(counter(i));
            self.ip = if counter == 0 {
                i.near_branch_target()
            } else {
                next
            };
            return Ok(());
        }
        match i.mnemonic() {
            Mnemonic::Jmp => self.ip = self.target(decoded)?,
            Mnemonic::Call => {
                let target = self.target(decoded)?;
                self.push(next, 8)?;
                self.ip = target;
                if self.calls.len() < MOST_CALLS {
                    self.calls.push(target);
                }
            }
            Mnemonic::Ret if i.stack_pointer_increment() >= 8 => {
                let stack = self.native.file.general[RSP];
                let target = canonical(self.space.read_number(stack, 8)?)?;
                let popped = i.stack_pointer_increment().unsigned_abs();
                self.native.file.general[RSP] = stack.wrapping_add(popped.into());
                self.returned_to = self.native.file.general[RSP];
                self.ip = target;
                self.calls.pop();
            }
            Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => {
                let register = counter(i);
                let left = self.register(register).wrapping_sub(1);
                self.set_register(register, left);
                let zero = self.has_flag(flag::ZF);
                let again = self.register(register) != 0
                    && match i.mnemonic() {
                        Mnemonic::Loope => zero,
                        Mnemonic::Loopne => !zero,
                        _ => true,
                    };
                self.ip = if again { i.near_branch_target() } else { next };
            }
            _ => return Err(unsupported(i)),
        }
        Ok(())
    }

    fn target(&mut self, decoded: &Decoded) -> Result<u64, End> {
        let i = &decoded.instruction;
        let target = match i.op_kind(0) {
            OpKind::NearBranch64 => i.near_branch_target(),
            OpKind::Register if i.op0_register().is_gpr64() => self.register(i.op0_register()),
            OpKind::Memory if i.memory_size().size() == 8 => {
                let address = self.address(decoded)?;
                self.space.read_number(address, 8)?
            }
            _ => return Err(unsupported(i)),
        };
        canonical(target)
    }

    fn holds(&self, condition: ConditionCode) -> bool {
        let is = |bit| self.has_flag(bit);
        let (cf, zf, sf, of, pf) = (
            is(flag::CF),
            is(flag::ZF),
            is(flag::SF),
            is(flag::OF),
            is(flag::PF),
        );
        match condition {
            ConditionCode::None => true,
            ConditionCode::o => of,
            ConditionCode::no => !of,
            ConditionCode::b => cf,
            ConditionCode::ae => !cf,
            ConditionCode::e => zf,
            ConditionCode::ne => !zf,
            ConditionCode::be => cf || zf,
            ConditionCode::a => !cf && !zf,
            ConditionCode::s => sf,
            ConditionCode::ns => !sf,
            ConditionCode::p => pf,
            ConditionCode::np => !pf,
            ConditionCode::l => sf != of,
            ConditionCode::ge => sf == of,
            ConditionCode::le => zf || sf != of,
            ConditionCode::g => !zf && sf == of,
        }
    }
}

/// A target that no page can have faults at the branch, not behind it.
const fn canonical(target: u64) -> Result<u64, End> {
    let high = target.cast_signed() >> 47;
    if high == 0 || high == -1 {
        Ok(target)
    } else {
        Err(End::Fault(Fault::Protection))
    }
}

/// The counter of `jrcxz` and `loop`: 32 bits with an address-size prefix.
fn counter(i: &Instruction) -> Register {
    use iced_x86::Code;
    match i.code() {
        Code::Jecxz_rel8_64
        | Code::Loop_rel8_64_ECX
        | Code::Loope_rel8_64_ECX
        | Code::Loopne_rel8_64_ECX => Register::ECX,
        _ => Register::RCX,
    }
}
