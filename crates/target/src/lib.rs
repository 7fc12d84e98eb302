//! A live execution behind one trait.
//!
//! [`Target`] is what `detect` drives: it arms sites with window plans and gets
//! events back. The three parts of a window that every backend shares (opening,
//! waiting, deciding when it is over) are written once, in [`driver`], over the
//! few primitives of a [`Machine`]: [`process`] gives them by ptrace and perf, [`vm`]
//! through a gdbstub, [`fake`] by simulation.
//!
//! Nothing here knows what a race is: a target says who touched the bytes, not
//! whether that is wrong.

pub mod driver;
pub mod fake;
pub mod images;
mod machine;
mod signals;

pub use machine::{Company, Ending, Machine, Stop, TargetError, Turns, at_once};
pub use redhanded_model::{Watch, WatchFor};
pub use signals::{FRONT_DIED, Signals};

use redhanded_image::Image;
use redhanded_model::{
    Avma, Loss, Losses, ModuleId, Region, Registers, SpaceId, Standstill, Svma, TaskId, ThreadName,
    Unseen, WindowId, WindowPlan, WindowRecord,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a kernel itself is called among its modules.
pub const VMLINUX: &str = "vmlinux";

/// One file mapped into the target.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its number.
    pub id: ModuleId,
    /// The space it is mapped in.
    pub space: SpaceId,
    /// Its file's name.
    pub name: String,
    /// What an [`Svma`] of the file needs added to be an [`Avma`], wrapping.
    pub bias: u64,
    /// The addresses it spans.
    pub range: Range<u64>,
    /// The file; a scripted target has none.
    pub image: Option<Arc<Image>>,
}

impl Module {
    /// Whether `avma` lies in a part that its file describes.
    #[must_use]
    pub fn has_segment(&self, avma: Avma) -> bool {
        let segment = |image: &Arc<Image>| image.segment_at(self.svma(avma)).is_some();
        self.contains(avma) && self.image.as_ref().is_some_and(segment)
    }

    /// Whether `avma` lies between its first and its last byte.
    #[must_use]
    pub fn contains(&self, avma: Avma) -> bool {
        self.range.contains(&avma.0)
    }

    /// The address in the file of a live one.
    #[must_use]
    pub const fn svma(&self, avma: Avma) -> Svma {
        Svma(avma.0.wrapping_sub(self.bias))
    }

    /// The live address of one in the file.
    #[must_use]
    pub const fn avma(&self, svma: Svma) -> Avma {
        Avma(svma.0.wrapping_add(self.bias))
    }
}

/// The module that an address lies in. Parts of one may lie between those of another:
/// the one that has something there is meant.
#[must_use]
pub fn module_at(modules: &[Arc<Module>], address: Avma) -> Option<&Arc<Module>> {
    let around = || modules.iter().filter(|module| module.contains(address));
    let here = around().find(|module| module.has_segment(address));
    here.or_else(|| around().next())
}

/// A site to be armed, with what its window is to do.
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
    /// Something was seen. With a hit, both tasks stand at their accesses until
    /// [`Target::release`] or [`Target::dismiss`]; without, the bytes changed and
    /// the sampled task alone stands.
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
    /// Modules came or went: look at [`Target::modules`] again.
    ModulesChanged,
    /// A second task appeared in this space: from here on collisions are possible.
    Company(SpaceId),
    /// A signal is about to kill the target; its task stands until it is let go
    /// with [`Target::resume`].
    Fatal {
        /// Who got it.
        task: TaskId,
        /// Its registers.
        registers: Registers,
        /// Which.
        signal: i32,
    },
    /// A signal asked the tool to stop. Whether a process sent it (the terminal
    /// sends its own to the target as well).
    Interrupted {
        /// Which signal.
        signal: i32,
        /// Whether a process sent it.
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

    /// Where only a few sites can be armed at once in a space.
    fn turns(&self) -> Option<Turns>;

    /// Disarms every site.
    fn disarm_all(&mut self);

    /// How long tasks may be held in sum, from the start. Windows are opened
    /// while [`Target::held`] is below it.
    fn allow(&mut self, held: Duration);

    /// Runs the target until something happens or the deadline passes.
    ///
    /// # Errors
    /// When the target can no longer be driven.
    fn wait(&mut self, deadline: Duration) -> Result<Event, TargetError>;

    /// Ends the window of a collision and lets its tasks go.
    fn release(&mut self, window: WindowId);

    /// Lets those run who were let go and stand only because it is asked so much.
    fn go_on(&mut self) {}

    /// The hit was not what it seemed: lets the task that made it go, and goes
    /// on with the window.
    fn dismiss(&mut self, window: WindowId);

    /// Ends the window of a collision and leaves the target stopped for good, with
    /// both tasks at their accesses.
    fn freeze(&mut self, window: WindowId);

    /// Writes a core file of the space of a collision, with both tasks at their
    /// accesses.
    ///
    /// # Errors
    /// When there is no such thing, or it cannot be written.
    fn write_core(&mut self, window: WindowId, path: &Path) -> io::Result<u64>;

    /// Lets a task of [`Event::Fatal`] go on.
    fn resume(&mut self, task: TaskId);

    /// The stack of a standing task: its pc, then return addresses.
    fn stack(&mut self, task: TaskId, registers: &Registers) -> Vec<Avma>;

    /// Where in the target an address is.
    fn region(&mut self, space: SpaceId, address: Avma) -> Region;

    /// The tasks of a space that are in a system call now, with the registers
    /// that hold its arguments.
    fn in_system_calls(&mut self, space: SpaceId) -> Vec<(TaskId, Registers)>;

    /// Other processes that map the memory at an address, by number and name.
    fn sharers(&mut self, space: SpaceId, address: Avma) -> Vec<(u32, String)>;

    /// The space a task lives in.
    fn space_of(&self, task: TaskId) -> SpaceId;

    /// A task's name.
    fn thread_name(&mut self, task: TaskId) -> ThreadName;

    /// Reads memory, breakpoint bytes hidden. Whether all of it could be read.
    fn read(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool;

    /// The start of the instruction that ends at `address`.
    fn instruction_before(&mut self, space: SpaceId, address: Avma) -> Option<Avma>;

    /// Thread time used so far: what the time held is measured against.
    fn thread_time(&mut self) -> Duration;

    /// Time tasks were held so far, in windows and at samples without one.
    fn held(&self) -> Duration;

    /// Code that was seen to run since the last call, where that is told: live
    /// ranges of functions.
    fn take_lively(&mut self) -> Vec<Range<u64>>;

    /// Whether a sample could be taken now.
    fn has_room(&self) -> bool;

    /// For how long nobody ran at all, where stopping one stops all.
    fn standstill(&self) -> Option<Standstill>;

    /// The losses that belong to no window's record, since the last call.
    fn take_losses(&mut self) -> Losses;

    /// What this target cannot look at.
    fn unseen(&self) -> Vec<Unseen>;
}
