//! The scenario as a remote target of gdb or lldb: two threads, forwards and backwards.
//!
//! The order is fixed. So time is a number of steps, and whatever the debugger asks is answered
//! by playing the order that far again. Where to is looked up in the list of all steps.

use super::theatre::Theatre;
use crate::screen;
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::x86::X86_64_SSE;
use gdbstub_arch::x86::reg::X86_64CoreRegs;
use redhanded_replay::{
    Fetched, Followed, MappedFile, Memory, Order, Part, Side, State, Step, page_of,
};
use redhanded_sys::{effective_user, peer_user};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Serves one debugger at a socket, until it leaves.
pub fn serve(mut theatre: Theatre, order: Order, socket: &Path) -> Result<(), String> {
    let all = theatre.follow(order, u64::MAX, true)?;
    let turns = all.steps.iter().map(Turn::from).collect();
    let now = theatre.follow(order, 0, false)?;
    let listener = UnixListener::bind(socket)
        .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
    let command = command(&theatre.scenario.files, socket);
    screen::say(&format!(
        "redhanded: the race waits for a debugger, with threads 1 (A) and 2 (B); both directions \
         work\n  {command}"
    ));
    let stream = accept_own(&listener);
    let _ = std::fs::remove_file(socket);
    let stream = stream.map_err(|error| error.to_string())?;
    let mut stage = Stage {
        theatre,
        order,
        turns,
        now,
        breakpoints: BTreeSet::new(),
        action: Action::Continue,
    };
    let served = GdbStub::new(stream).run_blocking::<Loop>(&mut stage);
    served.map(drop).map_err(|error| error.to_string())
}

/// The first debugger of this user or of root. What a scenario holds was in a program's memory,
/// and a loose umask lets others connect.
fn accept_own(listener: &UnixListener) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept()?;
        if [0, effective_user()].contains(&peer_user(stream.as_fd())?) {
            return Ok(stream);
        }
    }
}

/// The command that starts a debugger. People paste it into a shell, and the files' names come
/// from whoever wrote the scenario: one that a shell or gdb would take for more than a name is
/// left out.
fn command(files: &[MappedFile], socket: &Path) -> String {
    let is_plain = |path: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        path.starts_with('/') && path.chars().all(plain)
    };
    let mut command = format!("gdb -ex 'target remote {}'", socket.display());
    for file in files.iter().filter(|file| is_plain(&file.path)) {
        let (path, bias) = (&file.path, file.bias);
        command.push_str(&format!(
            " \\\n      -ex 'add-symbol-file {path} -o {bias:#x}'"
        ));
    }
    command
}

#[derive(Clone, Copy)]
enum Action {
    Continue,
    Step(Side),
    ReverseStep(Side),
    ReverseContinue,
}

/// A step, as far as it matters for where to stop.
#[derive(Clone, Copy)]
struct Turn {
    side: Side,
    /// The instruction that it begins; none if it ends one that was interrupted.
    begins: Option<u64>,
}

impl From<&Step> for Turn {
    fn from(step: &Step) -> Self {
        Self {
            side: step.side,
            begins: (step.part != Part::Write).then_some(step.ip),
        }
    }
}

impl Turn {
    fn is_at(self, breakpoints: &BTreeSet<u64>) -> bool {
        self.begins.is_some_and(|ip| breakpoints.contains(&ip))
    }
}

/// The next step after `at` that begins at a breakpoint.
fn next_stop(turns: &[Turn], at: usize, breakpoints: &BTreeSet<u64>) -> Option<usize> {
    let later = turns.iter().enumerate().skip(at + 1);
    let mut stops = later.filter(|(_, turn)| turn.is_at(breakpoints));
    stops.next().map(|(index, _)| index)
}

/// The last step before `at` that begins at a breakpoint.
fn last_stop(turns: &[Turn], at: usize, breakpoints: &BTreeSet<u64>) -> Option<usize> {
    let earlier = &turns[..at.min(turns.len())];
    earlier.iter().rposition(|turn| turn.is_at(breakpoints))
}

