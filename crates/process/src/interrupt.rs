//! Stops threads so that they do not notice.
//!
//! An interrupted thread leaves the system call that it sleeps in. The kernel restarts
//! most calls; a few (`epoll_wait`, `sigtimedwait`, …) return EINTR, which no program
//! expects without a signal. Those are restarted here. A thread that sleeps in one of
//! them is not interrupted if that can be avoided, because a timeout would begin again.

use super::events::pause;
use super::tasks::{self, SignalField};
use super::watches::{Table, Watches};
use super::{MOST_STALL_CHECKS, Process, State, Task};
use redhanded_model::SpaceId;
use redhanded_sys::{self as sys, Change, Tid};
use std::time::{Duration, Instant};

/// How long running threads may take to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(20);

/// Calls that the kernel does not restart after a stop.
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
    // These, if their socket has a timeout.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
];

impl Process {
    /// Restarts a system call that our interruption ended. `tid` is stopped by it.
    pub(super) fn restart_system_call(tid: Tid) {
        let Ok(mut registers) = sys::raw_registers(tid) else {
            return;
        };
        let ended_by_a_stop = registers.rax.cast_signed() == -i64::from(libc::EINTR)
            && NOT_RESTARTED.contains(&registers.orig_rax.cast_signed());
        if !ended_by_a_stop {
            return;
        }
        // A pending signal would have ended it as well.
        let mask = sys::signal_mask(tid).unwrap_or(0);
        let waiting = tasks::signals(tid, SignalField::Pending)
            | tasks::signals(tid, SignalField::PendingForProcess);
        if waiting & !mask != 0 {
            return;
        }
        registers.rax = registers.orig_rax;
        registers.rip -= 2;
        registers.orig_rax = u64::MAX;
        let _ = sys::set_raw_registers(tid, &registers);
    }

    /// Writes the wanted watches to the debug registers of all threads of a space.
    /// Threads that do not stop in time get them at their next stop.
    pub(super) fn update_debug_registers(&mut self, space: SpaceId) {
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
                    // A sleeping thread touches no memory, and waking it can be
                    // expensive. But a watch must not stay behind in it.
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
        self.resume_updated(waiting);
    }

    /// Waits until these interrupted threads stop, and resumes each with up-to-date
    /// debug registers.
    fn resume_updated(&mut self, mut waiting: Vec<Tid>) {
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
            // It may have stopped for another reason. The stop we asked for then comes
            // when it is resumed, and does no harm.
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
