//! What one instruction does to what is held.

use super::held::{Held, Object, State, Written, gcd};
use super::locations::{Base, Call, Fact, Known};
use super::writing::{bare, element, is_aggregate, member};
use crate::debug::Inner;
use crate::debug::program::{Die, Program};
use crate::instruction::general;
use crate::{Flow, Instruction, Operand, SegmentBase};
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register as Named};
use redhanded_model::{Register, Svma};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

/// What following the instructions of a function needs to know.
pub(super) struct Surroundings<'a, 'd> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) program: &'a Program<'d>,
    /// The calls by the addresses that they return to.
    pub(super) calls: &'a HashMap<u64, Call>,
    /// From where on slots of the frame may be changed by others.
    pub(super) shared_from: i64,
}

impl Surroundings<'_, '_> {
    pub(super) fn size(&self, kind: Die) -> Option<u64> {
        self.program.size_of(kind)
    }

    /// Takes in what the debug information says before an instruction. Inner scopes come last.
    pub(super) fn declare(&self, state: &mut State, facts: &[&Fact]) {
        for fact in facts {
            let is_frame = |register: Register| matches!(state.get(register), Held::Frame(_));
            let (register, mut object) = match &fact.known {
                // What a reference refers to in the frame is there for a while only. The
                // register of the frame remains what it is.
                Known::Points(register @ (Register::Rbp | Register::Rsp), _)
                    if is_frame(*register) =>
                {
                    continue;
                }
                Known::Points(register, object) => (*register, object.clone()),
                Known::Lies(Base::Register(register), distance, object) if !is_frame(*register) => {
                    let mut object = object.clone();
                    object.offset = object.offset.saturating_sub(*distance);
                    (*register, object)
                }
                _ => continue,
            };
            if let Held::Address(known) = state.get(register) {
                let is_receiver = matches!(&object.written, Some(Written::Behind(name))
                    if matches!(&**name, "this" | "self"));
                // The caller's name for the object of a method that was inlined is better.
                let is_named = known.written.is_some() && is_aggregate(self.program, known.kind);
                if !self.says_more(&object, known) || (is_receiver && fact.depth > 0 && is_named) {
                    continue;
                }
                // Two variables of one scope with the same value, but of different types.
                object.doubtful |= facts.iter().any(|other| match &other.known {
                    Known::Points(at, with) => {
                        *at == register
                            && other.depth == fact.depth
                            && with.kind != object.kind
                            && is_aggregate(self.program, with.kind)
                    }
                    _ => false,
                });
            }
            state.set(register, Held::Address(object));
        }
    }

    /// Whether a variable of the source says more about an address than what is known.
    fn says_more(&self, object: &Object, known: &Object) -> bool {
        let rank = |kind: Die| {
            let sized = self.size(kind).unwrap_or(0);
            (is_aggregate(self.program, kind), sized > 1)
        };
        rank(object.kind) >= rank(known.kind)
    }

    /// The variable that lies in the frame at `at`.
    fn frame_variable(&self, state: &State, facts: &[&Fact], at: i64) -> Option<Object> {
        let place = |base: Base, distance: i64| match base {
            // The return address lies between the two.
            Base::Cfa => distance.checked_add(8),
            Base::Register(register) => match state.get(register) {
                Held::Frame(from) => from.checked_add(distance),
                _ => None,
            },
        };
        facts.iter().rev().find_map(|fact| {
            let Known::Lies(base, distance, object) = &fact.known else {
                return None;
            };
            let offset = at.checked_sub(place(*base, *distance)?)?;
            let size = self.size(object.kind)?;
            let inside = u64::try_from(offset).is_ok_and(|offset| offset < size);
            inside.then(|| Object {
                offset,
                ..object.clone()
            })
        })
    }

    /// The object whose address lies in the frame at `at`.
    fn referred(&self, state: &State, facts: &[&Fact], at: i64) -> Option<Object> {
        facts.iter().rev().find_map(|fact| {
            let Known::Referred(base, distance, object) = &fact.known else {
                return None;
            };
            let place = match base {
                Base::Cfa => distance.checked_add(8)?,
                Base::Register(register) => match state.get(*register) {
                    Held::Frame(from) => from.checked_add(*distance)?,
                    _ => return None,
                },
            };
            (place == at).then(|| object.clone())
        })
    }

    /// An address in the frame as one of the variable that lies there.
    pub(super) fn object(&self, state: &State, facts: &[&Fact], held: Held) -> Option<Object> {
        match held {
            Held::Address(object) => Some(object),
            Held::Frame(at) => self.frame_variable(state, facts, at),
            Held::Multiple(_) | Held::Argument(_) => None,
        }
    }

