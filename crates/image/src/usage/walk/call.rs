//! What a call does to the values that are followed.

use super::super::value::{Derived, Value};
use super::state::State;
use super::step::reads;
use super::{Code, Followed, Walk};
use crate::Instruction;
use iced_x86::{FlowControl, Register};
use redhanded_model::{LockCall, Svma, Use, lock_call};

/// How many functions that are called with the value.
const MOST_CALLED: usize = 16;
/// How many calls deep an argument is followed.
const DEEPEST: usize = 2;
/// The registers of the first arguments.
const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];
/// The registers that a call may change.
const LOST_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// A function that is called with values, and what it does with them, if that is all.
pub(super) struct Called {
    target: Svma,
    arguments: Vec<(Register, Value)>,
    does: Option<Followed>,
}

/// Whether a function ends the program or unwinds it.
fn never_returns(name: &str) -> bool {
    let exact = [
        "abort",
        "exit",
        "_exit",
        "__stack_chk_fail",
        "__assert_fail",
        "_ZSt9terminatev",
    ];
    // Panics of Rust, by the name of their module in either way of mangling.
    exact.contains(&name) || name.contains("4core9panicking") || name.starts_with("__cxa_throw")
}

impl Walk<'_, '_> {
    /// A jump out of the function: a call in other words.
    pub(super) fn leave(&mut self, state: &State, at: usize) {
        let mut state = state.clone();
        if self.call(&mut state, at) {
            self.returns(&state);
        }
    }

    /// Notes what of the value is in the register of the result.
    pub(super) fn returns(&mut self, state: &State) {
        let bits = state.register(Register::RAX).bits();
        if bits != 0 {
            *self.followed.returned.get_or_insert(0) |= bits;
        }
    }

    /// What a call does to the values, and whether it comes back.
    pub(super) fn call(&mut self, state: &mut State, at: usize) -> bool {
        let Some(raw) = self.code.code.get(at) else {
            return true;
        };
        let name = self.code.image.called_name(&Instruction::explain(*raw));
        if name.as_deref().is_some_and(never_returns) {
            return false;
        }
        // Unoptimised code leaves numbers in registers that are no arguments. The first one is
        // the lock.
        let takes_only_a_lock = name.as_deref().is_some_and(|name| {
            name.starts_with("pthread_mutex_") || name.starts_with("pthread_spin_")
        });
        let near = matches!(
            raw.flow_control(),
            FlowControl::Call | FlowControl::UnconditionalBranch
        );
        let target = near.then(|| Svma(raw.near_branch_target()));
        let arguments: Vec<(Register, Value)> = ARGUMENTS
            .into_iter()
            .map(|argument| (argument, state.register(argument)))
            .filter(|(argument, _)| !takes_only_a_lock || *argument == Register::RDI)
            .filter(|(argument, value)| {
                value.derived().is_some()
                    && target.is_none_or(|target| self.may_read(target, *argument))
            })
            .collect();
        let mut result = 0;
        if !arguments.is_empty() {
            match target.and_then(|target| self.within(target, &arguments)) {
                Some(called) => {
                    result = called.returned.unwrap_or(0);
                    self.followed.looked_at |= called.looked_at;
                    self.followed.exact |= called.exact;
                    self.followed.through.extend(called.through);
                    called.uses.into_iter().for_each(|used| self.uses(used));
                }
                None => {
                    let bits = arguments.iter().fold(0, |bits, (_, it)| bits | it.bits());
                    self.looks(Use::Passed(name.clone()), bits);
                }
            }
        }
        for register in LOST_BY_CALLS {
            state.set(register, Value::UNKNOWN);
        }
        if result != 0 {
            let result = Value::Derived(Derived::from_bits(result));
            state.set(Register::RAX, result);
        }
        state.flags = 0;
        state.far = false;
        if name.as_deref().and_then(lock_call) == Some(LockCall::Takes) {
            state.lock = name;
        }
        true
    }

    /// What the function at `target` does with its arguments, if it does nothing but compute
    /// with them and branch on them. Whatever it calls with them is followed as well.
    fn within(&mut self, target: Svma, arguments: &[(Register, Value)]) -> Option<Followed> {
        let same = |it: &&Called| it.target == target && it.arguments == arguments;
        if let Some(known) = self.called.iter().find(same) {
            return known.does.clone();
        }
        if self.called.len() >= MOST_CALLED {
            return None;
        }
        let does = self.does(target, arguments);
        self.called.push(Called {
            target,
            arguments: arguments.to_vec(),
            does: does.clone(),
        });
        does
    }

    fn does(&self, target: Svma, arguments: &[(Register, Value)]) -> Option<Followed> {
        if self.depth >= DEEPEST {
            return None;
        }
        let called = Code::around(self.code.image, target)?;
        if called.image.function_at(target)?.start != target {
            return None;
        }
        let followed = called.follow_arguments(arguments, self.depth + 1);
        let only = |used: &Use| matches!(used, Use::Branch | Use::Computed);
        followed.uses.iter().all(only).then_some(followed)
    }

    /// Whether the function at `target` may read an argument: unless it is seen to write it
    /// before, or to return.
    fn may_read(&mut self, target: Svma, argument: Register) -> bool {
        let Some(function) = self.code.image.function_at(target) else {
            return true;
        };
        if function.start != target {
            return true;
        }
        for raw in self.code.image.instructions(function) {
            let mut written = false;
            for used in self.info.info(&raw).used_registers() {
                if used.register().full_register() == argument {
                    if reads(used.access()) {
                        return true;
                    }
                    written = true;
                }
            }
            match raw.flow_control() {
                FlowControl::Next | FlowControl::ConditionalBranch if !written => {}
                FlowControl::Return => return false,
                _ => return !written,
            }
        }
        true
    }
}
