//! Loads that compilers make ahead of the condition under which the source makes them.
//!
//! A load that does no harm may be made too early or for nothing: out of a loop, out of an arm,
//! or for all elements of a vector, of which a mask then drops some. The source does not access
//! the bytes if its condition is false, so what meets there is no race of the program.

use crate::{Flow, Function, Image, Instruction};
use redhanded_model::{Form, SourceEvidence, Svma};
use std::collections::{BTreeSet, HashMap};

/// Longer functions are not examined.
const MAX_INSTRUCTIONS: usize = 20_000;

/// A condition around an access, in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlacedCondition {
    pub(crate) file: String,
    /// The line and column where it begins.
    pub(crate) start: (u32, u32),
    pub(crate) end: (u32, u32),
    /// Another place of its test.
    pub(crate) sign: Option<(u32, u32)>,
    /// Whether it is that of a loop that makes a first turn in any case.
    pub(crate) entered: bool,
}

/// Where an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    /// In the condition with this number.
    Condition(usize),
    /// In none of them.
    Elsewhere,
    /// Nobody knows.
    Nowhere,
}

impl Image {
    /// Whether the load at `svma` is made even where the source does not make it: the condition
    /// around it is tested in this function, but not before the load.
    #[must_use]
    pub fn reads_ahead(&self, svma: Svma, source: &SourceEvidence) -> bool {
        let conditions = self.debug().conditions(svma, source);
        let Some(innermost) = conditions.iter().position(|one| !one.entered) else {
            return false;
        };
        let Some(function) = self.function_at(svma) else {
            return false;
        };
        let Some(graph) = Graph::of(self, function) else {
            return false;
        };
        let Some(at) = graph.at(svma.0).filter(|at| graph.is_reached(*at)) else {
            return false;
        };
        let place = |number: usize| self.place(graph.address(number), &conditions);
        let guards = |branch: &usize| match place(*branch) {
            Where::Condition(number) => number == innermost,
            // A test of something that the text does not show.
            Where::Elsewhere => true,
            Where::Nowhere => false,
        };
        if graph.deciding(at).iter().any(guards) {
            return false;
        }
        // A condition that is always true leaves no instruction. Where a loop was vectorised, its
        // instructions may have the line of the arm.
        let is_wide = |one: Instruction| matches!(one.form(), Form::Vector | Form::Wide);
        let is_vector = || {
            let instruction = self.instruction_at(svma);
            instruction.is_some_and(is_wide)
                // One number for all elements.
                || (instruction.is_some_and(|one| one.reads_float())
                    && (0..graph.len()).any(|number| {
                        self.instruction_at(graph.address(number)).is_some_and(is_wide)
                    }))
        };
        is_vector() || (0..graph.len()).any(|number| place(number) == Where::Condition(innermost))
    }

    /// Whether anything is decided after the load at `svma`, by a branch or by taking one of two
    /// values. Else it is ahead of no condition, whichever statement it belongs to.
    #[must_use]
    pub fn precedes_choice(&self, svma: Svma) -> bool {
        let graph = self
            .function_at(svma)
            .and_then(|function| Graph::of(self, function));
        let Some((graph, at)) = graph.and_then(|graph| graph.at(svma.0).map(|at| (graph, at)))
        else {
            return true;
        };
        let behind = graph.reached_from(at);
        (0..graph.len()).any(|number| {
            behind.get(number) == Some(&true)
                && (graph.decides(number)
                    || self
                        .instruction_at(graph.address(number))
                        .is_none_or(|one| one.chooses()))
        })
    }

