//! A live execution behind one trait.
//!
//! [`Target`] is what `detect` drives. It takes sites to arm, each with a window
//! plan, and gives events back: windows that ended, collisions, changes of the
//! target. Everything about a window that backends share (opening it, waiting,
//! deciding when it is over) is written once, in [`driver`], over a [`Machine`]:
//!
//! - [`Control`]: run, stop, arm, watch, resume;
//! - [`Inspect`]: memory, stacks, modules, names; a recording can implement it;
//! - [`Batch`]: the hints that save round trips where stopping one task stops all.
//!
//! `redhanded-process` implements them by ptrace and perf events, `redhanded-guest`
//! through a gdbstub, and [`fake`] by simulation.
//!
//! Nothing here knows what a race is: a target says who accessed the bytes, not
//! whether that is wrong.

mod batch;
mod control;
pub mod driver;
pub mod fake;
pub mod images;
mod inspect;
mod machine;
mod module;
mod signals;

pub use batch::{Batch, Capacity, Hint};
pub use control::{Control, OtherTasks, RotationLimits, Stop, windows_at_once};
pub use inspect::{Holds, Inspect, Mapping};
pub use machine::{Machine, TargetError};
pub use module::{Module, VMLINUX, module_at};
pub use redhanded_model::{Ending, Watch, WatchFor};
pub use signals::{FRONT_DIED, Signals};

use redhanded_model::{
    Loss, Losses, ModuleId, Registers, SpaceId, Svma, TaskId, WindowId, WindowPlan, WindowRecord,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A site to be armed, with the plan of its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    /// The module the site is in.
    pub module: ModuleId,
    /// The site.
    pub svma: Svma,
    /// The window to open when it fires.
    pub plan: WindowPlan,
}

/// What came of a breakpoint that was to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// It stands.
    Yes,
    /// Its process has ended or unmapped the code: there is nothing to sample.
    CodeGone,
    /// It does not stand, for this reason.
    Refused(Loss),
}

/// What a target reports.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A window ended with nothing seen; its task runs again.
    Window(WindowRecord),
    /// Something was seen. With a hit, both tasks are stopped at their accesses until
    /// [`Target::release`] or [`Target::dismiss`]; without, the bytes changed and
    /// only the sampled task is stopped.
    Collision(WindowRecord),
    /// A site fired and no window was opened, for this reason.
    Passed {
        /// The site's module.
        module: ModuleId,
        /// The site.
        svma: Svma,
        /// Why there was no window.
        loss: Loss,
    },
    /// A site could not be armed.
    NotArmed {
        /// The site's module.
        module: ModuleId,
        /// The site.
        svma: Svma,
        /// Why, unless its code is simply gone.
        loss: Option<Loss>,
    },
    /// Modules were mapped or unmapped: see [`Target::modules`].
    ModulesChanged,
    /// This space has a second task now: from here on collisions are possible.
    SecondTask(SpaceId),
    /// A signal is about to kill the target; its task is stopped until
    /// [`Target::resume`].
    Fatal {
        /// The task that got it.
        task: TaskId,
        /// Its registers.
        registers: Registers,
        /// The signal.
        signal: i32,
    },
    /// A signal asked the tool to stop.
    Interrupted {
        /// The signal.
        signal: i32,
        /// Whether a process sent it; the terminal sends its own to the target too.
        by_process: bool,
    },
    /// The target ended.
    Ended(Ending),
    /// The deadline passed.
    Deadline,
}

/// A live execution that can be sampled.
pub trait Target {
    /// Time since the target was started or attached to.
    fn now(&self) -> Duration;

    /// The modules that are mapped now.
    fn modules(&self) -> Vec<Arc<Module>>;

    /// Arms sites.
    fn arm(&mut self, sites: &[Arm]);

    /// The limits of a target that can arm only a few sites at once.
    fn rotation(&self) -> Option<RotationLimits>;

    /// Disarms every site.
    fn disarm_all(&mut self);

    /// Sets how long tasks may be held in total, from the start. Windows are opened
    /// while [`Target::held`] is below it.
    fn allow(&mut self, held: Duration);

    /// How long tasks may be held in total, as last set.
    fn allowance(&self) -> Duration;

    /// Runs the target until something happens or the deadline passes.
    ///
    /// # Errors
    /// When the target can no longer be driven.
    fn wait(&mut self, deadline: Duration) -> Result<Event, TargetError>;

    /// Ends the window of a collision and resumes its tasks.
    fn release(&mut self, window: WindowId);

    /// The hit was not what it seemed: resumes the task that made it and continues
    /// the window.
    fn dismiss(&mut self, window: WindowId);

    /// Ends the window of a collision and leaves the target stopped for good, with
    /// both tasks at their accesses.
    fn freeze(&mut self, window: WindowId);

    /// Writes a core file of the space of a collision, with both tasks at their
    /// accesses.
    ///
    /// # Errors
    /// When the target has no core format, or the file cannot be written.
    fn write_core(&mut self, window: WindowId, path: &Path) -> io::Result<u64>;

    /// Resumes the task of an [`Event::Fatal`].
    fn resume(&mut self, task: TaskId);

    /// The state of the target.
    fn inspect(&mut self) -> &mut dyn Inspect;

    /// The hints for a target where every request is expensive.
    fn batch(&mut self) -> &mut dyn Batch;

    /// Thread time used so far: what the time held is measured against.
    fn thread_time(&mut self) -> Duration;

    /// Time tasks were held so far: in windows, at samples without one, and because modules
    /// came or went.
    fn held(&self) -> Duration;

    /// The losses since the last call that are in no window's record.
    fn take_losses(&mut self) -> Losses;
}
