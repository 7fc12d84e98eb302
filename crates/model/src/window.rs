//! Windows: what `detect` asks of a target, and what it gets back.

use crate::{
    AccessKind, Avma, Bytes, Context, ContextKind, Loss, ModuleId, Registers, SpaceId, Svma, TaskId,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The number of a window, never used twice in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct WindowId(pub u64);

/// How a window detects a conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// Debug registers only.
    Watch,
    /// Re-reading only.
    Reread,
    /// Both.
    #[default]
    Both,
}

impl Strategy {
    /// Whether debug registers are used.
    #[must_use]
    pub const fn watches(self) -> bool {
        !matches!(self, Self::Reread)
    }

    /// Whether changed bytes count.
    #[must_use]
    pub const fn rereads(self) -> bool {
        !matches!(self, Self::Watch)
    }
}

/// How long a task is held when nothing happens, by the context it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// For a thread of a program, or a kernel's task that can be preempted.
    pub task: Duration,
    /// For code of a kernel that cannot: other CPUs may spin until it goes on.
    pub atomic: Duration,
    /// For an interrupt's handler; with zero it is not held.
    pub interrupt: Duration,
}

impl Delays {
    /// The delays of a program, which has one context.
    #[must_use]
    pub const fn of_tasks(task: Duration) -> Self {
        Self {
            task,
            atomic: task,
            interrupt: task,
        }
    }

    /// Each delay times `part`.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        Self {
            task: self.task.mul_f64(part),
            atomic: self.atomic.mul_f64(part),
            interrupt: self.interrupt.mul_f64(part),
        }
    }

    /// The delay for a context.
    #[must_use]
    pub const fn in_context(self, context: Option<Context>) -> Duration {
        match context {
            None => self.task,
            Some(context) => match context.kind {
                ContextKind::Hardirq | ContextKind::Nmi => self.interrupt,
                ContextKind::Task | ContextKind::Softirq if context.is_atomic() => self.atomic,
                ContextKind::Task | ContextKind::Softirq => self.task,
            },
        }
    }
}

/// What the window at a site should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowPlan {
    /// How long the task is held when nothing happens.
    pub delay: Delays,
    /// How conflicts are detected.
    pub strategy: Strategy,
    /// Whether the window ends early when no other task can make progress.
    pub end_early: bool,
}

/// A conflicting access, as a watch reported it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hit {
    /// The task that made it.
    pub task: TaskId,
    /// Its registers right after the access.
    pub registers: Registers,
    /// The watched piece that fired.
    pub watched: Bytes,
    /// The bytes of the sampled access, read when the hit was taken.
    pub bytes_now: Vec<u8>,
}

/// How a window ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WindowEnd {
    /// Its delay was over.
    Elapsed,
    /// No other task could make progress.
    Blocked,
    /// The bytes changed.
    Changed,
    /// A hit was accepted as its collision.
    Collided,
    /// Its task or the target ended, or the tool detaches.
    Cut,
    /// The bytes were unmapped.
    Unmapped,
}

/// The result of a window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Its number.
    pub id: WindowId,
    /// The address space of the sampled bytes.
    pub space: SpaceId,
    /// The module of the sampled instruction.
    pub module: ModuleId,
    /// The sampled instruction in its file.
    pub svma: Svma,
    /// The sampled instruction in the target.
    pub pc: Avma,
    /// The held task.
    pub task: TaskId,
    /// Its registers, before the access.
    pub registers: Registers,
    /// The bytes it was about to access.
    pub bytes: Bytes,
    /// What it was about to do to them.
    pub kind: AccessKind,
    /// The bytes when the window opened.
    pub before: Vec<u8>,
    /// The bytes when it closed, or when a change was first seen.
    pub after: Vec<u8>,
    /// The accepted conflicting access, if there was one.
    pub hit: Option<Hit>,
    /// How it ended.
    pub end: WindowEnd,
    /// How long the task was held.
    pub held: Duration,
    /// What went wrong in it.
    pub losses: Vec<Loss>,
}

impl WindowRecord {
    /// Whether the bytes were seen to change.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.before != self.after
    }
}
