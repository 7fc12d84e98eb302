//! The primitives of a window, over a gdbstub.

use super::gdb::{Answer, Point, PointKind, Request, VcpuRegisters};
use super::{SPACE, Set, TURNS, USER_END, Vm, WATCHES, root};
use redhanded_image::{After, Instruction};
use redhanded_model::{
    Avma, Bytes, Context, Loss, Losses, Region, Registers, SpaceId, Standstill, TaskId, ThreadName,
    Unseen,
};
use redhanded_target::Company;
use redhanded_target::{Armed, Machine, Module, Stop, TargetError, Turns, Watch, WatchFor};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The first look at an open window, which doubles: each stops the machine. Where
/// nobody made progress lately it may be so again, and every moment is wasted.
const FIRST_LOOK: Duration = Duration::from_millis(16);
const FIRST_LOOK_STALLED: Duration = Duration::from_millis(2);
/// Of windows that are at least so long, one in so many is looked at when it ends
/// for whether anybody made progress.
const LONG: Duration = Duration::from_millis(4);
const LOOKED_AT: u32 = 4;
/// When a CPU has left the instruction that it stood at.
const LEAVES_WITHIN: Duration = Duration::from_millis(1);
/// How much of a stack is read at once to unwind it.
const STACK_READ: usize = 1024;

/// What a CPU does that can make no progress: it waits for an interrupt, or for
/// somebody to let go of a lock.
const WAITING: &[&str] = &[
    "default_idle",
    "native_safe_halt",
    "pv_native_safe_halt",
    "acpi_safe_halt",
    "acpi_idle_do_entry",
    "acpi_idle_enter",
    "cpu_idle_poll",
    "mwait_idle",
    "intel_idle",
    "poll_idle",
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "rwsem_spin_on_owner",
    "mutex_spin_on_owner",
    "smp_call_function_many_cond",
    "smp_call_function_single",
    "csd_lock_wait",
];

