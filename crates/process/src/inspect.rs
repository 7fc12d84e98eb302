//! [`Process`] as what can be looked at: memory, stacks, modules, regions, names.

use super::space::mappings;
use super::{Process, State, heap, sharing, tasks};
use redhanded_model::{
    Avma, Block, Region, Registers, SpaceId, TaskId, ThreadName, Unseen, Vectors,
};
use redhanded_sys as sys;
use redhanded_target::{Batch, Hint, Inspect, Mapping, Module};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

impl Process {
    pub(super) fn name_of(&self, task: TaskId) -> ThreadName {
        let tid = task.0.cast_signed();
        let pid = self.tasks.get(&tid).map_or(self.pid, |task| task.pid);
        ThreadName {
            tid: task.0,
            name: tasks::name(pid, tid),
            context: None,
        }
    }
}

/// How much of a stack is read at once: the frames of most calls.
const PIECE: usize = 4096;

/// Reads words for unwinding. The innermost part of the stack is read in one piece.
struct Words<'m> {
    memory: &'m File,
    start: u64,
    stack: Vec<u8>,
}

impl<'m> Words<'m> {
    fn new(memory: &'m File, registers: &Registers) -> Self {
        let start = registers.stack_pointer();
        let mut stack = vec![0; PIECE];
        let len = memory.read_at(&mut stack, start).unwrap_or(0);
        stack.truncate(len);
        Self {
            memory,
            start,
            stack,
        }
    }

    /// The word at an address.
    fn at(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        let from = usize::try_from(address.wrapping_sub(self.start)).ok();
        match from.and_then(|from| self.stack.get(from..from.checked_add(8)?)) {
            Some(known) => word.copy_from_slice(known),
            None => self.memory.read_exact_at(&mut word, address).ok()?,
        }
        Some(u64::from_le_bytes(word))
    }
}

impl Inspect for Process {
    fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }

    fn space_of(&self, task: TaskId) -> SpaceId {
        let task = self.tasks.get(&task.0.cast_signed());
        task.map(|task| task.space).unwrap_or_default()
    }

    fn read(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        let Some(space) = self.spaces.get(&space) else {
            return false;
        };
        if space.memory.read_exact_at(buffer, address.0).is_err() {
            return false;
        }
        space.breakpoints.hide(address.0, buffer);
        true
    }

    fn instruction_before(&mut self, space: SpaceId, address: Avma) -> Option<Avma> {
        // The address may be one past the module's last instruction.
        let space = self.spaces.get(&space)?;
        let module = space.module_at(Avma(address.0.wrapping_sub(1)))?;
        let before = module
            .image
            .as_ref()?
            .instruction_before(module.svma(address))?;
        Some(module.avma(before))
    }

    fn stack(&mut self, task: TaskId, registers: &Registers) -> Vec<Avma> {
        let id = Inspect::space_of(self, task);
        let Some(space) = self.spaces.get_mut(&id) else {
            return Vec::new();
        };
        let words = Words::new(&space.memory, registers);
        let mut read = |address: u64| words.at(address);
        let frames = space.unwinder.unwind(registers, &mut read);
        frames.into_iter().map(Avma).collect()
    }

    fn frame_at(&mut self, task: TaskId, registers: &Registers, address: Avma) -> Option<Avma> {
        let id = Inspect::space_of(self, task);
        let space = self.spaces.get_mut(&id)?;
        let words = Words::new(&space.memory, registers);
        let mut read = |address: u64| words.at(address);
        let found = space.unwinder.frame_at(registers, address.0, &mut read);
        found.map(Avma)
    }

    fn region(&mut self, space: SpaceId, address: Avma) -> Region {
        let Some(known) = self.spaces.get(&space) else {
            return Region::Unknown;
        };
        known.region(address, |map| {
            let mut tasks = self.tasks_in(space);
            let (tid, _) = tasks.find(|(_, task)| map.contains(task.stack.wrapping_sub(1)))?;
            Some(Region::Stack {
                thread: self.name_of(TaskId(tid.cast_unsigned())),
            })
        })
    }

    fn block(&mut self, space: SpaceId, address: Avma) -> Option<Block> {
        let space = self.spaces.get(&space)?;
        let maps = sys::mappings(space.pid);
        let map = maps.into_iter().find(|map| map.contains(address.0))?;
        let is_break = map.name == b"[heap]";
        if map.shared || !(is_break || map.name.is_empty()) {
            return None;
        }
        let memory = &space.memory;
        let read = |at: u64, buffer: &mut [u8]| memory.read_exact_at(buffer, at).is_ok();
        heap::block_at(map.start..map.end, is_break, address.0, &read)
    }

    fn allocation(
        &mut self,
        space: SpaceId,
        address: Avma,
    ) -> Option<(Block, ThreadName, Vec<Avma>)> {
        self.allocation_of(space, address)
    }

    fn creation(&mut self, task: TaskId) -> Option<(ThreadName, Vec<Avma>)> {
        self.tasks.get(&task.0.cast_signed())?.creator()
    }

    fn vectors(&mut self, task: TaskId) -> Option<Box<Vectors>> {
        let tid = task.0.cast_signed();
        let area = sys::register_set(tid, sys::XSTATE).ok()?;
        Vectors::from_saved(&area, sys::saved_vectors()).map(Box::new)
    }

    fn saved_vectors(&mut self, task: TaskId) -> Option<Vec<u8>> {
        sys::register_set(task.0.cast_signed(), sys::XSTATE).ok()
    }

    fn mappings(&mut self, space: SpaceId) -> Vec<Mapping> {
        let space = self.spaces.get(&space);
        space.map_or_else(Vec::new, |space| mappings(space.pid))
    }

    fn grows_down(&mut self, space: SpaceId, start: u64) -> bool {
        let space = self.spaces.get(&space);
        space.is_some_and(|space| sys::grows_down(space.pid, start))
    }

    fn handled_signals(&mut self, space: SpaceId) -> u64 {
        let space = self.spaces.get(&space);
        space.map_or(0, |s| tasks::signals(s.pid, tasks::SignalField::Handled))
    }

    fn thread_name(&mut self, task: TaskId) -> ThreadName {
        self.name_of(task)
    }

    fn in_system_calls(&mut self, space: SpaceId) -> Vec<(TaskId, Registers)> {
        let running = self
            .tasks_in(space)
            .filter(|(_, task)| task.state == State::Running);
        running
            .filter_map(|(tid, task)| {
                let registers = tasks::system_call(task.pid, *tid)?;
                Some((TaskId(tid.cast_unsigned()), registers))
            })
            .collect()
    }

    fn sharers(&mut self, space: SpaceId, address: Avma) -> Vec<(u32, String)> {
        let Some(space) = self.spaces.get(&space) else {
            return Vec::new();
        };
        let sharers = sharing::sharers(space.pid, address.0).into_iter();
        sharers
            .map(|pid| (pid.cast_unsigned(), tasks::name(pid, pid)))
            .collect()
    }

    fn write_core(&mut self, space: SpaceId, first: &[TaskId], path: &Path) -> io::Result<u64> {
        self.dump(space, first, path)
    }

    fn unseen(&self) -> Vec<Unseen> {
        let notes = self.unseen.iter().map(|(what, why)| Unseen {
            what: what.clone(),
            why: why.clone(),
        });
        notes.collect()
    }
}

impl Batch for Process {
    fn hint(&mut self, hint: Hint) {
        if let Hint::Allowance(held) = hint {
            self.linking.allowance = held;
        }
    }

    fn take_running_code(&mut self) -> Vec<Range<u64>> {
        self.seen_running()
    }
}
