//! What registers and stack slots hold at one place of the code.

use super::super::value::{Operation, Value};
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
    pub(super) lock: Option<String>,
}

impl State {
    pub(super) fn register(&self, register: Register) -> Value {
        let value = self.registers.get(&(register.full_register() as u32));
        value
            .copied()
            .unwrap_or(Value::UNKNOWN)
            .cut(register.size())
    }

    pub(super) fn set(&mut self, register: Register, value: Value) {
        let full = register.full_register() as u32;
        // A part of a register keeps the rest of it.
        let value = match (register.size() < 4, self.registers.get(&full)) {
            (true, Some(old)) if old.derived().is_some() && value.derived().is_none() => {
                old.compute(Operation::Other, value, None)
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
