//! Batches of requests and their answers.

use super::connection::Connection;
use super::description::Layout;
use super::packet::decode_hex;
use super::point::{Answer, Point, Request};

/// The most bytes written before their answers are read. QEMU reads this much at
/// once; and if both sides only wrote, they would wait for each other forever.
const MAX_BATCH: usize = 4000;
/// The most bytes of answers awaited at once, for the same reason.
const MAX_ANSWERS: usize = 96 << 10;

/// A batch of requests under way.
pub struct Exchange<'a> {
    requests: &'a [Request],
    answers: Vec<Answer>,
    /// The packets, each with the index of its request.
    parts: Vec<(usize, Part)>,
    pushed: usize,
    taken: usize,
    /// Whether the stub refused the last selection of a vCPU.
    refused: bool,
}

impl<'a> Exchange<'a> {
    /// The packets for a stub whose selected vCPU is `selected`, which is updated.
    pub fn new(requests: &'a [Request], piece: usize, selected: &mut Option<u32>) -> Self {
        let mut all = Vec::with_capacity(requests.len() + 8);
        let mut answers: Vec<Answer> = requests.iter().copied().map(Answer::before).collect();
        for (index, request) in requests.iter().enumerate() {
            match request.vcpu() {
                None => {}
                vcpu if vcpu == *selected => {
                    if let Answer::Done(done) = &mut answers[index] {
                        *done = true;
                    }
                }
                vcpu => {
                    all.push((index, Part::Select));
                    *selected = vcpu;
                }
            }
            parts(*request, piece, |part| all.push((index, part)));
        }
        Self {
            requests,
            answers,
            parts: all,
            pushed: 0,
            taken: 0,
            refused: false,
        }
    }

    /// Adds the next batch to what is to be written; whether there was one.
    pub fn push(&mut self, connection: &mut Connection) -> bool {
        let before = self.pushed;
        let mut expected = 0;
        while let Some(&(index, part)) = self.parts.get(self.pushed) {
            expected += part.answer_len();
            let full = connection.pending() > MAX_BATCH || expected > MAX_ANSWERS;
            if full && self.pushed > before {
                break;
            }
            connection.push(part.content(self.requests[index]).as_bytes());
            self.pushed += 1;
        }
        self.pushed > before
    }

    /// Whether all of it has been added.
    pub fn all_pushed(&self) -> bool {
        self.pushed == self.parts.len()
    }

    /// Whether answers are missing.
    pub const fn awaits(&self) -> bool {
        self.taken < self.pushed
    }

    /// Takes the next answer.
    pub fn take(&mut self, packet: &[u8], layout: &Layout) {
        let Some(&(index, part)) = self.parts.get(self.taken) else {
            return;
        };
        self.taken += 1;
        match part {
            Part::Select => {
                self.refused = packet != b"OK";
                self.refuse_again(index);
            }
            // It is about another vCPU.
            Part::Registers | Part::Memory { .. } if self.refused => {
                self.answers[index] = Answer::refused(self.requests[index]);
                return;
            }
            _ => {}
        }
        part.take(packet, layout, &mut self.answers[index]);
    }

    /// A vCPU that does not exist stays refused until another one is selected.
    fn refuse_again(&mut self, first: usize) {
        let vcpu = self.requests[first].vcpu();
        let rest = self.requests.iter().zip(&mut self.answers).skip(first + 1);
        for (request, answer) in rest.take_while(|(r, _)| r.vcpu().is_none() || r.vcpu() == vcpu) {
            if self.refused && matches!(request, Request::Select(_)) {
                *answer = Answer::refused(*request);
            }
        }
    }

    /// Whether the last selection was refused.
    pub const fn is_refused(&self) -> bool {
        self.refused
    }

    /// The requests and their answers.
    pub fn finish(self) -> (&'a [Request], Vec<Answer>) {
        (self.requests, self.answers)
    }
}

/// One packet of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A request that is answered with `OK`.
    Order,
    /// The selection of a vCPU.
    Select,
    /// The registers.
    Registers,
    /// A piece of memory: its offset in the request and its length.
    Memory { offset: usize, len: usize },
}

/// The packets of a request after the selection, memory in pieces of at most
/// `piece` bytes.
fn parts(request: Request, piece: usize, mut each: impl FnMut(Part)) {
    match request {
        Request::Select(_) => {}
        Request::Registers(_) => each(Part::Registers),
        Request::Read { len, .. } => {
            for offset in (0..len).step_by(piece.max(1)) {
                let len = piece.max(1).min(len - offset);
                each(Part::Memory { offset, len });
            }
        }
        Request::Insert(_) | Request::Remove(_) => each(Part::Order),
    }
}

impl Part {
    /// The content of the packet.
    fn content(self, request: Request) -> String {
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

    /// Roughly how many bytes its answer may have.
    const fn answer_len(self) -> usize {
        match self {
            Self::Order | Self::Select => 8,
            Self::Registers => 2048,
            Self::Memory { len, .. } => 2 * len + 8,
        }
    }

    /// Adds the answer to this packet to that of the request.
    fn take(self, packet: &[u8], layout: &Layout, answer: &mut Answer) {
        match (self, answer) {
            (Self::Order | Self::Select, Answer::Done(done)) => *done = packet == b"OK",
            (Self::Registers, Answer::Registers(registers)) => {
                *registers = layout.registers(packet).map(Box::new);
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
