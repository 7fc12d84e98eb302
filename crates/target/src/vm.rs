//! A kernel in a virtual machine, driven through the machine's gdbstub.
//!
//! Each virtual CPU is a task. When one of them reaches a breakpoint or touches
//! watched bytes the stub stops all; the others are then let go without the one
//! that is held. Everything that is asked while the machine stands is collected
//! into as few round trips as possible, because meanwhile nobody runs.
//!
//! QEMU sometimes reports a watch late, when it belongs to a window no more. A
//! stop is believed only if its CPU has executed something since the watch was
//! set, and what is believed is confirmed like every other hit.

pub mod gdb;
mod guest;
mod kernel;
pub mod launch;
mod loadable;
mod look;
mod machine;
mod peek;
mod stood;

pub use guest::NotAKernel;
pub use kernel::KernelFiles;

use crate::images::Images;
use crate::machine::at_once;
use crate::process::Signals;
use crate::{Ending, Module, Stop, Turns, Watch, module_at};
use gdb::{Answer, Gdb, GdbError, Point, PointKind, Request, StopReply, VcpuRegisters};
use guest::Guest;
use peek::Peeked;
use redhanded_image::Unwinder;
use redhanded_model::{Avma, Bytes, Loss, Losses, SpaceId, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stood::Stood;

/// What the kernel itself is called among its modules.
pub const KERNEL: &str = "vmlinux";
/// All of a kernel is one space; whose user memory it is looked at with is found
/// from the CPU that does.
const SPACE: SpaceId = SpaceId(0);
/// Watches that every CPU has; more would be accepted under emulation only.
const WATCHES: usize = 4;
/// Armed sites at once. Under emulation each slows the page it is on, and reaching
/// one makes QEMU forget all translated code; so most windows a second were counted.
const TURNS: Turns = Turns {
    at_once: 24,
    each: Duration::from_millis(20),
    stop_all: true,
};
/// How long the stub may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses below are user memory.
const USER_END: u64 = 1 << 56;

/// One virtual CPU.
#[derive(Default)]
struct Vcpu {
    /// Whether it stands at an access.
    held: bool,
    /// As they are now, if that was asked since the last stop.
    registers: Option<VcpuRegisters>,
    /// Where its per-CPU data are, once that was seen.
    per_cpu: Option<u64>,
    /// The user memory that it stands before.
    user: Option<Bytes>,
}

impl Vcpu {
    /// Whether it is known to run the kernel, whose memory a user's program may not see.
    fn sees_kernel(&self) -> bool {
        let registers = self.registers.as_ref();
        registers.is_some_and(|registers| registers.general.rip >= USER_END)
    }
}

/// A watch that is set.
struct Set {
    watch: Watch,
    point: Point,
    /// Where each CPU was then, until it is known to have gone on: whoever is still
    /// there has touched nothing since.
    before: BTreeMap<u32, VcpuRegisters>,
    /// The CPUs whose late stop has come.
    late: BTreeSet<u32>,
    /// The bytes as they were then, once they are read.
    bytes: Option<Vec<u8>>,
    /// And as they were read last.
    last: Option<Vec<u8>>,
    /// The page tables that the address is meant in, for user memory.
    root: Option<u64>,
    fired: u64,
    /// How long the machine had stood before this window.
    stood: Duration,
}

impl Set {
    /// Whether a CPU has executed something since.
    fn has_moved(&self, number: u32, registers: &VcpuRegisters) -> bool {
        let before = self.before.get(&number);
        before.is_none_or(|before| before.general != registers.general)
    }
}

/// A virtual machine that runs a kernel.
pub struct Vm {
    gdb: Gdb,
    started: Instant,
    vcpus: BTreeMap<u32, Vcpu>,
    /// The one whose page tables memory is read through.
    view: u32,
    /// Those that are wanted, and those that the stub has.
    breakpoints: BTreeSet<u64>,
    standing: BTreeSet<u64>,
    sets: [Option<Set>; WATCHES],
    /// Asked for with the next round trip, before all others and after them.
    orders: Vec<Request>,
    along: Vec<Request>,
    pending: VecDeque<Stop>,
    guest: Guest,
    peeked: Peeked,
    modules: Vec<Arc<Module>>,
    next_module: u32,
    /// The modules that the kernel had when it was asked last.
    known_list: Vec<loadable::Loaded>,
    /// The ends of its list, as they were then, and when it is followed again.
    list_ends: Option<Vec<u8>>,
    next_walk: Duration,
    /// Whether its ends are others now.
    must_walk: bool,
    files: KernelFiles,
    images: Arc<Images>,
    unwinder: Unwinder,
    lively: Vec<Range<u64>>,
    /// Whether nobody made progress at the last look.
    stalled: bool,
    /// How many long windows are over.
    elapsed: u32,
    next_look: Duration,
    losses: Losses,
    signals: Arc<Signals>,
    unseen: BTreeMap<String, String>,
    /// Why it can be driven no more.
    broken: Option<GdbError>,
    /// For how long nobody ran.
    stood: Stood,
}

impl Vm {
    /// Time begins now.
    pub fn begin(&mut self) {
        self.started = Instant::now();
        self.next_look = Duration::ZERO;
        self.next_walk = Duration::ZERO;
        self.stood = Stood::default();
    }

    /// See [`Gdb::keep_apart`].
    pub fn keep_apart(&mut self) {
        self.gdb.keep_apart();
    }

    /// Lets the machine go as it was.
    pub fn detach(mut self) {
        self.orders.clear();
        if self.gdb.is_running() {
            let _ = self.gdb.interrupt(PATIENCE);
        }
        // One that is gone needs nothing any more.
        let _ = self.gdb.detach();
    }

    /// Asks, after what was put off. Stops the machine for it.
    fn ask(&mut self, requests: &[Request]) -> Option<Vec<Answer>> {
        if self.broken.is_some() {
            return None;
        }
        let mut all = std::mem::take(&mut self.orders);
        let put_off = all.len();
        all.extend_from_slice(requests);
        let along = std::mem::take(&mut self.along);
        all.extend_from_slice(&along);
        let asked = if self.gdb.is_running() {
            let asked = self.gdb.interrupt_then_ask(&all, PATIENCE);
            asked.map(|(reply, answers)| {
                // What happened just before is not lost.
                self.stopped(reply);
                answers
            })
        } else {
            self.gdb.ask(&all)
        };
        match asked {
            Ok(mut answers) => {
                let wanted = put_off + requests.len();
                let peeked = answers.split_off(wanted.min(answers.len()));
                self.peeked.answered(&along, peeked, true);
                Some(answers.split_off(put_off.min(answers.len())))
            }
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }

    /// Makes sure that all CPUs stand. What happened just before is not lost.
    fn stop(&mut self) {
        if self.gdb.is_running() {
            self.ask(&[]);
        }
    }

    /// How many CPUs are held, and how many can be.
    fn held(&self) -> usize {
        self.vcpus.values().filter(|vcpu| vcpu.held).count()
    }

    fn most_held(&self) -> usize {
        at_once(self.vcpus.len().saturating_sub(1), WATCHES)
    }

    /// Orders the breakpoints that are wanted. A CPU that stands at one and is let go
    /// would reach it again without having moved; there it comes a moment later.
    fn arrange_breakpoints(&mut self) {
        let leaving: Vec<u64> = self
            .vcpus
            .values()
            .filter(|vcpu| !vcpu.held)
            .filter_map(|vcpu| Some(vcpu.registers?.general.rip))
            .collect();
        let mut wanted = self.breakpoints.clone();
        wanted.retain(|at| !leaving.contains(at));
        let gone = self.standing.difference(&wanted);
        let gone = gone.map(|at| Request::Remove(software(*at)));
        let new = wanted.difference(&self.standing);
        let new = new.map(|at| Request::Insert(software(*at)));
        self.orders.extend(gone.chain(new));
        self.standing = wanted;
    }

    /// Lets every CPU go that is not held.
    fn let_go(&mut self) {
        if !self.gdb.is_running() {
            self.ask_and_go_on(&[]);
        }
    }

    /// Asks as [`Vm::ask`] does, and lets every CPU go that is not held before the
    /// answers are here.
    fn ask_and_go_on(&mut self, requests: &[Request]) -> Option<Vec<Answer>> {
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
        for set in self.sets.iter_mut().flatten() {
            let Set { before, late, .. } = set;
            for number in std::mem::take(late) {
                before.remove(&number);
            }
        }
        let all = free.len() == self.vcpus.len();
        let mut orders = std::mem::take(&mut self.orders);
        let put_off = orders.len();
        orders.extend_from_slice(requests);
        let only = (!all).then_some(free.as_slice());
        self.peeked.forget();
        self.along.clear();
        let asked = self.gdb.ask_then_resume(&orders, only);
        self.stood.ends();
        match asked {
            Ok(mut answers) => Some(answers.split_off(put_off.min(answers.len()))),
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }

    /// The stub says that all CPUs stand.
    fn stopped(&mut self, reply: StopReply) {
        self.stood.begins(self.gdb.stopped_at());
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
        // Of one that will go on at once only its place matters.
        let passes = watch.is_none() && self.held() >= self.most_held();
        if !passes {
            self.fetch_registers(Some((number, watch.is_some())));
        } else if self.whose_registers().contains(&number) {
            self.fetch(&[number], &[]);
        }
        let Some(registers) = self.registers(number) else {
            return;
        };
        match watch {
            Some((_, address)) => self.touched(number, address),
            None => self.reached(number, &registers),
        }
    }

    /// A CPU stands before an instruction that may be armed.
    fn reached(&mut self, number: u32, registers: &VcpuRegisters) {
        let rip = registers.general.rip;
        // Another one was first, or the stub tells of what is removed already.
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

    /// A CPU is said to have touched watched bytes.
    fn touched(&mut self, number: u32, address: u64) {
        let Some(registers) = self.registers(number) else {
            return;
        };
        // One that is held has executed nothing.
        if self.vcpus.get(&number).is_some_and(|vcpu| vcpu.held) {
            self.losses.add(Loss::StaleTrap);
            return;
        }
        let Some(set) = self.set_at(address) else {
            self.losses.add(Loss::StaleTrap);
            return;
        };
        if !set.has_moved(number, &registers) {
            // One late stop can come of each CPU, not two.
            set.late.insert(number);
            self.losses.add(Loss::StaleTrap);
            return;
        }
        // A user's address means nothing by itself.
        let is_user = set.watch.bytes.start.0 < USER_END;
        if is_user && (set.root.is_none() || set.root != root(&registers)) {
            self.losses.add(Loss::OtherSpace);
            return;
        }
        set.fired += 1;
        let stop = Stop::Watch {
            task: TaskId(number),
            registers: registers.general,
            number: set.watch.number,
            address: set.watch.bytes.start,
        };
        self.hold(number);
        self.pending.push_back(stop);
        self.peek_along(&self.told_of_held());
    }

    /// The watch that an address is under.
    fn set_at(&mut self, address: u64) -> Option<&mut Set> {
        self.sets.iter_mut().flatten().find(|set| {
            let bytes = set.watch.bytes;
            (bytes.start.0..bytes.end()).contains(&address)
        })
    }

    fn hold(&mut self, number: u32) {
        if let Some(vcpu) = self.vcpus.get_mut(&number) {
            vcpu.held = true;
        }
    }

    /// The CPUs whose registers are not known.
    fn whose_registers(&self) -> Vec<u32> {
        let unknown = |(_, vcpu): &(&u32, &Vcpu)| vcpu.registers.is_none();
        let vcpus = self.vcpus.iter().filter(unknown);
        vcpus.map(|(number, _)| *number).collect()
    }

    fn note_registers(&mut self, whose: &[u32], answers: Vec<Answer>) {
        for (number, answer) in whose.iter().zip(answers) {
            if let Some(vcpu) = self.vcpus.get_mut(number) {
                vcpu.registers = answer.registers();
                let seen = vcpu.registers.as_ref().and_then(Self::per_cpu);
                vcpu.per_cpu = seen.or(vcpu.per_cpu);
            }
        }
    }

    /// Makes the registers of all CPUs known. Of the one that stopped the machine it
    /// will be asked at once what it is doing, and if it touched watched bytes then of
    /// the held ones too; that comes along.
    fn fetch_registers(&mut self, stopped: Option<(u32, bool)>) {
        let mut whose = self.whose_registers();
        if whose.is_empty() {
            return self.stop();
        }
        let mut hot = Vec::new();
        if let Some((stopped, touched)) = stopped {
            whose.sort_by_key(|number| *number != stopped);
            let mut ranges = self.hot(stopped);
            if touched {
                ranges.extend(self.told_of_held());
            }
            hot = self.peeked.requests(stopped, &ranges);
        }
        self.fetch(&whose, &hot);
    }

    /// Asks for the registers of these CPUs, and for memory as the first sees it.
    fn fetch(&mut self, whose: &[u32], hot: &[Request]) {
        let mut requests: Vec<Request> = whose.iter().copied().map(Request::Registers).collect();
        let first = requests.len().min(1);
        requests.splice(first..first, hot.iter().copied());
        let Some(mut answers) = self.ask(&requests) else {
            return;
        };
        let rest = answers.len().min(1 + hot.len());
        let others = answers.split_off(rest);
        let peeked = answers.split_off(answers.len().min(1));
        answers.extend(others);
        self.note_registers(whose, answers);
        let first = whose.first().and_then(|number| self.vcpus.get(number));
        self.peeked
            .answered(hot, peeked, first.is_some_and(Vcpu::sees_kernel));
    }

    /// Those of a CPU, which stands.
    fn registers(&mut self, number: u32) -> Option<VcpuRegisters> {
        if self.vcpus.get(&number)?.registers.is_none() {
            self.fetch_registers(None);
        }
        self.vcpus.get(&number)?.registers
    }

    /// What is to be asked for to read memory as it is, through the page tables of
    /// whoever means it.
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

    /// A CPU that sees the kernel, which one that runs a user's program may not; if
    /// there is one, one that stays where it is.
    fn kernel_view(&self) -> u32 {
        let seeing = self.vcpus.iter().filter(|(_, vcpu)| vcpu.sees_kernel());
        let best = seeing.max_by_key(|(_, vcpu)| vcpu.held);
        best.map_or(self.view, |(number, _)| *number)
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let bytes = self.peek(address, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
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

    /// How a session that can go on no more ended.
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

/// The page tables of a CPU, without the bits that are no address and the one by
/// which a kernel keeps apart the tables that it and the user have.
fn root(registers: &VcpuRegisters) -> Option<u64> {
    Some(registers.cr3? & 0x000f_ffff_ffff_e000)
}
