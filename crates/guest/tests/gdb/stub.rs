//! Against the `gdbstub` crate: a tiny machine of two threads behind somebody
//! else's implementation of the protocol.

use gdbstub::common::{Signal, Tid};
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps,
    WatchKind,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::x86::X86_64_SSE;
use gdbstub_arch::x86::reg::X86_64CoreRegs;
use redhanded_guest::Source;
use redhanded_guest::gdb::{Answer, Gdb, Point, PointKind, Request, StopReply};
use redhanded_model::Register;
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// Both threads run in circles through so many addresses from here.
const CODE: u64 = 0xffff_ffff_8100_0000;
const CIRCLE: u64 = 16;
/// Where thread 1 writes when it is at the seventh, and thread 2 one after it.
const DATA: u64 = 0xffff_8880_0000_1000;
const WRITES_AT: u64 = CODE + 7;

struct SimulatedMachine {
    pc: [u64; 2],
    rounds: [u64; 2],
    memory: [u8; 64],
    runs: [bool; 2],
    named: bool,
    breakpoints: BTreeSet<u64>,
    watched: BTreeSet<u64>,
    turn: usize,
}

impl SimulatedMachine {
    const fn new() -> Self {
        Self {
            pc: [CODE; 2],
            rounds: [0; 2],
            memory: [0; 64],
            runs: [true; 2],
            named: false,
            breakpoints: BTreeSet::new(),
            watched: BTreeSet::new(),
            turn: 0,
        }
    }

    /// One instruction of the thread whose turn it is.
    fn step(&mut self) -> Option<MultiThreadStopReason<u64>> {
        self.turn ^= 1;
        let who = self.turn;
        let tid = Tid::new(who + 1).unwrap();
        if !self.runs[who] {
            return None;
        }
        if self.breakpoints.contains(&self.pc[who]) {
            return Some(MultiThreadStopReason::SwBreak(tid));
        }
        let writes = self.pc[who] == WRITES_AT;
        self.pc[who] += 1;
        if self.pc[who] == CODE + CIRCLE {
            self.pc[who] = CODE;
            self.rounds[who] += 1;
        }
        if !writes {
            return None;
        }
        self.memory[who] = self.memory[who].wrapping_add(1);
        let addr = DATA + who as u64;
        self.watched
            .contains(&addr)
            .then_some(MultiThreadStopReason::Watch {
                tid,
                kind: WatchKind::Write,
                addr,
            })
    }
}

impl Target for SimulatedMachine {
    type Arch = X86_64_SSE;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for SimulatedMachine {
    fn read_registers(&mut self, regs: &mut X86_64CoreRegs, tid: Tid) -> TargetResult<(), Self> {
        let who = tid.get() - 1;
        regs.rip = *self.pc.get(who).ok_or(TargetError::NonFatal)?;
        regs.regs = std::array::from_fn(|n| 0x100 * tid.get() as u64 + n as u64);
        regs.regs[0] = self.rounds[who];
        regs.eflags = 0x202;
        regs.segments.cs = 0x10;
        Ok(())
    }

    fn write_registers(&mut self, _: &X86_64CoreRegs, _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let start = start.checked_sub(DATA).ok_or(TargetError::NonFatal)? as usize;
        let end = start.checked_add(data.len()).ok_or(TargetError::NonFatal)?;
        let memory = self.memory.get(start..end).ok_or(TargetError::NonFatal)?;
        data.copy_from_slice(memory);
        Ok(data.len())
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, register: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        for tid in [1, 2] {
            register(Tid::new(tid).unwrap());
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for SimulatedMachine {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        (self.runs, self.named) = ([true; 2], false);
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        _: Option<Signal>,
    ) -> Result<(), Self::Error> {
        if !self.named {
            (self.runs, self.named) = ([false; 2], true);
        }
        *self.runs.get_mut(tid.get() - 1).ok_or("no such thread")? = true;
        Ok(())
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for SimulatedMachine {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl Breakpoints for SimulatedMachine {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for SimulatedMachine {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok((CODE..CODE + CIRCLE).contains(&addr) && self.breakpoints.insert(addr))
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&addr))
    }
}

impl HwWatchpoint for SimulatedMachine {
    fn add_hw_watchpoint(&mut self, addr: u64, _: u64, _: WatchKind) -> TargetResult<bool, Self> {
        Ok(self.watched.insert(addr))
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        _: u64,
        _: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.watched.remove(&addr))
    }
}

enum Loop {}

impl BlockingEventLoop for Loop {
    type Target = SimulatedMachine;
    type Connection = UnixStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        machine: &mut SimulatedMachine,
        stream: &mut UnixStream,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<&'static str, std::io::Error>> {
        loop {
            // First, so that it has run however soon the interrupt comes.
            for _ in 0..100 {
                if let Some(stop) = machine.step() {
                    return Ok(Event::TargetStopped(stop));
                }
            }
            if stream.peek().map_or(true, |byte| byte.is_some()) {
                let byte = ConnectionExt::read(stream);
                return byte
                    .map(Event::IncomingData)
                    .map_err(WaitForStopReasonError::Connection);
            }
        }
    }

    fn on_interrupt(_: &mut SimulatedMachine) -> Result<Option<Self::StopReason>, &'static str> {
        Ok(Some(MultiThreadStopReason::Signal(Signal::SIGINT)))
    }
}

fn point(kind: PointKind, address: u64) -> Point {
    Point {
        kind,
        address,
        len: 1,
    }
}

#[test]
fn drives_a_machine_behind_another_implementation() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stub = thread::spawn(move || {
        let mut machine = SimulatedMachine::new();
        let reason = GdbStub::new(theirs).run_blocking::<Loop>(&mut machine);
        (reason.map_err(|error| error.to_string()), machine)
    });
    let mut gdb = Gdb::over(ours, PATIENCE).unwrap();
    assert_eq!(gdb.vcpus(), [1, 2]);