    /// The address that an operand means.
    pub(super) fn address(&self, state: &State, operand: &Operand) -> Option<Held> {
        if operand.segment != SegmentBase::Flat || operand.narrow || operand.bit.is_some() {
            return None;
        }
        if let Some(at) = operand.constant() {
            return self.global(at).map(Held::Address);
        }
        let displacement = operand.displacement.cast_signed();
        let held = |register: Option<Register>| register.map(|register| state.get(register));
        let scale = u64::from(operand.scale);
        match (held(operand.base), held(operand.index)) {
            (Some(base), None) => self.moved(base, displacement),
            (Some(Held::Multiple(factor)), Some(Held::Address(object))) if scale == 1 => {
                self.indexed(object, *factor, displacement)
            }
            (Some(Held::Address(object)), Some(Held::Multiple(factor))) => {
                self.indexed(object, factor.checked_mul(scale)?, displacement)
            }
            (None, Some(Held::Address(object))) if scale == 1 => {
                self.moved(&Held::Address(object.clone()), displacement)
            }
            _ => None,
        }
    }

    fn indexed(&self, object: &Object, stride: u64, displacement: i64) -> Option<Held> {
        let mut object = object.clone();
        object.offset = object.offset.checked_add(displacement)?;
        let stride = gcd(object.stride, stride);
        object.stride = 0;
        Some(Held::Address(
            // Which array is meant may show later, when a displacement is added.
            element(self.program, &object, stride).unwrap_or(Object { stride, ..object }),
        ))
    }

    fn moved(&self, held: &Held, by: i64) -> Option<Held> {
        Some(match held {
            Held::Frame(at) => Held::Frame(at.checked_add(by)?),
            Held::Address(object) => {
                let mut object = object.clone();
                object.offset = object.offset.checked_add(by)?;
                if object.element {
                    let size = i64::try_from(self.size(object.kind)?).ok()?;
                    let within = object.offset.checked_rem_euclid(size)?;
                    // Other elements may be another array's: compilers walk through several
                    // arrays with one pointer.
                    if within != object.offset {
                        object.within = None;
                    }
                    object.offset = within;
                }
                Held::Address(object)
            }
            Held::Multiple(factor) => Held::Multiple(gcd(*factor, by.unsigned_abs())),
            Held::Argument(_) => Held::ANYTHING,
        })
    }

    fn global(&self, at: u64) -> Option<Object> {
        let variable = self.inner.variable_at(Svma(at))?;
        let called = variable.kind()?;
        Some(Object {
            kind: bare(self.program, called)?,
            called,
            offset: i64::try_from(at.checked_sub(variable.svma.0)?).ok()?,
            stride: 0,
            element: false,
            first: false,
            global: Some(variable.svma.0),
            within: None,
            written: Some(Written::Itself(variable.name.as_str().into())),
            declared: true,
            doubtful: false,
        })
    }

    fn load(&self, state: &State, facts: &[&Fact], operand: &Operand) -> Held {
        let Some(from) = self.address(state, operand) else {
            return Held::ANYTHING;
        };
        if let Held::Frame(at) = from {
            if let Some(object) = self.referred(state, facts, at) {
                return Held::Address(object);
            }
            if self.frame_variable(state, facts, at).is_none() {
                return state.slot(at).cloned().unwrap_or(Held::ANYTHING);
            }
        }
        let value = self
            .object(state, facts, from)
            .and_then(|object| member(self.program, &object, 8, &[]));
        match value {
            Some(mut object) => {
                object.declared = false;
                Held::Address(object)
            }
            None => Held::ANYTHING,
        }
    }

    /// The address in the frame that an instruction takes, so that others may write there.
    pub(super) fn taken(&self, state: &State, instruction: &Instruction) -> Option<i64> {
        let raw = instruction.raw();
        let target = general(raw.op0_register())?;
        let is_frame = matches!(target, Register::Rsp | Register::Rbp);
        let from = match raw.mnemonic() {
            Mnemonic::Lea => self.address(state, &instruction.memory_operand()?)?,
            Mnemonic::Mov if raw.op1_kind() == OpKind::Register => {
                state.get(general(raw.op1_register())?).clone()
            }
            _ => return None,
        };
        match from {
            Held::Frame(at) if !is_frame => Some(at),
            _ => None,
        }
    }

