//! A function's instructions, followed from its entry: what is held before each of them.
//!
//! Where ways meet, only what they agree on is kept. So what is found holds on every way that
//! was seen, as far as the debug information is right.

use super::held::{Held, State};
use super::locations::{self, Call, Fact};
use super::step::Surroundings;
use crate::debug::Inner;
use crate::debug::program::{Die, Program};
use crate::{Flow, Instruction};
use iced_x86::Mnemonic;
use redhanded_model::{Register, Svma};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Larger functions are not followed.
const MAX_CODE: u64 = 1 << 18;
/// The longest table of a `switch`.
const MAX_CASES: usize = 1 << 10;
/// How often all instructions are gone through. A function that is not settled then is not
/// followed.
const MAX_ROUNDS: usize = 32;

/// A function that was followed.
pub(super) struct Followed {
    instructions: Vec<Instruction>,
    facts: Vec<Fact>,
    calls: HashMap<u64, Call>,
    /// Where blocks begin.
    leaders: BTreeSet<u64>,
    /// What is held where a block begins that is reached.
    states: BTreeMap<u64, State>,
    /// From where on slots of the frame may be changed by others.
    shared_from: i64,
    /// Whether there may be ways that were not seen.
    pub(super) incomplete: bool,
}

impl Followed {
    pub(super) fn new(inner: &Arc<Inner>, program: &Program<'_>, function: Die) -> Option<Self> {
        let ranges = locations::ranges(program, function);
        let size: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if size == 0 || size > MAX_CODE {
            return None;
        }
        let mut instructions: Vec<Instruction> = Vec::new();
        for range in &ranges {
            decode(inner, range, &mut instructions);
        }
        instructions.sort_by_key(Instruction::address);
        instructions.dedup_by_key(|instruction| instruction.address());
        let entry = ranges.first()?.start;
        let cases = cases(inner, &instructions, &ranges);
        let (facts, mut calls) = locations::read(program, function);
        // Without optimisation no call sites are described.
        for instruction in &instructions {
            if let Flow::Call(Some(target)) = instruction.flow()
                && !calls.contains_key(&instruction.next())
                && let Some(called) = super::function_at(program, Svma(target))
            {
                calls.insert(instruction.next(), locations::call_of(program, called));
            }
        }
        let mut followed = Self {
            leaders: leaders(&instructions, entry, &cases),
            facts,
            calls,
            shared_from: i64::MAX,
            states: BTreeMap::new(),
            incomplete: false,
            instructions,
        };
        followed.run(inner, program, entry, &cases);
        Some(followed)
    }

    /// Asks about what is held before the instruction at `svma`.
    pub(super) fn before<T>(
        &self,
        inner: &Arc<Inner>,
        program: &Program<'_>,
        svma: Svma,
        ask: impl FnOnce(&Surroundings<'_, '_>, &State, &[&Fact]) -> T,
    ) -> Option<T> {
        let leader = *self.leaders.range(..=svma.0).next_back()?;
        let around = self.surroundings(inner, program);
        let mut state = self.states.get(&leader).cloned();
        let first = self
            .instructions
            .partition_point(|one| one.address() < leader);
        for instruction in self.instructions.get(first..)? {
            let at = instruction.address();
            if at > svma.0 {
                break;
            }
            let facts: Vec<&Fact> = self
                .facts
                .iter()
                .filter(|fact| fact.range.contains(&at))
                .collect();
            let mut now = state.take().unwrap_or_else(State::nothing);
            around.declare(&mut now, &facts);
            if at == svma.0 {
                return Some(ask(&around, &now, &facts));
            }
            // Nothing is followed where no way was seen to lead to.
            if self.states.contains_key(&leader) {
                around.step(&mut now, &facts, instruction);
                state = Some(now);
            }
        }
        None
    }

    fn surroundings<'a, 'd>(
        &'a self,
        inner: &'a Arc<Inner>,
        program: &'a Program<'d>,
    ) -> Surroundings<'a, 'd> {
        Surroundings {
            inner,
            program,
            calls: &self.calls,
            shared_from: self.shared_from,
        }
    }

    /// Follows all ways until nothing new is learnt.
    fn run(&mut self, inner: &Arc<Inner>, program: &Program<'_>, entry: u64, cases: &[u64]) {
        // Which addresses of the frame are taken shows on the way. What was learnt before
        // that is then learnt again.
        for _ in 0..MAX_ROUNDS {
            self.states.clear();
            self.states.insert(entry, State::entry());
            let shared_from = self.shared_from;
            let mut settled = false;
            for _ in 0..MAX_ROUNDS {
                if !self.round(inner, program, cases) {
                    settled = true;
                    break;
                }
            }
            if !settled {
                break;
            }
            if self.shared_from == shared_from {
                return;
            }
        }
        self.states.clear();
    }

