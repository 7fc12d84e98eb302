//! Reading the machine's state, and the hints that save round trips.

use super::{GuestMachine, SPACE, USER_END};
use crate::gdb::Answer;
use redhanded_model::{
    Avma, Context, Region, Registers, SpaceId, Standstill, TaskId, ThreadName, Unseen,
};
use redhanded_target::{Batch, Capacity, Control, Hint, Holds, Inspect, Mapping, Module};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The first recheck of an open window; the time doubles, because each stops the
/// machine. Where no CPU made progress lately, that is likely again, and waiting is
/// wasted time.
const FIRST_RECHECK: Duration = Duration::from_millis(16);
const FIRST_RECHECK_STALLED: Duration = Duration::from_millis(2);
/// Of windows that are at least this long, one in so many is checked at its end for
/// whether any CPU made progress.
const LONG: Duration = Duration::from_millis(4);
const CHECKED: u32 = 4;
/// How much of a stack is read at once to unwind it.
const STACK_READ: usize = 1024;
/// The size of a page.
const PAGE: u64 = 4096;
/// The longest instruction.
const LONGEST_INSTRUCTION: u64 = 15;

impl Inspect for GuestMachine {
    fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }

    fn space_of(&self, _task: TaskId) -> SpaceId {
        SPACE
    }

    fn read(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if self.text(address.0, buffer.len()).is_some() {
            // Reading code has no effects, and more of it will be wanted.
            let Some(code) = crate::Source::read(self, address.0, buffer.len()) else {
                return false;
            };
            buffer.copy_from_slice(&code);
            self.hide_breakpoints(address.0, buffer);
            return true;
        }
        let answers = self.ask(&self.reading(address.0, buffer.len()));
        self.was_read(address, buffer, answers)
    }

    fn instruction_before(&mut self, _space: SpaceId, address: Avma) -> Option<Avma> {
        let module = self.module_at(Avma(address.0.wrapping_sub(1)))?;
        let image = module.image.as_ref()?;
        let before = image.instruction_before(module.svma(address))?;
        Some(module.avma(before))
    }

    fn stack(&mut self, _task: TaskId, registers: &Registers) -> Vec<Avma> {
        // One round trip for what most stacks need.
        self.prefetch(&[top_of_stack(registers)]);
        let mut unwinder = std::mem::take(&mut self.unwinder);
        let mut read = |address: u64| match self.text(address, 8) {
            Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
            None => self.stack_word(address),
        };
        let frames = unwinder.unwind(registers, &mut read);
        self.unwinder = unwinder;
        // Frames below the kernel's entry belong to a user program.
        let kernel = |address: &u64| *address >= USER_END;
        frames.into_iter().take_while(kernel).map(Avma).collect()
    }

    fn region(&mut self, _space: SpaceId, address: Avma) -> Region {
        if let Some(module) = self.module_at(address) {
            return Region::Global {
                module: module.name.clone(),
            };
        }
        Arc::clone(&self.kernel).region(self, address.0)
    }

    /// Nothing is said of user memory, of devices and of what is not there: the kernel expects
    /// some of its accesses to fault, and mends that.
    fn page(&mut self, _space: SpaceId, page: u64) -> Option<Mapping> {
        let view = self.kernel_view();
        let found = Arc::clone(&self.kernel).page(self, view, page);
        let memory = found.filter(|found| page >= USER_END && !found.uncached);
        Some(Mapping {
            range: page..page.saturating_add(PAGE),
            writable: memory.is_some_and(|found| found.writable),
            executable: memory.is_some_and(|found| found.executable),
            holds: memory.map_or(Holds::Unknown, |_| Holds::Bytes),
        })
    }

    /// The kernel goes on after a warning, and after faults that its tables of exceptions list.
    fn handled_signals(&mut self, _space: SpaceId) -> u64 {
        const SIGILL: u64 = 1 << 3;
        const SIGBUS: u64 = 1 << 6;
        const SIGSEGV: u64 = 1 << 10;
        SIGILL | SIGBUS | SIGSEGV
    }

    fn thread_name(&mut self, task: TaskId) -> ThreadName {
        Arc::clone(&self.kernel).thread_name(self, task.0)
    }

    fn context(&mut self, task: TaskId) -> Option<Context> {
        Arc::clone(&self.kernel).context(self, task.0)
    }

    fn unseen(&self) -> Vec<Unseen> {
        let note = |(what, why): (&String, &String)| Unseen {
            what: what.clone(),
            why: why.clone(),
        };
        self.unseen.iter().map(note).collect()
    }
}

