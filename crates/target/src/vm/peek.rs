//! The kernel's own memory, read in blocks and remembered until somebody runs: what
//! is asked of tasks, stacks and page tables lies close together, and each round
//! trip to the stub keeps the whole machine standing.
//!
//! Not for the bytes of a window: those may be a device's, whose registers must not
//! be read along with others.

use super::{Answer, Request, USER_END, Vm};
use std::collections::BTreeMap;

/// The size of a block, which lies in one page.
const BLOCK: u64 = 256;

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
        let reads = missing.into_iter().map(|address| Request::Read {
            address,
            len: BLOCK as usize,
        });
        let mut requests: Vec<Request> = reads.collect();
        if !requests.is_empty() {
            requests.insert(0, Request::Select(view));
        }
        requests
    }

    /// Takes note of what was read.
    pub(super) fn answered(&mut self, requests: &[Request], answers: Vec<Answer>) {
        for (request, answer) in requests.iter().zip(answers) {
            if let (Request::Read { address, .. }, Some(read)) = (request, answer.memory()) {
                self.0.insert(*address, Some(read));
            }
        }
    }

    /// As much of a range as is there, from its beginning.
    fn known(&self, address: u64, len: usize) -> Vec<u8> {
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

    /// Reads several ranges in one round trip.
    pub(super) fn peek_all(&mut self, ranges: &[(u64, usize)]) {
        let requests = self.peeked.requests(self.kernel_view(), ranges);
        if requests.is_empty() {
            return;
        }
        if let Some(answers) = self.ask(&requests) {
            self.peeked.answered(&requests, answers);
        }
        // Nobody is to be asked again.
        for (address, len) in ranges {
            for block in self.peeked.missing(*address, *len) {
                self.peeked.0.insert(block, None);
            }
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
}
