//! What the kernel reports of a traced process, sorted: stops that the window
//! driver wants to hear of, and the target's own business, which goes on as if
//! nobody were looking.

use super::text::INT3;
use super::{Newborn, Process, State, open_memory, tasks};
use crate::sys::{self, Change, Tid};
use crate::{Ending, Machine, Stop, TargetError};
use redhanded_model::{Avma, Registers, TaskId};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How often a thread that is told to stop is looked at before it is given up.
const STOP_TRIES: u32 = 2000;

/// How long the next report is awaited without sleeping.
const SPIN: Duration = Duration::from_micros(30);
/// How often threads that were born during a detach are looked for.
const DETACH_ROUNDS: u32 = 100;
/// SIGCHLD goes to the whole process: another thread that drives a program of
/// its own may take ours.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The ending that a change means, if it means one.
pub fn ending(change: Change) -> Option<Ending> {
    match change {
        Change::Exited(status) => Some(Ending::Exited(status)),
        Change::Killed(signal, core) => Some(Ending::Killed { signal, core }),
        Change::Stopped(..) => None,
    }
}

fn task_id(tid: Tid) -> TaskId {
    TaskId(tid.cast_unsigned())
}

impl Process {
    /// Takes reports until one concerns the driver or the deadline passes.
    pub(super) fn poll(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        // A thread that was just let go often stops again at once, and sleeping
        // and waking cost more than a short look or two.
        let spin_until = self.now() + SPIN;
        loop {
            match sys::poll_change() {
                Ok(Some((tid, change))) => {
                    if let Some(stop) = self.changed(tid, change) {
                        return Ok(stop);
                    }
                    if let Some(stop) = self.pending.pop_front() {
                        return Ok(stop);
                    }
                }
                Ok(None) => {
                    let left = deadline.saturating_sub(self.now());
                    if left.is_zero() {
                        return Ok(Stop::Deadline);
                    }
                    if self.now() < spin_until {
                        std::hint::spin_loop();
                        continue;
                    }
                    if let Some(taken) = self.signals.0.wait(left.min(LONGEST_SLEEP))
                        && taken.signal != libc::SIGCHLD
                    {
                        return Ok(Stop::Interrupted {
                            signal: taken.signal,
                            by_process: taken.by_process,
                        });
                    }
                }
                Err(source) if source.raw_os_error() == Some(libc::ECHILD) => {
                    self.ended = Some(Ending::LeftRunning);
                    return Ok(Stop::Ended(Ending::LeftRunning));
                }
                Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(TargetError::System {
                        action: "cannot wait for the program".to_owned(),
                        source,
                    });
                }
            }
        }
    }

    fn changed(&mut self, tid: Tid, change: Change) -> Option<Stop> {
        if let Change::Stopped(signal, event) = change {
            return self.stopped(tid, signal, event);
        }
        self.newborn.remove(&tid);
        let known = self.tasks.remove(&tid).is_some();
        self.parked.retain(|parked| *parked != tid);
        if tid == self.pid {
            let ending = ending(change)?;
            self.ended = Some(ending);
            // A daemon's parent is gone before its child was heard of.
            self.let_newborns_go();
            return Some(Stop::Ended(ending));
        }
        known.then_some(Stop::TaskGone(task_id(tid)))
    }

    fn stopped(&mut self, tid: Tid, signal: i32, event: i32) -> Option<Stop> {
        if !self.tasks.contains_key(&tid) {
            self.newborn_stopped(tid);
            return None;
        }
        self.set_state(tid, State::Stopped(0));
        match event {
            0 => self.signalled(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Ok(child) = sys::event_message(tid) {
                    self.child_of(child as Tid, event);
                }
                self.go_on(tid, 0);
                None
            }
            libc::PTRACE_EVENT_EXEC => self.execed(tid),
            libc::PTRACE_EVENT_STOP => {
                match signal {
                    libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                        self.set_state(tid, State::GroupStopped);
                        let _ = sys::listen(tid);
                    }
                    _ => {
                        self.see_stack(tid);
                        self.go_on(tid, 0);
                    }
                }
                None
            }
            _ => {
                self.go_on(tid, 0);
                None
            }
        }
    }

    /// A new thread's stack pointer, if it could not be read when it was added.
    fn see_stack(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid)
            && task.stack == 0
        {
            task.stack = sys::registers(tid).map_or(0, |registers| registers.gpr[4]);
        }
    }

    fn set_state(&mut self, tid: Tid, state: State) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.state = state;
        }
    }

    /// The first stop of something whose parent's event has not told what it is,
    /// or has.
    fn newborn_stopped(&mut self, tid: Tid) {
        if self.newborn.get(&tid) == Some(&Newborn::ForkedUnseen) {
            self.newborn.remove(&tid);
            self.let_child_go(tid);
        } else if tasks::process_of(tid) == Some(self.pid) {
            self.add_task(tid, false);
            self.go_on(tid, 0);
        } else {
            self.newborn.insert(tid, Newborn::Stopped);
        }
    }

    /// A thread made `child` by fork, vfork or clone.
    fn child_of(&mut self, child: Tid, event: i32) {
        if self.tasks.contains_key(&child) {
            return;
        }
        if tasks::process_of(child) == Some(self.pid) {
            // Its first stop, which is still to come, finds it known and lets it
            // go; until then it does not run.
            if self.newborn.remove(&child).is_some() {
                self.add_task(child, false);
                self.go_on(child, 0);
            } else {
                self.add_task(child, false);
            }
            return;
        }
        let shares_memory = event == libc::PTRACE_EVENT_VFORK
            || (event == libc::PTRACE_EVENT_CLONE && sys::same_memory(self.pid, child));
        let stopped = self.newborn.remove(&child) == Some(Newborn::Stopped);
        if shares_memory {
            // Its breakpoints are ours: it stays traced until it execs or ends.
            self.add_task(child, true);
            if stopped {
                self.go_on(child, 0);
            }
        } else if stopped {
            self.let_child_go(child);
        } else {
            self.newborn.insert(child, Newborn::ForkedUnseen);
        }
    }

    /// A forked child has a copy of the text: it gets its bytes back and is no
    /// longer our business.
    fn let_child_go(&mut self, child: Tid) {
        if let Ok(memory) = open_memory(child) {
            self.breakpoints.restore_in(&memory);
        }
        let _ = sys::detach(child, 0);
        self.note("child processes", "not followed");
    }

    /// Lets everything go whose first stop or parent's event is still to come,
    /// with its own bytes: nobody will be there to hear of it later.
    fn let_newborns_go(&mut self) {
        for (tid, state) in std::mem::take(&mut self.newborn) {
            let stopped = state == Newborn::Stopped
                || matches!(sys::wait_for(tid), Ok(Some(Change::Stopped(..))));
            if stopped {
                self.let_child_go(tid);
            }
        }
    }

    fn execed(&mut self, tid: Tid) -> Option<Stop> {
        if tid != self.pid {
            // A vforked child became a program of its own.
            self.tasks.remove(&tid);
            let _ = sys::detach(tid, 0);
            self.note("child processes", "not followed");
            return Some(Stop::TaskGone(task_id(tid)));
        }
        self.let_newborns_go();
        match open_memory(self.pid) {
            Ok(memory) => {
                self.memory = memory;
                self.begin_image();
                Some(Stop::Replaced)
            }
            Err(_) => {
                self.go_on(tid, 0);
                None
            }
        }
    }

    /// A signal is about to be delivered: ours, or the target's.
    fn signalled(&mut self, tid: Tid, signal: i32) -> Option<Stop> {
        if signal != libc::SIGTRAP {
            self.go_on(tid, signal);
            return None;
        }
        let (Ok(info), Ok(registers)) = (sys::signal_info(tid), sys::registers(tid)) else {
            self.go_on(tid, signal);
            return None;
        };
        match info.code {
            sys::SI_KERNEL => self.trapped(tid, registers),
            sys::TRAP_PERF => Some(Stop::Watch {
                task: task_id(tid),
                registers,
                number: info.data,
                address: Avma(info.address),
            }),
            _ => {
                self.go_on(tid, signal);
                None
            }
        }
    }

    /// A thread executed an `int3`: a site's, the linker's, one that is gone
    /// already, or the program's own.
    fn trapped(&mut self, tid: Tid, mut registers: Registers) -> Option<Stop> {
        let address = registers.rip.wrapping_sub(1);
        if self
            .notification
            .is_some_and(|linker| linker.ret == address)
        {
            return self.linker_called(tid, &registers);
        }
        let ours = self.breakpoints.remove(&self.memory, address);
        let gone = self.breakpoints.was_at(address) && self.byte_at(address) != Some(INT3);
        if !ours && !gone {
            self.go_on(tid, libc::SIGTRAP);
            return None;
        }
        registers.rip = address;
        let _ = sys::move_to(tid, address);
        if ours {
            return Some(Stop::Breakpoint {
                task: task_id(tid),
                registers,
            });
        }
        self.go_on(tid, 0);
        None
    }

    fn byte_at(&self, address: u64) -> Option<u8> {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, address).ok()?;
        Some(byte[0])
    }

    /// The dynamic linker mapped or unmapped something. Carries out the `ret`.
    fn linker_called(&mut self, tid: Tid, registers: &Registers) -> Option<Stop> {
        let stack = registers.gpr[4];
        let mut word = [0; 8];
        if self.memory.read_exact_at(&mut word, stack).is_ok() {
            let _ = sys::return_to(tid, u64::from_le_bytes(word), stack.wrapping_add(8));
        }
        if self.scan_modules() {
            // It stays until the new library's sites are armed.
            self.parked.push(tid);
            return Some(Stop::ModulesChanged);
        }
        self.go_on(tid, 0);
        None
    }

    /// Removes every trace of us and lets all threads go, untraced.
    pub fn detach(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.notification = None;
        self.breakpoints.clear(&self.memory);
        self.watches.events.clear();
        self.parked.clear();
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            match self.tasks.get(&tid).map(|task| task.state) {
                Some(State::Stopped(signal)) => drop(sys::detach(tid, signal)),
                Some(State::Running | State::GroupStopped) => self.stop_and_detach(tid),
                None => {}
            }
        }
        self.tasks.clear();
        self.let_newborns_go();
        // Threads that were born meanwhile are traced without our knowing. Each
        // look may find new ones, but only of threads that the last one missed.
        for _ in 0..DETACH_ROUNDS {
            let traced = tasks::traced(self.pid);
            if traced.is_empty() {
                break;
            }
            for tid in traced {
                self.stop_and_detach(tid);
            }
        }
    }

    /// Stops a running thread where nothing of ours is under way in it, then
    /// lets it go.
    fn stop_and_detach(&mut self, tid: Tid) {
        let _ = sys::interrupt(tid);
        for _ in 0..STOP_TRIES {
            let change = match sys::poll_change_of(tid) {
                Ok(Some(change)) => change,
                Ok(None) => {
                    std::thread::sleep(Duration::from_micros(500));
                    continue;
                }
                Err(_) => return,
            };
            let Change::Stopped(signal, event) = change else {
                if tid == self.pid {
                    self.ended = ending(change);
                }
                return;
            };
            let deliver = if event == 0 {
                self.signal_at_detach(tid, signal)
            } else if event == libc::PTRACE_EVENT_STOP && tasks::is_pending(tid, libc::SIGTRAP) {
                // A trap of ours was under way when it was told to stop: it is
                // delivered next.
                let _ = sys::resume(tid, 0);
                let _ = sys::interrupt(tid);
                continue;
            } else {
                if let Ok(child) = sys::event_message(tid)
                    && event != libc::PTRACE_EVENT_STOP
                    && event != libc::PTRACE_EVENT_EXEC
                {
                    // Made before the bytes were restored, perhaps.
                    let _ = sys::wait_for(child as Tid);
                    self.let_child_go(child as Tid);
                }
                0
            };
            let _ = sys::detach(tid, deliver);
            return;
        }
    }

    /// The signal to leave a thread with: none if it is a trap of ours.
    fn signal_at_detach(&mut self, tid: Tid, signal: i32) -> i32 {
        if signal != libc::SIGTRAP {
            return signal;
        }
        let Ok(info) = sys::signal_info(tid) else {
            return signal;
        };
        if info.code == sys::TRAP_PERF {
            return 0;
        }
        if info.code == sys::SI_KERNEL
            && let Ok(registers) = sys::registers(tid)
        {
            let address = registers.rip.wrapping_sub(1);
            if self.breakpoints.was_at(address) && self.byte_at(address) != Some(INT3) {
                let _ = sys::move_to(tid, address);
                return 0;
            }
        }
        signal
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Every way out, a panic too, leaves the text as it was.
        self.detach();
    }
}