    fn place(&self, at: Svma, conditions: &[PlacedCondition]) -> Where {
        let mut found = Where::Nowhere;
        for frame in self.debug().frames(at) {
            let (Some(file), Some(line)) = (frame.file, frame.line) else {
                continue;
            };
            found = Where::Elsewhere;
            let in_file = || {
                let all = conditions.iter().enumerate();
                all.filter(|(_, condition)| condition.file == file)
            };
            let on_line =
                |condition: &PlacedCondition| (condition.start.0..=condition.end.0).contains(&line);
            let at_column = frame.column.and_then(|column| {
                let at = (line, column);
                in_file().find(|(_, one)| (one.start <= at && at < one.end) || one.sign == Some(at))
            });
            let number = at_column.or_else(|| {
                // The column is that of something else on the line, such as the arm.
                let alone = conditions.iter().filter(|one| on_line(one)).count() == 1;
                in_file().find(|(_, one)| on_line(one) && (frame.column.is_none() || alone))
            });
            if let Some((number, _)) = number {
                return Where::Condition(number);
            }
        }
        found
    }
}

/// The instructions of a function, and where each goes.
struct Graph {
    addresses: Vec<u64>,
    numbers: HashMap<u64, usize>,
    /// The last number means that the function is left.
    next: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl Graph {
    fn of(image: &Image, function: &Function) -> Option<Self> {
        let code: Vec<(u64, Flow)> = image
            .instructions(function)
            .take(MAX_INSTRUCTIONS + 1)
            .map(|raw| (raw.ip(), Instruction::explain(raw).flow()))
            .collect();
        (code.len() <= MAX_INSTRUCTIONS).then(|| Self::new(&code))
    }

    fn new(code: &[(u64, Flow)]) -> Self {
        let exit = code.len();
        let numbers: HashMap<u64, usize> = code
            .iter()
            .enumerate()
            .map(|(number, (address, _))| (*address, number))
            .collect();
        let target = |address: u64| numbers.get(&address).copied().unwrap_or(exit);
        let next: Vec<Vec<usize>> = code
            .iter()
            .enumerate()
            .map(|(number, (_, flow))| match flow {
                Flow::Next | Flow::Call(_) | Flow::Trap => vec![number + 1],
                Flow::Jump(Some(to)) => vec![target(*to)],
                Flow::Branch(to) => vec![number + 1, target(*to)],
                Flow::Jump(None) | Flow::Return => vec![exit],
            })
            .collect();
        let mut graph = Self {
            addresses: code.iter().map(|(address, _)| *address).collect(),
            numbers,
            before: inverted(&next),
            next,
        };
        graph.leave_endless_loops();
        graph
    }

    /// A loop without an end is taken to end some time: else nothing in it would decide
    /// anything.
    fn leave_endless_loops(&mut self) {
        let exit = self.len();
        let ends = self.reaching_exit(None);
        for number in 0..exit {
            let endless = ends.get(number) == Some(&false);
            let Some(next) = self.next.get_mut(number) else {
                continue;
            };
            if endless && next.iter().any(|to| *to <= number) {
                next.push(exit);
            }
        }
        self.before = inverted(&self.next);
    }

    const fn len(&self) -> usize {
        self.addresses.len()
    }

    fn at(&self, address: u64) -> Option<usize> {
        self.numbers.get(&address).copied()
    }

    fn address(&self, number: usize) -> Svma {
        Svma(self.addresses.get(number).copied().unwrap_or_default())
    }

    /// Whether an instruction can be reached from the first. Those behind jump tables and in
    /// handlers cannot.
    fn is_reached(&self, number: usize) -> bool {
        self.reached_from(0).get(number) == Some(&true)
    }

    /// What can be reached from there.
    fn reached_from(&self, number: usize) -> Vec<bool> {
        let mut seen = vec![false; self.len() + 1];
        let mut left = vec![number];
        while let Some(one) = left.pop() {
            if let Some(seen) = seen.get_mut(one).filter(|seen| !**seen) {
                *seen = true;
                left.extend(self.next.get(one).into_iter().flatten());
            }
        }
        seen
    }

    /// Whether execution goes on at one of several places after it, or nobody knows where.
    fn decides(&self, number: usize) -> bool {
        self.next.get(number).is_none_or(|next| next.len() > 1)
    }

    /// From where the function can be left without passing `avoided`.
    fn reaching_exit(&self, avoided: Option<usize>) -> Vec<bool> {
        let mut reaching = vec![false; self.len() + 1];
        let mut left = vec![self.len()];
        while let Some(one) = left.pop() {
            if Some(one) == avoided {
                continue;
            }
            if let Some(reaches) = reaching.get_mut(one).filter(|reaches| !**reaches) {
                *reaches = true;
                left.extend(self.before.get(one).into_iter().flatten());
            }
        }
        reaching
    }

    /// The branches that decide whether an instruction is executed, and those that decide
    /// whether they are.
    fn deciding(&self, number: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut left = vec![number];
        while let Some(one) = left.pop() {
            let avoids = self.reaching_exit(Some(one));
            let can_avoid = |number: &usize| avoids.get(*number) == Some(&true);
            for (branch, next) in self.next.iter().enumerate() {
                let decides = next.len() > 1
                    && branch != one
                    && can_avoid(&branch)
                    && !next.iter().all(can_avoid);
                if decides && found.insert(branch) {
                    left.push(branch);
                }
            }
        }
        found
    }
}

fn inverted(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); next.len() + 1];
    for (number, all) in next.iter().enumerate() {
        for to in all {
            if let Some(before) = before.get_mut(*to) {
                before.push(number);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The branches that decide about instruction `number`.
    fn deciding(code: &[Flow], number: usize) -> Vec<usize> {
        let code: Vec<(u64, Flow)> = (0..).zip(code.iter().copied()).collect();
        Graph::new(&code).deciding(number).into_iter().collect()
    }

    #[test]
    fn an_arm_is_decided_by_its_branch() {
        // 0: je 2; 1: load; 2: load; 3: ret
        let code = [Flow::Branch(2), Flow::Next, Flow::Next, Flow::Return];
        assert_eq!(deciding(&code, 1), [0]);
        assert_eq!(deciding(&code, 2), []);
    }

    #[test]
    fn what_stands_before_a_loop_is_decided_by_nothing_in_it() {
        // 0: load; 1: test; 2: je 4; 3: add; 4: next; 5: jne 1; 6: ret
        let code = [
            Flow::Next,
            Flow::Next,
            Flow::Branch(4),
            Flow::Next,
            Flow::Next,
            Flow::Branch(1),
            Flow::Return,
        ];
        assert_eq!(deciding(&code, 0), []);
        assert_eq!(deciding(&code, 3), [2, 5]);
        // The loop's own branch decides whether there is another turn.
        assert_eq!(deciding(&code, 4), [5]);
    }

    /// The same within an outer loop, which is no reason to take the inner branch for one that
    /// decides.
    #[test]
    fn an_outer_loop_does_not_hide_it() {
        // 0: load; 1: je 3; 2: add; 3: jne 0; 4: ret
        let code = [
            Flow::Next,
            Flow::Branch(3),
            Flow::Next,
            Flow::Branch(0),
            Flow::Return,
        ];
        assert_eq!(deciding(&code, 0), [3]);
        assert_eq!(deciding(&code, 2), [1, 3]);
    }

    #[test]
    fn an_endless_loop_has_branches_that_decide() {
        // 0: je 2; 1: load; 2: jmp 0
        let code = [Flow::Branch(2), Flow::Next, Flow::Jump(Some(0))];
        assert!(deciding(&code, 1).contains(&0));
    }

    #[test]
    fn what_only_a_table_leads_to_is_not_reached() {
        let code = [Flow::Jump(None), Flow::Next, Flow::Return];
        let code: Vec<(u64, Flow)> = (0..).zip(code).collect();
        let graph = Graph::new(&code);
        assert!(graph.is_reached(0) && !graph.is_reached(1));
    }
}
