//! Execution contexts of a kernel: tasks and interrupts.

use serde::{Deserialize, Serialize};

/// What kind of code a CPU is running.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextKind {
    /// On behalf of a task, in a system call or a kernel thread.
    #[default]
    Task,
    /// A deferred part of an interrupt: timers, network packets.
    Softirq,
    /// An interrupt's handler.
    Hardirq,
    /// The handler of an interrupt that cannot be masked.
    Nmi,
}

impl ContextKind {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Softirq => "softirq",
            Self::Hardirq => "hardirq",
            Self::Nmi => "NMI",
        }
    }
}

/// The context of an access in a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Context {
    /// The CPU, counted from 0.
    pub cpu: u32,
    /// What it is running.
    pub kind: ContextKind,
    /// Whether interrupts are disabled there.
    pub interrupts_off: bool,
    /// Whether preemption is disabled there (by locks, softirqs).
    pub preemption_off: bool,
}

impl Context {
    /// Whether other CPUs may be spinning until this one goes on.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        self.interrupts_off || self.preemption_off || !matches!(self.kind, ContextKind::Task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_task_that_may_be_interrupted_can_be_held_for_long() {
        let task = Context::default();
        assert!(!task.is_atomic());
        let kinds = [ContextKind::Softirq, ContextKind::Hardirq, ContextKind::Nmi];
        for kind in kinds {
            assert!(Context { kind, ..task }.is_atomic());
        }
        let interrupts_off = Context {
            interrupts_off: true,
            ..task
        };
        assert!(interrupts_off.is_atomic());
    }
}
