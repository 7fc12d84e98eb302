//! A kernel's virtual CPUs as the tasks of a [`Machine`](redhanded_target::Machine).
//!
//! When a CPU reaches a breakpoint or accesses watched bytes the stub stops all of
//! them; those that are not held are then resumed. Whatever is asked while they are
//! all stopped is collected into as few round trips as possible, because none runs
//! meanwhile.
//!
//! QEMU sometimes reports a watch late, when its window is over. A stop is believed
//! only if its CPU has executed something since the watch was set, and what is
//! believed is confirmed like every other hit.

mod attach;
mod control;
mod downtime;
mod inspect;
mod memory;
mod modules;
mod profile;
mod watchpoint;

use crate::gdb::{Answer, Gdb, GdbError, Point, PointKind, Request, StopReply};
use crate::linux::{Kernel, LoadedModule, USER_END, per_cpu_base};
use crate::{KernelFiles, VcpuRegisters};
use downtime::Downtime;
use memory::BlockCache;
use redhanded_image::Unwinder;
use redhanded_model::{Avma, Bytes, Loss, Losses, SpaceId, TaskId};
use redhanded_target::images::Images;
use redhanded_target::{Ending, Module, RotationLimits, Signals, Stop, module_at, windows_at_once};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watchpoint::Watchpoint;

/// The whole kernel is one space. User memory is read through the page tables of the
/// CPU that accesses it.
const SPACE: SpaceId = SpaceId(0);
/// The debug registers of a CPU. Emulation would accept more watches.
const WATCHES: usize = 4;
/// Under emulation an armed site slows down the page it is on, and reaching one makes
/// QEMU drop all translated code. These limits gave the most windows a second.
const ROTATION: RotationLimits = RotationLimits {
    at_once: 24,
    longest: Duration::from_millis(20),
    stops_all: true,
};
/// How long the stub may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// One virtual CPU.
#[derive(Default)]
struct Vcpu {
    /// Whether it is held at an access.
    held: bool,
    /// Its registers, if they were read since it stopped.
    registers: Option<VcpuRegisters>,
    /// The start of its per-CPU data, once it was seen in the kernel.
    per_cpu: Option<u64>,
    /// The user memory that it is about to access.
    user: Option<Bytes>,
}

impl Vcpu {
    /// Whether it is known to be in the kernel. In user mode it may not have the
    /// kernel's page tables.
    fn has_kernel_mapped(&self) -> bool {
        let registers = self.registers.as_ref();
        registers.is_some_and(|registers| registers.general.rip >= USER_END)
    }
}

/// A virtual machine that runs a Linux kernel.
pub struct GuestMachine {
    gdb: Gdb,
    started: Instant,
    vcpus: BTreeMap<u32, Vcpu>,
    /// The CPU through whose page tables memory is read, unless another is better.
    view: u32,
    /// The breakpoints that are wanted, and those that the stub has.
    breakpoints: BTreeSet<u64>,
    inserted: BTreeSet<u64>,
    watchpoints: [Option<Watchpoint>; WATCHES],
    /// Deferred insertions and removals, sent first in the next round trip, and
    /// reads for the cache, sent last.
    deferred: Vec<Request>,
    prefetches: Vec<Request>,
    pending: VecDeque<Stop>,
    kernel: Arc<Kernel>,
    cache: BlockCache,
    modules: Vec<Arc<Module>>,
    next_module: u32,
    /// The kernel's module list when it was last walked, and its head then.
    known_modules: Vec<LoadedModule>,
    list_head: Option<Vec<u8>>,
    /// When it is walked again, and whether its head has changed.
    next_walk: Duration,
    must_walk: bool,
    files: KernelFiles,
    images: Arc<Images>,
    unwinder: Unwinder,
    /// The functions seen to run.
    running_code: Vec<Range<u64>>,
    /// Whether no CPU made progress when that was last checked.
    stalled: bool,
    /// How many long windows have ended without a hit.
    elapsed: u32,
    next_profile: Duration,
    losses: Losses,
    signals: Arc<Signals>,
    unseen: BTreeMap<String, String>,
    /// Why it can no longer be driven.
    broken: Option<GdbError>,
    downtime: Downtime,
}

