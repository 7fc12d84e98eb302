//! Inspection: what can be read of a target without changing it. A recording has
//! nothing to control, but can implement all of this.

use crate::Module;
use redhanded_model::{
    Avma, Block, Context, Region, Registers, SpaceId, TaskId, ThreadName, Unseen, Vectors,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A piece of an address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Whether the program may write to it.
    pub writable: bool,
    /// Whether the program may run it.
    pub executable: bool,
    /// What is there.
    pub holds: Holds,
}

/// What a piece of an address space holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Memory that can be read.
    Bytes,
    /// A stack that grows towards lower addresses by itself.
    Stack,
    /// Clocks that the kernel writes.
    Clock,
    /// Memory that no access is allowed to.
    Nothing,
    /// A device, or something else that is not read.
    Unknown,
}

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

    /// An instruction of the function whose frame on a stopped task's stack has an address, if
    /// that is certain.
    fn frame_at(&mut self, _task: TaskId, _registers: &Registers, _address: Avma) -> Option<Avma> {
        None
    }

    /// What kind of memory an address is in.
    fn region(&mut self, space: SpaceId, address: Avma) -> Region;

    /// The vector registers of a stopped task, if the backend can read them.
    fn vectors(&mut self, _task: TaskId) -> Option<Box<Vectors>> {
        None
    }

    /// All vector and floating-point registers of a stopped task, as `xsave` writes them, if
    /// the backend can read them.
    fn saved_vectors(&mut self, _task: TaskId) -> Option<Vec<u8>> {
        None
    }

    /// What is mapped in a space, in the order of addresses.
    fn mappings(&mut self, _space: SpaceId) -> Vec<Mapping> {
        Vec::new()
    }

    /// What the page at an address is, in a space that has no list of its mappings.
    fn page(&mut self, _space: SpaceId, _page: u64) -> Option<Mapping> {
        None
    }

    /// Whether the mapping that starts at this address grows by itself when the memory below
    /// it is accessed.
    fn grows_down(&mut self, _space: SpaceId, _start: u64) -> bool {
        false
    }

    /// The signals that the program in a space handles; bit 0 is signal 1.
    fn handled_signals(&mut self, _space: SpaceId) -> u64 {
        0
    }

    /// The allocator's block that an address is in, if that is certain. Reading it may take
    /// a while.
    fn block(&mut self, _space: SpaceId, _address: Avma) -> Option<Block> {
        None
    }

    /// The allocated block that an address is in, the task that allocated it, and the stack of
    /// that task then, if it was seen.
    fn allocation(
        &mut self,
        _space: SpaceId,
        _address: Avma,
    ) -> Option<(Block, ThreadName, Vec<Avma>)> {
        None
    }

    /// Who created a task, and the stack of that task then, if it was seen.
    fn creation(&mut self, _task: TaskId) -> Option<(ThreadName, Vec<Avma>)> {
        None
    }

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
