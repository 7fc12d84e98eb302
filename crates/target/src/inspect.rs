//! Inspection: what can be read of a target without changing it. A recording has
//! nothing to control, but can implement all of this.

use crate::Module;
use redhanded_model::{Avma, Context, Region, Registers, SpaceId, TaskId, ThreadName, Unseen};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The state of a target. Methods take `&mut self` because backends cache what they
/// read; none changes the target.
pub trait Inspect {
    /// The modules mapped now.
    fn modules(&self) -> &[Arc<Module>];

    /// The space a task lives in.
    fn space_of(&self, task: TaskId) -> SpaceId;

    /// Reads memory as the program sees it: breakpoint bytes are hidden. Whether all
    /// of it could be read.
    fn read(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool;

    /// The start of the instruction that ends at `address`.
    fn instruction_before(&mut self, space: SpaceId, address: Avma) -> Option<Avma>;

    /// The stack of a stopped task: its pc, then return addresses.
    fn stack(&mut self, task: TaskId, registers: &Registers) -> Vec<Avma>;

    /// What kind of memory an address is in.
    fn region(&mut self, space: SpaceId, address: Avma) -> Region;

    /// A task's name.
    fn thread_name(&mut self, task: TaskId) -> ThreadName;

    /// In a kernel, the context a stopped task's CPU is in.
    fn context(&mut self, _task: TaskId) -> Option<Context> {
        None
    }

    /// The tasks of a space that are in a system call now, with the registers that
    /// hold its arguments.
    fn in_system_calls(&mut self, _space: SpaceId) -> Vec<(TaskId, Registers)> {
        Vec::new()
    }

    /// Other processes that map the memory at an address, by number and name.
    fn sharers(&mut self, _space: SpaceId, _address: Avma) -> Vec<(u32, String)> {
        Vec::new()
    }

    /// Writes a core file of a space as it is now; `first` are the tasks to list
    /// first. Its size.
    ///
    /// # Errors
    /// When the target has no core format, or the file cannot be written.
    fn write_core(&mut self, _space: SpaceId, _first: &[TaskId], _path: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What cannot be inspected, and why.
    fn unseen(&self) -> Vec<Unseen> {
        Vec::new()
    }
}
