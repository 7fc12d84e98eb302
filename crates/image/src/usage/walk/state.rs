//! What registers and stack slots hold at one place of the code.

use super::super::value::{Derived, Operation, Value};
use iced_x86::Register;
use std::collections::BTreeMap;

/// What is known there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    pub(super) registers: BTreeMap<u32, Value>,
    pub(super) slots: BTreeMap<(u32, u64), Value>,
    /// The bits that the processor's flags depend on.
    pub(super) flags: u64,
    /// The bit that the sign flag alone depends on, where a value was compared with zero.
    pub(super) sign: u64,
    /// Whether the flags come from a comparison with something other than a number next to
    /// zero.
    pub(super) far: bool,
    pub(super) lock: Option<String>,
}

impl State {
    pub(super) fn register(&self, register: Register) -> Value {
        let value = self.registers.get(&(register.full_register() as u32));
        let value = value.copied().unwrap_or(Value::UNKNOWN);
        let value = match is_second_byte(register) {
            true => value.compute(Operation::Shift(8), Value::UNKNOWN, None),
            false => value,
        };
        value.cut(register.size())
    }

    pub(super) fn set(&mut self, register: Register, value: Value) {
        let full = register.full_register() as u32;
        // A part of a register keeps the rest of it.
        let old = self.registers.get(&full).filter(|_| register.size() < 4);
        let value = match (old.copied(), value) {
            (Some(old @ Value::Derived(_)), Value::Any { .. }) => {
                old.compute(Operation::Other, value, None)
            }
            (Some(Value::Derived(old)), Value::Derived(new)) if is_second_byte(register) => {
                Value::Derived(Derived::from_bits(old.bits | new.bits))
            }
            (Some(Value::Derived(old)), Value::Derived(new)) => {
                Value::Derived(old.with_low(new, register.size()))
            }
            (_, Value::Derived(new)) if is_second_byte(register) => {
                Value::Derived(Derived::from_bits(new.bits))
            }
            _ => value,
        };
        match value {
            Value::UNKNOWN => self.registers.remove(&full),
            value => self.registers.insert(full, value),
        };
    }

    pub(super) fn is_of_interest(&self) -> bool {
        let derived = |value: &Value| value.derived().is_some();
        self.flags != 0
            || self.lock.is_some()
            || self.registers.values().any(derived)
            || self.slots.values().any(derived)
    }

    /// What holds if one of the two does.
    pub(super) fn either(&self, other: &Self) -> Self {
        let mut state = Self {
            flags: self.flags | other.flags,
            far: self.far && other.far,
            ..Self::default()
        };
        let registers = self.registers.keys().chain(other.registers.keys());
        for key in registers {
            let of = |state: &Self| state.registers.get(key).copied().unwrap_or(Value::UNKNOWN);
            state.registers.insert(*key, of(self).either(of(other)));
        }
        for key in self.slots.keys().chain(other.slots.keys()) {
            let of = |state: &Self| state.slots.get(key).copied().unwrap_or(Value::UNKNOWN);
            state.slots.insert(*key, of(self).either(of(other)));
        }
        state
    }
}

/// Whether the register is the second byte of another one.
const fn is_second_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

/// Whether a branch, or what else depends on a condition, only asks if the value is above or
/// below something that is not next to zero.
pub(super) fn is_threshold(raw: &iced_x86::Instruction, state: &State) -> bool {
    use iced_x86::ConditionCode;
    state.far
        && matches!(
            raw.condition_code(),
            ConditionCode::a
                | ConditionCode::ae
                | ConditionCode::b
                | ConditionCode::be
                | ConditionCode::g
                | ConditionCode::ge
                | ConditionCode::l
                | ConditionCode::le
        )
}

/// The bits that a conditional branch looks at.
pub(super) fn tested_by(branch: &iced_x86::Instruction, state: &State) -> u64 {
    use iced_x86::ConditionCode;
    match branch.condition_code() {
        ConditionCode::s | ConditionCode::ns | ConditionCode::l | ConditionCode::ge
            if state.sign != 0 =>
        {
            state.sign
        }
        _ => state.flags,
    }
}
