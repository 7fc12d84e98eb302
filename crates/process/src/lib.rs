//! Observes live processes.
//!
//! [`Process`] takes a program to start or the number of a running process, and gives
//! the window driver its primitives over that process and its children: stops,
//! registers, memory, breakpoints, watches. It uses ptrace for stops and registers,
//! `/proc/PID/mem` for memory and breakpoint bytes, and perf events or ptrace's debug
//! registers for watches.
//!
//! No other crate sees a wait status: each becomes a [`Stop`], or is handled here if it
//! is the target's own business (signals, forks, new threads). What cannot be traced is
//! refused with the reason: programs that are no x86-64 ELF files, processes of other
//! users, kernel threads, processes with another tracer.

mod attach;
mod detach;
mod dump;
mod events;
mod family;
mod guard;
mod hooks;
mod interrupt;
mod launch;
mod maps;
mod orphans;
mod running;
mod space;
mod tasks;
mod text;
mod tracer;
mod trap;
mod watches;

pub use launch::Program;
pub use tracer::{Front, Guarded, Role, Tracer, split};
pub use watches::WatchBy;

use redhanded_model::{Avma, Bytes, Loss, Region, Registers, SpaceId, TaskId, ThreadName, Unseen};
use redhanded_sys::{self as sys, Ledger, Parent, PcSamples, Tid};
use redhanded_target::images::Images;
use redhanded_target::{
    Armed, Batch, Control, Ending, Inspect, Module, OtherTasks, RotationLimits, Signals, Stop,
    TargetError, Watch,
};
use space::Space;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracer::FROZEN;
use watches::{FOR_SITES, Table, Watches};

/// How long a breakpoint stays in a debug register before another site gets it.
const A_TURN: Duration = Duration::from_millis(10);
/// With more threads than this, checking each of them costs more than ending a window
/// early saves.
const MOST_STALL_CHECKS: usize = 64;
/// How often to read the maps if the dynamic linker cannot be hooked.
const RESCAN_EVERY: Duration = Duration::from_millis(100);

/// How long killed processes may take to disappear.
const DIE_WITHIN: Duration = Duration::from_secs(2);

/// Which child processes are observed as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Follow {
    /// None.
    None,
    /// Those that run another program (exec).
    Exec,
    /// All.
    #[default]
    All,
}

/// How to observe a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Which of its children to observe as well.
    pub follow: Follow,
    /// How to watch bytes.
    pub watch_by: WatchBy,
    /// Never write to the target's memory: arm sites with debug registers.
    pub safe: bool,
}

/// The state of one traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    /// Stopped by us or for us, with the signal to deliver when it is resumed.
    Stopped(i32),
    /// In a group stop that the user or the program asked for.
    GroupStopped,
}

#[derive(Clone, Debug)]
struct Task {
    /// Its process.
    pid: Tid,
    space: SpaceId,
    state: State,
    /// Its stack pointer when it was first seen. Tells which mapping is its stack.
    stack: u64,
    /// Whether the thread believes that it blocks SIGTRAP; see [`trap`].
    owes_trap: bool,
    /// Whether it really blocks SIGTRAP, because a SIGTRAP that is not ours is pending.
    holds_trap: bool,
    /// What its debug registers hold, if they are set through ptrace.
    registers: Table,
}

/// A traced process and those it started.
pub struct Process {
    /// The process that was launched or attached to.
    pid: Tid,
    settings: Settings,
    ledger: Option<Ledger>,
    start: Instant,
    spaces: BTreeMap<SpaceId, Space>,
    next_space: u64,
    tasks: HashMap<Tid, Task>,
    /// New tasks of which only one of two reports has come: their first stop, or their
    /// parent's event.
    newborn: HashMap<Tid, Newborn>,
    /// Processes that trace others. Their children are left to them.
    tracers: BTreeSet<Tid>,
    /// Where threads run, with `safe`.
    pc_samples: HashMap<Tid, PcSamples>,
    /// The modules of all spaces.
    modules: Vec<Arc<Module>>,
    next_module: u32,
    images: Arc<Images>,
    /// Reports that came while we waited for another thread.
    backlog: VecDeque<(Tid, sys::Change)>,
    /// Threads with a pending SIGTRAP of their own, held until its action is set again.
    awaiting_action: Vec<Tid>,
    /// Threads to resume when the driver has handled the stop they reported.
    parked: Vec<Tid>,
    pending: VecDeque<Stop>,
    signals: Arc<Signals>,
    unseen: BTreeSet<(String, String)>,
    /// CPU time of each process, as last seen.
    cpu: HashMap<Tid, Duration>,
    /// The CPU time used before we attached.
    cpu_before: Duration,
    ended: Option<Ending>,
    /// When the program was last continued after a group stop; see [`tracer`].
    continued: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Newborn {
    /// It stopped at this time. Its parent's event, which says what it is, is missing.
    Stopped(Duration),
    /// Its parent's event has come. Its first stop is missing.
    Unseen(Kind),
}

/// What a new task is, if it is not a thread of its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A process with its own memory, to be followed or let go.
    Forked {
        /// The space that it has a copy of, if known.
        from: Option<SpaceId>,
        follow: bool,
        /// Whether its parent believes that it blocks SIGTRAP, so that the child must.
        owes_trap: bool,
    },
}

