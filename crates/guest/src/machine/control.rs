//! Breakpoints, watches and resumption.

use super::watchpoint::{Watchpoint, page_table_root};
use super::{GuestMachine, ROTATION, SPACE, USER_END, WATCHES};
use crate::VcpuRegisters;
use crate::gdb::{Point, PointKind, Request};
use redhanded_image::{After, Instruction};
use redhanded_model::{Avma, Bytes, Loss, Losses, Registers, SpaceId, TaskId};
use redhanded_target::{
    Armed, Batch, Capacity, Control, Inspect, OtherTasks, RotationLimits, Stop, TargetError, Watch,
    WatchFor,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// After this time a resumed CPU has left the instruction that it was stopped at.
const LEAVES_WITHIN: Duration = Duration::from_millis(1);
/// Functions in which a CPU makes no progress: it waits for an interrupt, or for
/// another CPU to release a lock.
const WAITING: &[&str] = &[
    "default_idle",
    "native_safe_halt",
    "pv_native_safe_halt",
    "acpi_safe_halt",
    "acpi_idle_do_entry",
    "acpi_idle_enter",
    "cpu_idle_poll",
    "mwait_idle",
    "intel_idle",
    "poll_idle",
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "rwsem_spin_on_owner",
    "mutex_spin_on_owner",
    "smp_call_function_many_cond",
    "smp_call_function_single",
    "csd_lock_wait",
];

impl Control for GuestMachine {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError> {
        loop {
            if let Some(stop) = self.pending.pop_front() {
                return Ok(stop);
            }
            if let Some(taken) = self.signals.taken() {
                return Ok(taken);
            }
            if self.broken.is_some() {
                return Ok(Stop::Ended(self.ending()));
            }
            self.resume_free();
            if self.broken.is_some() || !self.pending.is_empty() {
                continue;
            }
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(Stop::Deadline);
            }
            // Breakpoints that a resumed CPU had to leave first are inserted now.
            let owes = self.capacity() == Capacity::Free && self.inserted != self.breakpoints;
            let left = if owes { left.min(LEAVES_WITHIN) } else { left };
            match self.gdb.wait(left) {
                Ok(Some(reply)) => self.stopped(reply),
                Ok(None) if owes => self.stop(),
                Ok(None) => return Ok(Stop::Deadline),
                Err(error) => self.broken = Some(error),
            }
        }
    }

    fn rotation(&self) -> Option<RotationLimits> {
        Some(ROTATION)
    }

    fn set_breakpoints(&mut self, _space: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed> {
        let mut done = Vec::with_capacity(sites.len());
        for (address, expected) in sites {
            // The image has the code that was read from the machine.
            let same = self.text(address.0, 1).is_some_and(|b| b[0] == *expected);
            if same {
                self.breakpoints.insert(address.0);
            }
            done.push(if same {
                Armed::Yes
            } else {
                Armed::Refused(Loss::TextChanged)
            });
        }
        // While no further CPU could be held they can wait for the next stop.
        if self.capacity() == Capacity::Free && self.inserted != self.breakpoints {
            self.stop();
        }
        done
    }

    fn clear_breakpoints(&mut self) {
        // They are removed at the next stop; a CPU that reaches one before is resumed.
        self.observe();
        self.breakpoints.clear();
    }

    fn watches(&self, _space: SpaceId) -> usize {
        WATCHES
    }

    fn watch(&mut self, _space: SpaceId, slot: usize, watch: Watch) -> bool {
        self.fetch_registers(None);
        let kind = match watch.watch_for {
            WatchFor::Writes => PointKind::Write,
            WatchFor::ReadsAndWrites => PointKind::Access,
        };
        let point = Point {
            kind,
            address: watch.bytes.start.0,
            len: watch.bytes.len,
        };
        let accessed_by = self
            .vcpus
            .values()
            .find(|vcpu| vcpu.user.is_some_and(|bytes| bytes.overlaps(watch.bytes)));
        let watchpoint = Watchpoint {
            watch,
            point,
            before: self
                .vcpus
                .iter()
                .filter_map(|(number, vcpu)| Some((*number, vcpu.registers?)))
                .collect(),
            late: BTreeSet::new(),
            bytes: None,
            last: None,
            root: accessed_by.and_then(|vcpu| page_table_root(vcpu.registers.as_ref()?)),
            fired: 0,
            downtime_before: self.downtime.total(),
        };
        self.deferred.push(Request::Insert(point));
        self.watchpoints[slot] = Some(watchpoint);
        true
    }

    fn unwatch(&mut self, _space: SpaceId, slot: usize) -> u64 {
        // Hits up to now come first.
        self.stop();
        self.find_unreported_hit(slot);
        let Some(watchpoint) = self.watchpoints[slot].take() else {
            return 0;
        };
        self.deferred.push(Request::Remove(watchpoint.point));
        self.downtime.window_ended(watchpoint.downtime_before);
        watchpoint.fired
    }

    fn resume(&mut self, task: TaskId) {
        let Some(vcpu) = self.vcpus.get_mut(&task.0) else {
            return;
        };
        vcpu.user = None;
        // The stub cannot resume one CPU while others run.
        if std::mem::take(&mut vcpu.held) && self.gdb.is_running() {
            self.stop();
        }
    }

    fn other_tasks(&mut self, task: TaskId, bytes: Bytes) -> OtherTasks {
        if bytes.start.0 < USER_END
            && let Some(vcpu) = self.vcpus.get_mut(&task.0)
        {
            vcpu.user = Some(bytes);
        }
        let kernel = Arc::clone(&self.kernel);
        match self.vcpus.len() {
            0 | 1 => OtherTasks::Absent,
            _ if kernel.is_device(self, task.0, bytes.start.0) => OtherTasks::Device,
            vcpus => OtherTasks::Watchable(vcpus - 1),
        }
    }

    fn is_stalled(&mut self, _space: SpaceId) -> bool {
        self.fetch_registers(None);
        self.stalled = self.vcpus.values().all(|vcpu| {
            let waits = |rip: u64| {
                self.function_at(rip)
                    .is_some_and(|name| WAITING.contains(&name))
            };
            vcpu.held || vcpu.registers.is_some_and(|r| waits(r.general.rip))
        });
        self.stalled
    }

    fn thread_time(&mut self) -> Duration {
        self.now() * u32::try_from(self.vcpus.len()).unwrap_or(u32::MAX)
    }

    fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }
}

