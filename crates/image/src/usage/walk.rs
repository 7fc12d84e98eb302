//! Follows a value through the code of one function.

mod call;
mod state;
mod step;

use super::value::{Derived, Value, low_bits};
use crate::Image;
use call::Called;
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpKind, Register};
use redhanded_model::{Step, Svma, Use};
use state::{State, is_threshold, tested_by};
use std::collections::{HashMap, HashSet};
pub use step::writes;
use step::{immediate, reads};

/// How many instructions are followed, over all paths.
const MOST_STEPS: usize = 600;
/// How many of a function that is called with the value.
const MOST_STEPS_OF_CALLED: usize = 200;
/// How far before a store its load may be.
const REACH: usize = 24;
/// The code of a function, and one instruction in it.
pub struct Code<'a> {
    pub image: &'a Image,
    pub code: Vec<iced_x86::Instruction>,
    index: HashMap<u64, usize>,
    access: usize,
}

/// Where an operand is.
type Operand = (Register, Register, u32, u64, Register);

fn operand(raw: &iced_x86::Instruction) -> Option<Operand> {
    let has = raw.op_kinds().any(|kind| kind == OpKind::Memory);
    has.then(|| {
        (
            raw.memory_base(),
            raw.memory_index(),
            raw.memory_index_scale(),
            raw.memory_displacement64(),
            raw.segment_prefix(),
        )
    })
}

fn is_stack(operand: Operand) -> bool {
    matches!(operand.0, Register::RSP | Register::RBP) && operand.1 == Register::None
}

/// The address, if it is always the same.
fn fixed(operand: Operand) -> Option<u64> {
    let fixed = matches!(operand.0, Register::None | Register::RIP) && operand.1 == Register::None;
    (fixed && operand.4 == Register::None).then_some(operand.3)
}

/// What a store was found to do.
#[derive(Default)]
pub struct Stored {
    /// Where the value was loaded that was changed and stored back.
    pub load: Option<Svma>,
    pub step: Option<Step>,
    pub changes: Option<u64>,
    pub constant: Option<u64>,
}

/// What became of a value.
#[derive(Clone, Default)]
pub struct Followed {
    pub uses: Vec<Use>,
    /// The bits that branches, addresses and whatever else the value is used for depend on.
    pub looked_at: u64,
    /// A branch asks for more than whether the value is above or below a number that is not
    /// next to zero.
    pub exact: bool,
    /// The functions that the value was followed through, by a place in each.
    pub through: Vec<Svma>,
    /// The bits that the function's result depends on.
    pub returned: Option<u64>,
    /// The value was changed and written back.
    pub updated: Option<(Step, u64)>,
    /// A lock was taken before the same place was read again.
    pub checked_again: Option<String>,
    /// The stores that write the value as it is to an address that is always the same: where
    /// each is, and that address.
    pub copied: Vec<(u64, u64)>,
}

impl<'a> Code<'a> {
    /// The function that contains `site`.
    pub fn around(image: &'a Image, site: Svma) -> Option<Self> {
        let function = image.function_at(site)?;
        let code: Vec<_> = image.instructions(function).collect();
        let index: HashMap<u64, usize> = code
            .iter()
            .enumerate()
            .map(|(at, raw)| (raw.ip(), at))
            .collect();
        let access = *index.get(&site.0)?;
        Some(Self {
            image,
            code,
            index,
            access,
        })
    }

    /// Where the instruction is that the code is looked at for.
    fn ip(&self) -> Option<Svma> {
        self.raw().map(|raw| Svma(raw.ip()))
    }

    /// That instruction.
    pub fn raw(&self) -> Option<&iced_x86::Instruction> {
        self.code.get(self.access)
    }

    /// The address that it accesses, if it is always the same.
    pub fn fixed_address(&self) -> Option<u64> {
        fixed(operand(self.raw()?)?)
    }

    /// The index of the instruction at an address.
    pub fn at(&self, ip: u64) -> Option<usize> {
        self.index.get(&ip).copied()
    }