const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD;

impl Process {
    /// Starts `program`, stopped before its first instruction.
    ///
    /// # Errors
    /// When it cannot be started or traced.
    pub fn launch(
        program: &Program,
        images: Arc<Images>,
        signals: Arc<Signals>,
        settings: Settings,
        tracer: Option<&Tracer>,
    ) -> Result<Self, TargetError> {
        let parent = tracer.map_or(Parent::Caller, |_| Parent::CallersParent);
        let pid = program.start(OPTIONS, signals.held(), parent)?;
        let mut process = Self::new(pid, images, signals, settings, tracer);
        let space = process.new_space(pid).inspect_err(|_| {
            // Nobody asked for it to run unobserved.
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::wait_for(pid);
        })?;
        process.add_task(pid, pid, space);
        process.set_state(pid, State::Stopped(0));
        process.parked = vec![pid];
        process.look_at_program(pid);
        process.wake(space);
        Ok(process)
    }

    fn new(
        pid: Tid,
        images: Arc<Images>,
        signals: Arc<Signals>,
        settings: Settings,
        tracer: Option<&Tracer>,
    ) -> Self {
        sys::let_waiter_run(true);
        Self {
            pid,
            settings,
            ledger: tracer.map(Tracer::ledger),
            start: Instant::now(),
            spaces: BTreeMap::new(),
            next_space: 1,
            tasks: HashMap::new(),
            newborn: HashMap::new(),
            tracers: BTreeSet::new(),
            pc_samples: HashMap::new(),
            modules: Vec::new(),
            next_module: 0,
            images,
            backlog: VecDeque::new(),
            awaiting_action: Vec::new(),
            parked: Vec::new(),
            pending: VecDeque::new(),
            signals,
            unseen: BTreeSet::new(),
            cpu: HashMap::new(),
            cpu_before: Duration::ZERO,
            ended: None,
            continued: None,
        }
    }

    /// Adds a space for process `pid`, not sampled yet.
    fn new_space(&mut self, pid: Tid) -> Result<SpaceId, TargetError> {
        let id = SpaceId(self.next_space);
        let space = Space::new(id, pid, self.ledger)?;
        self.next_space += 1;
        self.spaces.insert(id, space);
        Ok(id)
    }

    /// Starts to sample a space. Threads that already exist get watches of their own.
    fn wake(&mut self, id: SpaceId) {
        let tids: Vec<Tid> = self.tasks_in(id).map(|(tid, _)| *tid).collect();
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        space.awake = true;
        let first = if self.settings.safe { FOR_SITES } else { 0 };
        space.watches = Watches::open(self.settings.watch_by, &tids, first);
        if let Watches::Refused(why) = &space.watches {
            let why = format!(
                "perf events were refused ({why}), so bytes were only re-read; run as root, set \
                 kernel.perf_event_paranoid to 2, or drop --watch"
            );
            self.note("who made a conflicting access", &why);
        }
        self.scan(id);
    }

    /// Reads a space's maps. Returns whether modules came or went.
    fn scan(&mut self, id: SpaceId) -> bool {
        let Some(space) = self.spaces.get_mut(&id) else {
            return false;
        };
        let found = space.scan_modules(&self.images, &mut self.next_module);
        space.hooks.look(&space.modules);
        if !self.settings.safe {
            space.set_hooks();
        }
        for (what, why) in found.unseen {
            self.note(&what, &why);
        }
        if found.changed {
            self.gather_modules();
        }
        found.changed
    }

