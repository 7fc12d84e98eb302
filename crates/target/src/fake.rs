//! A scripted machine: tasks that access memory step by step in virtual time.
//!
//! Most tests of `detect` run on it. It is deterministic, its instructions are real
//! x86-64 ones (so decoding and confirmation are tested too), and it has what matters
//! of a real machine: debug registers, tasks that run while others are held, locks
//! that block, and on request traps that come too late.

use crate::{
    Armed, Batch, Control, Ending, Hint, Holds, Inspect, Mapping, Module, OtherTasks,
    RotationLimits, Stop, TargetError, Watch, WatchFor,
};
use redhanded_model::{
    AccessKind, Avma, Bytes, ModuleId, Region, Register, Registers, Site, SpaceId, Svma, TaskId,
    ThreadName,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Where the fake module's code begins.
const TEXT: u64 = 0x1_0000;
/// Room for one instruction.
const STRIDE: u64 = 16;
/// The size of a page.
const PAGE: u64 = 0x1000;
/// The only space.
const SPACE: SpaceId = SpaceId(1);

/// One thing a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Accesses memory by the instruction of this site.
    Access {
        /// The site, as [`Fake::site`] gave it.
        site: usize,
        /// Where.
        at: u64,
        /// What it stores or adds.
        value: u64,
    },
    /// Takes a lock, waiting for it if need be.
    Lock(u32),
    /// Releases a lock.
    Unlock(u32),
    /// Computes for this long.
    Work(Duration),
    /// Unmaps the page at this address, or only takes the permission to access it.
    Unmap {
        /// Where.
        at: u64,
        /// Whether it remains mapped, without permissions.
        keeps: bool,
    },
}

#[derive(Clone, Debug)]
struct FakeTask {
    id: TaskId,
    steps: Vec<Step>,
    next: usize,
    rounds: u64,
    ready: Duration,
    stopped: bool,
    /// Its breakpoint at the current site has fired.
    passed: bool,
}

#[derive(Clone, Copy, Debug)]
struct FakeSite {
    kind: AccessKind,
    size: u64,
    locked: bool,
}

#[derive(Clone, Copy, Debug)]
struct FakeWatch {
    watch: Watch,
    fired: u64,
}

/// A scripted machine.
pub struct Fake {
    now: Duration,
    sites: Vec<FakeSite>,
    tasks: Vec<FakeTask>,
    memory: HashMap<u64, u8>,
    /// The pages that cannot be read, and whether they are mapped.
    unreadable: HashMap<u64, bool>,
    handled_signals: u64,
    /// When each was set.
    breakpoints: HashMap<u64, Duration>,
    rotation: Option<RotationLimits>,
    longest_armed: Duration,
    watches: Vec<Option<FakeWatch>>,
    locks: HashMap<u32, TaskId>,
    injected: VecDeque<Stop>,
    module: Vec<Arc<Module>>,
    step_time: Duration,
    calls: Option<Vec<&'static str>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl Fake {
    /// Allows only a few breakpoints at once.
    pub fn rotate(&mut self, limits: RotationLimits) {
        self.rotation = Some(limits);
    }

    /// Makes the program handle these signals; bit 0 is signal 1.
    pub fn handle_signals(&mut self, signals: u64) {
        self.handled_signals = signals;
    }

    /// Records the calls that matter for [`Batch`]'s contract from now on.
    pub fn record_calls(&mut self) {
        self.calls = Some(Vec::new());
    }