impl Machine for Vm {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        loop {
            if let Some(stop) = self.pending.pop_front() {
                return Ok(stop);
            }
            if self.broken.is_some() {
                return Ok(Stop::Ended(self.ending()));
            }
            if let Some(taken) = self.signals.taken() {
                return Ok(taken);
            }
            self.let_go();
            if self.broken.is_some() || !self.pending.is_empty() {
                continue;
            }
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(Stop::Deadline);
            }
            // A breakpoint that somebody had to leave first comes a moment later.
            let owes = self.has_room() && self.standing != self.breakpoints;
            let left = if owes { left.min(LEAVES_WITHIN) } else { left };
            match self.gdb.wait(left) {
                Ok(Some(reply)) => self.stopped(reply),
                Ok(None) if owes => self.stop(),
                Ok(None) => return Ok(Stop::Deadline),
                Err(error) => self.broken = Some(error),
            }
        }
    }

    fn space_of(&self, _task: TaskId) -> SpaceId {
        SPACE
    }

    fn turns(&self) -> Option<Turns> {
        Some(TURNS)
    }

    fn set_breakpoints(&mut self, _space: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed> {
        let mut done = Vec::with_capacity(sites.len());
        for (address, expected) in sites {
            // The text of an image is what was read from the machine.
            let same = self.text(address.0, 1).is_some_and(|b| b[0] == *expected);
            if same {
                self.breakpoints.insert(address.0);
            }
            done.push(if same {
                Armed::Yes
            } else {
                Armed::Refused(Loss::TextChanged)
            });
        }
        // While nobody could be held at one they can wait for the next stop.
        if self.has_room() && self.standing != self.breakpoints {
            self.stop();
        }
        done
    }

    fn clear_breakpoints(&mut self) {
        // They go with the next stop; who reaches one until then is let go.
        self.look_around();
        self.breakpoints.clear();
    }

    fn watches(&self, _space: SpaceId) -> usize {
        WATCHES
    }

    fn watch(&mut self, _space: SpaceId, slot: usize, watch: Watch) -> bool {
        self.fetch_registers(None);
        let kind = match watch.watch_for {
            WatchFor::Writes => PointKind::Write,
            WatchFor::ReadsAndWrites => PointKind::Access,
        };
        let point = Point {
            kind,
            address: watch.bytes.start.0,
            len: watch.bytes.len,
        };
        let meant_by = self
            .vcpus
            .values()
            .find(|vcpu| vcpu.user.is_some_and(|bytes| bytes.overlaps(watch.bytes)));
        let set = Set {
            watch,
            point,
            before: self
                .vcpus
                .iter()
                .filter_map(|(number, vcpu)| Some((*number, vcpu.registers?)))
                .collect(),
            late: BTreeSet::new(),
            bytes: None,
            last: None,
            root: meant_by.and_then(|vcpu| root(vcpu.registers.as_ref()?)),
            fired: 0,
            stood: self.stood.before(),
        };
        self.orders.push(Request::Insert(point));
        self.sets[slot] = Some(set);
        true
    }

    fn unwatch(&mut self, _space: SpaceId, slot: usize) -> u64 {
        // What happened until now is heard of first.
        self.stop();
        self.hear_of_late_hit(slot);
        let Some(set) = self.sets[slot].take() else {
            return 0;
        };
        self.orders.push(Request::Remove(set.point));
        self.stood.window_over(set.stood);
        set.fired
    }

    fn resume(&mut self, task: TaskId) {
        let Some(vcpu) = self.vcpus.get_mut(&task.0) else {
            return;
        };
        vcpu.user = None;
        // Nobody can be added to those that run.
        if std::mem::take(&mut vcpu.held) && self.gdb.is_running() {
            self.stop();
        }
    }

    fn read(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if self.text(address.0, buffer.len()).is_some() {
            // Code has no effects when it is read, and more of it will be asked for.
            let Some(code) = self.peek(address.0, buffer.len()) else {
                return false;
            };
            buffer.copy_from_slice(&code);
            self.hide_breakpoints(address.0, buffer);
            return true;
        }
        let answers = self.ask(&self.reading(address.0, buffer.len()));
        self.was_read(address, buffer, answers)
    }

    fn code(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if let Some(text) = self.text(address.0, buffer.len()) {
            buffer.copy_from_slice(text);
            return true;
        }
        self.read(space, address, buffer)
    }

    fn read_then_run(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        if !self.pending.is_empty() {
            return self.read(space, address, buffer);
        }
        // A look now costs no round trip of its own.
        let look = self.due_look();
        let mut requests = self.reading(address.0, buffer.len()).to_vec();
        let own = requests.len();
        requests.extend_from_slice(look.requests());
        let mut answers = self.ask_and_go_on(&requests);
        if let Some(answers) = &mut answers {
            let seen = answers.split_off(own.min(answers.len()));
            self.seen(&look, seen);
        }
        self.was_read(address, buffer, answers)
    }

    fn go_on(&mut self) {
        if self.pending.is_empty() {
            self.let_go();
        }
    }

    fn context(&mut self, task: TaskId) -> Option<Context> {
        self.context_of(task.0)
    }

    fn look_after(&self, looks: u32) -> Duration {
        let first = if self.stalled {
            FIRST_LOOK_STALLED
        } else {
            FIRST_LOOK
        };
        first * 2u32.saturating_pow(looks.min(8))
    }

    fn elapsed(&mut self, held: Duration) {
        if held < LONG {
            return;
        }
        self.elapsed = self.elapsed.wrapping_add(1);
        if self.elapsed.is_multiple_of(LOOKED_AT) {
            self.stalled(SPACE);
        }
    }

    fn take_lively(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.lively)
    }

    fn has_room(&self) -> bool {
        self.held() < self.most_held()
    }

    fn is_crowded(&self) -> bool {
        self.held() > self.most_held()
    }

    fn standstill(&self) -> Option<Standstill> {
        Some(self.stood.so_far())
    }

    fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    fn company(&mut self, task: TaskId, bytes: Bytes) -> Company {
        if bytes.start.0 < USER_END
            && let Some(vcpu) = self.vcpus.get_mut(&task.0)
        {
            vcpu.user = Some(bytes);
        }
        match self.vcpus.len() {
            0 | 1 => Company::Alone,
            _ if self.is_device(task.0, bytes.start.0) => Company::Device,
            vcpus => Company::Tasks(vcpus - 1),
        }
    }

    fn stalled(&mut self, _space: SpaceId) -> bool {
        self.fetch_registers(None);
        self.stalled = self.vcpus.values().all(|vcpu| {
            let waits = |rip: u64| {
                self.function_at(rip)
                    .is_some_and(|name| WAITING.contains(&name))
            };
            vcpu.held || vcpu.registers.is_some_and(|r| waits(r.general.rip))
        });
        self.stalled
    }

    fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }

    fn stack(&mut self, _task: TaskId, registers: &Registers) -> Vec<Avma> {
        // One round trip for what most stacks need.
        self.peek_all(&[top_of_stack(registers)]);
        let mut unwinder = std::mem::take(&mut self.unwinder);
        let mut read = |address: u64| match self.text(address, 8) {
            Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
            None => self.stack_word(address),
        };
        let frames = unwinder.unwind(registers, &mut read);
        self.unwinder = unwinder;
        // What ran before the kernel was entered is another program's.
        let kernel = |address: &u64| *address >= USER_END;
        frames.into_iter().take_while(kernel).map(Avma).collect()
    }

    fn region(&mut self, _space: SpaceId, address: Avma) -> Region {
        self.region_of(address)
    }

    fn thread_name(&mut self, task: TaskId) -> ThreadName {
        self.name_of(task.0)
    }

    fn instruction_before(&mut self, _space: SpaceId, address: Avma) -> Option<Avma> {
        let module = self.module_at(Avma(address.0.wrapping_sub(1)))?;
        let image = module.image.as_ref()?;
        let before = image.instruction_before(module.svma(address))?;
        Some(module.avma(before))
    }

    fn thread_time(&mut self) -> Duration {
        self.now() * u32::try_from(self.vcpus.len()).unwrap_or(u32::MAX)
    }

    fn freeze(&mut self, _tasks: &[TaskId]) {}

    fn write_core(&mut self, _space: SpaceId, _first: &[TaskId], _path: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn unseen(&self) -> Vec<Unseen> {
        let note = |(what, why): (&String, &String)| Unseen {
            what: what.clone(),
            why: why.clone(),
        };
        self.unseen.iter().map(note).collect()
    }
}

