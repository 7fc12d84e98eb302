//! Signs of locks that were written by hand, in assembly: loops that do nothing but wait, and
//! words beside which locked instructions are at work.
//!
//! What such code does to a lock is none of the compiler's. A ticket is drawn by `lock xadd`, and
//! handed on by an `inc` without a lock, which only the owner makes.

use crate::ahead::Graph;
use crate::instruction::general;
use crate::{Flow, Image, Instruction, Operand};
use iced_x86::{InstructionInfoFactory, OpAccess};
use redhanded_model::Svma;
use std::collections::BTreeSet;

/// The widest word that a lock is made of, in bytes.
const WORD: u64 = 8;

/// The widest part of a lock beside whose other parts an access by a pointer is taken for one to
/// the lock. Wider ones are mostly counters, and where they are in their structure says little.
const PART: u64 = 2;

/// Where a module's locked instructions access memory.
#[derive(Debug, Default)]
pub(crate) struct Locked {
    /// The bytes at fixed addresses.
    fixed: BTreeSet<u64>,
    /// The words that are that far from where a register points.
    distant: BTreeSet<u64>,
}

impl Image {
    /// Whether the load at `svma` is made again and again in a loop that does nothing else: no
    /// store, no call, and always at the same place. A compiler would have made a plain load once,
    /// ahead of such a loop.
    #[must_use]
    pub fn waits(&self, svma: Svma) -> bool {
        let Some(load) = self.instruction_at(svma) else {
            return false;
        };
        let Some(operand) = load.memory_operand() else {
            return false;
        };
        let graph = self
            .function_at(svma)
            .and_then(|function| Graph::of(self, function));
        let Some((graph, at)) = graph.and_then(|graph| graph.at(svma.0).map(|at| (graph, at)))
        else {
            return false;
        };
        graph.returns_to(at, |one| {
            self.instruction_at(graph.address(one))
                .is_some_and(|instruction| only_waits(&instruction, &operand))
        })
    }

    /// Whether the update at `svma` may be one of a lock's word: locked instructions of this
    /// module access the same bytes, or others of the word that a narrow one is part of.
    #[must_use]
    pub fn is_beside_locked(&self, svma: Svma) -> bool {
        let Some(instruction) = self.instruction_at(svma) else {
            return false;
        };
        let operand = instruction.memory_operand();
        let Some((operand, access)) = operand.zip(instruction.sampled_access()) else {
            return false;
        };
        let size = u64::from(access.size);
        let locked = self.code.locked.get_or_init(|| Locked::of(self));
        match operand.constant() {
            Some(start) if size <= PART => {
                let word = start - start % WORD;
                locked
                    .fixed
                    .range(word..word.saturating_add(WORD))
                    .next()
                    .is_some()
            }
            Some(start) => locked
                .fixed
                .range(start..start.saturating_add(size))
                .next()
                .is_some(),
            None => size <= PART && locked.distant.contains(&word_at_distance(&operand)),
        }
    }
}

/// Whether an instruction of a loop neither stores nor calls, and leaves the address that is
/// loaded from as it is.
fn only_waits(instruction: &Instruction, operand: &Operand) -> bool {
    if matches!(
        instruction.flow(),
        Flow::Call(_) | Flow::Trap | Flow::Return
    ) {
        return false;
    }
    if instruction.unsupported() || instruction.accesses().iter().any(|one| one.kind.writes()) {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction.raw()).used_registers();
    !used.iter().any(|used| {
        let read = matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None
        );
        let whole = general(used.register());
        !read && whole.is_some_and(|whole| operand.registers().any(|one| one == whole))
    })
}

/// The number of the word that is so far from where a register points.
const fn word_at_distance(operand: &Operand) -> u64 {
    operand.displacement / WORD
}

impl Locked {
    fn of(image: &Image) -> Self {
        let mut locked = Self::default();
        for function in image.functions().as_slice() {
            for raw in image.instructions(function) {
                // Not by its prefix: an exchange with memory needs none.
                let instruction = Instruction::explain(raw);
                if instruction.locked() {
                    locked.add(&instruction);
                }
            }
        }
        locked
    }

    fn add(&mut self, instruction: &Instruction) {
        let operand = instruction.memory_operand();
        let Some((operand, access)) = operand.zip(instruction.sampled_access()) else {
            return;
        };
        match operand.constant() {
            Some(start) => self
                .fixed
                .extend(start..start.saturating_add(access.size.into())),
            None => {
                self.distant.insert(word_at_distance(&operand));
            }
        }
    }
}