impl Batch for GuestMachine {
    fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::Idle if self.pending.is_empty() => self.resume_free(),
            Hint::Elapsed(held) if held >= LONG => {
                self.elapsed = self.elapsed.wrapping_add(1);
                if self.elapsed.is_multiple_of(CHECKED) {
                    self.is_stalled(SPACE);
                }
            }
            Hint::Idle | Hint::Elapsed(_) | Hint::Allowance(_) => {}
        }
    }

    fn capacity(&self) -> Capacity {
        match self.held().cmp(&self.most_held()) {
            Ordering::Less => Capacity::Free,
            Ordering::Equal => Capacity::Full,
            Ordering::Greater => Capacity::Exceeded,
        }
    }

    fn read_code(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if let Some(text) = self.text(address.0, buffer.len()) {
            buffer.copy_from_slice(text);
            return true;
        }
        self.read(space, address, buffer)
    }

    fn read_last(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if !self.pending.is_empty() {
            return self.read(space, address, buffer);
        }
        // A profile costs no round trip of its own now.
        let profile = self.due_profile();
        let mut requests = self.reading(address.0, buffer.len()).to_vec();
        let own = requests.len();
        requests.extend_from_slice(profile.requests());
        let mut answers = self.ask_then_resume(&requests);
        if let Some(answers) = &mut answers {
            let read = answers.split_off(own.min(answers.len()));
            self.profiled(&profile, read);
        }
        self.was_read(address, buffer, answers)
    }

    fn recheck_after(&self, rechecks: u32) -> Duration {
        let first = if self.stalled {
            FIRST_RECHECK_STALLED
        } else {
            FIRST_RECHECK
        };
        first * 2u32.saturating_pow(rechecks.min(8))
    }

    fn take_running_code(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.running_code)
    }

    fn standstill(&self) -> Option<Standstill> {
        Some(self.downtime.so_far())
    }
}

/// The part of a stack that most unwinding needs.
const fn top_of_stack(registers: &Registers) -> (u64, usize) {
    (registers.stack_pointer() & !7, STACK_READ)
}

impl GuestMachine {
    /// A word of a stack, read with its neighbours.
    fn stack_word(&mut self, address: u64) -> Option<u64> {
        if !self.cache.has(address, 8) {
            self.prefetch(&[(address, STACK_READ)]);
        }
        self.cache.word(address)
    }

    /// Copies the last of these answers to the buffer; whether it was memory.
    fn was_read(&mut self, at: Avma, buffer: &mut [u8], answers: Option<Vec<Answer>>) -> bool {
        let last = answers.and_then(|mut answers| answers.pop());
        let Some(bytes) = last.and_then(Answer::memory) else {
            return false;
        };
        buffer.copy_from_slice(&bytes);
        self.hide_breakpoints(at.0, buffer);
        self.note_bytes(at.0, buffer);
        true
    }

    /// Under KVM a breakpoint is a byte in the guest's code.
    fn hide_breakpoints(&self, address: u64, read: &mut [u8]) {
        const INT3: u8 = 0xcc;
        let end = address.saturating_add(read.len() as u64);
        for at in self.inserted.range(address..end) {
            let byte = &mut read[(at - address) as usize];
            if let (INT3, Some(text)) = (*byte, self.text(*at, 1)) {
                *byte = text[0];
            }
        }
    }

    /// Notes the bytes of watchpoints, when they were first and last read.
    fn note_bytes(&mut self, address: u64, read: &[u8]) {
        for watchpoint in self.watchpoints.iter_mut().flatten() {
            let at = watchpoint.watch.bytes;
            let from = usize::try_from(at.start.0.wrapping_sub(address)).ok();
            let piece = from.and_then(|from| read.get(from..from.checked_add(at.len as usize)?));
            if let Some(piece) = piece {
                watchpoint.bytes.get_or_insert_with(|| piece.to_vec());
                watchpoint.last = Some(piece.to_vec());
            }
        }
    }

    /// Code as it was read from the machine when it was indexed.
    pub(super) fn text(&self, address: u64, len: usize) -> Option<&[u8]> {
        let module = self.module_at(Avma(address))?;
        let svma = module.svma(Avma(address));
        let image = module.image.as_ref()?;
        image.function_at(svma)?;
        image.bytes_at(svma, len).filter(|bytes| bytes.len() == len)
    }

    /// The memory that tells the context and the task of a CPU.
    pub(super) fn context_ranges(&self, number: u32) -> Vec<(u64, usize)> {
        let base = self.vcpus.get(&number).and_then(|vcpu| vcpu.per_cpu);
        base.map_or_else(Vec::new, |base| self.kernel.context_ranges(base))
    }

    /// The memory that a report of a collision of the held CPUs needs, as far as its
    /// address is known: instruction, stack, context and task.
    pub(super) fn collision_ranges(&self) -> Vec<(u64, usize)> {
        let mut ranges = Vec::new();
        for (number, vcpu) in self.vcpus.iter().filter(|(_, vcpu)| vcpu.held) {
            ranges.extend(self.context_ranges(*number));
            if let Some(registers) = &vcpu.registers {
                let code = registers.general.rip.saturating_sub(LONGEST_INSTRUCTION);
                ranges.push((code, 2 * LONGEST_INSTRUCTION as usize));
                ranges.push(top_of_stack(&registers.general));
            }
            let current = vcpu.per_cpu.and_then(|base| self.kernel.current_at(base));
            let task = current.and_then(|at| self.cache.word(at));
            ranges.extend(
                task.into_iter()
                    .flat_map(|task| self.kernel.task_ranges(task)),
            );
        }
        ranges
    }
}
