//! A live process: ptrace for stops and registers, `/proc/PID/mem` for memory
//! and breakpoint bytes, perf events for watches.
//!
//! [`Process`] gives the window driver its primitives. Nobody else ever sees a
//! wait status: what the kernel reports is turned into a [`Stop`], or handled
//! here if it is the target's own business (signals, forks, new threads).

mod events;
mod launch;
mod linker;
mod maps;
mod tasks;
mod text;

pub use launch::Program;

use crate::images::Images;
use crate::machine::Company;
use crate::sys::{self, PerfWatch, SignalSet, Tid, WatchFor};
use crate::{Ending, Machine, Module, Stop, TargetError};
use linker::Notification;
use maps::Mapping;
use redhanded_image::Unwinder;
use redhanded_model::{
    Avma, Bytes, ModuleId, Region, Registers, SpaceId, TaskId, ThreadName, Unseen,
};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use text::Breakpoints;

/// Debug registers of an x86-64 CPU.
const DEBUG_REGISTERS: usize = 4;
/// With more threads than this, looking at each of them costs more than ending
/// a window early saves.
const MOST_STALL_CHECKS: usize = 64;
/// How long the picture of a single-threaded program's shared mappings is kept.
const MAPS_FRESH_FOR: Duration = Duration::from_millis(10);
/// How often maps are looked at where the dynamic linker cannot tell of changes.
const RESCAN_EVERY: Duration = Duration::from_millis(100);

/// The signals that the tool takes at a time of its own choosing: the program's
/// changes, and requests to stop, at which breakpoints are removed first.
pub struct Signals(SignalSet);

impl Signals {
    /// Holds them back from now on. To be called before any thread is started:
    /// a signal to the process goes to whichever thread does not block it.
    #[must_use]
    pub fn hold() -> Arc<Self> {
        Arc::new(Self(SignalSet::block(&[
            libc::SIGCHLD,
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
        ])))
    }
}

/// The state of one traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    /// Stopped by us or for us; carries the signal to deliver when it goes on.
    Stopped(i32),
    /// In a group stop, as the target's user wants it.
    GroupStopped,
}

#[derive(Clone, Debug)]
struct Task {
    state: State,
    /// Its stack pointer when it was first seen: tells which mapping its stack is.
    stack: u64,
    /// A vforked child: another process in the same memory.
    foreign: bool,
}

/// How the watches of a process are set.
struct Watches {
    events: Vec<PerfWatch>,
    /// What each event had counted when its watch was set.
    base: Vec<u64>,
    /// Why there are none.
    refused: Option<String>,
}

/// A traced process.
pub struct Process {
    pid: Tid,
    start: Instant,
    memory: File,
    tasks: HashMap<Tid, Task>,
    /// New threads whose stop came before their parent's event, and the reverse.
    newborn: HashMap<Tid, Newborn>,
    breakpoints: Breakpoints,
    watches: Watches,
    modules: Vec<Arc<Module>>,
    next_module: u32,
    images: Arc<Images>,
    unwinder: Unwinder,
    notification: Option<Notification>,
    next_scan: Duration,
    /// Threads that go on when the driver has dealt with what they brought.
    parked: Vec<Tid>,
    pending: VecDeque<Stop>,
    /// The shared mappings, and when they were looked at.
    shared: Option<(Duration, Vec<Mapping>)>,
    signals: Arc<Signals>,
    unseen: BTreeSet<(String, String)>,
    cpu: Duration,
    ended: Option<Ending>,
    had_company: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Newborn {
    /// It stopped; what kind it is is not known yet.
    Stopped,
    /// A process with memory of its own, whose first stop has not come yet.
    ForkedUnseen,
}

impl Process {
    /// Starts `program`, stopped before its first instruction.
    ///
    /// # Errors
    /// When it cannot be started or traced.
    pub fn launch(
        program: &Program,
        images: Arc<Images>,
        signals: Arc<Signals>,
    ) -> Result<Self, TargetError> {
        let options = libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC;
        let pid = program.start(options, &signals.0)?;
        let memory = open_memory(pid).inspect_err(|_| {
            // Nobody asked for it to run unobserved.
            let _ = sys::kill(pid, libc::SIGKILL);
            let _ = sys::wait_for(pid);
        })?;
        let mut process = Self {
            pid,
            start: Instant::now(),
            memory,
            tasks: HashMap::new(),
            newborn: HashMap::new(),
            breakpoints: Breakpoints::default(),
            watches: Watches {
                events: Vec::new(),
                base: Vec::new(),
                refused: None,
            },
            modules: Vec::new(),
            next_module: 0,
            images,
            unwinder: Unwinder::new(),
            notification: None,
            next_scan: Duration::ZERO,
            parked: Vec::new(),
            pending: VecDeque::new(),
            shared: None,
            signals,
            unseen: BTreeSet::new(),
            cpu: Duration::ZERO,
            ended: None,
            had_company: false,
        };
        process.begin_image();
        Ok(process)
    }

