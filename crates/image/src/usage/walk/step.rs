//! What one instruction does to the values that are followed.

use super::super::nearby::is_barrier;
use super::super::value::{Derived, Operation, Value, low_bits};
use super::state::{State, is_threshold};
use super::{Walk, fixed, is_stack, operand};
use iced_x86::{FlowControl, Mnemonic, OpAccess, OpKind, Register};
use redhanded_model::Use;

impl Walk<'_, '_> {
    /// What an operand holds.
    pub(super) fn operand(&self, state: &State, raw: &iced_x86::Instruction, op: u32) -> Value {
        match raw.op_kind(op) {
            OpKind::Register => state.register(raw.op_register(op)),
            OpKind::Memory => {
                let size = raw.memory_size().size();
                match operand(raw) {
                    Some(at) if at == self.own => Value::Derived(Derived::whole(size)),
                    Some(at) if is_stack(at) => {
                        let slot = state.slots.get(&(at.0 as u32, at.3)).copied();
                        slot.unwrap_or(Value::UNKNOWN).cut(size)
                    }
                    _ => Value::Any {
                        ones: low_bits(size),
                    },
                }
            }
            _ => immediate(raw, op).map_or(Value::UNKNOWN, |value| Value::Any {
                ones: value.cast_unsigned(),
            }),
        }
    }