    let both = gdb.registers_of(&[2, 1]).unwrap();
    let rbx_and_r15 = |n: usize| {
        let general = both[n].general;
        (general.get(Register::Rbx), general.get(Register::R15))
    };
    assert_eq!(rbx_and_r15(0), (0x201, 0x20f));
    assert_eq!(rbx_and_r15(1), (0x101, 0x10f));
    assert_eq!(both[0].general.rip, CODE);
    assert_eq!((both[0].general.rflags, both[0].cs), (0x202, Some(0x10)));
    assert_eq!((both[0].cr3, both[0].gs_base), (None, None), "not told");

    // A breakpoint catches one thread, and leaves it standing there.
    let site = point(PointKind::Software, CODE + 3);
    let nowhere = point(PointKind::Software, 0x1000);
    assert_eq!(gdb.insert(&[site, nowhere]).unwrap(), [true, false]);
    gdb.resume(Some(&[2])).unwrap();
    let Some(StopReply::Stopped { vcpu, signal, .. }) = gdb.wait(PATIENCE).unwrap() else {
        panic!("no stop at the breakpoint");
    };
    assert_eq!((vcpu, signal), (Some(2), StopReply::TRAP));
    assert_eq!(gdb.registers(2).unwrap().general.rip, CODE + 3);
    assert_eq!(gdb.registers(1).unwrap().general.rip, CODE, "was held");
    assert_eq!(gdb.remove(&[site, site]).unwrap(), [true, false]);

    // While it is held the other one runs into the watch on its own byte.
    let watch = point(PointKind::Write, DATA);
    assert_eq!(gdb.insert(&[watch]).unwrap(), [true]);
    gdb.resume(Some(&[1])).unwrap();
    let hit = StopReply::Stopped {
        vcpu: Some(1),
        signal: StopReply::TRAP,
        watch: Some((PointKind::Write, DATA)),
    };
    assert_eq!(gdb.wait(PATIENCE).unwrap(), Some(hit));
    assert_eq!(gdb.registers(1).unwrap().general.rip, WRITES_AT + 1);
    assert_eq!(gdb.registers(2).unwrap().general.rip, CODE + 3);
    let read = gdb.read_many(None, &[(DATA, 2), (DATA + 63, 2), (DATA + 63, 1)]);
    assert_eq!(read.unwrap(), [vec![1, 0], vec![], vec![0]]);
    assert_eq!(gdb.remove(&[watch]).unwrap(), [true]);

    // With nothing in their way they run until they are stopped.
    gdb.resume(None).unwrap();
    assert_eq!(gdb.wait(Duration::from_millis(5)).unwrap(), None);
    let requests = [Request::Registers(1), Request::Registers(2)];
    let (stop, answers) = gdb.interrupt_then_ask(&requests, PATIENCE).unwrap();
    assert!(matches!(
        stop,
        StopReply::Stopped {
            signal: StopReply::INTERRUPT,
            ..
        }
    ));
    let rounds: Vec<u64> = answers
        .into_iter()
        .filter_map(Answer::registers)
        .map(|registers| registers.general.get(Register::Rax))
        .collect();
    assert!(
        rounds.len() == 2 && rounds.iter().all(|n| *n > 0),
        "{rounds:?}"
    );

    // What still stands is removed by the farewell.
    assert_eq!(gdb.insert(&[watch, site]).unwrap(), [true, true]);
    gdb.detach().unwrap();
    let (reason, machine) = stub.join().unwrap();
    assert!(matches!(reason, Ok(DisconnectReason::Disconnect)));
    assert!(machine.breakpoints.is_empty() && machine.watched.is_empty());
}