    /// Sets up for the program image that was just exec'd and whose only thread
    /// stands before its first instruction.
    fn begin_image(&mut self) {
        self.tasks.clear();
        self.add_task(self.pid, false);
        if let Some(task) = self.tasks.get_mut(&self.pid) {
            task.state = State::Stopped(0);
        }
        self.parked = vec![self.pid];
        self.breakpoints = Breakpoints::default();
        self.unwinder = Unwinder::new();
        self.modules.clear();
        self.notification = None;
        self.had_company = false;
        // The old events keep their debug registers until they are closed.
        self.watches.events.clear();
        self.watches = open_watches(self.pid);
        self.scan_modules();
        if let Some(linker) = self.find_notification() {
            let set = self
                .breakpoints
                .set(&self.memory, &[(Avma(linker.ret), linker.original)]);
            if set == [true] {
                self.notification = Some(linker);
            }
        }
    }

    fn find_notification(&self) -> Option<Notification> {
        let program = self.modules.first()?.image.clone()?;
        let wanted = program.interpreter()?.canonicalize().ok()?;
        self.modules.iter().find_map(|module| {
            let image = module.image.as_ref()?;
            (image.path().canonicalize().ok()? == wanted)
                .then(|| Notification::find(image, module.bias))?
        })
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Why there are no debug registers to watch with, if there are none.
    #[must_use]
    pub fn watch_refused(&self) -> Option<&str> {
        self.watches.refused.as_deref()
    }

    /// Compares the map with the known modules; whether anything changed.
    fn scan_modules(&mut self) -> bool {
        let maps = maps::read(self.pid);
        let mut found: Vec<(u64, std::ops::Range<u64>, Arc<redhanded_image::Image>)> = Vec::new();
        for map in maps.iter().filter(|map| map.executable) {
            let Some(path) = map.file() else {
                if !map.name.is_empty() && !map.name.starts_with("[v") {
                    self.note(
                        &map.name,
                        "its file is gone or no file; its code is not sampled",
                    );
                } else if map.name.is_empty() {
                    self.note("generated code", "not in any file; never patched");
                }
                continue;
            };
            let image = match self.images.open(&path) {
                Ok(image) => image,
                Err(unseen) => {
                    self.note(&unseen.what, &unseen.why);
                    continue;
                }
            };
            let segment = image
                .segments()
                .iter()
                .find(|segment| segment.executable && segment.file_offset & !0xfff == map.offset);
            if let Some(segment) = segment {
                let bias = map.start.wrapping_sub(segment.svma.0 & !0xfff);
                if !found.iter().any(|(known, _, _)| *known == bias) {
                    let range = module_range(&image, bias);
                    found.push((bias, range, image));
                }
            }
        }
        let mut changed = false;
        let same = |module: &Module, bias: u64, image: &Arc<redhanded_image::Image>| {
            module.bias == bias && module.image.as_ref().is_some_and(|i| Arc::ptr_eq(i, image))
        };
        let gone: Vec<Arc<Module>> = self
            .modules
            .iter()
            .filter(|module| {
                !found
                    .iter()
                    .any(|(bias, _, image)| same(module, *bias, image))
            })
            .cloned()
            .collect();
        for module in gone {
            self.breakpoints.forget(&module.range);
            if let Some(image) = &module.image {
                self.unwinder.remove_module(image, module.bias);
            }
            self.modules.retain(|m| m.id != module.id);
            changed = true;
        }
        for (bias, range, image) in found {
            if self.modules.iter().any(|module| same(module, bias, &image)) {
                continue;
            }
            self.unwinder.add_module(&image, bias);
            self.modules.push(Arc::new(Module {
                id: ModuleId(self.next_module),
                space: SpaceId(self.pid.cast_unsigned().into()),
                name: image.name(),
                bias,
                range,
                image: Some(image),
            }));
            self.next_module += 1;
            changed = true;
        }
        changed
    }

    fn note(&mut self, what: &str, why: &str) {
        self.unseen.insert((what.to_owned(), why.to_owned()));
    }

    fn add_task(&mut self, tid: Tid, foreign: bool) {
        let stack = sys::registers(tid).map_or(0, |r| r.gpr[4]);
        self.tasks.insert(
            tid,
            Task {
                state: State::Running,
                stack,
                foreign,
            },
        );
        if self.tasks.len() > 1 && !self.had_company {
            self.had_company = true;
            self.pending.push_back(Stop::Company);
        }
    }

    fn others(&self, task: Tid) -> usize {
        self.tasks.keys().filter(|tid| **tid != task).count()
    }

    fn module_at(&self, address: Avma) -> Option<&Arc<Module>> {
        self.modules.iter().find(|module| module.contains(address))
    }

    fn go_on(&mut self, tid: Tid, signal: i32) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.state = State::Running;
        }
        // A failure means that it was killed meanwhile; waitpid will tell.
        let _ = sys::resume(tid, signal);
    }