    /// Gives an operand a value.
    pub(super) fn write(
        &mut self,
        state: &mut State,
        raw: &iced_x86::Instruction,
        op: u32,
        value: Value,
    ) {
        match raw.op_kind(op) {
            OpKind::Register => {
                let register = raw.op_register(op);
                state.set(register, value.cut(register.size()));
            }
            OpKind::Memory => match operand(raw) {
                Some(at) if at == self.own => {
                    if let Value::Derived(derived) = value {
                        self.updated = Some(derived);
                        let step = (derived.as_step(), derived.changed);
                        self.followed.updated.get_or_insert(step);
                    } else if self.followed.uses.contains(&Use::Branch) {
                        self.uses(Use::Overwritten);
                    }
                }
                Some(at) if is_stack(at) => {
                    state.slots.insert((at.0 as u32, at.3), value);
                }
                Some(at) if let Some(stored) = value.derived() => {
                    self.looks(Use::Stored, stored.bits);
                    let is_whole = stored == Derived::whole(raw.memory_size().size());
                    if is_whole && let Some(address) = fixed(at) {
                        self.followed.copied.push((raw.ip(), address));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// What an instruction does to the values.
    pub(super) fn step(&mut self, state: &mut State, at: usize) {
        let Some(raw) = self.code.code.get(at).copied() else {
            return;
        };
        self.addresses(state, &raw);
        if at != self.code.access && state.lock.is_some() && self.code.loads(at, self.own) {
            self.followed
                .checked_again
                .get_or_insert(state.lock.clone().unwrap_or_default());
        }
        if is_barrier(&raw) && operand(&raw) != Some(self.own) && at != self.code.access {
            state
                .lock
                .get_or_insert_with(|| "a locked instruction".to_owned());
        }
        let operation = operation(&raw);
        let (first, second) = (self.operand(state, &raw, 0), self.operand(state, &raw, 1));
        match raw.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
                self.write(state, &raw, 0, second);
            }
            Mnemonic::Cbw | Mnemonic::Cwde | Mnemonic::Cdqe | Mnemonic::Nop | Mnemonic::Endbr64 => {
            }
            Mnemonic::Lea => {
                let value = address(state, &raw);
                self.write(state, &raw, 0, value);
            }
            Mnemonic::Xor | Mnemonic::Sub
                if raw.op1_kind() == OpKind::Register
                    && raw.op0_register() == raw.op1_register() =>
            {
                self.write(state, &raw, 0, Value::Any { ones: 0 });
                state.flags = 0;
                state.far = false;
            }
            Mnemonic::Test => {
                let tested = first.compute(Operation::And, second, immediate(&raw, 1));
                state.flags = tested.bits();
                let same =
                    raw.op1_kind() == OpKind::Register && raw.op0_register() == raw.op1_register();
                state.sign = if same { sign(first, &raw) } else { 0 };
                state.far = false;
            }
            Mnemonic::Bt => {
                let bit = immediate(&raw, 1).map(|bit| 1i64.wrapping_shl(bit as u32));
                let mask = Value::Any {
                    ones: bit.map_or(u64::MAX, i64::cast_unsigned),
                };
                state.flags = first.compute(Operation::And, mask, bit).bits();
                state.far = false;
            }
            Mnemonic::Cmp => {
                state.flags = first.bits() | second.bits();
                state.sign = match immediate(&raw, 1) {
                    Some(0) => sign(first, &raw),
                    _ => 0,
                };
                state.far = is_far(first, second, immediate(&raw, 1));
            }
            Mnemonic::Cmova
            | Mnemonic::Cmovae
            | Mnemonic::Cmovb
            | Mnemonic::Cmovbe
            | Mnemonic::Cmove
            | Mnemonic::Cmovg
            | Mnemonic::Cmovge
            | Mnemonic::Cmovl
            | Mnemonic::Cmovle
            | Mnemonic::Cmovne
            | Mnemonic::Cmovno
            | Mnemonic::Cmovnp
            | Mnemonic::Cmovns
            | Mnemonic::Cmovo
            | Mnemonic::Cmovp
            | Mnemonic::Cmovs => {
                if state.flags != 0 {
                    self.branches(state.flags, is_threshold(&raw, state));
                }
                self.write(state, &raw, 0, first.either(second));
            }
            _ if let Some(operation) = operation => {
                let other = if raw.op_count() > 1 {
                    second
                } else {
                    Value::Any { ones: 1 }
                };
                let constant = match raw.mnemonic() {
                    Mnemonic::Inc | Mnemonic::Dec => Some(1),
                    _ => immediate(&raw, 1),
                };
                let value = first.compute(operation, other, constant);
                self.write(state, &raw, 0, value);
                state.flags = value.bits();
                state.far = false;
            }
            _ => self.other(state, &raw),
        }
    }

    /// Any other instruction: what it writes depends on all that it reads.
    fn other(&mut self, state: &mut State, raw: &iced_x86::Instruction) {
        let info = self.info.info(raw);
        let used: Vec<_> = info.used_registers().to_vec();
        let memory_op = (0..raw.op_count()).find(|op| raw.op_kind(*op) == OpKind::Memory);
        let memory_access = memory_op.map(|op| (op, info.op_access(op)));
        let mut bits = if raw.rflags_read() != 0 {
            state.flags
        } else {
            0
        };
        for register in used.iter().filter(|used| reads(used.access())) {
            bits |= state.register(register.register()).bits();
        }
        if let Some((op, access)) = memory_access
            && reads(access)
        {
            bits |= self.operand(state, raw, op).bits();
        }
        let value = match bits {
            0 => Value::UNKNOWN,
            bits => Value::Derived(Derived::from_bits(bits)),
        };
        if raw.flow_control() == FlowControl::Next {
            for register in used.iter().filter(|used| writes(used.access())) {
                if register.register().full_register() != Register::RSP {
                    state.set(register.register(), value);
                }
            }
            if let Some((op, access)) = memory_access
                && writes(access)
            {
                self.write(state, raw, op, value);
            }
            if raw.mnemonic() == Mnemonic::Push && bits != 0 {
                self.uses(Use::Lost);
            }
            if raw.rflags_modified() != 0 {
                state.flags = bits;
                state.far = false;
            }
            if bits != 0 {
                self.uses(Use::Computed);
            }
        } else if bits != 0
            && matches!(
                raw.flow_control(),
                FlowControl::IndirectCall | FlowControl::IndirectBranch
            )
        {
            self.looks(Use::Address, bits);
        }
    }

    /// Notes where the value is an address.
    fn addresses(&mut self, state: &State, raw: &iced_x86::Instruction) {
        if raw.mnemonic() == Mnemonic::Lea || operand(raw).is_none() {
            return;
        }
        let derived = |register: Register| match register {
            Register::None => None,
            register => state.register(register).derived(),
        };
        if let Some(index) = derived(raw.memory_index()) {
            self.looks(Use::Index, index.bits);
        }
        if let Some(base) = derived(raw.memory_base()) {
            self.looks(Use::Address, base.bits);
        }
    }
}

/// Whether a comparison is with something other than a number next to zero.
fn is_far(first: Value, second: Value, constant: Option<i64>) -> bool {
    let (value, other) = match first {
        Value::Derived(derived) => (Some(derived), second),
        Value::Any { .. } => (second.derived(), first),
    };
    // What was computed with before may be next to zero all the same.
    if value.is_some_and(|value| value.step.is_some()) {
        return false;
    }
    match (other, constant) {
        (_, Some(constant)) => !(-1..=2).contains(&constant),
        (Value::Any { ones }, None) => ones > 3,
        (Value::Derived(_), None) => false,
    }
}

/// The bit of the accessed bytes that the sign of an instruction's first operand is.
fn sign(value: Value, raw: &iced_x86::Instruction) -> u64 {
    let size = match raw.op0_kind() {
        OpKind::Register => raw.op0_register().size(),
        _ => raw.memory_size().size(),
    };
    let top = low_bits(size) & !(low_bits(size) >> 1);
    let masked = value.compute(
        Operation::And,
        Value::Any { ones: top },
        Some(top.cast_signed()),
    );
    masked.bits()
}

/// What `lea` computes.
fn address(state: &State, raw: &iced_x86::Instruction) -> Value {
    let of = |register: Register| {
        (register != Register::None && register != Register::RIP).then(|| state.register(register))
    };
    let displacement = raw.memory_displacement64().cast_signed();
    let add = |value: Value| match displacement {
        0 => value,
        by => value.compute(
            Operation::Add,
            Value::Any {
                ones: by.cast_unsigned(),
            },
            Some(by),
        ),
    };
    match (
        of(raw.memory_base()),
        of(raw.memory_index()),
        raw.memory_index_scale(),
    ) {
        (Some(base), None, _) => add(base),
        (None, Some(index), scale) if displacement == 0 => {
            let left = scale.trailing_zeros().cast_signed();
            index.compute(Operation::Shift(-left), Value::UNKNOWN, None)
        }
        (Some(base), Some(index), 1) => add(base.compute(Operation::Add, index, None)),
        (base, index, _) => {
            let bits = base.map_or(0, Value::bits) | index.map_or(0, Value::bits);
            match bits {
                0 => Value::UNKNOWN,
                bits => Value::Derived(Derived::from_bits(bits)),
            }
        }
    }
}

fn operation(raw: &iced_x86::Instruction) -> Option<Operation> {
    let by = || immediate(raw, 1).and_then(|by| i32::try_from(by).ok());
    Some(match raw.mnemonic() {
        Mnemonic::And => Operation::And,
        Mnemonic::Or => Operation::Or,
        Mnemonic::Xor => Operation::Xor,
        Mnemonic::Add | Mnemonic::Inc => Operation::Add,
        Mnemonic::Sub | Mnemonic::Dec => Operation::Subtract,
        Mnemonic::Shr | Mnemonic::Sar => by().map_or(Operation::Other, Operation::Shift),
        Mnemonic::Shl | Mnemonic::Sal => by().map_or(Operation::Other, |by| Operation::Shift(-by)),
        _ => return None,
    })
}

/// An operand that is a constant.
pub(super) fn immediate(raw: &iced_x86::Instruction, op: u32) -> Option<i64> {
    let is = op < raw.op_count() && raw.try_immediate(op).is_ok();
    is.then(|| raw.immediate(op).cast_signed())
}

pub(super) const fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

pub const fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}