    /// What is held after an instruction.
    pub(super) fn step(&self, state: &mut State, facts: &[&Fact], instruction: &Instruction) {
        let raw = instruction.raw();
        let wide = |at: u32| {
            let register = (raw.op_kind(at) == OpKind::Register).then(|| raw.op_register(at))?;
            (register.size() == 8).then(|| general(register))?
        };
        let target = (raw.op_count() > 0).then(|| wide(0)).flatten();
        let source = (raw.op_count() > 1).then(|| wide(1)).flatten();
        let memory = instruction.memory_operand();
        let constant = || match raw.op_kind(raw.op_count().saturating_sub(1)) {
            OpKind::Immediate8
            | OpKind::Immediate32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Some(
                raw.immediate(raw.op_count().saturating_sub(1))
                    .cast_signed(),
            ),
            _ => None,
        };
        let held = match (raw.mnemonic(), target) {
            (Mnemonic::Mov, Some(_)) if source.is_some() => {
                source.map(|source| state.get(source).clone())
            }
            (Mnemonic::Mov, Some(_)) => memory.map(|operand| self.load(state, facts, &operand)),
            (Mnemonic::Lea, Some(_)) => memory.map(|operand| self.computed(state, &operand)),
            (Mnemonic::Add | Mnemonic::Sub, Some(target)) => {
                let sign = if raw.mnemonic() == Mnemonic::Sub {
                    -1
                } else {
                    1
                };
                let mut sum = match (constant(), source, memory) {
                    (Some(by), ..) => self.moved(state.get(target), by.wrapping_mul(sign)),
                    (None, Some(source), _) if sign == 1 => {
                        Some(self.sum(state.get(target), state.get(source)))
                    }
                    (None, None, Some(operand)) if sign == 1 => {
                        let loaded = self.load(state, facts, &operand);
                        Some(self.sum(state.get(target), &loaded))
                    }
                    _ => None,
                };
                // No variable has the new value.
                if let Some(Held::Address(object)) = &mut sum {
                    object.declared = false;
                }
                sum
            }
            (Mnemonic::Inc, Some(target)) => self.moved(state.get(target), 1),
            (Mnemonic::Dec, Some(target)) => self.moved(state.get(target), -1),
            (Mnemonic::Shl | Mnemonic::Sal, Some(target)) => {
                let factor = match state.get(target) {
                    Held::Multiple(factor) => *factor,
                    _ => 1,
                };
                let by = constant().and_then(|by| u32::try_from(by).ok());
                by.and_then(|by| factor.checked_mul(1u64.checked_shl(by)?))
                    .map(Held::Multiple)
            }
            (Mnemonic::Imul, Some(_)) if raw.op_count() == 3 => {
                constant().map(|factor| Held::Multiple(factor.unsigned_abs()))
            }
            (Mnemonic::Xor, _)
                if raw.op0_kind() == OpKind::Register
                    && raw.op1_kind() == OpKind::Register
                    && raw.op0_register() == raw.op1_register() =>
            {
                if let Some(register) = general(raw.op0_register()) {
                    state.set(register, Held::Multiple(0));
                }
                return;
            }
            (mnemonic, Some(target)) if is_conditional_move(mnemonic) => {
                let other = match (source, memory) {
                    (Some(source), _) => state.get(source).clone(),
                    (None, Some(operand)) => self.load(state, facts, &operand),
                    _ => Held::ANYTHING,
                };
                let size = |kind: Die| self.size(kind);
                Some(state.get(target).join(&other, &size))
            }
            (Mnemonic::Mov, None) if memory.is_some() => {
                self.store(state, facts, raw, source, memory);
                return;
            }
            (Mnemonic::Push | Mnemonic::Pop | Mnemonic::Leave, _) => {
                self.stack(state, facts, instruction, target);
                return;
            }
            (Mnemonic::Xchg, Some(target)) if source.is_some() => {
                if let Some(source) = source {
                    let (one, other) = (state.get(target).clone(), state.get(source).clone());
                    state.set(target, other);
                    state.set(source, one);
                }
                return;
            }
            _ => None,
        };
        self.written(state, instruction);
        if let (Some(target), Some(held)) = (target, held) {
            state.set(target, held);
        }
        if let Flow::Call(_) = instruction.flow() {
            for register in Register::CHANGED_BY_CALLS {
                state.set(register, Held::ANYTHING);
            }
            state.forget_slots(self.shared_from);
            let call = self.calls.get(&instruction.next());
            if let Some(object) = call.and_then(|call| call.returns.clone()) {
                state.set(Register::Rax, Held::Address(object));
            }
        }
    }

