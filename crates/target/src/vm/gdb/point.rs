//! Breakpoints and watches, and the other things that a stub can be asked.

use super::description::{Layout, VcpuRegisters};
use super::packet::decode_hex;

/// What a point waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointKind {
    /// Execution, by changed text or whatever the stub does for that.
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
    /// Where.
    pub address: u64,
    /// Over how many bytes; 1 for execution.
    pub len: u64,
}

/// One thing to ask a stub while the machine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Makes this the vCPU through whose page tables memory is read from now on,
    /// up to the next stop.
    Select(u32),
    /// The registers of a vCPU, which is then the selected one.
    Registers(u32),
    /// Memory, as the selected vCPU sees it.
    Read {
        /// Where.
        address: u64,
        /// How much.
        len: usize,
    },
    /// Sets a breakpoint or a watch.
    Insert(Point),
    /// Removes one.
    Remove(Point),
}

/// What a stub said to a [`Request`].
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
    /// Whether it was done; of registers and memory, whether they are there.
    #[must_use]
    pub const fn done(&self) -> bool {
        match self {
            Self::Done(done) => *done,
            Self::Registers(registers) => registers.is_some(),
            Self::Memory(memory) => memory.is_some(),
        }
    }

    /// The registers, if it has some.
    #[must_use]
    pub fn registers(self) -> Option<VcpuRegisters> {
        match self {
            Self::Registers(registers) => registers.map(|registers| *registers),
            _ => None,
        }
    }

    /// The memory, if it has some.
    #[must_use]
    pub fn memory(self) -> Option<Vec<u8>> {
        match self {
            Self::Memory(memory) => memory,
            _ => None,
        }
    }

    /// What is assumed until the stub has spoken.
    pub(super) fn before(request: Request) -> Self {
        match request {
            Request::Select(_) | Request::Insert(_) | Request::Remove(_) => Self::Done(false),
            Request::Registers(_) => Self::Registers(None),
            Request::Read { len, .. } => Self::Memory(Some(vec![0; len])),
        }
    }
}

/// One packet of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Anything that is answered with `OK`.
    Order,
    /// The selection before registers are asked for.
    Prelude,
    /// The registers.
    Registers,
    /// A piece of memory: its offset in the request and its length.
    Memory { offset: usize, len: usize },
}

/// The packets of a request, memory in pieces of at most `piece` bytes.
pub(super) fn parts(request: Request, piece: usize, mut each: impl FnMut(Part)) {
    match request {
        Request::Registers(_) => {
            each(Part::Prelude);
            each(Part::Registers);
        }
        Request::Read { len, .. } => {
            for offset in (0..len).step_by(piece.max(1)) {
                let len = piece.max(1).min(len - offset);
                each(Part::Memory { offset, len });
            }
        }
        _ => each(Part::Order),
    }
}

impl Part {
    /// The content of the packet.
    pub(super) fn content(self, request: Request) -> String {
        let point = |letter, point: Point| {
            let Point { kind, address, len } = point;
            format!("{letter}{},{address:x},{len:x}", kind.number())
        };
        match (request, self) {
            (Request::Registers(_), Self::Registers) => "g".to_owned(),
            (Request::Select(vcpu) | Request::Registers(vcpu), _) => format!("Hg{vcpu:x}"),
            (Request::Read { address, .. }, Self::Memory { offset, len }) => {
                format!("m{:x},{len:x}", address.wrapping_add(offset as u64))
            }
            (Request::Read { address, len }, _) => format!("m{address:x},{len:x}"),
            (Request::Insert(what), _) => point('Z', what),
            (Request::Remove(what), _) => point('z', what),
        }
    }

    /// How many bytes its answer may have, roughly.
    pub(super) const fn answer_len(self) -> usize {
        match self {
            Self::Order | Self::Prelude => 8,
            Self::Registers => 2048,
            Self::Memory { len, .. } => 2 * len + 8,
        }
    }

    /// Takes the answer to this part into that of the whole.
    pub(super) fn take(self, packet: &[u8], layout: &Layout, answer: &mut Answer) {
        match (self, answer) {
            (Self::Order, Answer::Done(done)) => *done = packet == b"OK",
            // A stub that has no such vCPU would tell another one's registers.
            (Self::Prelude, Answer::Registers(registers)) => {
                *registers = (packet == b"OK").then(Box::default);
            }
            (Self::Registers, Answer::Registers(registers)) => {
                *registers = registers.take().and(layout.registers(packet)).map(Box::new);
            }
            (Self::Memory { offset, len }, Answer::Memory(memory)) => {
                let read = memory
                    .as_mut()
                    .and_then(|memory| memory.get_mut(offset..offset + len))
                    .is_some_and(|piece| decode_hex(packet, piece));
                if !read {
                    *memory = None;
                }
            }
            _ => {}
        }
    }
}