    fn gather_modules(&mut self) {
        let spaces = self.spaces.values();
        self.modules = spaces.flat_map(|space| space.modules.clone()).collect();
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Why no debug registers can be used for watches, if so.
    #[must_use]
    pub fn watch_refused(&self) -> Option<&str> {
        self.spaces.values().find_map(|space| match &space.watches {
            Watches::Refused(why) if space.awake => Some(why.as_str()),
            _ => None,
        })
    }

    fn note(&mut self, what: &str, why: &str) {
        self.unseen.insert((what.to_owned(), why.to_owned()));
    }

    fn tasks_in(&self, space: SpaceId) -> impl Iterator<Item = (&Tid, &Task)> {
        self.tasks
            .iter()
            .filter(move |(_, task)| task.space == space)
    }

    fn add_task(&mut self, tid: Tid, pid: Tid, space: SpaceId) {
        let stack = sys::registers(tid).map_or(0, |r| r.stack_pointer());
        self.tasks.insert(
            tid,
            Task {
                pid,
                space,
                state: State::Running,
                stack,
                owes_trap: false,
                holds_trap: false,
                registers: Table::default(),
            },
        );
        self.sample_pc(tid);
        let company = self.tasks_in(space).nth(1).is_some();
        if let Some(known) = self.spaces.get_mut(&space)
            && company
            && !known.had_company
        {
            known.had_company = true;
            self.pending.push_back(Stop::SecondTask(space));
        }
    }

    fn set_state(&mut self, tid: Tid, state: State) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.state = state;
        }
    }

    fn space_of(&self, tid: Tid) -> Option<&Space> {
        self.spaces.get(&self.tasks.get(&tid)?.space)
    }

    fn go_on(&mut self, tid: Tid, signal: i32) {
        self.apply_registers(tid);
        self.set_state(tid, State::Running);
        // This fails only if the thread was killed meanwhile, which waitpid will
        // report.
        let _ = sys::resume(tid, signal);
    }

    /// Writes the wanted watches to a stopped thread's debug registers.
    fn apply_registers(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else {
            return;
        };
        if let Some(Watches::Registers(watches)) =
            self.spaces.get(&task.space).map(|space| &space.watches)
            && watches.wanted.apply(tid, &task.registers)
        {
            task.registers = watches.wanted;
        }
    }

    /// Kills the program and all followed processes, and waits until they are gone. A
    /// child that is being forked meanwhile is only known then.
    pub fn kill(&mut self) {
        let mut killed = BTreeSet::new();
        let began = Instant::now();
        while began.elapsed() < DIE_WITHIN && !(self.tasks.is_empty() && self.newborn.is_empty()) {
            let tasks = self.tasks.values().map(|task| task.pid);
            for pid in tasks.chain(self.newborn.keys().copied()) {
                if killed.insert(pid) {
                    let _ = sys::kill(pid, libc::SIGKILL);
                }
            }
            match self.next_change() {
                Ok(Some((tid, change))) => drop(self.changed(tid, change)),
                Ok(None) => events::pause(began),
                Err(_) => break,
            }
        }
    }
}

impl Process {
    fn name_of(&self, task: TaskId) -> ThreadName {
        let tid = task.0.cast_signed();
        let pid = self.tasks.get(&tid).map_or(self.pid, |task| task.pid);
        ThreadName {
            tid: task.0,
            name: tasks::name(pid, tid),
            context: None,
        }
    }
}

