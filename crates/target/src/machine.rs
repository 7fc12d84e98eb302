//! The primitives a window is made of.

use crate::{Armed, Module};
use redhanded_model::{
    Avma, Bytes, Context, Losses, Region, Registers, SpaceId, Standstill, TaskId, ThreadName,
    Unseen, Watch,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// How many windows may be open at once where there are so many other tasks and
/// debug registers: two tasks that stand cannot collide with each other.
#[must_use]
pub fn at_once(tasks: usize, watches: usize) -> usize {
    tasks.div_ceil(2).min(watches).max(1)
}

/// Breakpoints that take turns, because only a few can stand at once: most code does
/// not run at a given time, and would block the place of that which does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// How many.
    pub at_once: usize,
    /// For how long each stands at most.
    pub each: Duration,
    /// Whether one that is reached stops everybody, not only who reached it.
    pub stop_all: bool,
}

/// Why a target cannot be started or driven.
#[derive(Debug, Error)]
pub enum TargetError {
    /// There is no such program.
    #[error("cannot start {program}: {why}")]
    NotFound {
        /// As it was asked for.
        program: String,
        /// What is wrong.
        why: String,
    },
    /// There is one, but it cannot be run or not be looked at.
    #[error("cannot run {program}: {why}")]
    NotRunnable {
        /// As it was asked for.
        program: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried, with what to do about a refusal.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was asked for is not possible on this machine.
    #[error("{0}")]
    Unsupported(String),
}

/// How a target ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// A signal killed it; whether it dumped core.
    Killed {
        /// The signal.
        signal: i32,
        /// Whether there is a core file.
        core: bool,
    },
    /// We ended it, because the user asked for that.
    EndedByUs,
    /// It lives on without us.
    LeftRunning,
}

/// Why a machine stopped, or what it noticed.
#[derive(Clone, PartialEq, Debug)]
pub enum Stop {
    /// A task reached an armed site. The byte is removed already and the pc
    /// stands on the instruction.
    Breakpoint {
        /// Who.
        task: TaskId,
        /// Its registers before the access.
        registers: Registers,
    },
    /// A task touched watched bytes.
    Watch {
        /// Who.
        task: TaskId,
        /// Its registers after the access.
        registers: Registers,
        /// The number given when the watch was set.
        number: u64,
        /// Where the watch was when it fired.
        address: Avma,
    },
    /// A signal is about to kill the target; the task goes on with it when it is
    /// resumed.
    Fatal {
        /// Who got it.
        task: TaskId,
        /// Its registers.
        registers: Registers,
        /// Which.
        signal: i32,
    },
    /// A task is gone.
    TaskGone(TaskId),
    /// Modules came or went. Breakpoints in those that went are forgotten.
    ModulesChanged,
    /// There is a second task in this space now.
    Company(SpaceId),
    /// A space is gone, with its windows, watches and breakpoints: its last task
    /// ended, or became another program.
    SpaceGone(SpaceId),
    /// A signal for the tool.
    Interrupted {
        /// Which.
        signal: i32,
        /// Whether a process sent it.
        by_process: bool,
    },
    /// The target ended.
    Ended(Ending),
    /// The deadline passed.
    Deadline,
}

/// Whether anybody could collide with a sampled access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Company {
    /// Nobody: one task, private memory.
    Alone,
    /// Other tasks that can be watched.
    Tasks(usize),
    /// Only others that cannot (another process through shared memory).
    Strangers,
    /// A device, whose registers must not be read for nothing.
    Device,
}

/// What the window driver needs of a backend.
pub trait Machine {
    /// Time since the start.
    fn now(&self) -> Duration;

    /// Runs until something happens or the deadline passes.
    ///
    /// # Errors
    /// When the machine can no longer be driven.
    fn next_stop(&mut self, deadline: Duration) -> Result<Stop, TargetError>;

    /// The space a task lives in.
    fn space_of(&self, task: TaskId) -> SpaceId;

    /// Where only a few breakpoints can stand at once in a space.
    fn turns(&self) -> Option<Turns> {
        None
    }

    /// Puts breakpoints at these addresses where the text there is what
    /// `expected` says; tells for each what came of it.
    fn set_breakpoints(&mut self, space: SpaceId, sites: &[(Avma, u8)]) -> Vec<Armed>;