    /// Whether the memory at `address` is shared with other processes, or mapped
    /// a second time.
    fn is_shared(&mut self, address: u64) -> bool {
        let now = self.now();
        let fresh = |(at, _): &(Duration, Vec<Mapping>)| now < *at + MAPS_FRESH_FOR;
        if !self.shared.as_ref().is_some_and(fresh) {
            let shared = maps::read(self.pid).into_iter().filter(|map| map.shared);
            self.shared = Some((now, shared.collect()));
        }
        let mut shared = self.shared.iter().flat_map(|(_, maps)| maps);
        shared.any(|map| map.contains(address))
    }

    /// Ends the program.
    pub fn kill(&self) {
        let _ = sys::kill(self.pid, libc::SIGKILL);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: i32) {
        let _ = sys::kill(self.pid, signal);
    }

    /// Waits for the untraced program to end. Signals that a process sends us
    /// meanwhile are passed on to it.
    pub fn wait_for_end(&mut self) -> Ending {
        self.wait_at_most(Duration::MAX)
    }

    /// Waits for the untraced program to end, but not for ever.
    pub fn wait_at_most(&mut self, limit: Duration) -> Ending {
        let until = Instant::now().checked_add(limit);
        loop {
            if let Some(ending) = self.ended {
                return ending;
            }
            match sys::poll_change_of(self.pid) {
                Ok(Some(change)) => self.ended = events::ending(change),
                Ok(None) => {
                    let left = until.map_or(Duration::from_secs(3600), |until| {
                        until.saturating_duration_since(Instant::now())
                    });
                    if left.is_zero() {
                        return Ending::LeftRunning;
                    }
                    if let Some(taken) = self.signals.0.wait(left)
                        && taken.signal != libc::SIGCHLD
                        && taken.by_process
                    {
                        self.signal(taken.signal);
                    }
                }
                Err(_) => return Ending::LeftRunning,
            }
        }
    }
}

fn module_range(image: &redhanded_image::Image, bias: u64) -> std::ops::Range<u64> {
    let low = image.segments().iter().map(|s| s.svma.0).min();
    let high = image
        .segments()
        .iter()
        .map(|s| s.svma.0.saturating_add(s.mem_size))
        .max();
    low.unwrap_or(0).wrapping_add(bias)..high.unwrap_or(0).wrapping_add(bias)
}

fn open_memory(pid: Tid) -> Result<File, TargetError> {
    let path = format!("/proc/{pid}/mem");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|source| TargetError::System {
            action: format!("cannot open {path}"),
            source,
        })
}

/// Opens the watches; the kernel's own accesses are watched too where that is
/// allowed.
fn open_watches(pid: Tid) -> Watches {
    let mut watches = Watches {
        events: Vec::new(),
        base: vec![0; DEBUG_REGISTERS],
        refused: None,
    };
    for in_kernel in [true, false] {
        watches.events.clear();
        for _ in 0..DEBUG_REGISTERS {
            match PerfWatch::open(pid, in_kernel) {
                Ok(event) => watches.events.push(event),
                Err(error) => {
                    watches.refused = Some(error.to_string());
                    break;
                }
            }
        }
        if !watches.events.is_empty() {
            watches.refused = None;
            break;
        }
    }
    watches
}