struct Stage {
    theatre: Theatre,
    order: Order,
    turns: Vec<Turn>,
    /// How everything stands.
    now: Followed,
    breakpoints: BTreeSet<u64>,
    action: Action,
}

const fn tid(side: Side) -> Tid {
    match side {
        Side::A => Tid::MIN,
        Side::B => Tid::MIN.saturating_add(1),
    }
}

const fn side(tid: Tid) -> Side {
    if tid.get() == 1 { Side::A } else { Side::B }
}

impl Stage {
    fn go_to(&mut self, at: usize) -> Result<(), String> {
        self.now = self.theatre.follow(self.order, at as u64, false)?;
        Ok(())
    }

    /// Does what was asked for; where that ends.
    fn act(&mut self) -> Result<MultiThreadStopReason<u64>, String> {
        let at = self.now.at as usize;
        let end = |side, pos| {
            let tid = Some(tid(side));
            Ok(MultiThreadStopReason::ReplayLog { tid, pos })
        };
        let stop = match self.action {
            Action::Step(who) => {
                let ours = |turn: &Turn| turn.side == who;
                let Some(further) = self.turns[at..].iter().position(ours) else {
                    self.go_to(self.turns.len())?;
                    return end(who, ReplayLogPosition::End);
                };
                self.go_to(at + further + 1)?;
                return Ok(stepped(who));
            }
            Action::ReverseStep(who) => {
                let ours = |turn: &Turn| turn.side == who;
                let Some(earlier) = self.turns[..at].iter().rposition(ours) else {
                    self.go_to(0)?;
                    return end(who, ReplayLogPosition::Begin);
                };
                self.go_to(earlier)?;
                return Ok(stepped(who));
            }
            Action::Continue => next_stop(&self.turns, at, &self.breakpoints),
            Action::ReverseContinue => last_stop(&self.turns, at, &self.breakpoints),
        };
        if let Some(stop) = stop {
            self.go_to(stop)?;
            return Ok(MultiThreadStopReason::SwBreak(tid(self.turns[stop].side)));
        }
        let (to, turn, position) = match self.action {
            Action::ReverseContinue => (0, self.turns.first(), ReplayLogPosition::Begin),
            _ => (self.turns.len(), self.turns.last(), ReplayLogPosition::End),
        };
        let side = turn.map_or(Side::A, |turn| turn.side);
        self.go_to(to)?;
        end(side, position)
    }

    fn byte(&mut self, at: u64) -> Option<u8> {
        let page = page_of(at);
        let offset = (at % 4096) as usize;
        let now = self
            .now
            .pages
            .binary_search_by_key(&page, |(page, _)| *page);
        if let Ok(index) = now {
            return Some(self.now.pages[index].1.0[offset]);
        }
        match self.theatre.scenario.memory.fetch(page) {
            Fetched::Page(page) => Some(page.bytes.0[offset]),
            _ => None,
        }
    }
}

const fn stepped(side: Side) -> MultiThreadStopReason<u64> {
    MultiThreadStopReason::SignalWithThread {
        tid: tid(side),
        signal: Signal::SIGTRAP,
    }
}