impl GuestMachine {
    /// Sends requests, after the deferred ones; stops the machine if it runs.
    fn ask(&mut self, requests: &[Request]) -> Option<Vec<Answer>> {
        if self.broken.is_some() {
            return None;
        }
        let mut all = std::mem::take(&mut self.deferred);
        let first = all.len();
        all.extend_from_slice(requests);
        let prefetches = std::mem::take(&mut self.prefetches);
        all.extend_from_slice(&prefetches);
        let asked = if self.gdb.is_running() {
            let asked = self.gdb.interrupt_then_ask(&all, PATIENCE);
            asked.map(|(reply, answers)| {
                // It may have stopped by itself just before.
                self.stopped(reply);
                answers
            })
        } else {
            self.gdb.ask(&all)
        };
        match asked {
            Ok(mut answers) => {
                let wanted = first + requests.len();
                let read = answers.split_off(wanted.min(answers.len()));
                self.cache.store(&prefetches, read, true);
                Some(answers.split_off(first.min(answers.len())))
            }
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }

    /// Stops all CPUs.
    fn stop(&mut self) {
        if self.gdb.is_running() {
            self.ask(&[]);
        }
    }

    /// How many CPUs are held.
    fn held(&self) -> usize {
        self.vcpus.values().filter(|vcpu| vcpu.held).count()
    }

    /// How many can be.
    fn most_held(&self) -> usize {
        windows_at_once(self.vcpus.len().saturating_sub(1), WATCHES)
    }

    /// Defers the changes that make the stub's breakpoints the wanted ones. Where a CPU
    /// is about to be resumed the breakpoint is inserted a moment later: the CPU would
    /// reach it again without having moved.
    fn arrange_breakpoints(&mut self) {
        let leaving: Vec<u64> = self
            .vcpus
            .values()
            .filter(|vcpu| !vcpu.held)
            .filter_map(|vcpu| Some(vcpu.registers?.general.rip))
            .collect();
        let mut wanted = self.breakpoints.clone();
        wanted.retain(|at| !leaving.contains(at));
        let gone = self.inserted.difference(&wanted);
        let gone = gone.map(|at| Request::Remove(software(*at)));
        let new = wanted.difference(&self.inserted);
        let new = new.map(|at| Request::Insert(software(*at)));
        self.deferred.extend(gone.chain(new));
        self.inserted = wanted;
    }

    /// Resumes every CPU that is not held.
    fn resume_free(&mut self) {
        if !self.gdb.is_running() {
            self.ask_then_resume(&[]);
        }
    }

    /// Sends requests as [`GuestMachine::ask`] does, and resumes every CPU that is not
    /// held without waiting for the answers.
    fn ask_then_resume(&mut self, requests: &[Request]) -> Option<Vec<Answer>> {
        let free: Vec<u32> = self
            .vcpus
            .iter()
            .filter(|(_, vcpu)| !vcpu.held)
            .map(|(number, _)| *number)
            .collect();
        if self.broken.is_some() || self.gdb.is_running() || free.is_empty() {
            return self.ask(requests);
        }
        self.arrange_breakpoints();
        for vcpu in self.vcpus.values_mut().filter(|vcpu| !vcpu.held) {
            vcpu.registers = None;
        }
        for watchpoint in self.watchpoints.iter_mut().flatten() {
            watchpoint.resumed();
        }
        let all = free.len() == self.vcpus.len();
        let mut all_requests = std::mem::take(&mut self.deferred);
        let first = all_requests.len();
        all_requests.extend_from_slice(requests);
        let only = (!all).then_some(free.as_slice());
        self.cache.clear();
        self.prefetches.clear();
        let asked = self.gdb.ask_then_resume(&all_requests, only);
        self.downtime.ends();
        match asked {
            Ok(mut answers) => Some(answers.split_off(first.min(answers.len()))),
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }

    /// The stub says that all CPUs stopped.
    fn stopped(&mut self, reply: StopReply) {
        self.downtime.begins(self.gdb.stopped_at());
        let StopReply::Stopped {
            vcpu,
            signal,
            watch,
        } = reply
        else {
            self.broken = Some(GdbError::GoneAway);
            return;
        };
        let Some(number) = vcpu.filter(|number| self.vcpus.contains_key(number)) else {
            return;
        };
        if signal != StopReply::TRAP {
            return;
        }
        // Of a CPU that is resumed at once only the pc matters.
        let passes = watch.is_none() && self.held() >= self.most_held();
        if !passes {
            self.fetch_registers(Some((number, watch.is_some())));
        } else if self.unread_registers().contains(&number) {
            self.fetch(&[number], &[]);
        }
        let Some(registers) = self.registers_of(number) else {
            return;
        };
        match watch {
            Some((_, address)) => self.watch_hit(number, address),
            None => self.breakpoint_hit(number, &registers),
        }
    }

    /// A CPU stopped at an instruction that may be armed.
    fn breakpoint_hit(&mut self, number: u32, registers: &VcpuRegisters) {
        let rip = registers.general.rip;
        // Another CPU was first, or the stub reports a breakpoint that is removed.
        if !self.breakpoints.remove(&rip) {
            return;
        }
        self.view = number;
        self.hold(number);
        self.pending.push_back(Stop::Breakpoint {
            task: TaskId(number),
            registers: registers.general,
        });
    }

    /// The stub says that a CPU accessed watched bytes.
    fn watch_hit(&mut self, number: u32, address: u64) {
        let Some(registers) = self.registers_of(number) else {
            return;
        };
        // A held CPU has executed nothing.
        if self.vcpus.get(&number).is_some_and(|vcpu| vcpu.held) {
            self.losses.add(Loss::StaleTrap);
            return;
        }
        let Some(watchpoint) = self.watchpoint_at(address) else {
            self.losses.add(Loss::StaleTrap);
            return;
        };
        if !watchpoint.has_moved(number, &registers) {
            // Each CPU can have one late stop, not two.
            watchpoint.late.insert(number);
            self.losses.add(Loss::StaleTrap);
            return;
        }
        // A user address means something only with its page tables.
        if !watchpoint.is_in_space_of(&registers) {
            self.losses.add(Loss::OtherSpace);
            return;
        }
        watchpoint.fired += 1;
        let stop = Stop::Watch {
            task: TaskId(number),
            registers: registers.general,
            number: watchpoint.watch.number,
            address: watchpoint.watch.bytes.start,
        };
        self.hold(number);
        self.pending.push_back(stop);
        self.prefetch_later(&self.collision_ranges());
    }

    /// The watchpoint on an address.
    fn watchpoint_at(&mut self, address: u64) -> Option<&mut Watchpoint> {
        let mut watchpoints = self.watchpoints.iter_mut().flatten();
        watchpoints.find(|watchpoint| {
            let bytes = watchpoint.watch.bytes;
            (bytes.start.0..bytes.end()).contains(&address)
        })
    }

    fn hold(&mut self, number: u32) {
        if let Some(vcpu) = self.vcpus.get_mut(&number) {
            vcpu.held = true;
        }
    }

    /// The CPUs whose registers are not known.
    fn unread_registers(&self) -> Vec<u32> {
        let unknown = |(_, vcpu): &(&u32, &Vcpu)| vcpu.registers.is_none();
        let vcpus = self.vcpus.iter().filter(unknown);
        vcpus.map(|(number, _)| *number).collect()
    }

    fn note_registers(&mut self, whose: &[u32], answers: Vec<Answer>) {
        for (number, answer) in whose.iter().zip(answers) {
            if let Some(vcpu) = self.vcpus.get_mut(number) {
                vcpu.registers = answer.registers();
                let seen = vcpu.registers.as_ref().and_then(per_cpu_base);
                vcpu.per_cpu = seen.or(vcpu.per_cpu);
            }
        }
    }

    /// Reads the registers of all CPUs. Brings along what will be asked next of the
    /// CPU that stopped the machine, and after a watch hit, of the held ones.
    fn fetch_registers(&mut self, stopped: Option<(u32, bool)>) {
        let mut whose = self.unread_registers();
        if whose.is_empty() {
            return self.stop();
        }
        let mut along = Vec::new();
        if let Some((stopped, watch_hit)) = stopped {
            whose.sort_by_key(|number| *number != stopped);
            let mut ranges = self.context_ranges(stopped);
            if watch_hit {
                ranges.extend(self.collision_ranges());
            }
            along = self.cache.requests(stopped, &ranges);
        }
        self.fetch(&whose, &along);
    }

    /// Reads the registers of these CPUs, and memory through the first one's page
    /// tables.
    fn fetch(&mut self, whose: &[u32], along: &[Request]) {
        let mut requests: Vec<Request> = whose.iter().copied().map(Request::Registers).collect();
        let first = requests.len().min(1);
        requests.splice(first..first, along.iter().copied());
        let Some(mut answers) = self.ask(&requests) else {
            return;
        };
        let rest = answers.len().min(1 + along.len());
        let others = answers.split_off(rest);
        let read = answers.split_off(answers.len().min(1));
        answers.extend(others);
        self.note_registers(whose, answers);
        let first = whose.first().and_then(|number| self.vcpus.get(number));
        let mapped = first.is_some_and(Vcpu::has_kernel_mapped);
        self.cache.store(along, read, mapped);
    }

    /// The registers of a CPU.
    fn registers_of(&mut self, number: u32) -> Option<VcpuRegisters> {
        if self.vcpus.get(&number)?.registers.is_none() {
            self.fetch_registers(None);
        }
        self.vcpus.get(&number)?.registers
    }

    /// The requests that read memory past the cache, through the page tables of the
    /// CPU that is about to access it.
    fn reading(&self, address: u64, len: usize) -> [Request; 2] {
        let owner = self.vcpus.iter().find(|(_, vcpu)| {
            vcpu.user
                .is_some_and(|bytes| (bytes.start.0..bytes.end()).contains(&address))
        });
        let view = match owner {
            Some((number, _)) => *number,
            None if address < USER_END => self.view,
            None => self.kernel_view(),
        };
        [Request::Select(view), Request::Read { address, len }]
    }

    /// A CPU that has the kernel mapped, preferably a held one.
    fn kernel_view(&self) -> u32 {
        let mapped = self
            .vcpus
            .iter()
            .filter(|(_, vcpu)| vcpu.has_kernel_mapped());
        let best = mapped.max_by_key(|(_, vcpu)| vcpu.held);
        best.map_or(self.view, |(number, _)| *number)
    }

    fn module_at(&self, address: Avma) -> Option<&Arc<Module>> {
        module_at(&self.modules, address)
    }

    /// The name of the function at a live address.
    fn function_at(&self, address: u64) -> Option<&str> {
        let module = self.module_at(Avma(address))?;
        let function = module
            .image
            .as_ref()?
            .function_at(module.svma(Avma(address)))?;
        function.name.as_deref()
    }

    /// How the session ended that cannot go on.
    fn ending(&mut self) -> Ending {
        if let Some(error) = &self.broken
            && !matches!(error, GdbError::GoneAway)
        {
            self.unseen
                .insert("the rest of the run".to_owned(), error.to_string());
        }
        Ending::Exited { status: 0 }
    }
}

/// A breakpoint at an instruction.
const fn software(address: u64) -> Point {
    Point {
        kind: PointKind::Software,
        address,
        len: 1,
    }
}
