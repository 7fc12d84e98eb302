//! [`Process`] as what the window driver controls: run, arm, watch, resume, freeze.

use super::tracer::FROZEN;
use super::watches::{self, FOR_SITES, Watches};
use super::{MOST_STALL_CHECKS, Process, State, Task, tasks};
use redhanded_model::{Avma, Bytes, Loss, SpaceId, TaskId};
use redhanded_sys as sys;
use redhanded_target::{
    Armed, Control, Ending, Inspect, OtherTasks, RotationLimits, Stop, TargetError, Watch,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a breakpoint stays in a debug register before another site gets it.
const A_TURN: Duration = Duration::from_millis(10);

impl Control for Process {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        if let Some(stop) = self.pending.pop_front() {
            return Ok(stop);
        }
        if self.tasks.is_empty() && self.newborn.is_empty() {
            let ending = self.ended.unwrap_or(Ending::LeftRunning);
            return Ok(Stop::Ended(ending));
        }
        for space in std::mem::take(&mut self.to_hook) {
            self.expect_breakpoints(space);
        }
        self.resume_parked();
        self.linking.resumed(self.now());
        self.wake_front();
        if self.scan_when_due() {
            return Ok(Stop::ModulesChanged);
        }
        self.poll(deadline)
    }

    fn rotation(&self) -> Option<RotationLimits> {
        self.settings.safe.then_some(RotationLimits {
            at_once: FOR_SITES,
            longest: A_TURN,
            stops_all: false,
        })
    }

    fn set_breakpoints(&mut self, id: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed> {
        let gone = vec![Armed::CodeGone; sites.len()];
        let Some(space) = self.spaces.get_mut(&id) else {
            return gone;
        };
        if self.settings.safe {
            let mut set = |(address, expected): &(Avma, u8)| {
                let Some(byte) = space.byte_at(address.0) else {
                    return Armed::CodeGone;
                };
                if byte != *expected {
                    return Armed::Refused(Loss::TextChanged);
                }
                let registers = space.register_sites(true);
                if registers.is_some_and(|registers| registers.set_site(*address)) {
                    Armed::Yes
                } else {
                    Armed::Refused(Loss::NoDebugRegister)
                }
            };
            return sites.iter().map(&mut set).collect();
        }
        if space.doomed {
            return gone;
        }
        if !sites.is_empty() {
            self.expect_breakpoints(id);
        }
        let Some(space) = self.spaces.get_mut(&id) else {
            return gone;
        };
        space.breakpoints.set(&space.memory, sites)
    }

    fn clear_breakpoints(&mut self) {
        let safe = self.settings.safe;
        for space in self.spaces.values_mut() {
            let hooks: BTreeSet<u64> = space.hooks.addresses().collect();
            let stays = |address| hooks.contains(&address);
            space.breakpoints.clear(&space.memory, stays);
            if let Some(registers) = space.register_sites(safe) {
                registers.clear_sites();
            }
        }
    }

    fn watches(&self, space: SpaceId) -> usize {
        match self.spaces.get(&space).map(|space| &space.watches) {
            Some(Watches::Perf(watches)) => watches.count(),
            Some(Watches::Registers(_)) => watches::DEBUG_REGISTERS,
            Some(Watches::Refused(_)) | None => 0,
        }
    }

    fn watch(&mut self, space: SpaceId, slot: usize, watch: Watch) -> bool {
        match self.spaces.get_mut(&space).map(|space| &mut space.watches) {
            Some(Watches::Perf(watches)) => watches.set(slot, watch),
            Some(Watches::Registers(watches)) => {
                watches.set(slot, watch);
                self.update_debug_registers(space);
                true
            }
            Some(Watches::Refused(_)) | None => false,
        }
    }

    fn unwatch(&mut self, space: SpaceId, slot: usize) -> u64 {
        match self.spaces.get_mut(&space).map(|space| &mut space.watches) {
            Some(Watches::Perf(watches)) => watches.clear(slot),
            Some(Watches::Registers(watches)) => {
                watches.clear(slot);
                self.update_debug_registers(space);
                self.registers_fired(space, slot)
            }
            Some(Watches::Refused(_)) | None => 0,
        }
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

    fn freeze(&mut self, tasks: &[TaskId]) {
        // Before the stop, because the front may hear of it at once.
        if let Some(lifelines) = &self.lifelines {
            lifelines
                .ledger()
                .flags()
                .fetch_or(FROZEN, Ordering::Release);
        }
        for task in tasks {
            self.go_on(task.0.cast_signed(), libc::SIGSTOP);
        }
    }

    fn other_tasks(&mut self, task: TaskId, bytes: Bytes) -> OtherTasks {
        let id = Inspect::space_of(self, task);
        match self.tasks_in(id).count().saturating_sub(1) {
            0 => {
                let now = self.now();
                let space = self.spaces.get_mut(&id);
                if space.is_some_and(|space| space.is_shared(bytes.start.0, now)) {
                    OtherTasks::Unwatchable
                } else {
                    OtherTasks::Absent
                }
            }
            others => OtherTasks::Watchable(others),
        }
    }

    fn is_stalled(&mut self, space: SpaceId) -> bool {
        self.tasks_in(space).count() <= MOST_STALL_CHECKS
            && self.tasks_in(space).all(|(tid, task)| match task.state {
                State::Stopped(_) | State::GroupStopped => true,
                State::Running => tasks::is_blocked(task.pid, *tid),
            })
    }

    fn thread_time(&mut self) -> Duration {
        let awake = self.spaces.values().filter(|space| space.awake);
        for pid in awake.map(|space| space.pid).chain([self.pid]) {
            if let Some(cpu) = sys::cpu_time(pid) {
                self.cpu.insert(pid, cpu);
            }
        }
        // A program that mostly sleeps uses little CPU, but its time passes too.
        let used = self.cpu.values().sum::<Duration>();
        used.saturating_sub(self.cpu_before).max(self.now())
    }

    fn held_for_modules(&self) -> Duration {
        self.linking.held()
    }
}
