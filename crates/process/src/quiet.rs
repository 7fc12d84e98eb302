//! Stopping threads so that they do not notice.
//!
//! A thread that is told to stop leaves the system call it sleeps in. Most calls
//! the kernel restarts by itself; a few (`epoll_wait`, `sigtimedwait`, …) return
//! EINTR, which no program expects when no signal came. Those are begun again by
//! us. A thread that sleeps in one of them is not woken at all where that can be
//! avoided, because a time limit would begin anew.

use super::events::pause;
use super::tasks::{self, Signals};
use super::watches::{Table, Watches};
use super::{MOST_STALL_CHECKS, Process, State, Task};
use redhanded_model::SpaceId;
use redhanded_sys::{self as sys, Change, Tid};
use std::time::{Duration, Instant};

/// How long running threads may take to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(20);

/// Calls that do not go on by themselves after a stop.
const NOT_RESTARTED: [i64; 16] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    // These, where their socket has a time limit.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
];

impl Process {
    /// Begins a system call again that a stop of ours ended. `tid` stands in that
    /// stop.
    pub(super) fn undo_interruption(tid: Tid) {
        let Ok(mut registers) = sys::raw_registers(tid) else {
            return;
        };
        let ended_by_a_stop = registers.rax.cast_signed() == -i64::from(libc::EINTR)
            && NOT_RESTARTED.contains(&registers.orig_rax.cast_signed());
        if !ended_by_a_stop {
            return;
        }
        // A signal that waits to be handled ended it, too.
        let mask = sys::signal_mask(tid).unwrap_or(0);
        let waiting =
            tasks::signals(tid, Signals::Pending) | tasks::signals(tid, Signals::PendingForProcess);
        if waiting & !mask != 0 {
            return;
        }
        registers.rax = registers.orig_rax;
        registers.rip -= 2;
        registers.orig_rax = u64::MAX;
        let _ = sys::set_raw_registers(tid, &registers);
    }

    /// Brings the debug registers of all threads of a space up to date. Those
    /// that do not stop in time get them when they do.
    pub(super) fn spread_registers(&mut self, space: SpaceId) {
        let Some(Watches::Registers(watches)) = self.spaces.get(&space).map(|s| &s.watches) else {
            return;
        };
        let wanted = watches.wanted;
        let stale: Vec<(Tid, Task)> = self
            .tasks_in(space)
            .filter(|(_, task)| task.registers != wanted)
            .map(|(tid, task)| (*tid, task.clone()))
            .collect();
        let many = stale.len() > MOST_STALL_CHECKS;
        let mut waiting = Vec::new();
        for (tid, task) in stale {
            match task.state {
                State::Stopped(_) => self.apply_registers(tid),
                State::GroupStopped => {}
                State::Running => {
                    // Whoever sleeps touches nothing, and is let sleep where that
                    // is dear; but a watch must not stay behind.
                    let asleep = |call: i64| call >= 0 && (many || NOT_RESTARTED.contains(&call));
                    let empty = task.registers == Table::default();
                    if empty && tasks::sleeps_in(task.pid, tid).is_some_and(asleep) {
                        continue;
                    }
                    let _ = sys::interrupt(tid);
                    waiting.push(tid);
                }
            }
        }
        self.collect(waiting);
    }

    /// Waits for these threads, which were told to stop, and lets each go on with
    /// its debug registers up to date.
    fn collect(&mut self, mut waiting: Vec<Tid>) {
        let until = Instant::now() + STOPS_WITHIN;
        let mut heard = Instant::now();
        while !waiting.is_empty() && Instant::now() < until {
            let Ok(Some((tid, change))) = self.next_change() else {
                pause(heard);
                continue;
            };
            heard = Instant::now();
            let stop = self.changed(tid, change);
            self.pending.extend(stop);
            // What it stopped for may be something else; the stop we asked for
            // then comes when it goes on, and is nobody's concern.
            let up_to_date = match self.tasks.get(&tid).map(|task| task.state) {
                Some(State::Stopped(_)) => {
                    self.apply_registers(tid);
                    true
                }
                Some(_) => matches!(change, Change::Stopped(_, libc::PTRACE_EVENT_STOP)),
                None => true,
            };
            if up_to_date {
                waiting.retain(|waited| *waited != tid);
            }
        }
    }

    /// How often a register fired in all threads since it was set.
    pub(super) fn registers_fired(&self, space: SpaceId, slot: usize) -> u64 {
        match self.spaces.get(&space).map(|space| &space.watches) {
            Some(Watches::Registers(watches)) => watches.fired[slot],
            _ => 0,
        }
    }
}
