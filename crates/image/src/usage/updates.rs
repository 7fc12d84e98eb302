//! What other code of the file does to a variable, as far as instructions name it by its
//! address.

use super::nearby::is_barrier;
use super::walk::{Code, Followed, writes};
use crate::{Function, Image};
use iced_x86::{FlowControl, InstructionInfoFactory, OpKind, Register};
use redhanded_model::{Step, Svma, Use};
use std::collections::{HashMap, HashSet};

/// How much code is searched.
const MOST_CODE: usize = 8 << 20;
/// How many callers of a function are asked what they do with its result.
const MOST_CALLERS: usize = 16;
/// How many functions are searched for a writer that a reader leads to.
const MOST_CALLED: usize = 64;
/// How many calls deep that is.
const DEEPEST: usize = 2;

/// The updates of a variable in all code of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Updates {
    /// What they add. Setting the variable to a constant is something other than adding.
    pub steps: Vec<Step>,
    /// A branch depends on what is left after one of them counted down.
    pub left_tested: bool,
    /// A lock was taken before each of them, or they are locked instructions.
    pub guarded: bool,
}

/// Who writes variables, and who calls functions.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// The instructions that write to a fixed address.
    by_address: HashMap<u64, Vec<u64>>,
    /// The places that direct calls of a function return to.
    callers: HashMap<u64, Vec<u64>>,
    /// Not all code was searched.
    partial: bool,
}

impl Image {
    /// What all code of this file does to the variable at `address`.
    #[must_use]
    pub fn updates_of(&self, address: Svma) -> Updates {
        let writers = self.writers();
        let sites = writers.by_address.get(&address.0);
        let mut updates = Updates {
            guarded: sites.is_some() && !writers.partial,
            ..Updates::default()
        };
        for site in sites.into_iter().flatten() {
            let Some(code) = Code::around(self, Svma(*site)) else {
                updates.guarded = false;
                continue;
            };
            updates.guarded &= code.is_locked() || self.lock_before(Svma(*site)).is_some();
            let Some(stored) = code.stored() else {
                continue;
            };
            let constant = stored.constant.map(|_| Step::Other);
            let Some(step) = stored.step.or(constant) else {
                continue;
            };
            if !updates.steps.contains(&step) {
                updates.steps.push(step);
            }
            if step.is_down() {
                let load = stored.load.unwrap_or(Svma(*site));
                updates.left_tested |= self.tests_what_it_loads(load);
            }
        }
        updates
    }

    /// Whether a branch depends on what the instruction loads, here or in a caller.
    fn tests_what_it_loads(&self, load: Svma) -> bool {
        let Some(code) = Code::around(self, load) else {
            return false;
        };
        let followed = code.follow();
        let tests = |followed: &Followed| followed.uses.contains(&Use::Branch);
        if tests(&followed) {
            return true;
        }
        let (Some(bits), Some(function)) = (followed.returned, self.function_at(load)) else {
            return false;
        };
        let callers = self.writers().callers.get(&function.start.0);
        let mut callers = callers.into_iter().flatten().take(MOST_CALLERS);
        callers.any(|back| {
            let code = Code::around(self, Svma(*back));
            code.is_some_and(|code| tests(&code.follow_result(bits)))
        })
    }

    /// The variables that hold what the instruction at `site` loads, as it is: the code behind
    /// it stores the value there, and no other code writes to their addresses.
    #[must_use]
    pub fn copies_of(&self, site: Svma) -> Vec<Svma> {
        let Some(code) = Code::around(self, site) else {
            return Vec::new();
        };
        let copied = code.follow().copied;
        let writers = self.writers();
        let is_copy = |at: &u64| copied.iter().any(|(store, _)| store == at);
        let mut copies: Vec<Svma> = copied
            .iter()
            .filter(|(_, address)| {
                let sites = writers.by_address.get(address);
                !writers.partial && sites.is_some_and(|sites| sites.iter().all(is_copy))
            })
            .map(|(_, address)| Svma(*address))
            .collect();
        copies.sort_unstable();
        copies.dedup();
        copies
    }

    /// Whether no code around these places, nor what it calls, writes to `address`.
    pub(super) fn only_looks(&self, address: u64, places: &[Svma]) -> bool {
        let writers = self.writers();
        let sites: &[u64] = writers.by_address.get(&address).map_or(&[], Vec::as_slice);
        let mut seen = HashSet::new();
        let mut open: Vec<(&Function, usize)> = Vec::new();
        for place in places {
            match self.function_at(*place) {
                Some(function) => open.push((function, 0)),
                None => return false,
            }
        }
        while let Some((function, depth)) = open.pop() {
            if !seen.insert(function.start) {
                continue;
            }
            let within = |site: &u64| function.contains(Svma(*site));
            if sites.iter().any(within) || seen.len() > MOST_CALLED {
                return false;
            }
            if depth < DEEPEST {
                let calls = self.instructions(function).filter(is_call);
                let called =
                    calls.filter_map(|raw| self.function_at(Svma(raw.near_branch_target())));
                open.extend(called.map(|called| (called, depth + 1)));
            }
        }
        !writers.partial
    }

    fn writers(&self) -> &Writers {
        self.code.writers.get_or_init(|| self.find_writers())
    }

    fn find_writers(&self) -> Writers {
        let mut writers = Writers::default();
        let mut info = InstructionInfoFactory::new();
        let mut searched = 0;
        for function in self.functions().as_slice() {
            searched += self.function_bytes(function).len();
            if searched > MOST_CODE {
                writers.partial = true;
                break;
            }
            for raw in self.instructions(function) {
                let fixed = raw.is_ip_rel_memory_operand()
                    || (raw.memory_base() == Register::None
                        && raw.memory_index() == Register::None);
                let memory = raw.op0_kind() == OpKind::Memory;
                if memory && fixed && writes(info.info(&raw).op0_access()) {
                    let address = raw.memory_displacement64();
                    let sites = writers.by_address.entry(address);
                    sites.or_default().push(raw.ip());
                }
                let target = raw.near_branch_target();
                if is_call(&raw) && !function.contains(Svma(target)) {
                    let callers = writers.callers.entry(target);
                    callers.or_default().push(raw.next_ip());
                }
            }
        }
        writers
    }
}

impl Code<'_> {
    /// Whether the access is one that no other thread can split.
    fn is_locked(&self) -> bool {
        self.raw().is_some_and(is_barrier)
    }
}

fn is_call(raw: &iced_x86::Instruction) -> bool {
    raw.flow_control() == FlowControl::Call
        || raw.flow_control() == FlowControl::UnconditionalBranch
}