impl Control for Process {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        if let Some(stop) = self.pending.pop_front() {
            return Ok(stop);
        }
        if self.tasks.is_empty() && self.newborn.is_empty() {
            let ending = self.ended.unwrap_or(Ending::LeftRunning);
            return Ok(Stop::Ended(ending));
        }
        for tid in std::mem::take(&mut self.parked) {
            self.go_on(tid, 0);
        }
        self.wake_front();
        let now = self.now();
        let due = |space: &&Space| {
            space.awake && !space.hooks.hear_of_modules() && now >= space.next_scan
        };
        if let Some(id) = self.spaces.values().find(due).map(|space| space.id) {
            if let Some(space) = self.spaces.get_mut(&id) {
                space.next_scan = now + RESCAN_EVERY;
            }
            if self.scan(id) {
                return Ok(Stop::ModulesChanged);
            }
        }
        self.poll(deadline)
    }

    fn rotation(&self) -> Option<RotationLimits> {
        self.settings.safe.then_some(RotationLimits {
            at_once: FOR_SITES,
            longest: A_TURN,
            stops_all: false,
        })
    }

    fn set_breakpoints(&mut self, id: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed> {
        let gone = vec![Armed::CodeGone; sites.len()];
        let Some(space) = self.spaces.get_mut(&id) else {
            return gone;
        };
        if self.settings.safe {
            let mut set = |(address, expected): &(Avma, u8)| {
                let Some(byte) = space.byte_at(address.0) else {
                    return Armed::CodeGone;
                };
                if byte != *expected {
                    return Armed::Refused(Loss::TextChanged);
                }
                let registers = space.register_sites(true);
                if registers.is_some_and(|registers| registers.set_site(*address)) {
                    Armed::Yes
                } else {
                    Armed::Refused(Loss::NoDebugRegister)
                }
            };
            return sites.iter().map(&mut set).collect();
        }
        if space.doomed {
            return gone;
        }
        if !space.armed && !sites.is_empty() {
            space.armed = true;
            space.set_hooks();
            self.note_trap(id);
        }
        let Some(space) = self.spaces.get_mut(&id) else {
            return gone;
        };
        space.breakpoints.set(&space.memory, sites)
    }

    fn clear_breakpoints(&mut self) {
        let safe = self.settings.safe;
        for space in self.spaces.values_mut() {
            let hooks: BTreeSet<u64> = space.hooks.addresses().collect();
            let stays = |address| hooks.contains(&address);
            space.breakpoints.clear(&space.memory, stays);
            if let Some(registers) = space.register_sites(safe) {
                registers.clear_sites();
            }
        }
    }

    fn watches(&self, space: SpaceId) -> usize {
        match self.spaces.get(&space).map(|space| &space.watches) {
            Some(Watches::Perf(watches)) => watches.count(),
            Some(Watches::Registers(_)) => watches::DEBUG_REGISTERS,
            Some(Watches::Refused(_)) | None => 0,
        }
    }

    fn watch(&mut self, space: SpaceId, slot: usize, watch: Watch) -> bool {
        match self.spaces.get_mut(&space).map(|space| &mut space.watches) {
            Some(Watches::Perf(watches)) => watches.set(slot, watch),
            Some(Watches::Registers(watches)) => {
                watches.set(slot, watch);
                self.update_debug_registers(space);
                true
            }
            Some(Watches::Refused(_)) | None => false,
        }
    }

    fn unwatch(&mut self, space: SpaceId, slot: usize) -> u64 {
        match self.spaces.get_mut(&space).map(|space| &mut space.watches) {
            Some(Watches::Perf(watches)) => watches.clear(slot),
            Some(Watches::Registers(watches)) => {
                watches.clear(slot);
                self.update_debug_registers(space);
                self.registers_fired(space, slot)
            }
            Some(Watches::Refused(_)) | None => 0,
        }
    }

    fn resume(&mut self, task: TaskId) {
        let tid = task.0.cast_signed();
        if let Some(Task {
            state: State::Stopped(signal),
            ..
        }) = self.tasks.get(&tid)
        {
            self.go_on(tid, *signal);
        }
    }

    fn freeze(&mut self, tasks: &[TaskId]) {
        // Before the stop, because the front may hear of it at once.
        if let Some(ledger) = self.ledger {
            ledger.flags().fetch_or(FROZEN, Ordering::Release);
        }
        for task in tasks {
            self.go_on(task.0.cast_signed(), libc::SIGSTOP);
        }
    }

    fn other_tasks(&mut self, task: TaskId, bytes: Bytes) -> OtherTasks {
        let id = Inspect::space_of(self, task);
        match self.tasks_in(id).count().saturating_sub(1) {
            0 => {
                let now = self.now();
                let space = self.spaces.get_mut(&id);
                if space.is_some_and(|space| space.is_shared(bytes.start.0, now)) {
                    OtherTasks::Unwatchable
                } else {
                    OtherTasks::Absent
                }
            }
            others => OtherTasks::Watchable(others),
        }
    }

    fn is_stalled(&mut self, space: SpaceId) -> bool {
        self.tasks_in(space).count() <= MOST_STALL_CHECKS
            && self.tasks_in(space).all(|(tid, task)| match task.state {
                State::Stopped(_) | State::GroupStopped => true,
                State::Running => tasks::is_blocked(task.pid, *tid),
            })
    }

    fn thread_time(&mut self) -> Duration {
        let awake = self.spaces.values().filter(|space| space.awake);
        for pid in awake.map(|space| space.pid).chain([self.pid]) {
            if let Some(cpu) = sys::cpu_time(pid) {
                self.cpu.insert(pid, cpu);
            }
        }
        // A program that mostly sleeps uses little CPU, but its time passes too.
        let used = self.cpu.values().sum::<Duration>();
        used.saturating_sub(self.cpu_before).max(self.now())
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
        let memory = &space.memory;
        let mut read = |address: u64| {
            let mut word = [0; 8];
            memory.read_exact_at(&mut word, address).ok()?;
            Some(u64::from_le_bytes(word))
        };
        let frames = space.unwinder.unwind(registers, &mut read);
        frames.into_iter().map(Avma).collect()
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
        let sharers = maps::sharers(space.pid, address.0).into_iter();
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
    fn take_running_code(&mut self) -> Vec<Range<u64>> {
        self.seen_running()
    }
}
