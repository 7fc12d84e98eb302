//! The blocks of glibc's allocator, which are found without the program's help: a heap is a
//! row of chunks, each with its size before it, so that a walk from the heap's start comes to
//! the chunk that holds an address.
//!
//! The other threads run meanwhile. So a walk ends at whatever is no chunk, and counts only if
//! a second one comes to the same block. Heaps are recognised by their first chunk, the cache
//! of the thread that they were made for; those of other allocators, and of versions of glibc
//! with another cache, give nothing.

use redhanded_model::Block;
use std::ops::Range;

/// The size of the chunk before, and the size of the chunk with flags in its lowest bits.
const HEADER: u64 = 16;
const FLAGS: u64 = 7;
const BEFORE_IS_USED: u64 = 1;
const HAS_OWN_MAPPING: u64 = 2;
const OF_THREAD_ARENA: u64 = 4;
const SMALLEST: u64 = 32;
/// The sizes of a thread's cache, of glibc since 2.30 and since 2.26.
const CACHES: [u64; 2] = [0x290, 0x250];
/// Heaps of other arenas than the first begin at multiples of this.
const ARENA_HEAP: u64 = 64 << 20;
/// What describes a heap, of glibc since 2.35 and before, is followed by its arena.
const ARENA_AT: [u64; 2] = [0x30, 0x20];
/// The arena itself, with what aligns the first chunk.
const ARENA: u64 = 0x8a0;
/// How much is read at a time, and how often: a walk takes less than a millisecond.
const PIECE: u64 = 64 << 10;
const PIECES: usize = 64;

/// Reads memory; whether all of it could be read.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// The block in use that holds `address`. `mapping` is what is mapped there, which is the
/// program's break or not.
pub fn block_at(
    mapping: Range<u64>,
    is_break: bool,
    address: u64,
    read: Read<'_>,
) -> Option<Block> {
    let (first, end) = if is_break {
        (mapping.start, mapping.end)
    } else {
        arena_chunks(&mapping, address, read)?
    };
    let walk = || Walk::new(first, end, !is_break, read)?.block(address);
    let block = walk()?;
    (walk() == Some(block)).then_some(block)
}

/// Where the chunks of an arena's first heap begin and end.
fn arena_chunks(mapping: &Range<u64>, address: u64, read: Read<'_>) -> Option<(u64, u64)> {
    let base = address & !(ARENA_HEAP - 1);
    if base < mapping.start {
        return None;
    }
    let word = |at: u64| {
        let mut word = [0; 8];
        read(at, &mut word).then(|| u64::from_le_bytes(word))
    };
    let arena = word(base)?;
    let is_first = ARENA_AT
        .iter()
        .any(|at| base.checked_add(*at) == Some(arena));
    // The heap before it, of which there is none.
    if !is_first || word(base + 8)? != 0 {
        return None;
    }
    let end = base.checked_add(word(base + 16)?)?;
    (end <= mapping.end).then_some((arena.checked_add(ARENA)?, end))
}

/// A walk from chunk to chunk.
struct Walk<'a> {
    read: Read<'a>,
    end: u64,
    of_thread_arena: bool,
    at: u64,
    /// The bytes from an address on that were read last.
    piece: (u64, Vec<u8>),
    pieces_left: usize,
}

impl<'a> Walk<'a> {
    /// `None` unless the first chunk is a thread's cache.
    fn new(first: u64, end: u64, of_thread_arena: bool, read: Read<'a>) -> Option<Self> {
        let mut walk = Self {
            read,
            end,
            of_thread_arena,
            at: first,
            piece: (0, Vec::new()),
            pieces_left: PIECES,
        };
        let (size, flags) = walk.header(first)?;
        (CACHES.contains(&size) && flags & BEFORE_IS_USED != 0).then_some(walk)
    }

    /// The block that holds `address`, if it is in use.
    fn block(mut self, address: u64) -> Option<Block> {
        loop {
            let (size, own) = self.header(self.at)?;
            let next = self.at.checked_add(size)?;
            // The program also has the word in which the next chunk would keep this one's
            // size, were it free.
            let block = Block {
                address: self.at + HEADER,
                size: size - HEADER + 8,
            };
            if block.offset_of(address).is_some() {
                let (_, flags) = self.header(next)?;
                // Only what was given to the program is marked as its arena's.
                let is_given = (own & OF_THREAD_ARENA != 0) == self.of_thread_arena;
                return (is_given && flags & BEFORE_IS_USED != 0).then_some(block);
            }
            if next > address {
                return None;
            }
            self.at = next;
        }
    }