    /// The recorded calls, by name.
    pub fn take_calls(&mut self) -> Vec<&'static str> {
        self.calls.take().unwrap_or_default()
    }

    fn called(&mut self, name: &'static str) {
        self.calls.iter_mut().for_each(|calls| calls.push(name));
    }

    /// The longest time a breakpoint was set without being reached.
    #[must_use]
    pub fn longest_armed(&self) -> Duration {
        let set = self.breakpoints.values().map(|since| self.now - *since);
        set.fold(self.longest_armed, Duration::max)
    }

    /// A machine with four debug registers and nothing to do.
    #[must_use]
    pub fn new() -> Self {
        let module = Module {
            id: ModuleId(0),
            space: SPACE,
            name: "fake".to_owned(),
            bias: TEXT,
            range: TEXT..TEXT * 0x1000,
            image: None,
        };
        Self {
            now: Duration::ZERO,
            sites: Vec::new(),
            tasks: Vec::new(),
            memory: HashMap::new(),
            unreadable: HashMap::new(),
            handled_signals: 0,
            breakpoints: HashMap::new(),
            rotation: None,
            longest_armed: Duration::ZERO,
            watches: vec![None; 4],
            locks: HashMap::new(),
            injected: VecDeque::new(),
            module: vec![Arc::new(module)],
            step_time: Duration::from_micros(1),
            calls: None,
        }
    }

    /// Adds an instruction that does this to `size` bytes; its number.
    pub fn site(&mut self, kind: AccessKind, size: u64, locked: bool) -> usize {
        let number = self.sites.len();
        let site = FakeSite { kind, size, locked };
        self.sites.push(site);
        let pc = TEXT + number as u64 * STRIDE;
        for (offset, byte) in encode(site).into_iter().enumerate() {
            self.memory.insert(pc + offset as u64, byte);
        }
        number
    }

    /// All instructions as sites of the fake module. A site's number is its address
    /// divided by 16.
    #[must_use]
    pub fn sampling_set(&self) -> Vec<Site> {
        let sites = self.sites.iter().enumerate();
        sites
            .map(|(number, site)| Site {
                svma: Svma(number as u64 * STRIDE),
                function: number as u32,
                size: site.size as u16,
                kind: site.kind,
            })
            .collect()
    }

    /// Adds a task that does `steps` this many times.
    pub fn task(&mut self, steps: Vec<Step>, rounds: u64) -> TaskId {
        let id = TaskId(100 + self.tasks.len() as u32);
        self.tasks.push(FakeTask {
            id,
            steps,
            next: 0,
            rounds,
            ready: Duration::ZERO,
            stopped: false,
            passed: false,
        });
        id
    }

    /// Makes a task report a watch hit that it did not have: right after the instruction
    /// of `site`, whose operand was at `at`.
    pub fn inject_hit(&mut self, task: TaskId, site: usize, at: u64, number: u64, watched: Avma) {
        let mut registers = self.registers_at(site, at, 0);
        registers.rip += encode(self.sites[site]).len() as u64;
        self.injected.push_back(Stop::Watch {
            task,
            registers,
            number,
            address: watched,
        });
    }

    /// The bytes of memory at `address`.
    #[must_use]
    pub fn value(&self, address: u64, size: u64) -> u64 {
        (0..size.min(8)).rev().fold(0, |value, offset| {
            value << 8 | u64::from(self.memory.get(&(address + offset)).copied().unwrap_or(0))
        })
    }

    fn copy(&self, address: Avma, buffer: &mut [u8]) -> bool {
        if self.unreadable.contains_key(&(address.0 / PAGE)) {
            return false;
        }
        for (at, byte) in (address.0..).zip(buffer) {
            *byte = self.memory.get(&at).copied().unwrap_or(0);
        }
        true
    }

    fn registers_at(&self, site: usize, at: u64, value: u64) -> Registers {
        let mut registers = Registers {
            rip: TEXT + site as u64 * STRIDE,
            system_call: -1,
            ..Registers::default()
        };
        registers.set(Register::Rdi, at);
        registers.set(Register::Rax, value);
        registers
    }

    /// The task that runs next, if one can.
    fn runnable(&self) -> Option<usize> {
        (0..self.tasks.len())
            .filter(|index| self.can_run(*index))
            .min_by_key(|index| self.tasks[*index].ready)
    }

    fn can_run(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        if task.stopped || task.rounds == 0 || task.steps.is_empty() {
            return false;
        }
        match task.steps[task.next] {
            Step::Lock(lock) => !self.locks.contains_key(&lock),
            _ => true,
        }
    }

    /// Does a task's next step; the stop that it causes.
    fn step(&mut self, index: usize) -> Option<Stop> {
        let task = &mut self.tasks[index];
        self.now = self.now.max(task.ready);
        task.ready = self.now + self.step_time;
        let (id, step) = (task.id, task.steps[task.next]);
        let mut stop = None;
        match step {
            Step::Lock(lock) => drop(self.locks.insert(lock, id)),
            Step::Unlock(lock) => drop(self.locks.remove(&lock)),
            Step::Work(time) => task.ready = self.now + time,
            Step::Unmap { at, keeps } => drop(self.unreadable.insert(at / PAGE, keeps)),
            Step::Access { site, at, value } => {
                let pc = TEXT + site as u64 * STRIDE;
                if !task.passed && self.breakpoints.remove(&pc).is_some() {
                    task.stopped = true;
                    task.passed = true;
                    return Some(Stop::Breakpoint {
                        task: id,
                        registers: self.registers_at(site, at, value),
                    });
                }
                task.passed = false;
                stop = self.access(index, site, at, value);
            }
        }
        let task = &mut self.tasks[index];
        task.next += 1;
        if task.next == task.steps.len() {
            task.next = 0;
            task.rounds -= 1;
        }
        stop
    }

    fn access(&mut self, index: usize, site: usize, at: u64, value: u64) -> Option<Stop> {
        let FakeSite { kind, size, .. } = self.sites[site];
        let new = match kind {
            AccessKind::Read => None,
            AccessKind::Write => Some(value),
            AccessKind::Update => Some(self.value(at, size).wrapping_add(value)),
        };
        if let Some(new) = new {
            for (offset, byte) in (0..size).zip(new.to_le_bytes()) {
                self.memory.insert(at + offset, byte);
            }
        }
        let touched = Bytes::new(Avma(at), size);
        let watch = self.watches.iter_mut().flatten().find(|watch| {
            watch.watch.bytes.overlaps(touched)
                && (kind.writes() || watch.watch.watch_for == WatchFor::ReadsAndWrites)
        })?;
        watch.fired += 1;
        let (number, address) = (watch.watch.number, watch.watch.bytes.start);
        let task = &mut self.tasks[index];
        task.stopped = true;
        let task = task.id;
        let mut registers = self.registers_at(site, at, value);
        registers.rip += encode(self.sites[site]).len() as u64;
        Some(Stop::Watch {
            task,
            registers,
            number,
            address,
        })
    }
}

