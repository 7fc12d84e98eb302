//! Lets go of a process so that nothing is left behind and no thread notices.
//!
//! Breakpoints and watches are removed first, then traps that are under way are
//! awaited. If the tracer is a process of its own it then simply ends: the kernel frees
//! its tracees where they are, even asleep. If not, each thread is stopped to be
//! detached.

use super::events::{ending, pause};
use super::tasks::{self, SignalField, bit};
use super::watches::Watches;
use super::{Process, State};
use redhanded_sys::{self as sys, Change, Tid};
use redhanded_target::{Control, Ending, Stop};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Nothing is under way if no report has come for this long.
const SETTLED_AFTER: Duration = Duration::from_millis(2);
/// The longest time to wait for that; there may always be something.
const PATIENCE: Duration = Duration::from_millis(300);
/// The longest time to wait for traps that are known to be pending. On a busy machine a
/// thread may wait long for a CPU.
const TRAPS_COME_WITHIN: Duration = Duration::from_secs(5);
/// How often to look for the stop of an interrupted thread before giving up.
const STOP_TRIES: u32 = 2000;
/// The same for a thread with a pending SIGTRAP, which would kill it.
const TRAP_TRIES: u32 = 25_000;
/// How often to look for threads that were started during a detach.
const DETACH_ROUNDS: u32 = 100;
const TRAP: u64 = bit(libc::SIGTRAP);

/// Whether a thread has ended, or stopped because it was interrupted.
pub const fn is_last_or_asked_for(change: Change) -> bool {
    !matches!(change, Change::Stopped(_, event) if event != libc::PTRACE_EVENT_STOP)
}

impl Process {
    /// Removes everything of ours and lets all threads go, untraced.
    pub fn detach(&mut self) {
        if self.tasks.is_empty() && self.newborn.is_empty() {
            return;
        }
        self.withdraw();
        sys::let_waiter_run(false);
        self.settle_down();
        self.settle_all_newborns();
        self.pay_back();
        if self.lifelines.is_none() {
            self.detach_each();
        }
        self.tasks.clear();
        self.newborn.clear();
    }

    /// Waits for the end of a program that this process launched and no longer traces.
    pub fn wait_for_end(&mut self) -> Ending {
        while self.ended.is_none() {
            match sys::wait_for(self.pid) {
                Ok(Some(change)) => self.ended = ending(change),
                _ => break,
            }
        }
        self.ended.unwrap_or(Ending::LeftRunning)
    }

    /// Removes breakpoints, hooks and watches.
    fn withdraw(&mut self) {
        self.settings.follow = super::Follow::None;
        let spaces: Vec<_> = self.spaces.keys().copied().collect();
        for id in spaces {
            self.note_owed_scan(id);
            if let Some(space) = self.spaces.get_mut(&id) {
                space.breakpoints.clear(&space.memory, |_| false);
                space.hooks = Default::default();
                if let Watches::Registers(watches) = &mut space.watches {
                    watches.wanted = Default::default();
                } else {
                    space.watches = Watches::Refused(String::new());
                }
            }
            self.update_debug_registers(id);
        }
        self.settle_all_newborns();
    }

    /// Resumes stopped threads until nothing is under way: no thread is behind a
    /// removed breakpoint or has a trap pending.
    fn settle_down(&mut self) {
        self.resume_parked();
        // Whoever has stopped once has no trap on its way.
        let mut to_stop: BTreeSet<Tid> = self.tasks.keys().copied().collect();
        to_stop.retain(|tid| tasks::wants_to_run(*tid) && sys::interrupt(*tid).is_ok());
        let began = Instant::now();
        let mut heard = Instant::now();
        while began.elapsed() < TRAPS_COME_WITHIN {
            self.release_all();
            let patient = began.elapsed() < PATIENCE;
            match self.next_change() {
                Ok(Some((tid, change))) => {
                    if is_last_or_asked_for(change) {
                        to_stop.remove(&tid);
                    }
                    let stop = self.changed(tid, change);
                    self.pending.extend(stop);
                    heard = Instant::now();
                }
                Ok(None) if patient && heard.elapsed() < SETTLED_AFTER => pause(heard),
                Ok(None) => {
                    let coming = |tid: &Tid| {
                        let waiting = tasks::signals(*tid, SignalField::Pending) & TRAP;
                        waiting & !tasks::signals(*tid, SignalField::Blocked) != 0
                    };
                    if to_stop.is_empty() && !self.tasks.keys().any(coming) {
                        return;
                    }
                    heard = Instant::now();
                    std::thread::sleep(SETTLED_AFTER / 10);
                }
                Err(_) => return,
            }
        }
    }