    /// Removes all breakpoints.
    fn clear_breakpoints(&mut self);

    /// How many watches can be set at once in a space.
    fn watches(&self, space: SpaceId) -> usize;

    /// Sets a watch in every task of a space. Whether that worked.
    fn watch(&mut self, space: SpaceId, slot: usize, watch: Watch) -> bool;

    /// Clears a watch and tells how often it fired since it was set.
    fn unwatch(&mut self, space: SpaceId, slot: usize) -> u64;

    /// Lets a stopped task go on.
    fn resume(&mut self, task: TaskId);

    /// Reads memory as the program sees it: breakpoint bytes are hidden.
    fn read(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool;

    /// Reads code, perhaps as it was when it was indexed. What is made of it has to be
    /// confirmed with [`Machine::read`] before anything is claimed.
    fn code(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.read(space, address, buffer)
    }

    /// Reads memory, and afterwards nothing is asked until something happens: where the
    /// others stand meanwhile, they need not wait for the bytes.
    fn read_then_run(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.read(space, address, buffer)
    }

    /// Nothing is asked for a while: where those that were resumed still stand, they
    /// go on now.
    fn go_on(&mut self) {}

    /// Who could collide with an access of `task` to `bytes`.
    fn company(&mut self, task: TaskId, bytes: Bytes) -> Company;

    /// Whether more tasks stand than there can be windows, wherever they are.
    fn is_crowded(&self) -> bool {
        false
    }

    /// What the CPU of a stopped task is doing, in a kernel.
    fn context(&mut self, _task: TaskId) -> Option<Context> {
        None
    }

    /// After how long the bytes of an open window are looked at again, when that
    /// was done so often.
    fn look_after(&self, _looks: u32) -> Duration {
        Duration::from_micros(100)
    }

    /// A window is over that nothing happened in, and everybody stands who stood in it.
    fn elapsed(&mut self, _held: Duration) {}

    /// Code that was seen to run since the last call, as live ranges.
    fn take_lively(&mut self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Whether a further task could be held now, as far as that is known before one
    /// reaches a breakpoint.
    fn has_room(&self) -> bool {
        true
    }

    /// For how long nobody ran at all, where stopping one stops all.
    fn standstill(&self) -> Option<Standstill> {
        None
    }

    /// What the machine itself lost since the last call.
    fn take_losses(&mut self) -> Losses {
        Losses::default()
    }

    /// Whether no task of a space can make progress but the stopped ones.
    fn stalled(&mut self, space: SpaceId) -> bool;

    /// The modules mapped now.
    fn modules(&self) -> &[Arc<Module>];

    /// The stack of a stopped task.
    fn stack(&mut self, task: TaskId, registers: &Registers) -> Vec<Avma>;

    /// Where an address is.
    fn region(&mut self, space: SpaceId, address: Avma) -> Region;

    /// The tasks of a space that are in a system call now, with the registers
    /// that hold its arguments.
    fn in_system_calls(&mut self, _space: SpaceId) -> Vec<(TaskId, Registers)> {
        Vec::new()
    }

    /// Other processes that map the memory at an address, by number and name.
    fn sharers(&mut self, _space: SpaceId, _address: Avma) -> Vec<(u32, String)> {
        Vec::new()
    }

    /// A task's name.
    fn thread_name(&mut self, task: TaskId) -> ThreadName;

    /// The start of the instruction that ends at `address`.
    fn instruction_before(&mut self, space: SpaceId, address: Avma) -> Option<Avma>;

    /// Thread time used so far.
    fn thread_time(&mut self) -> Duration;

    /// Lets stopped tasks go on into a stop of their whole process, as they stand,
    /// which lasts when nobody traces it any more.
    fn freeze(&mut self, tasks: &[TaskId]);

    /// Writes a core file of a space as it is; `first` are the tasks to show first.
    ///
    /// # Errors
    /// When there is no such thing, or it cannot be written.
    fn write_core(&mut self, space: SpaceId, first: &[TaskId], path: &Path) -> io::Result<u64>;

    /// What cannot be looked at.
    fn unseen(&self) -> Vec<Unseen>;
}