/// The instruction of a site: its operand is `[rdi]`, its register rax.
fn encode(site: FakeSite) -> Vec<u8> {
    let mut code = Vec::new();
    if site.locked {
        code.push(0xf0);
    }
    match site.size {
        2 => code.push(0x66),
        8 => code.push(0x48),
        _ => {}
    }
    let narrow = u8::from(site.size != 1);
    code.push(
        match site.kind {
            AccessKind::Read => 0x8a,
            AccessKind::Write => 0x88,
            AccessKind::Update => 0x00,
        } | narrow,
    );
    code.push(0x07);
    code
}

impl Control for Fake {
    fn now(&self) -> Duration {
        self.now
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        if let Some(stop) = self.injected.pop_front() {
            if let Stop::Watch { task, .. } = &stop {
                let id = *task;
                for task in self.tasks.iter_mut().filter(|task| task.id == id) {
                    task.stopped = true;
                }
            }
            return Ok(stop);
        }
        loop {
            let Some(index) = self.runnable() else {
                if self.tasks.iter().all(|task| task.rounds == 0) {
                    return Ok(Stop::Ended(Ending::Exited { status: 0 }));
                }
                self.now = self.now.max(deadline);
                return Ok(Stop::Deadline);
            };
            if self.tasks[index].ready > deadline {
                self.now = self.now.max(deadline);
                return Ok(Stop::Deadline);
            }
            if let Some(stop) = self.step(index) {
                return Ok(stop);
            }
        }
    }

    fn rotation(&self) -> Option<RotationLimits> {
        self.rotation
    }