    /// Goes through all instructions once. Says whether anything new was learnt.
    fn round(&mut self, inner: &Arc<Inner>, program: &Program<'_>, cases: &[u64]) -> bool {
        let mut states = std::mem::take(&mut self.states);
        let around = self.surroundings(inner, program);
        let size = |kind: Die| program.size_of(kind);
        let mut shared_from = self.shared_from;
        let mut incomplete = self.incomplete;
        let mut changed = false;
        let mut reach = |states: &mut BTreeMap<u64, State>, at: u64, state: &State| {
            if !self.leaders.contains(&at) {
                return;
            }
            match states.get_mut(&at) {
                Some(known) => changed |= known.join(state, &size),
                None => {
                    states.insert(at, state.clone());
                    changed = true;
                }
            }
        };
        let mut waiting: Vec<&Fact> = self.facts.iter().collect();
        waiting.sort_by_key(|fact| std::cmp::Reverse(fact.range.start));
        let mut facts: Vec<&Fact> = Vec::new();
        let mut current: Option<State> = None;
        for instruction in &self.instructions {
            let at = instruction.address();
            facts.retain(|fact| fact.range.end > at);
            let known = facts.len();
            while let Some(fact) = waiting.pop_if(|fact| fact.range.start <= at) {
                facts.extend((fact.range.end > at).then_some(fact));
            }
            if facts.len() != known {
                facts.sort_by_key(|fact| (fact.depth, fact.range.start));
            }
            if self.leaders.contains(&at) {
                if let Some(state) = current.take() {
                    reach(&mut states, at, &state);
                }
                current = states.get(&at).cloned();
            }
            let Some(state) = current.as_mut() else {
                continue;
            };
            around.declare(state, &facts);
            if let Some(taken) = around.taken(state, instruction) {
                shared_from = shared_from.min(taken);
            }
            around.step(state, &facts, instruction);
            match instruction.flow() {
                Flow::Branch(to) => reach(&mut states, to, state),
                Flow::Jump(Some(to)) => {
                    reach(&mut states, to, state);
                    current = None;
                }
                Flow::Jump(None) => {
                    // Without a table, and with the frame gone, it leaves the function.
                    incomplete |= cases.is_empty() && *state.get(Register::Rsp) != Held::Frame(0);
                    for to in cases {
                        reach(&mut states, *to, state);
                    }
                    current = None;
                }
                Flow::Return => current = None,
                Flow::Call(_) => {
                    let call = self.calls.get(&instruction.next());
                    if call.is_some_and(|call| call.never_returns) {
                        current = None;
                    }
                }
                Flow::Next | Flow::Trap => {}
            }
        }
        self.states = states;
        self.shared_from = shared_from;
        self.incomplete = incomplete;
        changed
    }
}

fn decode(inner: &Arc<Inner>, range: &Range<u64>, instructions: &mut Vec<Instruction>) {
    let mut at = range.start;
    while at < range.end {
        let decoded = inner
            .code_at(Svma(at))
            .and_then(|code| Instruction::decode(code, at));
        let Some(instruction) = decoded else { return };
        at = instruction.next();
        instructions.push(instruction);
    }
}

fn leaders(instructions: &[Instruction], entry: u64, cases: &[u64]) -> BTreeSet<u64> {
    let mut leaders = BTreeSet::from([entry]);
    leaders.extend(cases);
    for instruction in instructions {
        match instruction.flow() {
            Flow::Branch(to) => leaders.extend([to, instruction.next()]),
            Flow::Jump(to) => {
                leaders.extend(to);
                leaders.insert(instruction.next());
            }
            Flow::Return => {
                leaders.insert(instruction.next());
            }
            _ => {}
        }
    }
    leaders
}

/// Where the tables of `switch` statements lead to. They are recognised by what they hold:
/// addresses of the function, or distances from the table to them.
fn cases(inner: &Arc<Inner>, instructions: &[Instruction], ranges: &[Range<u64>]) -> Vec<u64> {
    let mut found = BTreeSet::new();
    let indirect = |one: &Instruction| one.flow() == Flow::Jump(None);
    if !instructions.iter().any(indirect) {
        return Vec::new();
    }
    let inside = |at: u64| ranges.iter().any(|range| range.contains(&at));
    for instruction in instructions {
        let Some(operand) = instruction.memory_operand() else {
            continue;
        };
        let distances = instruction.raw().mnemonic() == Mnemonic::Lea;
        let table = match operand.constant() {
            Some(table) if distances => table,
            None if operand.base.is_none() && operand.scale == 8 => operand.displacement,
            _ => continue,
        };
        let Some(bytes) = inner.bytes_at(Svma(table), MAX_CASES * 8) else {
            continue;
        };
        let entries: Vec<u64> = if distances {
            let (entries, _) = bytes.as_chunks::<4>();
            let entries = entries.iter().map(|entry| i32::from_le_bytes(*entry));
            entries
                .map(|entry| table.wrapping_add_signed(entry.into()))
                .collect()
        } else {
            let (entries, _) = bytes.as_chunks::<8>();
            entries
                .iter()
                .map(|entry| u64::from_le_bytes(*entry))
                .collect()
        };
        let entries = entries.into_iter().take_while(|at| inside(*at));
        found.extend(entries.take(MAX_CASES));
    }
    found.into_iter().collect()
}