    /// What the instruction stores, if it does: found from the load of the same place before it.
    pub fn stored(&self) -> Option<Stored> {
        let raw = self.code.get(self.access)?;
        let own = operand(raw)?;
        let mut info = InstructionInfoFactory::new();
        let access = info.info(raw).op0_access();
        if raw.op0_kind() != OpKind::Memory || !writes(access) {
            return None;
        }
        let mut walk = Walk::new(self, own);
        if reads(access) {
            walk.step(&mut State::default(), self.access);
            return Some(walk.stored(None));
        }
        let constant = immediate(raw, 1).filter(|_| raw.mnemonic() == Mnemonic::Mov);
        if let Some(constant) = constant {
            let size = raw.memory_size().size();
            return Some(walk.stored(Some(constant.cast_unsigned() & low_bits(size))));
        }
        let from = self.access.saturating_sub(REACH);
        let load = (from..self.access).find(|at| self.loads(*at, own))?;
        // Who comes from elsewhere into the middle brings another value.
        let range = from..=self.access;
        let jumps = self.code.iter().enumerate().filter(|(at, raw)| {
            let jumps = raw.is_jcc_short_or_near() || raw.is_jmp_short_or_near();
            jumps && !range.contains(at)
        });
        let entries: HashSet<usize> = jumps
            .filter_map(|(_, raw)| self.at(raw.near_branch_target()))
            .collect();
        if (load + 1..=self.access).any(|at| entries.contains(&at)) {
            return None;
        }
        let mut joins: HashMap<usize, State> = HashMap::new();
        let mut state = Some(State::default());
        for at in from..=self.access {
            if entries.contains(&at) {
                state = Some(State::default());
            }
            if let Some(joining) = joins.remove(&at) {
                state = Some(state.map_or_else(|| joining.clone(), |own| own.either(&joining)));
            }
            let Some(mut here) = state.take() else {
                continue;
            };
            let raw = self.code.get(at)?;
            walk.updated = None;
            walk.step(&mut here, at);
            let target = self.at(raw.near_branch_target());
            match raw.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    let target = target.filter(|to| *to > at && *to <= self.access);
                    if let Some(target) = target {
                        let joined = joins
                            .get(&target)
                            .map_or_else(|| here.clone(), |it| it.either(&here));
                        joins.insert(target, joined);
                    }
                    state = (raw.flow_control() == FlowControl::ConditionalBranch).then_some(here);
                }
                FlowControl::Next => state = Some(here),
                FlowControl::Call | FlowControl::IndirectCall => {
                    state = walk.call(&mut here, at).then_some(here);
                }
                _ => state = None,
            }
        }
        let load = self.code.get(load).map(|raw| Svma(raw.ip()));
        Some(Stored {
            load: load.filter(|_| walk.updated.is_some()),
            ..walk.stored(None)
        })
    }

    fn loads(&self, at: usize, own: Operand) -> bool {
        self.code.get(at).is_some_and(|raw| {
            let mut info = InstructionInfoFactory::new();
            let info = info.info(raw);
            let memory = (0..raw.op_count()).find(|op| raw.op_kind(*op) == OpKind::Memory);
            operand(raw) == Some(own) && memory.is_some_and(|op| reads(info.op_access(op)))
        })
    }

    /// Follows what the instruction loads.
    pub fn follow(&self) -> Followed {
        let Some(own) = self.code.get(self.access).and_then(operand) else {
            return Followed::default();
        };
        if !self.loads(self.access, own) {
            return Followed::default();
        }
        let mut walk = Walk::new(self, own);
        walk.explore(self.access, State::default());
        walk.followed
    }

    /// Follows arguments from the start of the function, which is so many calls below the
    /// access.
    fn follow_arguments(&self, arguments: &[(Register, Value)], depth: usize) -> Followed {
        let mut walk = Walk::new(self, NOWHERE);
        walk.depth = depth;
        let mut state = State::default();
        for (register, value) in arguments {
            state.set(*register, *value);
        }
        walk.explore(self.access, state);
        walk.followed
    }

    /// Follows the result of the call that returns to the instruction.
    pub fn follow_result(&self, bits: u64) -> Followed {
        let mut walk = Walk::new(self, NOWHERE);
        let mut state = State::default();
        let mut result = Derived::from_bits(bits);
        result.step = None;
        state.set(Register::RAX, Value::Derived(result));
        walk.explore(self.access, state);
        walk.followed
    }
}

