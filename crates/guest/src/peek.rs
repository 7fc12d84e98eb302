//! The kernel's own memory, read in blocks and remembered until somebody runs: what
//! is asked of tasks, stacks and page tables lies close together, and each round
//! trip to the stub keeps the whole machine standing.
//!
//! Not for the bytes of a window: those may be a device's, whose registers must not
//! be read along with others.

use super::{Answer, Request, USER_END, Vm};
use std::collections::BTreeMap;

/// The size of a block.
const BLOCK: u64 = 256;
/// Blocks that begin within this are read together.
const NEAR: u64 = 4 * BLOCK;
/// What can be read as a whole or not at all.
const PAGE: u64 = 4096;

/// The blocks that were read since the machine stands; `None` where nothing is.
#[derive(Default)]
pub(super) struct Peeked(BTreeMap<u64, Option<Vec<u8>>>);

impl Peeked {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// The blocks of a range that were not read yet.
    fn missing(&self, address: u64, len: usize) -> Vec<u64> {
        blocks(address, len)
            .filter(|block| !self.0.contains_key(block))
            .collect()
    }

    /// Whether it was tried to read a range.
    pub(super) fn has(&self, address: u64, len: usize) -> bool {
        self.missing(address, len).is_empty()
    }

    /// What is to be asked for so that these ranges are known.
    pub(super) fn requests(&self, view: u32, ranges: &[(u64, usize)]) -> Vec<Request> {
        let in_kernel = |range: &&(u64, usize)| range.0 >= USER_END;
        let mut missing: Vec<u64> = ranges
            .iter()
            .filter(in_kernel)
            .flat_map(|(address, len)| self.missing(*address, *len))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        // A further packet costs more than what lies between.
        let near = |one: &u64, next: &u64| next - one <= NEAR && next / PAGE == one / PAGE;
        let reads = missing.chunk_by(near).map(|run| Request::Read {
            address: run[0],
            len: usize::try_from(run[run.len() - 1] - run[0] + BLOCK).unwrap_or(0),
        });
        let mut requests: Vec<Request> = reads.collect();
        if !requests.is_empty() {
            requests.insert(0, Request::Select(view));
        }
        requests
    }

    /// Takes note of what was read. Where nothing is nobody is to be asked again, if
    /// who was asked sees the kernel.
    pub(super) fn answered(&mut self, requests: &[Request], answers: Vec<Answer>, sees: bool) {
        for (request, answer) in requests.iter().zip(answers) {
            let Request::Read { address, len } = *request else {
                continue;
            };
            let known = match answer.memory() {
                Some(read) => read
                    .chunks(BLOCK as usize)
                    .map(|b| Some(b.to_vec()))
                    .collect(),
                None if sees => vec![None; blocks(address, len).count()],
                None => Vec::new(),
            };
            self.0.extend(blocks(address, len).zip(known));
        }
    }

    /// A word that is there already.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.known(address, 8).try_into().ok()?))
    }

    /// As much of a range as is there, from its beginning.
    pub(super) fn known(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        for block in blocks(address, len) {
            let Some(Some(read)) = self.0.get(&block) else {
                break;
            };
            let skipped = usize::try_from(address.saturating_sub(block)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(read.get(skipped..).unwrap_or_default());
        }
        bytes.truncate(len);
        bytes
    }
}

fn blocks(address: u64, len: usize) -> impl Iterator<Item = u64> {
    let first = address & !(BLOCK - 1);
    let end = address.saturating_add(len as u64);
    (0u64..)
        .map(move |number| first.saturating_add(number * BLOCK))
        .take_while(move |block| *block < end && *block >= first)
}

impl Vm {
    /// Kernel memory that has no effects when it is read.
    pub(super) fn peek(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let bytes = self.peek_up_to(address, len);
        (bytes.len() == len).then_some(bytes)
    }

    /// The same, as far as there is any.
    pub(super) fn peek_up_to(&mut self, address: u64, len: usize) -> Vec<u8> {
        self.peek_all(&[(address, len)]);
        self.peeked.known(address, len)
    }

    /// As [`Vm::peek_all`], but with the next thing that is asked.
    pub(super) fn peek_along(&mut self, ranges: &[(u64, usize)]) {
        self.along = self.peeked.requests(self.kernel_view(), ranges);
    }

    /// Reads several ranges in one round trip.
    pub(super) fn peek_all(&mut self, ranges: &[(u64, usize)]) {
        let requests = self.peeked.requests(self.kernel_view(), ranges);
        if requests.is_empty() {
            return;
        }
        if let Some(answers) = self.ask(&requests) {
            self.peeked.answered(&requests, answers, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_as_long_as_its_blocks() {
        let mut peeked = Peeked::default();
        assert_eq!(peeked.missing(0x1f8, 16), [0x100, 0x200]);
        peeked.0.insert(0x100, Some((0..=255).collect()));
        assert_eq!(peeked.missing(0x1f8, 16), [0x200]);
        peeked.0.insert(0x200, None);
        assert_eq!(peeked.known(0x1f8, 16), (0xf8..=0xff).collect::<Vec<u8>>());
        assert_eq!(peeked.known(0x110, 4), [0x10, 0x11, 0x12, 0x13]);
        assert!(peeked.known(0x210, 4).is_empty());
        assert!(peeked.missing(u64::MAX - 3, 4).len() == 1);
    }

    #[test]
    fn what_lies_close_together_in_a_page_is_read_at_once() {
        const AT: u64 = USER_END;
        let mut peeked = Peeked::default();
        let ranges = [
            (AT + 0x10, 4),
            (AT + 0x310, 8),
            (AT + 0xff8, 16),
            (0x5000, 8),
        ];
        let requests = peeked.requests(2, &ranges);
        let read = |address, len| Request::Read { address, len };
        let expected = [
            Request::Select(2),
            read(AT, 0x400),
            read(AT + 0xf00, 0x100),
            read(AT + 0x1000, 0x100),
        ];
        assert_eq!(requests, expected);
        let answers = vec![
            Answer::Done(true),
            Answer::Memory(Some((0..0x400).map(|at| (at >> 8) as u8).collect())),
            Answer::Memory(Some(vec![9; 0x100])),
            Answer::Memory(None),
        ];
        peeked.answered(&requests, answers.clone(), false);
        assert_eq!(peeked.known(AT + 0x310, 2), [3, 3]);
        assert_eq!(peeked.word(AT + 0xff8), Some(0x0909_0909_0909_0909));
        assert_eq!(peeked.known(AT + 0xffc, 8), [9; 4]);
        assert_eq!(peeked.missing(AT + 0xff8, 16), [AT + 0x1000]);
        peeked.answered(&requests, answers, true);
        assert!(peeked.missing(AT + 0xff8, 16).is_empty());
    }
}