impl GuestMachine {
    /// When a CPU accesses watched bytes at the moment we stop the machine, the stub
    /// reports only our stop, and the hit when it is too late. But the CPU is right
    /// behind its access, which shows.
    fn find_unreported_hit(&mut self, slot: usize) {
        let Some(watchpoint) = &self.watchpoints[slot] else {
            return;
        };
        if watchpoint.fired > 0 || watchpoint.bytes == watchpoint.last {
            return;
        }
        let watched = watchpoint.watch.bytes;
        self.fetch_registers(None);
        let free: Vec<(u32, VcpuRegisters)> = self
            .vcpus
            .iter()
            .filter(|(_, vcpu)| !vcpu.held)
            .filter_map(|(number, vcpu)| Some((*number, vcpu.registers?)))
            .collect();
        for (number, registers) in free {
            let Some(watchpoint) = &self.watchpoints[slot] else {
                return;
            };
            if watchpoint.has_moved(number, &registers)
                && self.just_wrote(&registers.general, watched)
            {
                self.watch_hit(number, watched.start.0);
                return;
            }
        }
    }

    /// Whether the instruction that a CPU has just executed wrote these bytes.
    fn just_wrote(&mut self, registers: &Registers, watched: Bytes) -> bool {
        let before = self.instruction_before(SPACE, Avma(registers.rip));
        let instruction = before.and_then(|pc| {
            let len = usize::try_from(registers.rip.wrapping_sub(pc.0)).ok()?;
            Instruction::decode(self.text(pc.0, len)?, pc.0)
        });
        instruction.is_some_and(|instruction| {
            instruction.accesses().iter().any(|access| {
                let after = access.bytes_after(registers);
                access.kind.writes() && matches!(after, After::Exact(b) if b.overlaps(watched))
            })
        })
    }
}
