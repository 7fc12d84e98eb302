//! Control: running, stopping, arming and watching a live target.

use crate::Armed;
use crate::{Ending, TargetError};
use redhanded_model::{Avma, Bytes, Losses, Registers, SpaceId, TaskId, Watch};
use std::time::Duration;

/// How many windows may be open at once in a space with this many other tasks and
/// debug registers. Two tasks that are both held cannot collide with each other, so
/// at least half of them stay free.
#[must_use]
pub fn windows_at_once(tasks: usize, debug_registers: usize) -> usize {
    tasks.div_ceil(2).min(debug_registers).max(1)
}

/// Limits of a backend that can arm only a few sites at once. The sites rotate:
/// most code does not run at a given moment, and a site that is never reached
/// would block one that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RotationLimits {
    /// The most sites armed at once in a space.
    pub at_once: usize,
    /// The longest a site stays armed without being reached.
    pub longest: Duration,
    /// Whether a site that is reached stops every task, not only the one that
    /// reached it.
    pub stops_all: bool,
}

/// Why a machine stopped, or what it noticed.
#[derive(Clone, PartialEq, Debug)]
pub enum Stop {
    /// A task reached an armed site. The breakpoint is removed already and the pc is
    /// at the instruction.
    Breakpoint {
        /// The task.
        task: TaskId,
        /// Its registers before the access.
        registers: Registers,
    },
    /// A task accessed watched bytes.
    Watch {
        /// The task.
        task: TaskId,
        /// Its registers after the access.
        registers: Registers,
        /// The number given when the watch was set.
        number: u64,
        /// Where the watch was when it fired.
        address: Avma,
    },
    /// A signal is about to kill the target; it is delivered when the task is
    /// resumed.
    Fatal {
        /// The task that got it.
        task: TaskId,
        /// Its registers.
        registers: Registers,
        /// The signal.
        signal: i32,
    },
    /// A task ended.
    TaskGone(TaskId),
    /// Modules were mapped or unmapped. Breakpoints in unmapped ones are forgotten.
    ModulesChanged,
    /// This space has a second task now.
    SecondTask(SpaceId),
    /// A space is gone, with its windows, watches and breakpoints: its last task
    /// ended, or became another program.
    SpaceGone(SpaceId),
    /// A signal for the tool.
    Interrupted {
        /// The signal.
        signal: i32,
        /// Whether a process sent it.
        by_process: bool,
    },
    /// The target ended.
    Ended(Ending),
    /// The deadline passed.
    Deadline,
}

/// Who could collide with a sampled access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherTasks {
    /// Nobody: one task, private memory.
    Absent,
    /// This many tasks, all of which can be watched.
    Watchable(usize),
    /// Only tasks that cannot be watched: another process, through shared memory.
    Unwatchable,
    /// The bytes are a device's registers, and reading them could have effects.
    Device,
}

/// What the window driver needs to control a target.
pub trait Control {
    /// Time since the start.
    fn now(&self) -> Duration;

    /// Runs until something happens or the deadline passes.
    ///
    /// # Errors
    /// When the machine can no longer be driven.
    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError>;

    /// The limits of a backend that can arm only a few sites at once.
    fn rotation(&self) -> Option<RotationLimits> {
        None
    }

    /// Sets breakpoints at these addresses, each where the first byte of the code is
    /// the expected one. Tells for each whether it was set.
    fn set_breakpoints(&mut self, space: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed>;

    /// Removes all breakpoints.
    fn clear_breakpoints(&mut self);

    /// How many watches can be set at once in a space.
    fn watches(&self, space: SpaceId) -> usize;

    /// Sets a watch in every task of a space. Whether that worked.
    fn watch(&mut self, space: SpaceId, slot: usize, watch: Watch) -> bool;

    /// Clears a watch; how often it fired since it was set.
    fn unwatch(&mut self, space: SpaceId, slot: usize) -> u64;

    /// Resumes a stopped task.
    fn resume(&mut self, task: TaskId);

    /// Resumes stopped tasks into a stop of their whole process that outlasts the
    /// tracer: they stay where they are, for a debugger to attach. Not every target
    /// can be left like that.
    fn freeze(&mut self, _tasks: &[TaskId]) {}

    /// Who could collide with an access of `task` to `bytes`.
    fn other_tasks(&mut self, task: TaskId, bytes: Bytes) -> OtherTasks;

    /// Whether every task of a space that is not stopped is blocked.
    fn is_stalled(&mut self, space: SpaceId) -> bool;

    /// Thread time used so far.
    fn thread_time(&mut self) -> Duration;

    /// How long tasks were held in all because modules came or went, not by windows.
    fn held_for_modules(&self) -> Duration {
        Duration::ZERO
    }

    /// The machine's own losses since the last call.
    fn take_losses(&mut self) -> Losses {
        Losses::default()
    }
}
