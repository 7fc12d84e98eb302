//! Who allocated which block.
//!
//! Allocating functions have a hook at their first instruction, and at every `ret` by which they
//! may return. What is asked for is known at the one, the block at the other.
//!
//! A block is forgotten when a call begins that frees it, before another thread can get it, and
//! when a block is given that overlaps it. So what is known of an address is of its latest
//! allocation, even if some calls are not seen: both the end of a block and the next one would
//! have to be missed.

use super::Process;
use super::allocators::{Call, argument};
use redhanded_image::Flow;
use redhanded_model::{Avma, Block, Register, Registers, SpaceId, TaskId, ThreadName};
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Control, Inspect, Stop};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Deeper stacks are cut.
const MOST_FRAMES: usize = 32;
/// How many blocks are known at once. Others have no allocation.
const MOST_BLOCKS: usize = 1 << 20;
/// How many stacks are kept before those are looked for that no block has any more.
const MANY_STACKS: usize = 1 << 12;

/// A call that has not returned.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Where on the stack its return address is, and what that is.
    stack: u64,
    back: u64,
    function: Avma,
    size: u64,
    /// Where it stores the address of the block, if it does not return it.
    at: Option<u64>,
}

/// A block, and who allocated it.
#[derive(Clone, Debug)]
struct Known {
    size: u64,
    by: Tid,
    /// Numbers of threads are used again.
    when: Duration,
    stack: Arc<[Avma]>,
}

/// The blocks of a space whose allocation was seen, by their addresses.
#[derive(Default)]
pub struct Allocations {
    blocks: BTreeMap<u64, Known>,
    /// Programs allocate at few places.
    stacks: HashSet<Arc<[Avma]>>,
    many: usize,
}

impl Allocations {
    /// Notes that the block at `start` ends.
    fn end(&mut self, start: u64) {
        self.blocks.remove(&start);
    }

    fn begin(&mut self, start: u64, block: Known) {
        let end = start.saturating_add(block.size.max(1));
        while let Some((at, before)) = self.blocks.range(..end).next_back()
            && (*at >= start || at.saturating_add(before.size) > start)
        {
            let at = *at;
            self.blocks.remove(&at);
        }
        if self.blocks.len() < MOST_BLOCKS {
            self.blocks.insert(start, block);
        }
    }

    /// The block that an address is in.
    fn at(&self, address: u64) -> Option<(Block, &Known)> {
        let (start, known) = self.blocks.range(..=address).next_back()?;
        let block = Block {
            address: *start,
            size: known.size,
        };
        block.offset_of(address)?;
        Some((block, known))
    }

    /// The one copy of a stack.
    fn keep(&mut self, stack: Vec<Avma>) -> Arc<[Avma]> {
        if let Some(known) = self.stacks.get(stack.as_slice()) {
            return Arc::clone(known);
        }
        if self.stacks.len() >= self.many.max(MANY_STACKS) {
            self.stacks.retain(|stack| Arc::strong_count(stack) > 1);
            self.many = 2 * self.stacks.len();
        }
        let stack: Arc<[Avma]> = stack.into();
        self.stacks.insert(Arc::clone(&stack));
        stack
    }
}

impl Process {
    /// Handles the call of an allocating function: a thread is at its first instruction, which is
    /// at `address`.
    pub(super) fn allocator_called(
        &mut self,
        tid: Tid,
        address: u64,
        call: Call,
        registers: &Registers,
    ) {
        let Some(id) = self.tasks.get(&tid).map(|task| task.space) else {
            return;
        };
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        if call.frees {
            space.allocations.end(argument(registers, 0));
        }
        let Some(gives) = call.gives else { return };
        let stack = registers.stack_pointer();
        let Some(back) = space.word_at(stack) else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(&tid) {
            // Calls that it is not within have returned, or go on in this one.
            task.allocating.retain(|pending| pending.stack > stack);
            task.allocating.push(Pending {
                stack,
                back,
                function: Avma(address),
                size: gives.size(registers),
                at: gives.at(registers),
            });
        }
    }

    /// Handles a `ret` by which an allocating function may return.
    pub(super) fn allocator_returns(&mut self, tid: Tid, address: u64, registers: &Registers) {
        let stack = registers.stack_pointer();
        let now = self.now();
        let Some(task) = self.tasks.get_mut(&tid) else {
            return;
        };
        let id = task.space;
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        task.allocating.retain(|pending| pending.stack >= stack);
        let returns = |pending: &mut Pending| {
            pending.stack == stack && space.word_at(stack) == Some(pending.back)
        };
        let Some(pending) = task.allocating.pop_if(returns) else {
            return;
        };
        let result = registers.get(Register::Rax);
        let start = match pending.at {
            Some(at) if result == 0 => space.word_at(at),
            Some(_) => None,
            None => Some(result),
        };
        let Some(start) = start.filter(|start| *start != 0) else {
            return;
        };
        let standing = Registers {
            rip: address,
            ..*registers
        };
        let mut frames = self.stack(TaskId(tid.cast_unsigned()), &standing);
        frames.truncate(MOST_FRAMES);
        // It may have gone on in another function, of which nobody knows.
        if let Some(innermost) = frames.first_mut() {
            *innermost = pending.function;
        }
        if let Some(space) = self.spaces.get_mut(&id) {
            let known = Known {
                size: pending.size,
                by: tid,
                when: now,
                stack: space.allocations.keep(frames),
            };
            space.allocations.begin(start, known);
        }
    }

