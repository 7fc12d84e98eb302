//! Turns the kernel's reports about traced processes into stops for the window driver.
//! What is the target's own business goes on as if nobody were looking.

use super::hooks::Hook;
use super::tasks::{self, SignalField, bit};
use super::text::INT3;
use super::watches::{PerfWatches, Watches};
use super::{Newborn, Process, State, Task};
use redhanded_model::{Avma, Registers, SpaceId, TaskId};
use redhanded_sys::{self as sys, Change, Tid};
use redhanded_target::{Control, Ending, Stop, TargetError};
use std::time::{Duration, Instant};

/// How long to spin for the next report before sleeping.
const SPIN: Duration = Duration::from_micros(30);
/// SIGCHLD goes to the whole process, so another thread that drives another program may
/// take ours.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Signals that end a program with a core dump, usually because of a bug.
const FATAL: [i32; 10] = [
    libc::SIGQUIT,
    libc::SIGTRAP,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// The ending that a change means, if it means one.
pub fn ending(change: Change) -> Option<Ending> {
    match change {
        Change::Exited(status) => Some(Ending::Exited { status }),
        Change::Killed(signal, core) => Some(Ending::Killed { signal, core }),
        Change::Stopped(..) => None,
    }
}

pub(super) fn task_id(tid: Tid) -> TaskId {
    TaskId(tid.cast_unsigned())
}

/// Waits a moment for something that began at `since`. It must sleep: this thread runs
/// before all others, and what it waits for may need this very CPU.
pub(super) fn pause(since: Instant) {
    if since.elapsed() < SPIN {
        std::hint::spin_loop();
    } else {
        std::thread::sleep(SPIN);
    }
}

/// Waits for the next change of `tid`, and shows meanwhile that we are alive.
pub(super) fn await_change(tid: Tid) -> std::io::Result<Option<Change>> {
    let began = Instant::now();
    loop {
        sys::beat();
        match sys::poll_change_of(tid) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(None) => pause(began),
            other => return other,
        }
    }
}

