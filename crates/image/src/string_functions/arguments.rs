//! Which registers still hold a function's arguments at an instruction in its middle.
//!
//! A register does if every way from the function's start to the instruction leaves the
//! argument in it, moved between registers or not.

use crate::instruction::general;
use crate::{Flow, Function, Image, Instruction};
use iced_x86::{InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind};
use redhanded_model::{Register, Svma};
use std::collections::HashMap;

/// A longer function is no string function.
const LONGEST: u64 = 16 << 10;

/// The registers of the arguments when a function begins.
const ARGUMENTS: [Register; 4] = [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx];

/// For each register the argument in it.
type State = [Option<u8>; 16];

/// The registers that hold the arguments before or, if it `ran`, after the instruction at
/// `svma`.
pub(super) fn registers(
    image: &Image,
    function: &Function,
    svma: Svma,
    ran: bool,
) -> [Option<Register>; 4] {
    state_at(image, function, svma, ran).map_or([None; 4], |state| {
        [0u8, 1, 2, 3].map(|argument| {
            let place = state.iter().position(|held| *held == Some(argument))?;
            Register::ALL.get(place).copied()
        })
    })
}

fn state_at(image: &Image, function: &Function, svma: Svma, ran: bool) -> Option<State> {
    if function.end.0 - function.start.0 > LONGEST {
        return None;
    }
    let code: Vec<_> = image.instructions(function).collect();
    let places: HashMap<u64, usize> = code
        .iter()
        .enumerate()
        .map(|(index, raw)| (raw.ip(), index))
        .collect();
    let mut before: Vec<Option<State>> = vec![None; code.len()];
    let mut entry = [None; 16];
    for (number, register) in (0u8..).zip(ARGUMENTS) {
        *entry.get_mut(register as usize)? = Some(number);
    }
    *before.first_mut()? = Some(entry);
    let mut factory = InstructionInfoFactory::new();
    // Each step removes something from a state, so this ends.
    let mut due = vec![0];
    while let Some(index) = due.pop() {
        let (Some(raw), Some(Some(state))) = (code.get(index), before.get(index)) else {
            continue;
        };
        let after = step(raw, *state, &mut factory);
        let explained = Instruction::explain(*raw);
        let (falls, target) = match explained.flow() {
            Flow::Next | Flow::Call(_) | Flow::Trap => (true, None),
            Flow::Branch(target) => (true, Some(target)),
            Flow::Jump(Some(target)) => (false, Some(target)),
            // It may go anywhere in the function.
            Flow::Jump(None) => return None,
            Flow::Return => (false, None),
        };
        let next = falls.then_some(index + 1);
        let target = target.and_then(|target| places.get(&target).copied());
        for index in next.into_iter().chain(target) {
            if let Some(known) = before.get_mut(index)
                && let Some(met) = meet(*known, after)
            {
                *known = Some(met);
                due.push(index);
            }
        }
    }
    let index = *places.get(&svma.0)?;
    let state = (*before.get(index)?)?;
    Some(if ran {
        step(code.get(index)?, state, &mut factory)
    } else {
        state
    })
}

/// The state where two ways meet, if it is not what is known already.
fn meet(known: Option<State>, other: State) -> Option<State> {
    let Some(known) = known else {
        return Some(other);
    };
    let mut met = known;
    for (held, other) in met.iter_mut().zip(other) {
        if *held != other {
            *held = None;
        }
    }
    (met != known).then_some(met)
}

fn step(
    raw: &iced_x86::Instruction,
    mut state: State,
    factory: &mut InstructionInfoFactory,
) -> State {
    if raw.mnemonic() == Mnemonic::Mov
        && raw.op0_kind() == OpKind::Register
        && raw.op1_kind() == OpKind::Register
        && raw.op0_register().is_gpr64()
        && let (Some(to), Some(from)) = (general(raw.op0_register()), general(raw.op1_register()))
    {
        state[to as usize] = state[from as usize];
        return state;
    }
    let info = factory.info_options(raw, InstructionInfoOptions::NO_MEMORY_USAGE);
    for used in info.used_registers() {
        let writes = !matches!(
            used.access(),
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        );
        if writes && let Some(register) = general(used.register()) {
            state[register as usize] = None;
        }
    }
    if matches!(
        raw.flow_control(),
        iced_x86::FlowControl::Call | iced_x86::FlowControl::IndirectCall
    ) {
        for register in Register::CHANGED_BY_CALLS {
            state[register as usize] = None;
        }
    }
    state
}
