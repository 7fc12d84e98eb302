//! The state of one open window, and of one debug register.

use crate::Arm;
use redhanded_model::{
    AccessKind, Avma, Bytes, Registers, SpaceId, TaskId, WindowEnd, WindowId, WindowPlan,
    WindowRecord,
};
use std::time::Duration;

/// What a window is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waiting for a hit, or for its delay to pass.
    Waiting,
    /// Unwatched; outstanding hits are waited for until then.
    Draining(Duration),
    /// Something was seen; its tasks are held until they are released.
    Collided,
}

/// A window that has not ended.
#[derive(Clone, Debug)]
pub struct OpenWindow {
    pub record: WindowRecord,
    pub plan: WindowPlan,
    pub slots: Vec<(usize, Bytes)>,
    pub opened: Duration,
    pub deadline: Duration,
    /// When the bytes are read again.
    pub next_recheck: Duration,
    /// How often that was done.
    pub rechecks: u32,
    pub phase: Phase,
    pub stalled: u32,
    /// When its hit was taken.
    pub caught: Option<Duration>,
}

impl OpenWindow {
    pub fn new(
        id: WindowId,
        task: TaskId,
        registers: Registers,
        arm: Arm,
        bytes: Bytes,
        kind: AccessKind,
    ) -> Self {
        Self {
            record: WindowRecord {
                id,
                space: SpaceId::default(),
                module: arm.module,
                svma: arm.svma,
                pc: Avma(registers.rip),
                task,
                registers,
                bytes,
                kind,
                before: Vec::new(),
                after: Vec::new(),
                hit: None,
                end: WindowEnd::Elapsed,
                held: Duration::ZERO,
                losses: Vec::new(),
            },
            plan: arm.plan,
            slots: Vec::new(),
            opened: Duration::ZERO,
            deadline: Duration::ZERO,
            next_recheck: Duration::ZERO,
            rechecks: 0,
            phase: Phase::Waiting,
            stalled: 0,
            caught: None,
        }
    }

    /// How long its task has been held.
    pub fn held(&self, now: Duration) -> Duration {
        now.saturating_sub(self.opened)
    }

    /// How long the task that was caught has been held.
    pub fn other_held(&self, now: Duration) -> Duration {
        let since = self.caught.filter(|_| self.record.hit.is_some());
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// The tasks that it holds.
    pub fn held_tasks(&self) -> Vec<TaskId> {
        let hit = self.record.hit.as_ref().map(|hit| hit.task);
        std::iter::once(self.record.task).chain(hit).collect()
    }

    /// The part of its bytes that debug registers watch: all of them, or for a long
    /// string instruction a part that differs from window to window.
    pub fn watchable(&self, widest: u64) -> Bytes {
        let bytes = self.record.bytes;
        if bytes.len <= widest {
            return bytes;
        }
        let first = bytes.start.0.next_multiple_of(8);
        let positions = (bytes.end() - first).saturating_sub(widest) / 8 + 1;
        let start = first + 8 * (self.record.id.0 % positions);
        Bytes::new(Avma(start), widest.min(bytes.end() - start))
    }
}

/// A debug register.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// The window that uses it.
    pub window: Option<WindowId>,
    /// The window that used it last.
    pub last: Option<WindowId>,
    /// Delivered hits of the window that uses it.
    pub delivered: u64,
    /// Outstanding hits of the last window.
    pub missing: u64,
    /// When it was last cleared.
    pub cleared: Duration,
    /// Until when outstanding hits are waited for.
    pub busy_until: Duration,
}

impl Slot {
    pub fn is_free(&self, now: Duration) -> bool {
        self.window.is_none() && (self.missing == 0 || now >= self.busy_until)
    }
}