    fn set_breakpoints(&mut self, _space: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed> {
        let now = self.now;
        self.breakpoints
            .extend(sites.iter().map(|(avma, _)| (avma.0, now)));
        vec![Armed::Yes; sites.len()]
    }

    fn clear_breakpoints(&mut self) {
        for (_, since) in self.breakpoints.drain() {
            self.longest_armed = self.longest_armed.max(self.now - since);
        }
    }

    fn watches(&self, _space: SpaceId) -> usize {
        self.watches.len()
    }

    fn watch(&mut self, _space: SpaceId, slot: usize, watch: Watch) -> bool {
        self.called("watch");
        self.watches[slot] = Some(FakeWatch { watch, fired: 0 });
        true
    }

    fn unwatch(&mut self, _space: SpaceId, slot: usize) -> u64 {
        self.called("unwatch");
        self.watches[slot].take().map_or(0, |watch| watch.fired)
    }

    fn resume(&mut self, id: TaskId) {
        self.called("resume");
        for task in self.tasks.iter_mut().filter(|task| task.id == id) {
            task.stopped = false;
            task.ready = self.now;
        }
    }

    fn other_tasks(&mut self, task: TaskId, _bytes: Bytes) -> OtherTasks {
        self.called("other_tasks");
        let others = self.tasks.iter().filter(|t| t.id != task && t.rounds > 0);
        match others.count() {
            0 => OtherTasks::Absent,
            others => OtherTasks::Watchable(others),
        }
    }

    fn is_stalled(&mut self, _space: SpaceId) -> bool {
        self.called("is_stalled");
        self.runnable().is_none()
    }

    fn thread_time(&mut self) -> Duration {
        self.now
    }
}

impl Inspect for Fake {
    fn modules(&self) -> &[Arc<Module>] {
        &self.module
    }

    fn space_of(&self, _task: TaskId) -> SpaceId {
        SPACE
    }

    fn read(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.called("read");
        self.copy(address, buffer)
    }

    fn instruction_before(&mut self, _space: SpaceId, address: Avma) -> Option<Avma> {
        let pc = (address.0 - 1) / STRIDE * STRIDE;
        let site = self.sites.get(((pc - TEXT) / STRIDE) as usize)?;
        (pc + encode(*site).len() as u64 == address.0).then_some(Avma(pc))
    }

    fn stack(&mut self, _task: TaskId, registers: &Registers) -> Vec<Avma> {
        vec![Avma(registers.rip)]
    }

    fn region(&mut self, _space: SpaceId, _address: Avma) -> Region {
        Region::Heap
    }

    fn mappings(&mut self, _space: SpaceId) -> Vec<Mapping> {
        let unmapped = self.unreadable.iter().filter(|(_, mapped)| !**mapped);
        let mut unmapped: Vec<u64> = unmapped.map(|(page, _)| page * PAGE).collect();
        unmapped.sort_unstable();
        let starts = std::iter::once(0).chain(unmapped.iter().map(|start| start + PAGE));
        let ends = unmapped.iter().copied().chain(std::iter::once(u64::MAX));
        let ranges = starts.zip(ends).map(|(start, end)| start..end);
        let mapping = |range| Mapping {
            range,
            writable: true,
            executable: true,
            holds: Holds::Bytes,
        };
        ranges.map(mapping).collect()
    }

    fn handled_signals(&mut self, _space: SpaceId) -> u64 {
        self.handled_signals
    }

    fn thread_name(&mut self, task: TaskId) -> ThreadName {
        ThreadName {
            tid: task.0,
            name: format!("task-{}", task.0),
            context: None,
        }
    }
}

impl Batch for Fake {
    fn hint(&mut self, hint: Hint) {
        self.called(match hint {
            Hint::Idle => "idle",
            Hint::Elapsed(_) => "elapsed",
            Hint::Allowance(_) => return,
        });
    }

    fn read_code(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.called("read_code");
        self.copy(address, buffer)
    }

    fn read_last(&mut self, _space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.called("read_last");
        self.copy(address, buffer)
    }
}
