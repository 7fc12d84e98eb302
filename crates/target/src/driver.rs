//! The window driver: Figure 2 of the DataCollider paper, written once for every
//! backend and for several windows at a time.
//!
//! A window opens when a task reaches an armed site: the bytes it is about to access
//! are watched in every other task, and read. It ends when its delay is over, when no
//! other task can make progress, when the bytes have changed, or when a hit was
//! accepted. Then the watches are cleared *before* the task is resumed, and hits that
//! fired before but were not delivered yet are waited for: the machine counts what
//! fired, so nothing is guessed. A debug register is reused only when no hit of its
//! last window is outstanding; together with the window's number in each hit this
//! keeps stale traps out of later windows.

mod open;
mod target;

use crate::{
    Arm, Capacity, Event, Hint, Machine, OtherTasks, Stop, Target, Watch, WatchFor, windows_at_once,
};
use open::{OpenWindow, Phase, Slot};
use redhanded_image::Instruction;
use redhanded_model::{
    AccessKind, Avma, Bytes, Hit, Loss, Losses, ModuleId, Registers, SpaceId, TaskId, WindowEnd,
    WindowId, WindowRecord, pieces,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// When it is first checked whether any other task can make progress.
const STALL_CHECK_AFTER: Duration = Duration::from_micros(200);
/// How long outstanding hits are waited for after a window.
const DRAIN_FOR: Duration = Duration::from_millis(2);
/// A site that was armed for this long before it fired is in rarely executed code.
const RARE_AFTER: Duration = Duration::from_millis(300);
/// The longest run of bytes that debug registers are used for.
const WIDEST_WATCH: u64 = 32;
/// The longest run of bytes that is re-read, for a string instruction.
const WIDEST_READ: u64 = 4096;

/// Drives windows over a [`Machine`], which makes it a [`Target`].
pub struct Driver<M: Machine> {
    machine: M,
    armed: HashMap<(SpaceId, u64), (Arm, Duration)>,
    open: Vec<OpenWindow>,
    /// The debug registers of each space.
    slots: HashMap<SpaceId, Vec<Slot>>,
    events: VecDeque<Event>,
    next_window: u64,
    allowance: Duration,
    held: Duration,
    losses: Losses,
}

impl<M: Machine> Driver<M> {
    /// Drives windows over `machine`.
    pub fn new(machine: M) -> Self {
        Self {
            machine,
            armed: HashMap::new(),
            open: Vec::new(),
            slots: HashMap::new(),
            events: VecDeque::new(),
            next_window: 1,
            allowance: Duration::ZERO,
            held: Duration::ZERO,
            losses: Losses::default(),
        }
    }

    /// The machine below.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Ends every window early and gives the machine back.
    pub fn into_machine(mut self) -> M {
        self.cut_all();
        self.machine
    }

    fn cut_all(&mut self) {
        while let Some(window) = self.open.pop() {
            self.unwatch(&window);
            self.held += window.held(self.machine.now());
            for task in window.held_tasks() {
                self.machine.resume(task);
            }
        }
    }

    /// A site fired.
    fn sampled(&mut self, task: TaskId, registers: Registers) {
        let pc = Avma(registers.rip);
        let space = self.machine.space_of(task);
        let Some((arm, since)) = self.armed.remove(&(space, pc.0)) else {
            // Another task got there first: the site is no longer armed.
            self.machine.resume(task);
            return;
        };
        let arrived = self.machine.now();
        match self.open_window((task, space), registers, arm, arrived.saturating_sub(since)) {
            Ok(()) => {}
            Err(loss) => {
                self.machine.resume(task);
                self.held += self.machine.now().saturating_sub(arrived);
                self.events.push_back(Event::Passed {
                    module: arm.module,
                    svma: arm.svma,
                    loss,
                });
            }
        }
    }

    fn open_window(
        &mut self,
        (task, space): (TaskId, SpaceId),
        registers: Registers,
        arm: Arm,
        armed_for: Duration,
    ) -> Result<(), Loss> {
        if self.machine.capacity() == Capacity::Exceeded {
            return Err(Loss::TooManyWindows);
        }
        let delay = arm.plan.delay.in_context(self.machine.context(task));
        if delay.is_zero() && !arm.plan.delay.task.is_zero() {
            return Err(Loss::InInterrupt);
        }
        // Hot code would use up the allowance as soon as there is some. A part of it is
        // reserved for code that is rarely reached.
        let reserved = if armed_for < RARE_AFTER {
            (delay * 4).min(self.allowance / 5)
        } else {
            Duration::ZERO
        };
        let left = self
            .allowance
            .saturating_sub(reserved)
            .saturating_sub(self.committed());
        if left.is_zero() {
            return Err(Loss::OverBudget);
        }
        let pc = Avma(registers.rip);
        let (bytes, kind) = self
            .sampled_access(task, space, pc, &registers)
            .ok_or(Loss::UnreadableOperand)?;
        let others = self.machine.other_tasks(task, bytes);
        let tasks = match others {
            OtherTasks::Absent => return Err(Loss::Alone),
            OtherTasks::Watchable(tasks) => tasks,
            OtherTasks::Unwatchable => 0,
            OtherTasks::Device => return Err(Loss::DeviceMemory),
        };
        // Two held tasks cannot collide with each other, so at least half of the tasks
        // stay free to run into a watch. In particular a task that is about to access
        // watched bytes is resumed, and caught doing it.
        let here = || self.open.iter().filter(|w| w.record.space == space);
        let most = windows_at_once(tasks, self.machine.watches(space));
        if here().count() >= most || here().any(|w| w.record.bytes.overlaps(bytes)) {
            return Err(Loss::TooManyWindows);
        }
        let id = WindowId(self.next_window);
        self.next_window += 1;
        let mut window = OpenWindow::new(id, task, registers, arm, bytes, kind);
        window.record.pc = pc;
        window.record.space = space;
        if arm.plan.strategy.watches() && others != OtherTasks::Unwatchable {
            self.watch(&mut window)?;
        }
        // Read only now: a write before the watch is set would be a change of unknown
        // origin.
        let mut before = vec![0; bytes.len as usize];
        if !self.machine.read_last(space, bytes.start, &mut before) {
            self.unwatch(&window);
            return Err(Loss::UnreadableOperand);
        }
        window.record.after.clone_from(&before);
        window.record.before = before;
        // Whether a task of another process is blocked is not known.
        window.plan.end_early &= others != OtherTasks::Unwatchable;
        let now = self.machine.now();
        window.opened = now;
        window.deadline = now + delay.min(left);
        window.next_recheck = now + self.machine.recheck_after(0);
        self.open.push(window);
        Ok(())
    }

    /// Time held, with what the open windows may still hold.
    fn committed(&self) -> Duration {
        let now = self.machine.now();
        let ahead: Duration = self
            .open
            .iter()
            .map(|window| window.deadline.saturating_sub(now))
            .sum();
        self.held() + ahead
    }

    /// The bytes the instruction at `pc` is about to access.
    fn sampled_access(
        &mut self,
        task: TaskId,
        space: SpaceId,
        pc: Avma,
        registers: &Registers,
    ) -> Option<(Bytes, AccessKind)> {
        let mut code = [0u8; 15];
        // The last instruction of a mapping may be shorter than the buffer.
        let readable = (1..=code.len())
            .rev()
            .find(|len| self.machine.read_code(space, pc, &mut code[..*len]))?;
        let instruction = Instruction::decode(&code[..readable], pc.0)?;
        if let Some(gather) = instruction.gather() {
            // One of the elements, another one in the next window.
            let elements = gather.before(registers, &*self.machine.vectors(task)?);
            let turn = self.next_window.checked_rem(elements.len() as u64)?;
            return Some((elements[turn as usize], gather.kind));
        }
        let access = instruction.sampled_access()?;
        let bytes = access.bytes_before(registers)?;
        if bytes.len == 0 || bytes.end() < bytes.start.0 {
            return None;
        }
        let len = bytes.len.min(WIDEST_READ);
        // A string instruction that runs downwards begins at the upper end.
        let start = if registers.direction_down() {
            bytes.end() - len
        } else {
            bytes.start.0
        };
        Some((Bytes::new(Avma(start), len), access.kind))
    }

    /// Watches the window's bytes. If debug registers are only busy, the sample is given
    /// up and the site armed again later: without them a change would be seen, but not
    /// who made it. If there are too few even when all are free, as much as possible is
    /// watched and the rest re-read.
    fn watch(&mut self, window: &mut OpenWindow) -> Result<(), Loss> {
        let now = self.machine.now();
        let space = window.record.space;
        let watches = self.machine.watches(space);
        let slots = self.slots.entry(space).or_default();
        slots.resize(watches, Slot::default());
        let mut free: Vec<usize> = (0..watches)
            .filter(|slot| slots[*slot].is_free(now))
            .collect();
        // The one that was cleared first is least likely to have hits outstanding.
        free.sort_by_key(|slot| slots[*slot].cleared);
        let wanted = window.watchable(WIDEST_WATCH);
        let cover = match pieces(wanted, free.len()) {
            Some(cover) => cover,
            None if free.len() < watches => return Err(Loss::NoDebugRegister),
            // No register can be used at all, which the run reports once.
            None if free.is_empty() => return Ok(()),
            None => {
                window.record.losses.push(Loss::PartlyWatched);
                let mut cover = pieces(wanted, usize::MAX).unwrap_or_default();
                cover.sort_by_key(|piece| std::cmp::Reverse(piece.len));
                cover.truncate(free.len());
                cover
            }
        };
        let watch_for = if window.record.kind.writes() {
            WatchFor::ReadsAndWrites
        } else {
            WatchFor::Writes
        };
        for (slot, piece) in free.into_iter().zip(cover) {
            let watch = Watch {
                bytes: piece,
                watch_for,
                number: window.record.id.0,
            };
            if self.machine.watch(space, slot, watch) {
                slots[slot].window = Some(window.record.id);
                slots[slot].delivered = 0;
                slots[slot].missing = 0;
                window.slots.push((slot, piece));
            } else {
                window.record.losses.push(Loss::Unwatched);
            }
        }
        Ok(())
    }

    /// Clears the window's watches; how many hits are outstanding.
    fn unwatch(&mut self, window: &OpenWindow) -> u64 {
        let now = self.machine.now();
        let mut outstanding = 0;
        let Some(slots) = self.slots.get_mut(&window.record.space) else {
            return 0;
        };
        for (slot, _) in &window.slots {
            let state = &mut slots[*slot];
            if state.window != Some(window.record.id) {
                continue;
            }
            let fired = self.machine.unwatch(window.record.space, *slot);
            let missing = fired.saturating_sub(state.delivered);
            outstanding += missing;
            state.last = state.window.take();
            state.missing = missing;
            state.cleared = now;
            state.busy_until = now + DRAIN_FOR;
        }
        outstanding
    }

    /// A watch fired.
    fn caught(&mut self, task: TaskId, registers: Registers, number: u64, address: Avma) {
        let found = self.open.iter().position(|window| {
            window.record.id.0 == number && window.slots.iter().any(|(_, p)| p.start == address)
        });
        let Some(index) = found else {
            // The window has a hit already, or is over.
            let slot = self
                .slots
                .values_mut()
                .flatten()
                .find(|slot| slot.missing > 0 && slot.last == Some(WindowId(number)));
            if let Some(slot) = slot {
                slot.missing -= 1;
            } else {
                self.losses.add(Loss::StaleTrap);
            }
            self.machine.resume(task);
            return;
        };
        let window = &mut self.open[index];
        let space = window.record.space;
        let slots = self.slots.entry(space).or_default();
        for (slot, piece) in &window.slots {
            let state = &mut slots[*slot];
            if piece.start == address && state.window == Some(window.record.id) {
                state.delivered += 1;
            } else if piece.start == address {
                state.missing = state.missing.saturating_sub(1);
            }
        }
        // A second hit while the first is examined adds nothing.
        if window.record.hit.is_some() || window.record.task == task {
            self.machine.resume(task);
            return;
        }
        let watched = window
            .slots
            .iter()
            .find(|(_, piece)| piece.start == address)
            .map_or(window.record.bytes, |(_, piece)| *piece);
        let mut bytes_now = vec![0; window.record.bytes.len as usize];
        if !self
            .machine
            .read(space, window.record.bytes.start, &mut bytes_now)
        {
            bytes_now.clone_from(&window.record.before);
        }
        window.record.after.clone_from(&bytes_now);
        window.record.hit = Some(Hit {
            task,
            registers,
            watched,
            bytes_now,
        });
        window.caught = Some(self.machine.now());
        window.phase = Phase::Collided;
        let mut record = window.record.clone();
        record.end = WindowEnd::Collided;
        record.held = window.held(self.machine.now());
        self.events.push_back(Event::Collision(record));
    }

    /// Advances the open windows; when that is due again.
    fn advance_all(&mut self, deadline: Duration) -> Duration {
        let mut next = deadline;
        let mut index = 0;
        while index < self.open.len() {
            let now = self.machine.now();
            if self.advance(index, now) {
                continue;
            }
            let window = &self.open[index];
            next = next.min(match window.phase {
                Phase::Waiting => window.deadline.min(window.next_recheck),
                Phase::Draining(until) => until,
                Phase::Collided => deadline,
            });
            index += 1;
        }
        next
    }

    /// Advances one window; whether it was removed from the list.
    fn advance(&mut self, index: usize, now: Duration) -> bool {
        match self.open[index].phase {
            Phase::Collided => false,
            Phase::Draining(until) if now < until => false,
            Phase::Draining(_) => self.finish(index),
            Phase::Waiting
                if now < self.open[index].deadline.min(self.open[index].next_recheck) =>
            {
                false
            }
            Phase::Waiting => {
                let rereads = self.open[index].plan.strategy.rereads();
                let seen = if rereads { self.reread(index) } else { None };
                let end = if let Some(seen) = seen {
                    seen
                } else if now >= self.open[index].deadline {
                    WindowEnd::Elapsed
                } else if self.is_stalled(index, now) {
                    WindowEnd::Blocked
                } else {
                    let window = &mut self.open[index];
                    window.rechecks += 1;
                    window.next_recheck = now + self.machine.recheck_after(window.rechecks);
                    return false;
                };
                self.open[index].record.end = end;
                if end == WindowEnd::Elapsed {
                    let held = self.open[index].held(now);
                    self.machine.hint(Hint::Elapsed(held));
                }
                let outstanding = {
                    let window = self.open[index].clone();
                    self.unwatch(&window)
                };
                // The bytes are not read again: nobody watches them any more.
                if outstanding > 0 {
                    self.open[index].phase = Phase::Draining(self.machine.now() + DRAIN_FOR);
                    return false;
                }
                self.finish(index)
            }
        }
    }

    /// Reads the bytes again; what became of them since the window opened, if anything did.
    fn reread(&mut self, index: usize) -> Option<WindowEnd> {
        let record = &mut self.open[index].record;
        let mut now = vec![0; record.before.len()];
        let read = self
            .machine
            .read(record.space, record.bytes.start, &mut now);
        if read && now != record.before {
            record.after = now;
        }
        if record.changed() {
            return Some(WindowEnd::Changed);
        }
        (!read && is_unmapped(&mut self.machine, record)).then_some(WindowEnd::Unmapped)
    }

    fn is_stalled(&mut self, index: usize, now: Duration) -> bool {
        let window = &mut self.open[index];
        if !window.plan.end_early || now < window.opened + STALL_CHECK_AFTER {
            return false;
        }
        // Twice in a row, because a task may be between two system calls.
        window.stalled = if self.machine.is_stalled(window.record.space) {
            window.stalled + 1
        } else {
            0
        };
        window.stalled >= 2
    }

    /// Ends a window whose waiting and draining are over; whether it was removed.
    fn finish(&mut self, index: usize) -> bool {
        let now = self.machine.now();
        let window = &mut self.open[index];
        let unmapped = window.record.end == WindowEnd::Unmapped;
        if window.plan.strategy.rereads() && (window.record.changed() || unmapped) {
            window.phase = Phase::Collided;
            window.record.held = window.held(now);
            let record = window.record.clone();
            self.events.push_back(Event::Collision(record));
            return false;
        }
        let mut window = self.open.swap_remove(index);
        window.record.held = window.held(now);
        self.held += window.record.held;
        window.record.after.clone_from(&window.record.before);
        self.machine.resume(window.record.task);
        self.events.push_back(Event::Window(window.record));
        true
    }

    fn task_gone(&mut self, task: TaskId) {
        if let Some(index) = self.open.iter().position(|w| w.record.task == task) {
            let mut window = self.open.swap_remove(index);
            self.unwatch(&window);
            window.record.end = WindowEnd::Cut;
            window.record.held = window.held(self.machine.now());
            self.held += window.record.held;
            window.record.losses.push(Loss::ThreadGone);
            if let Some(hit) = &window.record.hit {
                self.machine.resume(hit.task);
            }
            self.events.push_back(Event::Window(window.record));
        }
        for window in &mut self.open {
            if window
                .record
                .hit
                .as_ref()
                .is_some_and(|hit| hit.task == task)
            {
                window.record.hit = None;
                window.phase = Phase::Waiting;
            }
        }
    }

    /// Ends windows whose tasks are gone.
    fn cut(&mut self, which: impl Fn(&OpenWindow) -> bool) {
        let now = self.machine.now();
        for window in self.open.extract_if(.., |window| which(window)) {
            self.held += window.held(now);
            let mut record = window.record;
            record.end = WindowEnd::Cut;
            record.hit = None;
            record.after.clone_from(&record.before);
            record.losses.push(Loss::ThreadGone);
            self.events.push_back(Event::Window(record));
        }
    }

    fn handle(&mut self, stop: Stop) {
        match stop {
            Stop::Breakpoint { task, registers } => self.sampled(task, registers),
            Stop::Watch {
                task,
                registers,
                number,
                address,
            } => self.caught(task, registers, number, address),
            Stop::Fatal {
                task,
                registers,
                signal,
            } => self.events.push_back(Event::Fatal {
                task,
                registers,
                signal,
            }),
            Stop::TaskGone(task) => self.task_gone(task),
            Stop::ModulesChanged => {
                let modules = self.machine.modules().iter();
                let here: HashSet<ModuleId> = modules.map(|module| module.id).collect();
                self.armed.retain(|_, (arm, _)| here.contains(&arm.module));
                self.events.push_back(Event::ModulesChanged);
            }
            Stop::SecondTask(space) => self.events.push_back(Event::SecondTask(space)),
            Stop::SpaceGone(space) => {
                self.armed.retain(|(known, _), _| *known != space);
                self.slots.remove(&space);
                self.cut(|window| window.record.space == space);
                self.events.push_back(Event::ModulesChanged);
            }
            Stop::Interrupted { signal, by_process } => {
                self.events
                    .push_back(Event::Interrupted { signal, by_process });
            }
            Stop::Ended(ending) => {
                self.cut(|_| true);
                self.events.push_back(Event::Ended(ending));
            }
            Stop::Deadline => {}
        }
    }
}

/// Whether bytes that could be read when the window opened, and cannot be now, are unmapped. They
/// are not if the whole space goes, or if no more was taken away than the permission.
fn is_unmapped<M: Machine>(machine: &mut M, record: &WindowRecord) -> bool {
    let lives = |machine: &mut M| machine.read(record.space, record.pc, &mut [0]);
    if !lives(machine) {
        return false;
    }
    let mappings = machine.mappings(record.space);
    let maps = |address: u64| mappings.iter().any(|one| one.range.contains(&address));
    // The list is whole if it has the code, and if the space lives on after it was made. A string
    // instruction may end before its last byte.
    let gone = !maps(record.bytes.start.0) && !maps(record.bytes.end() - 1);
    gone && maps(record.pc.0) && lives(machine)
}