    /// Size and flags of the chunk at `at`. `None` if there can be none.
    fn header(&mut self, at: u64) -> Option<(u64, u64)> {
        let word = self.word(at.checked_add(8)?)?;
        let (size, flags) = (word & !FLAGS, word & FLAGS);
        let is_chunk = size >= SMALLEST
            && size.is_multiple_of(16)
            && at.checked_add(size)? <= self.end
            && flags & HAS_OWN_MAPPING == 0
            && (flags & OF_THREAD_ARENA == 0 || self.of_thread_arena);
        is_chunk.then_some((size, flags))
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let (start, bytes) = &self.piece;
        let known = at
            .checked_sub(*start)
            .and_then(|from| usize::try_from(from).ok())
            .and_then(|from| bytes.get(from..from.checked_add(8)?));
        if let Some(known) = known {
            return Some(u64::from_le_bytes(known.try_into().ok()?));
        }
        self.pieces_left = self.pieces_left.checked_sub(1)?;
        let len = self.end.checked_sub(at)?.min(PIECE);
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        if len < 8 || !(self.read)(at, &mut bytes) {
            return None;
        }
        let word = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        self.piece = (at, bytes);
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x10000;

    /// A heap of chunks with these sizes and flags.
    fn heap(chunks: &[u64]) -> Vec<u8> {
        let mut memory = Vec::new();
        for chunk in chunks {
            let at = memory.len();
            memory.resize(at + usize::try_from(chunk & !FLAGS).unwrap(), 0);
            memory[at + 8..at + 16].copy_from_slice(&chunk.to_le_bytes());
        }
        memory
    }

    fn find(memory: &[u8], offset: u64) -> Option<(u64, u64)> {
        find_in(memory, START, true, offset)
    }

    fn find_in(memory: &[u8], start: u64, is_break: bool, offset: u64) -> Option<(u64, u64)> {
        let read = |at: u64, buffer: &mut [u8]| {
            let from = usize::try_from(at - start).unwrap();
            let part = memory.get(from..from + buffer.len());
            part.map(|part| buffer.copy_from_slice(part)).is_some()
        };
        let mapping = start..start + memory.len() as u64;
        let block = block_at(mapping, is_break, start + offset, &read)?;
        Some((block.address - start, block.size))
    }

    #[test]
    fn a_walk_comes_to_the_block() {
        let memory = heap(&[0x291, 0x31, 0x51, 0x1001]);
        assert_eq!(find(&memory, 0x2a0), Some((0x2a0, 0x28)));
        assert_eq!(find(&memory, 0x2c7), Some((0x2a0, 0x28)), "its last byte");
        assert_eq!(find(&memory, 0x2d0), Some((0x2d0, 0x48)));
        assert_eq!(find(&memory, 0x2c8), None, "a header");
    }

    #[test]
    fn what_is_free_or_no_chunk_is_no_block() {
        // The chunk after it says that it is free.
        let memory = heap(&[0x291, 0x31, 0x50, 0x1001]);
        assert_eq!(find(&memory, 0x2a0), None);
        // The rest of the heap has none after it.
        assert_eq!(find(&memory, 0x400), None);
        for damaged in [0x0, 0x11, 0x39, 0x33, 0x35, 0xffff_fff1] {
            let mut memory = heap(&[0x291, 0x31, 0x51, 0x1001]);
            memory[0x298..0x2a0].copy_from_slice(&u64::to_le_bytes(damaged));
            assert_eq!(find(&memory, 0x2d0), None, "{damaged:#x}");
        }
    }

    #[test]
    fn a_thread_has_a_heap_of_its_own() {
        let start = ARENA_HEAP * 9;
        // What is free, and the rest, is not marked as an arena's.
        let chunks = heap(&[0x295, 0x35, 0x51, 0x34, 0x1001]);
        for at in ARENA_AT {
            let first = usize::try_from(at + ARENA).unwrap();
            let size = (first + chunks.len()) as u64;
            let mut memory = vec![0; first];
            memory[..8].copy_from_slice(&(start + at).to_le_bytes());
            memory[16..24].copy_from_slice(&size.to_le_bytes());
            memory.extend(&chunks);
            let find = |offset: u64| find_in(&memory, start, false, at + ARENA + offset);
            let block = at + ARENA + 0x2a0;
            assert_eq!(find(0x2a0), Some((block, 0x28)));
            assert_eq!(find(0x2d0), None, "it is free");
            assert_eq!(find(0x320), Some((block + 0x80, 0x28)), "before the rest");
            memory[8] = 1;
            let find = |offset: u64| find_in(&memory, start, false, at + ARENA + offset);
            assert_eq!(find(0x2a0), None, "it is not the first heap");
        }
    }

    #[test]
    fn a_heap_of_another_allocator_is_not_walked() {
        assert_eq!(find(&heap(&[0x31, 0x31, 0x1001]), 0x10), None);
        assert_eq!(find(&[0; 64], 0x10), None);
    }

    #[test]
    fn a_walk_ends_however_many_chunks_there_are() {
        let mut chunks = vec![0x291];
        chunks.resize(PIECES * 2048 + 2, 0x21);
        chunks.push(0x1001);
        let memory = heap(&chunks);
        assert!(find(&memory, 0x290 + 0x10).is_some());
        assert_eq!(find(&memory, memory.len() as u64 - 0x1020), None);
    }
}