    fn release_all(&mut self) {
        while let Some(stop) = self.pending.pop_front() {
            if let Stop::Breakpoint { task, .. }
            | Stop::Watch { task, .. }
            | Stop::Fatal { task, .. } = stop
            {
                self.resume(task);
            }
        }
        self.resume_parked();
    }

    /// Blocks SIGTRAP again in threads that believe they block it, and discards ours
    /// that are pending there.
    fn pay_back(&mut self) {
        let owing: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(tid, task)| {
                task.owes_trap
                    || self.owes_action(task.space)
                    || (!task.holds_trap && tasks::signals(**tid, SignalField::Pending) & TRAP != 0)
            })
            .map(|(tid, _)| *tid)
            .collect();
        for tid in owing {
            self.pay_back_one(tid);
        }
    }

    fn pay_back_one(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(&tid) else {
            return;
        };
        let holds = task.holds_trap;
        // Whether it should block SIGTRAP in the end.
        let mut blocks = task.owes_trap;
        let _ = sys::interrupt(tid);
        let mut tries = STOP_TRIES;
        while tries > 0 {
            tries -= 1;
            match self.change_of(tid) {
                Ok(Some(Change::Stopped(libc::SIGTRAP, 0))) => {
                    // The pending one, or a trap that came late.
                    let stop = self.changed(tid, Change::Stopped(libc::SIGTRAP, 0));
                    self.pending.extend(stop);
                    self.release_all();
                    // Not earlier: an interruption comes before a signal, which would
                    // never have been delivered then.
                    let _ = sys::interrupt(tid);
                }
                Ok(Some(Change::Stopped(_, libc::PTRACE_EVENT_STOP))) => {
                    let waits = !holds && tasks::signals(tid, SignalField::Pending) & TRAP != 0;
                    let mask = sys::signal_mask(tid).unwrap_or(0);
                    blocks |= mask & TRAP != 0;
                    Self::restart_system_call(tid);
                    if waits {
                        // It is delivered next, and reported to us.
                        let _ = sys::set_signal_mask(tid, mask & !TRAP);
                        let _ = sys::resume(tid, 0);
                        tries = TRAP_TRIES;
                        continue;
                    }
                    self.give_action_back(tid);
                    if blocks {
                        let _ = sys::set_signal_mask(tid, mask | TRAP);
                    }
                    if let Some(task) = self.tasks.get_mut(&tid) {
                        task.owes_trap = false;
                    }
                    self.go_on(tid, 0);
                    return;
                }
                Ok(Some(change)) => {
                    let stop = self.changed(tid, change);
                    self.pending.extend(stop);
                    self.release_all();
                    if !self.tasks.contains_key(&tid) {
                        return;
                    }
                }
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(_) => return,
            }
        }
    }

    fn detach_each(&mut self) {
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        for tid in tids {
            match self.tasks.get(&tid).map(|task| task.state) {
                Some(State::Stopped(signal)) => drop(sys::detach(tid, signal)),
                Some(State::Running | State::GroupStopped) => self.stop_and_detach(tid),
                None => {}
            }
        }
        self.settle_newborns();
        // Threads that were started meanwhile are traced without our knowing. Each look
        // may find new ones, but only of threads that the last look missed.
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

    /// Stops a running thread and detaches it.
    fn stop_and_detach(&mut self, tid: Tid) {
        let _ = sys::interrupt(tid);
        for _ in 0..STOP_TRIES {
            match self.change_of(tid) {
                Ok(Some(Change::Stopped(signal, 0))) if signal != libc::SIGTRAP => {
                    let _ = sys::detach(tid, signal);
                    return;
                }
                Ok(Some(Change::Stopped(_, libc::PTRACE_EVENT_STOP))) => {
                    Self::restart_system_call(tid);
                    let _ = sys::detach(tid, 0);
                    return;
                }
                Ok(Some(change)) => {
                    if tid == self.pid {
                        self.ended = self.ended.or(ending(change));
                    }
                    let stop = self.changed(tid, change);
                    self.pending.extend(stop);
                    self.release_all();
                    if ending(change).is_some() {
                        return;
                    }
                }
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(_) => return,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Every way out, even a panic, restores the text.
        self.detach();
    }
}