impl Target for Stage {
    type Arch = X86_64_SSE;
    type Error = String;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Stage {
    fn read_registers(&mut self, to: &mut X86_64CoreRegs, tid: Tid) -> TargetResult<(), Self> {
        fill(to, &self.now.threads[side(tid) as usize]);
        Ok(())
    }

    fn write_registers(&mut self, _: &X86_64CoreRegs, _: Tid) -> TargetResult<(), Self> {
        // What happened is not to be changed.
        Err(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let mut read = 0;
        for (at, byte) in (start..).zip(data.iter_mut()) {
            let Some(found) = self.byte(at) else {
                break;
            };
            *byte = found;
            read += 1;
        }
        if read == 0 && !data.is_empty() {
            return Err(TargetError::NonFatal);
        }
        Ok(read)
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, register: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        register(tid(Side::A));
        register(tid(Side::B));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Stage {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        let name = self.theatre.scenario.names[side(tid) as usize].as_bytes();
        let length = name.len().min(buffer.len());
        buffer[..length].copy_from_slice(&name[..length]);
        Ok(length)
    }
}

impl MultiThreadResume for Stage {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.action = Action::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for Stage {
    /// Asked for when a thread is to step over a breakpoint. The order is fixed, so the other one
    /// runs where its turn comes first, as it does at every step.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl MultiThreadSingleStep for Stage {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.action = Action::Step(side(tid));
        Ok(())
    }
}

impl ReverseStep<Tid> for Stage {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Self::Error> {
        self.action = Action::ReverseStep(side(tid));
        Ok(())
    }
}

impl ReverseCont<Tid> for Stage {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        self.action = Action::ReverseContinue;
        Ok(())
    }
}

impl Breakpoints for Stage {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Stage {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.insert(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&address))
    }
}

fn fill(to: &mut X86_64CoreRegs, state: &State) {
    let general = &state.general;
    // gdb has rbx before rcx, and rsi before rbp.
    let order = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
    to.regs = order.map(|number| general[number]);
    to.rip = state.ip;
    to.eflags = state.flags as u32;
    to.mxcsr = state.vectors.mxcsr;
    for (number, xmm) in to.xmm.iter_mut().enumerate() {
        let bytes = state.vectors.register(number, 16);
        *xmm = bytes
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | u128::from(*byte));
    }
}

enum Loop {}

impl BlockingEventLoop for Loop {
    type Target = Stage;
    type Connection = UnixStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        stage: &mut Stage,
        stream: &mut UnixStream,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<String, io::Error>> {
        // Whatever is asked is answered by one replay, which is short, so nothing that comes
        // meanwhile has to interrupt it. But a debugger that is gone is noticed here.
        if stream.peek().map_or(true, |byte| byte.is_some()) {
            let byte = ConnectionExt::read(stream);
            return byte
                .map(Event::IncomingData)
                .map_err(WaitForStopReasonError::Connection);
        }
        let stopped = stage.act().map_err(WaitForStopReasonError::Target)?;
        Ok(Event::TargetStopped(stopped))
    }

    fn on_interrupt(_: &mut Stage) -> Result<Option<Self::StopReason>, String> {
        Ok(Some(MultiThreadStopReason::Signal(Signal::SIGINT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_where_an_instruction_with_a_breakpoint_begins() {
        let turn = |side, begins| Turn { side, begins };
        // The update at 0x14 is interrupted before its write.
        let turns = [
            turn(Side::A, Some(0x10)),
            turn(Side::A, Some(0x14)),
            turn(Side::B, Some(0x20)),
            turn(Side::A, None),
            turn(Side::A, Some(0x10)),
        ];
        let at = |address| BTreeSet::from([address]);
        assert_eq!(next_stop(&turns, 0, &at(0x10)), Some(4));
        assert_eq!(next_stop(&turns, 4, &at(0x10)), None);
        assert_eq!(next_stop(&turns, 1, &at(0x14)), None);
        assert_eq!(last_stop(&turns, 5, &at(0x10)), Some(4));
        assert_eq!(last_stop(&turns, 4, &at(0x10)), Some(0));
        assert_eq!(last_stop(&turns, 5, &at(0x14)), Some(1));
        assert_eq!(next_stop(&turns, 0, &BTreeSet::new()), None);
        assert_eq!(last_stop(&[], 0, &at(0x10)), None);
    }

    #[test]
    fn a_files_name_is_no_command() {
        let file = |path: &str| MappedFile {
            path: path.to_owned(),
            build_id: None,
            bias: 0x1000,
        };
        let hostile = [
            "/a'; touch /tmp/x; '",
            "/a`id`",
            "/a$(id)",
            "/a\nshell id",
            "-x",
            "/a b",
        ];
        let mut files: Vec<_> = hostile.into_iter().map(file).collect();
        files.push(file("/usr/lib/libc.so.6"));
        let command = command(&files, Path::new("s"));
        assert_eq!(
            command,
            "gdb -ex 'target remote s' \\\n      -ex 'add-symbol-file /usr/lib/libc.so.6 -o 0x1000'"
        );
    }
}