impl Process {
    /// Handles reports until one concerns the driver or the deadline passes.
    pub(super) fn poll(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        // A thread that was just resumed often stops again at once, and sleeping costs
        // more than looking a few times.
        let spin_until = self.now() + SPIN;
        loop {
            match self.next_change() {
                Ok(Some((tid, change))) => {
                    let stop = self.changed(tid, change);
                    // What was queued on the way comes first.
                    self.pending.extend(stop);
                    if let Some(stop) = self.pending.pop_front() {
                        return Ok(stop);
                    }
                    if self.tasks.is_empty() && self.newborn.is_empty() {
                        return Ok(Stop::Ended(self.ended.unwrap_or(Ending::LeftRunning)));
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
                    self.settle_forgotten();
                    if let Some(taken) = self.signals.wait(left.min(LONGEST_SLEEP))
                        && taken.signal != libc::SIGCHLD
                    {
                        return Ok(Stop::Interrupted {
                            signal: taken.signal,
                            by_process: taken.by_process
                                && taken.signal != redhanded_target::FRONT_DIED,
                        });
                    }
                }
                Err(source) if source.raw_os_error() == Some(libc::ECHILD) => {
                    self.tasks.clear();
                    self.newborn.clear();
                    let ending = *self.ended.get_or_insert(Ending::LeftRunning);
                    return Ok(Stop::Ended(ending));
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

    /// The next report, if there is one.
    pub(super) fn next_change(&mut self) -> std::io::Result<Option<(Tid, Change)>> {
        sys::beat();
        match self.backlog.pop_front() {
            Some(heard) => Ok(Some(heard)),
            None => sys::poll_change(),
        }
    }

    /// The next report of one thread, if there is one.
    pub(super) fn change_of(&mut self, tid: Tid) -> std::io::Result<Option<Change>> {
        sys::beat();
        let heard = self.backlog.iter().position(|(heard, _)| *heard == tid);
        match heard.and_then(|at| self.backlog.remove(at)) {
            Some((_, change)) => Ok(Some(change)),
            None => sys::poll_change_of(tid),
        }
    }

    /// Waits for the first stop of a new task. Returns whether it lived to have one.
    pub(super) fn await_birth(&mut self, tid: Tid) -> bool {
        let change = match self.change_of(tid) {
            Ok(None) => await_change(tid),
            heard => heard,
        };
        matches!(change, Ok(Some(Change::Stopped(..))))
    }

    pub(super) fn changed(&mut self, tid: Tid, change: Change) -> Option<Stop> {
        if let Change::Stopped(signal, event) = change {
            return self.stopped(tid, signal, event);
        }
        self.newborn.remove(&tid);
        self.tracers.remove(&tid);
        self.parked.retain(|parked| *parked != tid);
        if tid == self.pid {
            self.ended = ending(change);
        }
        self.pc_samples.remove(&tid);
        let task = self.tasks.remove(&tid)?;
        self.pending.push_back(Stop::TaskGone(task_id(tid)));
        if tid == task.pid {
            // A daemon's parent may be gone before its child is heard of.
            self.settle_newborns();
        }
        self.leave_space(task.space)
    }

    /// Removes a task from a space. Reports it if that was the last one.
    pub(super) fn leave_space(&mut self, id: SpaceId) -> Option<Stop> {
        let heir = self.tasks_in(id).map(|(_, task)| task.pid).next();
        let space = self.spaces.get_mut(&id)?;
        match heir {
            Some(pid) if sys::cpu_time(space.pid).is_none() => {
                space.pid = pid;
                space.breakpoints.run_by(pid);
                None
            }
            Some(_) => None,
            None => {
                self.note_owed_scan(id);
                self.spaces.remove(&id);
                self.gather_modules();
                Some(Stop::SpaceGone(id))
            }
        }
    }

    fn stopped(&mut self, tid: Tid, signal: i32, event: i32) -> Option<Stop> {
        if !self.tasks.contains_key(&tid) {
            self.newborn_stopped(tid);
            return None;
        }
        let state = self.tasks.get(&tid).map(|task| task.state);
        self.set_state(tid, State::Stopped(0));
        match event {
            0 => self.signalled(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Ok(child) = sys::event_message(tid) {
                    self.child_of(tid, child as Tid, event);
                }
                // A space that starts to be sampled is armed before its threads are
                // resumed.
                if self.pending.is_empty() {
                    self.go_on(tid, 0);
                } else {
                    self.parked.push(tid);
                }
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
                        if state == Some(State::GroupStopped) {
                            self.continued(tid);
                        }
                        self.see_stack(tid);
                        Self::restart_system_call(tid);
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

    /// Reads a new thread's stack pointer if that was not possible when it was added.
    fn see_stack(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid)
            && task.stack == 0
        {
            task.stack = sys::registers(tid).map_or(0, |registers| registers.stack_pointer());
        }
    }

    /// Handles the first stop of a new task, whether its parent's event has come or
    /// not.
    fn newborn_stopped(&mut self, tid: Tid) {
        match self.newborn.remove(&tid) {
            Some(Newborn::Unseen(kind)) => self.settle(tid, kind),
            _ => drop(self.newborn.insert(tid, Newborn::Stopped(self.now()))),
        }
    }

    /// Handles a signal that is about to be delivered: ours, or the target's.
    fn signalled(&mut self, tid: Tid, signal: i32) -> Option<Stop> {
        if signal != libc::SIGTRAP {
            return self.deliver(tid, signal);
        }
        let (Ok(info), Ok(registers)) = (sys::signal_info(tid), sys::registers(tid)) else {
            self.go_on(tid, signal);
            return None;
        };
        match info.code {
            sys::SI_KERNEL => self.trapped(tid, registers),
            // Of two pending signals the kernel keeps only the first: the thread ran on
            // after a watch fired, and into a breakpoint.
            sys::TRAP_PERF if info.late && self.has_executed_breakpoint(tid, &registers) => {
                self.trapped(tid, registers)
            }
            sys::TRAP_PERF if PerfWatches::is_site(info.data) => self.reached(tid, registers),
            sys::TRAP_PERF => Some(Stop::Watch {
                task: task_id(tid),
                registers,
                number: info.data,
                address: Avma(info.address),
            }),
            sys::TRAP_HWBKPT => self.register_fired(tid, registers),
            // Of two pending signals the kernel shows the first, which is not ours.
            _ if self.stands_behind_site(tid, &registers) => match self.hold_trap_again(tid) {
                Ok(()) => self.trapped(tid, registers),
                Err(change) => {
                    // Something else comes first. The thread traps here again afterwards.
                    let _ = sys::move_to(tid, registers.rip.wrapping_sub(1));
                    self.changed(tid, change)
                }
            },
            _ if self.own_trap(tid) => None,
            _ => self.deliver(tid, signal),
        }
    }

    /// Whether a thread is one byte into a longer instruction that has or had a
    /// breakpoint. Only executing that breakpoint can have brought it there.
    fn has_executed_breakpoint(&self, tid: Tid, registers: &Registers) -> bool {
        let address = registers.rip.wrapping_sub(1);
        let Some(space) = self.space_of(tid) else {
            return false;
        };
        let breakpoints = &space.breakpoints;
        if space.hooks.at(address).is_some() && breakpoints.stands_at(address) {
            return !self.was_carried_to(tid, registers);
        }
        if !breakpoints.stands_at(address) && !breakpoints.was_at(address) {
            return false;
        }
        let instruction = space.instruction_at(address);
        instruction.is_some_and(|instruction| instruction.len() > 1)
    }

    /// Whether a thread has executed nothing since the instruction at a hook was carried out for
    /// it. If that is one byte long, the thread is where executing the breakpoint would have
    /// brought it, but its stack pointer differs.
    fn was_carried_to(&self, tid: Tid, registers: &Registers) -> bool {
        let here = (registers.rip, registers.stack_pointer());
        let task = self.tasks.get(&tid);
        task.is_some_and(|task| task.carried_to == Some(here))
    }

    /// Whether a thread that really blocks SIGTRAP has just executed a breakpoint.
    fn stands_behind_site(&self, tid: Tid, registers: &Registers) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.holds_trap)
            && !self.was_carried_to(tid, registers)
            && self
                .space_of(tid)
                .is_some_and(|space| space.breakpoints.stands_at(registers.rip.wrapping_sub(1)))
    }

    /// Delivers a signal of the target's own.
    fn deliver(&mut self, tid: Tid, signal: i32) -> Option<Stop> {
        if !FATAL.contains(&signal) || !self.will_kill(tid, signal) {
            self.go_on(tid, signal);
            return None;
        }
        // A core dump should hold the program's own code. But a vforked child runs in
        // its parent's memory, and the parent lives on.
        let Task { pid, space: id, .. } = *self.tasks.get(&tid)?;
        let alone = self.tasks_in(id).all(|(_, task)| task.pid == pid);
        if let Some(space) = self.spaces.get_mut(&id).filter(|_| alone) {
            space.breakpoints.clear(&space.memory, |_| false);
            space.hooks = Default::default();
            space.doomed = true;
        }
        self.set_state(tid, State::Stopped(signal));
        Some(Stop::Fatal {
            task: task_id(tid),
            registers: sys::registers(tid).unwrap_or_default(),
            signal,
        })
    }

    /// Whether a signal that is about to be delivered has no handler.
    fn will_kill(&self, tid: Tid, signal: i32) -> bool {
        let handled =
            tasks::signals(tid, SignalField::Handled) | tasks::signals(tid, SignalField::Ignored);
        self.space_of(tid).is_some_and(|space| space.awake) && handled & bit(signal) == 0
    }

    /// Handles an executed `int3`: of a site, of a hook, of a breakpoint that is gone
    /// already, or of the program itself.
    fn trapped(&mut self, tid: Tid, mut registers: Registers) -> Option<Stop> {
        let address = registers.rip.wrapping_sub(1);
        let id = self.tasks.get(&tid)?.space;
        let space = self.spaces.get_mut(&id)?;
        let hook = space.hooks.at(address);
        let ours = hook.is_none() && space.remove_breakpoint(address);
        let gone = hook.is_none()
            && space.breakpoints.was_at(address)
            && space.byte_at(address) != Some(INT3);
        if hook.is_none() && !ours && !gone {
            return self.deliver(tid, libc::SIGTRAP);
        }
        self.mend_trap(tid);
        match hook {
            Some(Hook::Linker) => return self.linker_called(tid, &registers),
            Some(Hook::Allocator(call)) => {
                self.allocator_called(tid, address, call, &registers);
                return self.carry_out_simply(tid, address, &registers);
            }
            Some(Hook::AllocatorReturns) => {
                self.allocator_returns(tid, address, &registers);
                return self.carry_out_simply(tid, address, &registers);
            }
            Some(hook) => return self.carry_out(tid, address, hook),
            None => {}
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

    /// Handles a thread that is about to execute an instruction at a debug register's
    /// address.
    fn reached(&mut self, tid: Tid, registers: Registers) -> Option<Stop> {
        let id = self.tasks.get(&tid)?.space;
        let safe = self.settings.safe;
        let registers_of = self
            .spaces
            .get_mut(&id)
            .and_then(|space| space.register_sites(safe));
        if registers_of.is_some_and(|sites| sites.remove_site(Avma(registers.rip))) {
            return Some(Stop::Breakpoint {
                task: task_id(tid),
                registers,
            });
        }
        // Another thread came first.
        self.go_on(tid, 0);
        None
    }

    /// Handles a watch in a debug register that was set through ptrace.
    fn register_fired(&mut self, tid: Tid, registers: Registers) -> Option<Stop> {
        self.mend_trap(tid);
        let task = self.tasks.get(&tid)?;
        let hits = task.registers.hits(tid);
        let Some(Watches::Registers(watches)) =
            self.spaces.get_mut(&task.space).map(|s| &mut s.watches)
        else {
            self.go_on(tid, 0);
            return None;
        };
        for (slot, _) in &hits {
            watches.fired[*slot] += 1;
        }
        let Some((_, watch)) = hits.first() else {
            self.go_on(tid, 0);
            return None;
        };
        Some(Stop::Watch {
            task: task_id(tid),
            registers,
            number: watch.number,
            address: watch.bytes.start,
        })
    }
}