    /// Carries out the simple instruction at a hook, and lets the thread go on.
    pub(super) fn carry_out_simply(
        &mut self,
        tid: Tid,
        address: u64,
        registers: &Registers,
    ) -> Option<Stop> {
        let before = Registers {
            rip: address,
            ..*registers
        };
        let carried = self.space_of(tid).and_then(|space| {
            let instruction = space.instruction_at(address)?;
            let mut read = |at: u64, bytes: &mut [u8]| space.memory.read_exact_at(bytes, at).ok();
            let carried = instruction.carry_out(&before, &mut read)?;
            let stored = carried
                .stored
                .is_none_or(|(at, word)| space.set_word(at, word));
            let returns = instruction.flow() == Flow::Return;
            stored.then_some((carried.registers, returns))
        });
        match carried {
            Some((after, returns)) => {
                let _ = sys::set_registers(tid, &after);
                if returns {
                    let _ = sys::pop_shadow_stack(tid);
                }
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.carried_to = Some((after.rip, after.stack_pointer()));
                }
                self.go_on(tid, 0);
                None
            }
            // Its operand may be where nothing is mapped. That fault is its own.
            None => {
                if let Some(function) = self.function_around(tid, Avma(address)) {
                    let what = format!("who allocated with {function}");
                    self.note(
                        &what,
                        "an instruction of it could not be carried out for it",
                    );
                }
                self.drop_hook(tid, address)
            }
        }
    }

    /// What a function is called that nothing more is known of.
    fn function_around(&self, tid: Tid, address: Avma) -> Option<String> {
        let module = self.space_of(tid)?.module_at(address)?;
        let image = module.image.as_ref()?;
        let start = image.function_at(module.svma(address))?.start.0;
        Some(format!("the function at {start:#x} of {}", module.name))
    }

    /// Who allocated the block that an address is in, if that was seen.
    pub(super) fn allocation_of(
        &self,
        id: SpaceId,
        address: Avma,
    ) -> Option<(Block, ThreadName, Vec<Avma>)> {
        let (block, known) = self.spaces.get(&id)?.allocations.at(address.0)?;
        let is_same = |task: &super::Task| task.since <= known.when;
        let lives = self.tasks.get(&known.by).is_some_and(is_same);
        let by = TaskId(known.by.cast_unsigned());
        let thread = if lives {
            self.name_of(by)
        } else {
            ThreadName {
                tid: by.0,
                name: String::new(),
                context: None,
            }
        };
        Some((block, thread, known.stack.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(allocations: &mut Allocations, start: u64, size: u64, by: u64) {
        let known = Known {
            size,
            by: 1,
            when: Duration::ZERO,
            stack: allocations.keep(vec![Avma(by)]),
        };
        allocations.begin(start, known);
    }

    fn at(allocations: &Allocations, address: u64) -> Option<(u64, u64)> {
        let (block, known) = allocations.at(address)?;
        Some((block.address, known.stack[0].0))
    }

    #[test]
    fn a_block_is_that_of_its_latest_allocation() {
        let mut allocations = Allocations::default();
        given(&mut allocations, 0x100, 0x20, 1);
        given(&mut allocations, 0x120, 0x20, 2);
        assert_eq!(at(&allocations, 0x11f), Some((0x100, 1)));
        assert_eq!(at(&allocations, 0x120), Some((0x120, 2)));
        assert_eq!(at(&allocations, 0x140), None);
        allocations.end(0x100);
        assert_eq!(at(&allocations, 0x100), None);
        given(&mut allocations, 0x100, 0x10, 3);
        assert_eq!(at(&allocations, 0x100), Some((0x100, 3)));
        assert_eq!(at(&allocations, 0x110), None);
    }

    #[test]
    fn what_a_new_block_overlaps_has_ended_unseen() {
        let mut allocations = Allocations::default();
        given(&mut allocations, 0x100, 0x20, 1);
        given(&mut allocations, 0x120, 0x20, 2);
        given(&mut allocations, 0x140, 0x20, 3);
        given(&mut allocations, 0x160, 0x20, 4);
        given(&mut allocations, 0x110, 0x31, 5);
        assert_eq!(at(&allocations, 0x100), None);
        assert_eq!(at(&allocations, 0x13f), Some((0x110, 5)));
        assert_eq!(at(&allocations, 0x150), None);
        assert_eq!(at(&allocations, 0x160), Some((0x160, 4)));
    }

    #[test]
    fn stacks_that_no_block_has_are_not_kept_for_ever() {
        let mut allocations = Allocations::default();
        for stack in 0..10 * MANY_STACKS as u64 {
            given(&mut allocations, 0x1000, 8, stack);
        }
        assert!(allocations.stacks.len() <= MANY_STACKS);
    }
}
