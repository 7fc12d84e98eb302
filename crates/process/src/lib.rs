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

mod allocations;
mod allocators;
mod attach;
mod control;
mod creation;
mod detach;
mod dump;
mod events;
mod family;
mod guard;
mod heap;
mod hooks;
mod inspect;
mod interrupt;
mod launch;
mod linking;
mod orphans;
mod running;
mod sharing;
mod space;
mod tasks;
mod text;
mod tracer;
mod trap;
mod vigil;
mod watches;

pub use launch::Program;
pub use tracer::{Front, Guarded, Role, Tracer, split};
pub use watches::WatchBy;

use guard::Lifelines;
use linking::Linking;
use redhanded_model::SpaceId;
use redhanded_sys::{self as sys, Parent, PcSamples, Tid};
use redhanded_target::images::Images;
use redhanded_target::{Control, Ending, Module, Signals, Stop, TargetError};
use space::Space;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use watches::{FOR_SITES, Table, Watches};

/// With more threads than this, checking each of them costs more than ending a window
/// early saves.
const MOST_STALL_CHECKS: usize = 64;
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
    /// Remember who allocated each block. Every call of an allocator stops its thread.
    pub allocations: bool,
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
    /// The program counter and the stack pointer after the last instruction that was carried out
    /// for it.
    carried_to: Option<(u64, u64)>,
    /// What its debug registers hold, if they are set through ptrace.
    registers: Table,
    /// Who created it.
    created: Option<Arc<creation::Creator>>,
    /// When it was first seen.
    since: Duration,
    /// The calls of allocators that it is in, outermost first.
    allocating: Vec<allocations::Pending>,
}

/// A traced process and those it started.
pub struct Process {
    /// The process that was launched or attached to.
    pid: Tid,
    settings: Settings,
    /// To those who look after us, if we are a process of our own.
    lifelines: Option<Arc<Lifelines>>,
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
    /// Spaces whose allocations are to be seen from the next wait on. Until then nobody attends
    /// to threads that run into a hook.
    to_hook: Vec<SpaceId>,
    /// How long it took to see who creates threads.
    seeing_creations: Duration,
    /// When the program was last continued after a group stop; see [`tracer`].
    continued: Option<Duration>,
    linking: Linking,
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
            lifelines: tracer.map(Tracer::lifelines),
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
            to_hook: Vec::new(),
            seeing_creations: Duration::ZERO,
            ended: None,
            continued: None,
            linking: Linking::default(),
        }
    }

    /// Adds a space for process `pid`, not sampled yet.
    fn new_space(&mut self, pid: Tid) -> Result<SpaceId, TargetError> {
        let id = SpaceId(self.next_space);
        let space = Space::new(id, pid, self.lifelines.as_ref())?;
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
        let allocations = self.settings.allocations && space.awake;
        space.hooks.look(&space.modules, allocations);
        for function in std::mem::take(&mut space.hooks.refused) {
            let what = format!("who allocated with {function}");
            self.note(&what, "its first instruction cannot be carried out for it");
        }
        if allocations {
            self.to_hook.push(id);
        }
        if !self.settings.safe
            && let Some(space) = self.spaces.get_mut(&id)
        {
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
        let since = self.now();
        self.tasks.insert(
            tid,
            Task {
                pid,
                space,
                state: State::Running,
                stack,
                owes_trap: false,
                holds_trap: false,
                carried_to: None,
                registers: Table::default(),
                created: None,
                since,
                allocating: Vec::new(),
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

    /// Resumes the threads that waited for the driver.
    fn resume_parked(&mut self) {
        for tid in std::mem::take(&mut self.parked) {
            let signal = match self.tasks.get(&tid).map(|task| task.state) {
                Some(State::Stopped(signal)) => signal,
                _ => 0,
            };
            self.go_on(tid, signal);
        }
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
