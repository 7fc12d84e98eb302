//! Loops that depend on a value: those that only wait for it to change, and others.

use super::nearby::is_barrier;
use super::walk::Code;
use crate::Instruction;
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use redhanded_model::{Svma, Use};
use std::collections::HashSet;

/// How many instructions a loop may have.
const LONGEST: usize = 96;
/// How far behind a load its branch may be.
const NEAR: usize = 4;
/// How many a function may have that only waits.
const WAITS: usize = 48;

/// Functions that give the processor away.
const YIELDS: [&str; 8] = [
    "sched_yield",
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "sleep",
    "thrd_yield",
    "yield_now",
    "cond_resched",
];

impl Code<'_> {
    /// What kind of loop the branch at index `branch` decides about, which depends on the value
    /// that the instruction at `access` loads.
    pub fn loop_at(&self, branch: usize, access: usize) -> Option<Use> {
        let (way, quiet) = self.way_back(branch, &[branch, access])?;
        let waits = quiet && self.reaches(way, access);
        Some(if waits { Use::Wait } else { Use::Loop })
    }

    /// Whether the branch leads to such a loop: compilers move the first test of a loop before it.
    /// `again` are the other instructions that load the value.
    pub fn leads_to_waiting(&self, branch: usize, again: &[usize]) -> bool {
        let waits = |load: &usize| {
            let mut near = *load..=load + NEAR;
            near.any(|at| {
                let raw = self.code.get(at);
                raw.is_some_and(|raw| raw.flow_control() == FlowControl::ConditionalBranch)
                    && self.loop_at(at, *load) == Some(Use::Wait)
            })
        };
        !again.is_empty()
            && self.way_back(branch, again).is_some_and(|(_, quiet)| quiet)
            && again.iter().all(waits)
    }

    /// The only way of a branch that always leads to one of the goals, and whether nothing is
    /// done on it that others could notice.
    fn way_back(&self, branch: usize, goals: &[usize]) -> Option<(usize, bool)> {
        let taken = self.at(self.code.get(branch)?.near_branch_target());
        let ways = [Some(branch + 1), taken].map(|way| {
            let way = way?;
            Some((way, self.comes_back(way, goals)?))
        });
        match ways {
            // Of both: the value decides nothing.
            [Some(_), Some(_)] | [None, None] => None,
            [way, None] | [None, way] => way,
        }
    }

    /// Whether `goal` is on a way from `start`.
    fn reaches(&self, start: usize, goal: usize) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![start]);
        while let Some(at) = open.pop() {
            if at == goal {
                return true;
            }
            if seen.len() < LONGEST && seen.insert(at) {
                open.extend(self.successors(at).unwrap_or_default());
            }
        }
        false
    }

    /// Whether every way from `start` leads to one of the goals; and if so, whether nothing is
    /// done on it that others could notice.
    fn comes_back(&self, start: usize, goals: &[usize]) -> Option<bool> {
        let (mut seen, mut open, mut quiet) = (HashSet::new(), vec![start], true);
        while let Some(at) = open.pop() {
            if goals.contains(&at) || !seen.insert(at) {
                continue;
            }
            if seen.len() > LONGEST {
                return None;
            }
            quiet &= self.is_quiet(at, 2);
            open.extend(self.successors(at)?);
        }
        Some(quiet)
    }

    /// The instructions that may come next; `None` if the function may be left.
    pub fn successors(&self, at: usize) -> Option<Vec<usize>> {
        let raw = self.code.get(at)?;
        let next = at + 1;
        Some(match raw.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => vec![next],
            FlowControl::ConditionalBranch => {
                vec![self.at(raw.near_branch_target())?, next]
            }
            FlowControl::UnconditionalBranch => vec![self.at(raw.near_branch_target())?],
            _ => return None,
        })
    }

    /// Whether others notice nothing of an instruction. `depth` is how far calls are followed.
    fn is_quiet(&self, at: usize, depth: usize) -> bool {
        let Some(raw) = self.code.get(at) else {
            return false;
        };
        match raw.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                let name = self.image.called_name(&Instruction::explain(*raw));
                if name.is_some_and(|name| YIELDS.contains(&name.as_str())) {
                    return true;
                }
                raw.flow_control() == FlowControl::Call
                    && depth > 0
                    && Self::around(self.image, Svma(raw.near_branch_target())).is_some_and(
                        |called| {
                            called.code.len() <= WAITS
                                && (0..called.code.len()).all(|at| called.is_quiet(at, depth - 1))
                        },
                    )
            }
            FlowControl::Next if is_barrier(raw) => false,
            FlowControl::Next => raw.mnemonic() == Mnemonic::Pause || !writes_shared(raw),
            FlowControl::Interrupt | FlowControl::Exception => false,
            _ => true,
        }
    }
}

/// Whether an instruction may write memory other than the stack.
fn writes_shared(raw: &iced_x86::Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    factory.info(raw).used_memory().iter().any(|memory| {
        let writes = !matches!(
            memory.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
        );
        writes && !matches!(memory.base(), Register::RSP | Register::RBP)
    })
}