impl Machine for Process {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        if let Some(ending) = self.ended {
            return Ok(Stop::Ended(ending));
        }
        if let Some(stop) = self.pending.pop_front() {
            return Ok(stop);
        }
        for tid in std::mem::take(&mut self.parked) {
            self.go_on(tid, 0);
        }
        if self.notification.is_none() && self.now() >= self.next_scan {
            self.next_scan = self.now() + RESCAN_EVERY;
            if self.scan_modules() {
                return Ok(Stop::ModulesChanged);
            }
        }
        self.poll(deadline)
    }

    fn set_breakpoints(&mut self, sites: &[(Avma, u8)]) -> Vec<bool> {
        self.breakpoints.set(&self.memory, sites)
    }

    fn clear_breakpoints(&mut self) {
        self.breakpoints.clear(&self.memory);
        if let Some(linker) = self.notification {
            self.breakpoints
                .set(&self.memory, &[(Avma(linker.ret), linker.original)]);
        }
    }

    fn watches(&self) -> usize {
        self.watches.events.len()
    }

    fn watch(&mut self, slot: usize, bytes: Bytes, watch_for: WatchFor, number: u64) -> bool {
        let Some(event) = self.watches.events.get(slot) else {
            return false;
        };
        self.watches.base[slot] = event.count().unwrap_or(0);
        event.set(bytes, watch_for, number).is_ok()
    }

    fn unwatch(&mut self, slot: usize) -> u64 {
        let Some(event) = self.watches.events.get(slot) else {
            return 0;
        };
        let _ = event.clear();
        event
            .count()
            .unwrap_or(0)
            .saturating_sub(self.watches.base[slot])
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

    fn read(&mut self, address: Avma, buffer: &mut [u8]) -> bool {
        if self.memory.read_exact_at(buffer, address.0).is_err() {
            return false;
        }
        self.breakpoints.hide(address.0, buffer);
        true
    }

    fn company(&mut self, task: TaskId, bytes: Bytes) -> Company {
        match self.others(task.0.cast_signed()) {
            0 if self.is_shared(bytes.start.0) => Company::Strangers,
            0 => Company::Alone,
            others => Company::Tasks(others),
        }
    }

    fn stalled(&mut self) -> bool {
        self.tasks.len() <= MOST_STALL_CHECKS
            && self.tasks.iter().all(|(tid, task)| match task.state {
                State::Stopped(_) | State::GroupStopped => true,
                State::Running => tasks::is_blocked(self.pid, *tid),
            })
    }

    fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }

    fn stack(&mut self, _task: TaskId, registers: &Registers) -> Vec<Avma> {
        let memory = &self.memory;
        let mut read = |address: u64| {
            let mut word = [0; 8];
            memory.read_exact_at(&mut word, address).ok()?;
            Some(u64::from_le_bytes(word))
        };
        let frames = self.unwinder.unwind(registers, &mut read);
        frames.into_iter().map(Avma).collect()
    }

    fn region(&mut self, address: Avma) -> Region {
        if let Some(module) = self.module_at(address) {
            return Region::Global {
                module: module.name.clone(),
            };
        }
        let Some(map) = maps::read(self.pid)
            .into_iter()
            .find(|m| m.contains(address.0))
        else {
            return Region::Unknown;
        };
        if map.name == "[heap]" {
            return Region::Heap;
        }
        let owner = self
            .tasks
            .iter()
            .find(|(_, task)| map.contains(task.stack.wrapping_sub(1)));
        if let Some((tid, _)) = owner
            && !map.shared
        {
            return Region::Stack {
                thread: self.thread_name(TaskId(tid.cast_unsigned())),
            };
        }
        Region::Mapping {
            name: if map.name.is_empty() {
                "anonymous".to_owned()
            } else {
                map.name.clone()
            },
            shared: map.shared,
        }
    }

    fn thread_name(&self, task: TaskId) -> ThreadName {
        let tid = task.0.cast_signed();
        let foreign = self.tasks.get(&tid).is_some_and(|task| task.foreign);
        ThreadName {
            tid: task.0,
            name: tasks::name(if foreign { tid } else { self.pid }, tid),
        }
    }

    fn instruction_before(&mut self, address: Avma) -> Option<Avma> {
        // The address may be one past the module's last instruction.
        let module = self.module_at(Avma(address.0.wrapping_sub(1)))?;
        let before = module
            .image
            .as_ref()?
            .instruction_before(module.svma(address))?;
        Some(module.avma(before))
    }

    fn thread_time(&mut self) -> Duration {
        if let Some(cpu) = sys::cpu_time(self.pid) {
            self.cpu = cpu;
        }
        // A program that mostly sleeps uses little CPU, but its time passes too.
        self.cpu.max(self.now())
    }

    fn unseen(&self) -> Vec<Unseen> {
        let mut unseen: Vec<Unseen> = self
            .unseen
            .iter()
            .map(|(what, why)| Unseen {
                what: what.clone(),
                why: why.clone(),
            })
            .collect();
        if let Some(refused) = &self.watches.refused {
            unseen.push(Unseen {
                what: "who made a conflicting access".to_owned(),
                why: format!(
                    "perf events were refused ({refused}), so bytes were only re-read; \
                     run as root or set kernel.perf_event_paranoid to 2"
                ),
            });
        }
        unseen
    }
}
