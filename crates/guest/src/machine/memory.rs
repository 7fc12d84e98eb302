//! The kernel's memory through the stub, cached in blocks until a CPU runs again:
//! tasks, stacks and page tables lie close together, and no CPU runs during a round
//! trip.
//!
//! Not for the bytes of a window: those may be a device's, whose neighbouring
//! registers must not be read for nothing.

use super::{Answer, GuestMachine, PATIENCE, Request, USER_END};
use crate::gdb::{Gdb, GdbError};
use crate::{Source, VcpuRegisters};
use redhanded_target::TargetError;
use std::collections::BTreeMap;
use std::time::Duration;

const BLOCK: u64 = 256;
/// Blocks that begin within this are read together.
const NEAR: u64 = 4 * BLOCK;
/// All of a page can be read, or nothing.
const PAGE: u64 = 4096;

/// The blocks that were read since the machine stopped; `None` if unreadable.
#[derive(Default)]
pub(super) struct BlockCache(BTreeMap<u64, Option<Vec<u8>>>);

impl BlockCache {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The blocks of a range that were not read yet.
    fn missing(&self, address: u64, len: usize) -> Vec<u64> {
        blocks(address, len)
            .filter(|block| !self.0.contains_key(block))
            .collect()
    }

    /// Whether a range was read, successfully or not.
    pub(super) fn has(&self, address: u64, len: usize) -> bool {
        self.missing(address, len).is_empty()
    }

    /// The requests that read what is missing of these ranges.
    pub(super) fn requests(&self, view: u32, ranges: &[(u64, usize)]) -> Vec<Request> {
        let in_kernel = |range: &&(u64, usize)| range.0 >= USER_END;
        let mut missing: Vec<u64> = ranges
            .iter()
            .filter(in_kernel)
            .flat_map(|(address, len)| self.missing(*address, *len))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        // Another packet costs more than the bytes in between.
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

    /// Stores the answers. An unreadable block is stored too, provided the CPU that was
    /// asked has the kernel mapped.
    pub(super) fn store(&mut self, requests: &[Request], answers: Vec<Answer>, mapped: bool) {
        for (request, answer) in requests.iter().zip(answers) {
            let Request::Read { address, len } = *request else {
                continue;
            };
            let known = match answer.memory() {
                Some(read) => read
                    .chunks(BLOCK as usize)
                    .map(|b| Some(b.to_vec()))
                    .collect(),
                None if mapped => vec![None; blocks(address, len).count()],
                None => Vec::new(),
            };
            self.0.extend(blocks(address, len).zip(known));
        }
    }

    /// A cached word.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.known(address, 8).try_into().ok()?))
    }

    /// As much of a range as is cached, from its start.
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

impl GuestMachine {
    /// Reads several ranges into the cache, in one round trip.
    pub(super) fn prefetch(&mut self, ranges: &[(u64, usize)]) {
        self.prefetch_through(self.kernel_view(), ranges);
    }

    fn prefetch_through(&mut self, view: u32, ranges: &[(u64, usize)]) {
        let requests = self.cache.requests(view, ranges);
        if !requests.is_empty()
            && let Some(answers) = self.ask(&requests)
        {
            self.cache.store(&requests, answers, true);
        }
    }

    /// Reads them with the next request that is sent anyway.
    pub(super) fn prefetch_later(&mut self, ranges: &[(u64, usize)]) {
        self.prefetches = self.cache.requests(self.kernel_view(), ranges);
    }
}

impl Source for GuestMachine {
    fn cpus(&self) -> Vec<u32> {
        self.vcpus.keys().copied().collect()
    }

    fn registers(&mut self, cpu: u32) -> Option<VcpuRegisters> {
        self.registers_of(cpu)
    }

    fn read_many(
        &mut self,
        cpu: Option<u32>,
        ranges: &[(u64, usize)],
    ) -> Result<Vec<Vec<u8>>, TargetError> {
        self.prefetch_through(cpu.unwrap_or_else(|| self.kernel_view()), ranges);
        let cached = |(address, len): &(u64, usize)| self.cache.known(*address, *len);
        Ok(ranges.iter().map(cached).collect())
    }
}

/// Before there is a machine: no cache, and errors are the caller's.
impl Source for Gdb {
    fn cpus(&self) -> Vec<u32> {
        self.vcpus().to_vec()
    }

    fn registers(&mut self, cpu: u32) -> Option<VcpuRegisters> {
        self.registers_of(&[cpu]).ok()?.pop()
    }

    fn read_many(
        &mut self,
        cpu: Option<u32>,
        ranges: &[(u64, usize)],
    ) -> Result<Vec<Vec<u8>>, TargetError> {
        let reads = ranges
            .iter()
            .map(|&(address, len)| Request::Read { address, len });
        let requests: Vec<Request> = cpu.map(Request::Select).into_iter().chain(reads).collect();
        let mut answers = self.ask(&requests).map_err(lost)?;
        let read = answers.split_off(answers.len().saturating_sub(ranges.len()));
        let bytes = |answer: Answer| answer.memory().unwrap_or_default();
        Ok(read.into_iter().map(bytes).collect())
    }

    fn run_for(&mut self, time: Duration) -> Result<bool, TargetError> {
        self.resume(None).map_err(lost)?;
        if self.wait(time).map_err(lost)?.is_none() {
            self.interrupt(PATIENCE).map_err(lost)?;
        }
        Ok(true)
    }
}

fn lost(error: GdbError) -> TargetError {
    TargetError::Unsupported(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_as_long_as_its_blocks() {
        let mut cache = BlockCache::default();
        assert_eq!(cache.missing(0x1f8, 16), [0x100, 0x200]);
        cache.0.insert(0x100, Some((0..=255).collect()));
        assert_eq!(cache.missing(0x1f8, 16), [0x200]);
        cache.0.insert(0x200, None);
        assert_eq!(cache.known(0x1f8, 16), (0xf8..=0xff).collect::<Vec<u8>>());
        assert_eq!(cache.known(0x110, 4), [0x10, 0x11, 0x12, 0x13]);
        assert!(cache.known(0x210, 4).is_empty());
        assert!(cache.missing(u64::MAX - 3, 4).len() == 1);
    }

    #[test]
    fn what_lies_close_together_in_a_page_is_read_at_once() {
        const AT: u64 = USER_END;
        let mut cache = BlockCache::default();
        let ranges = [
            (AT + 0x10, 4),
            (AT + 0x310, 8),
            (AT + 0xff8, 16),
            (0x5000, 8),
        ];
        let requests = cache.requests(2, &ranges);
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
        cache.store(&requests, answers.clone(), false);
        assert_eq!(cache.known(AT + 0x310, 2), [3, 3]);
        assert_eq!(cache.word(AT + 0xff8), Some(0x0909_0909_0909_0909));
        assert_eq!(cache.known(AT + 0xffc, 8), [9; 4]);
        assert_eq!(cache.missing(AT + 0xff8, 16), [AT + 0x1000]);
        cache.store(&requests, answers, true);
        assert!(cache.missing(AT + 0xff8, 16).is_empty());
    }
}