    /// What `lea` computes.
    fn computed(&self, state: &State, operand: &Operand) -> Held {
        if let Some(address) = self.address(state, operand) {
            return address;
        }
        let factor = |register: Option<Register>| match register.map(|r| state.get(r)) {
            Some(Held::Multiple(factor)) => *factor,
            Some(_) => 1,
            None => 0,
        };
        let scale = u64::from(operand.scale);
        let (base, index) = (factor(operand.base), factor(operand.index));
        let product = if operand.base.is_some() && operand.base == operand.index {
            base.checked_mul(scale + 1)
        } else {
            index.checked_mul(scale).map(|index| gcd(base, index))
        };
        let displacement = operand.displacement.cast_signed().unsigned_abs();
        Held::Multiple(product.map_or(1, |product| gcd(product, displacement)))
    }

    fn sum(&self, one: &Held, other: &Held) -> Held {
        match (one, other) {
            (Held::Multiple(one), Held::Multiple(other)) => Held::Multiple(gcd(*one, *other)),
            (Held::Address(object), Held::Multiple(factor))
            | (Held::Multiple(factor), Held::Address(object)) => {
                self.indexed(object, *factor, 0).unwrap_or(Held::ANYTHING)
            }
            _ => Held::ANYTHING,
        }
    }

    fn store(
        &self,
        state: &mut State,
        facts: &[&Fact],
        raw: &iced_x86::Instruction,
        source: Option<Register>,
        memory: Option<Operand>,
    ) {
        let to = memory.and_then(|operand| self.address(state, &operand));
        if let Some(Held::Frame(at)) = &to {
            let at = *at;
            let size = raw.memory_size().size() as u64;
            let held = source.map_or(Held::ANYTHING, |source| state.whole(source).clone());
            // What a variable holds is what its type says.
            let held = match self.frame_variable(state, facts, at) {
                Some(_) => Held::ANYTHING,
                None => held,
            };
            state.store(at, size, held);
        }
        // A value that is stored as a pointer of a certain type was one before.
        if let (Some(source), Some(to)) = (source, to)
            && *state.get(source) == Held::ANYTHING
            && let Some(object) = self.object(state, facts, to)
            && let Some(mut pointed) = member(self.program, &object, 8, &[])
        {
            pointed.declared = false;
            state.learn(source, &Held::Address(pointed));
        }
    }

    fn stack(
        &self,
        state: &mut State,
        facts: &[&Fact],
        instruction: &Instruction,
        target: Option<Register>,
    ) {
        let raw = instruction.raw();
        match raw.mnemonic() {
            Mnemonic::Push => {
                let held = target.map_or(Held::ANYTHING, |source| state.get(source).clone());
                let Some(Held::Frame(at)) = self.moved(state.get(Register::Rsp), -8) else {
                    return;
                };
                state.set(Register::Rsp, Held::Frame(at));
                state.store(at, 8, held);
            }
            Mnemonic::Pop => {
                let held = self.load(state, facts, &Operand::at(Register::Rsp, 0));
                let above = self.moved(state.get(Register::Rsp), 8);
                if let Some(target) = target {
                    state.set(target, held);
                }
                state.set(Register::Rsp, above.unwrap_or(Held::ANYTHING));
            }
            _ => {
                let frame = state.get(Register::Rbp).clone();
                state.set(Register::Rsp, frame);
                let held = self.load(state, facts, &Operand::at(Register::Rsp, 0));
                let above = self.moved(state.get(Register::Rsp), 8);
                state.set(Register::Rbp, held);
                state.set(Register::Rsp, above.unwrap_or(Held::ANYTHING));
            }
        }
    }

    /// Forgets what an instruction writes.
    fn written(&self, state: &mut State, instruction: &Instruction) {
        for access in instruction.accesses() {
            if access.kind.writes()
                && !access.stack_engine
                && let Some(Held::Frame(at)) = self.address(state, &access.operand)
            {
                // A repeated string instruction may write anything from there on.
                match access.size {
                    0 => state.forget_slots(at),
                    size => state.store(at, size.into(), Held::ANYTHING),
                }
            }
        }
        let raw = instruction.raw();
        FACTORY.with_borrow_mut(|factory| {
            let info = factory.info(raw);
            for used in info.used_registers() {
                let writes = matches!(
                    used.access(),
                    OpAccess::Write
                        | OpAccess::CondWrite
                        | OpAccess::ReadWrite
                        | OpAccess::ReadCondWrite
                );
                // A call leaves the stack pointer where it was.
                let balanced = used.register() == Named::RSP && instruction.is_call();
                if let Some(register) = general(used.register()).filter(|_| writes && !balanced) {
                    state.set(register, Held::ANYTHING);
                }
            }
        });
    }
}

fn is_conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}
