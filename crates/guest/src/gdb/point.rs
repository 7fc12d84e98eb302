//! Breakpoints, watches, and the other requests to a stub.

use crate::VcpuRegisters;

/// What a point waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointKind {
    /// Execution, by patching the code or whatever the stub does instead.
    Software,
    /// Execution, by a debug register.
    Hardware,
    /// Writes.
    Write,
    /// Reads.
    Read,
    /// Reads and writes.
    Access,
}

impl PointKind {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Software => 0,
            Self::Hardware => 1,
            Self::Write => 2,
            Self::Read => 3,
            Self::Access => 4,
        }
    }
}

/// A breakpoint or a watch, in all vCPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// What it waits for.
    pub kind: PointKind,
    /// The address.
    pub address: u64,
    /// The number of bytes; 1 for execution.
    pub len: u64,
}

/// A request to a stub, while the machine is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Selects the vCPU through whose page tables memory is read, up to the next stop.
    Select(u32),
    /// Reads the registers of a vCPU, and selects it.
    Registers(u32),
    /// Reads memory, through the page tables of the selected vCPU.
    Read {
        /// The address.
        address: u64,
        /// The number of bytes.
        len: usize,
    },
    /// Inserts a breakpoint or a watch.
    Insert(Point),
    /// Removes one.
    Remove(Point),
}

impl Request {
    /// The vCPU that it selects.
    pub(super) const fn vcpu(self) -> Option<u32> {
        match self {
            Self::Select(vcpu) | Self::Registers(vcpu) => Some(vcpu),
            _ => None,
        }
    }
}

/// The answer to a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To a selection, an insertion or a removal: whether it was done.
    Done(bool),
    /// The registers, if there is such a vCPU.
    Registers(Option<Box<VcpuRegisters>>),
    /// The memory, if all of it can be read.
    Memory(Option<Vec<u8>>),
}

impl Answer {
    /// Whether the request succeeded.
    #[must_use]
    pub const fn done(&self) -> bool {
        match self {
            Self::Done(done) => *done,
            Self::Registers(registers) => registers.is_some(),
            Self::Memory(memory) => memory.is_some(),
        }
    }

    /// The registers, if it is that.
    #[must_use]
    pub fn registers(self) -> Option<VcpuRegisters> {
        match self {
            Self::Registers(registers) => registers.map(|registers| *registers),
            _ => None,
        }
    }

    /// The memory, if it is that.
    #[must_use]
    pub fn memory(self) -> Option<Vec<u8>> {
        match self {
            Self::Memory(memory) => memory,
            _ => None,
        }
    }

    /// The answer for a vCPU that does not exist.
    pub(super) const fn refused(request: Request) -> Self {
        match request {
            Request::Registers(_) => Self::Registers(None),
            Request::Read { .. } => Self::Memory(None),
            _ => Self::Done(false),
        }
    }

    /// The answer before the stub has given any.
    pub(super) fn before(request: Request) -> Self {
        match request {
            Request::Select(_) | Request::Insert(_) | Request::Remove(_) => Self::Done(false),
            Request::Registers(_) => Self::Registers(None),
            Request::Read { len, .. } => Self::Memory(Some(vec![0; len])),
        }
    }
}