/// The part of a stack that most of what is told of it is in.
pub(super) const fn top_of_stack(registers: &Registers) -> (u64, usize) {
    (registers.gpr[4] & !7, STACK_READ)
}

impl Vm {
    /// A word of a stack, of which more will be asked for.
    fn stack_word(&mut self, address: u64) -> Option<u64> {
        if !self.peeked.has(address, 8) {
            self.peek_all(&[(address, STACK_READ)]);
        }
        self.peeked.word(address)
    }

    /// Whether the last of these answers is memory, which then is in the buffer.
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
        for at in self.standing.range(address..end) {
            let byte = &mut read[(at - address) as usize];
            if let (INT3, Some(text)) = (*byte, self.text(*at, 1)) {
                *byte = text[0];
            }
        }
    }

    /// Takes note of bytes that are under watch and were not read yet.
    fn note_bytes(&mut self, address: u64, read: &[u8]) {
        for set in self.sets.iter_mut().flatten() {
            let at = set.watch.bytes;
            let from = usize::try_from(at.start.0.wrapping_sub(address)).ok();
            let piece = from.and_then(|from| read.get(from..from.checked_add(at.len as usize)?));
            if let Some(piece) = piece {
                set.bytes.get_or_insert_with(|| piece.to_vec());
                set.last = Some(piece.to_vec());
            }
        }
    }

    /// When a CPU touches watched bytes and we stop the machine, both at once, the
    /// stub tells of our stop only, and of the other when it is too late. But the
    /// CPU stands right behind its access, and that can be seen.
    fn hear_of_late_hit(&mut self, slot: usize) {
        let Some(set) = &self.sets[slot] else { return };
        if set.fired > 0 || set.bytes == set.last {
            return;
        }
        let watched = set.watch.bytes;
        self.fetch_registers(None);
        let standing: Vec<(u32, VcpuRegisters)> = self
            .vcpus
            .iter()
            .filter(|(_, vcpu)| !vcpu.held)
            .filter_map(|(number, vcpu)| Some((*number, vcpu.registers?)))
            .collect();
        for (number, registers) in standing {
            let Some(set) = &self.sets[slot] else { return };
            if set.has_moved(number, &registers) && self.just_wrote(&registers.general, watched) {
                self.touched(number, watched.start.0);
                return;
            }
        }
    }

    /// Whether the instruction that a CPU stands behind has written these bytes.
    fn just_wrote(&mut self, registers: &Registers, watched: Bytes) -> bool {
        let before = self.instruction_before(SPACE, Avma(registers.rip));
        let instruction = before.and_then(|pc| {
            let len = usize::try_from(registers.rip.wrapping_sub(pc.0)).ok()?;
            Instruction::decode(self.text(pc.0, len)?, pc.0)
        });
        instruction.is_some_and(|instruction| {
            instruction.accesses().iter().any(|access| {
                let after = access.bytes_after(registers);
                access.kind.writes() && matches!(after, After::Exact(b) if b.overlaps(watched))
            })
        })
    }

    /// Code as it was read from the machine, if it is that.
    fn text(&self, address: u64, len: usize) -> Option<&[u8]> {
        let module = self.module_at(Avma(address))?;
        let svma = module.svma(Avma(address));
        let image = module.image.as_ref()?;
        image.function_at(svma)?;
        image.bytes_at(svma, len).filter(|bytes| bytes.len() == len)
    }
}