/// The place of a value that comes from elsewhere. No operand is there.
const NOWHERE: Operand = (Register::None, Register::None, 0, 0, Register::None);

struct Walk<'c, 'a> {
    code: &'c Code<'a>,
    own: Operand,
    /// How many calls below the access the code is.
    depth: usize,
    /// The functions that were called with the value.
    called: Vec<Called>,
    info: InstructionInfoFactory,
    followed: Followed,
    /// What was last written to the place itself.
    updated: Option<Derived>,
}

impl<'c, 'a> Walk<'c, 'a> {
    fn new(code: &'c Code<'a>, own: Operand) -> Self {
        Self {
            code,
            own,
            depth: 0,
            called: Vec::new(),
            info: InstructionInfoFactory::new(),
            followed: Followed {
                through: code.ip().into_iter().collect(),
                ..Followed::default()
            },
            updated: None,
        }
    }

    fn stored(&self, constant: Option<u64>) -> Stored {
        Stored {
            load: None,
            step: self.updated.map(|value| value.as_step()),
            changes: self.updated.map(|value| value.changed),
            constant,
        }
    }

    fn uses(&mut self, used: Use) {
        if !self.followed.uses.contains(&used) {
            self.followed.uses.push(used);
        }
    }

    /// Notes a use that depends on these bits.
    fn looks(&mut self, used: Use, bits: u64) {
        self.followed.looked_at |= bits;
        self.uses(used);
    }

    /// Notes a branch that depends on these bits.
    fn branches(&mut self, bits: u64, threshold: bool) {
        self.followed.exact |= !threshold;
        self.looks(Use::Branch, bits);
    }

    /// Follows all paths from the instruction at `start`.
    fn explore(&mut self, start: usize, state: State) {
        let mut seen: HashMap<usize, Vec<State>> = HashMap::new();
        let mut open = vec![(start, state)];
        let mut steps = 0;
        let most = if self.depth == 0 {
            MOST_STEPS
        } else {
            MOST_STEPS_OF_CALLED
        };
        while let Some((at, mut state)) = open.pop() {
            let Some(raw) = self.code.code.get(at).copied() else {
                self.uses(Use::Lost);
                continue;
            };
            let known = seen.entry(at).or_default();
            if known.contains(&state) || (at == self.code.access && steps > 0) {
                continue;
            }
            known.push(state.clone());
            steps += 1;
            if steps > most {
                self.uses(Use::Lost);
                return;
            }
            self.step(&mut state, at);
            match raw.flow_control() {
                FlowControl::Next => open.push((at + 1, state)),
                FlowControl::ConditionalBranch => {
                    if state.flags != 0 {
                        let threshold = is_threshold(&raw, &state);
                        self.branches(tested_by(&raw, &state), threshold);
                        self.loops(at);
                    }
                    let taken = self.code.at(raw.near_branch_target());
                    if let Some(taken) = taken {
                        open.push((taken, state.clone()));
                    } else {
                        self.leave(&state, at);
                    }
                    open.push((at + 1, state));
                }
                FlowControl::UnconditionalBranch => match self.code.at(raw.near_branch_target()) {
                    Some(target) => open.push((target, state)),
                    None => self.leave(&state, at),
                },
                FlowControl::Call | FlowControl::IndirectCall => {
                    let comes_back = self.call(&mut state, at);
                    if comes_back && state.is_of_interest() {
                        open.push((at + 1, state));
                    }
                }
                FlowControl::Return => self.returns(&state),
                FlowControl::IndirectBranch => {
                    if state.is_of_interest() {
                        self.uses(Use::Lost);
                    }
                }
                FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
                }
            }
        }
    }

    /// Notes what kind of loop a branch on the value decides about.
    fn loops(&mut self, branch: usize) {
        let code = self.code;
        let again: Vec<usize> = (0..code.code.len())
            .filter(|at| *at != code.access && code.loads(*at, self.own))
            .collect();
        if code.leads_to_waiting(branch, &again) {
            self.uses(Use::Wait);
        } else if let Some(used) = code.loop_at(branch, code.access) {
            self.uses(used);
        }
    }
}
