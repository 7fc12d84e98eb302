//! The blocks of glibc's allocator, which are found without the program's help: a heap is a
//! row of chunks, each with its size before it, so that a walk from the heap's start comes to
//! the chunk that holds an address.
//!
//! A block from 128 KiB on, unless the program sets another limit, has a mapping of its own: its
//! chunk begins where the mapping does. The kernel makes one of neighbouring mappings, so
//! that several of them may be a row, too.
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
const PAGE: u64 = 4096;
/// A chunk with its own mapping is larger, unless the program asked for it.
const LARGE: u64 = 128 << 10;
/// How many chunks of a row are passed.
const MOST_LARGE: usize = 16;
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
    let heap = if is_break {
        Some((mapping.start, mapping.end))
    } else {
        arena_chunks(&mapping, address, read)
    };
    let walk = || match heap {
        Some((first, end)) => Walk::new(first, end, !is_break, read)?.block(address),
        None => large_block(&mapping, address, read),
    };
    let block = walk()?;
    (walk() == Some(block)).then_some(block)
}

/// Where the chunks of an arena's first heap begin and end.
fn arena_chunks(mapping: &Range<u64>, address: u64, read: Read<'_>) -> Option<(u64, u64)> {
    let base = address & !(ARENA_HEAP - 1);
    if base < mapping.start {
        return None;
    }
    let word = |at: u64| word(at, read);
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

fn word(at: u64, read: Read<'_>) -> Option<u64> {
    let mut word = [0; 8];
    read(at, &mut word).then(|| u64::from_le_bytes(word))
}

/// The block with its own mapping that holds `address`.
fn large_block(mapping: &Range<u64>, address: u64, read: Read<'_>) -> Option<Block> {
    let mut at = mapping.start;
    for _ in 0..MOST_LARGE {
        let whole = own_mapping(at, read)?;
        // What was left free before a block that had to be aligned. The header at the start
        // stays, also when such a block is moved and gets another size.
        let earliest = at.checked_add(HEADER + SMALLEST)?;
        let aligned = (5..u64::BITS)
            .filter_map(|power| earliest.checked_next_multiple_of(1 << power))
            .take_while(|block| *block < mapping.end)
            .find_map(|block| {
                let before = block - HEADER - at;
                let rest = own_mapping_after(before, block - HEADER, read)?;
                Some((before, before.checked_add(rest)?))
            });
        let (before, size) = aligned.unwrap_or((0, whole));
        let next = at.checked_add(size)?;
        if size <= LARGE || !size.is_multiple_of(PAGE) || next > mapping.end {
            return None;
        }
        if address < next {
            let block = Block {
                address: at + before + HEADER,
                size: size - before - HEADER,
            };
            return block.offset_of(address).is_some().then_some(block);
        }
        at = next;
    }
    None
}

/// The size of a chunk with its own mapping, which begins at `at`.
fn own_mapping(at: u64, read: Read<'_>) -> Option<u64> {
    own_mapping_after(0, at, read)
}

/// The size of a chunk with its own mapping, of which so much was left free before it.
fn own_mapping_after(before: u64, at: u64, read: Read<'_>) -> Option<u64> {
    let mut header = [0; 16];
    if !read(at, &mut header) {
        return None;
    }
    let (first, second) = header.split_at(8);
    let free = u64::from_le_bytes(first.try_into().ok()?);
    let size = u64::from_le_bytes(second.try_into().ok()?);
    (free == before && size & FLAGS == HAS_OWN_MAPPING).then_some(size & !FLAGS)
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

    /// What chunks with their own mappings leave in memory, as offsets and words.
    fn mapped(len: usize, words: &[(usize, u64)]) -> Vec<u8> {
        let mut memory = vec![0; len];
        for (at, word) in words {
            memory[*at..*at + 8].copy_from_slice(&word.to_le_bytes());
        }
        memory
    }

    fn find_mapped(memory: &[u8], offset: u64) -> Option<(u64, u64)> {
        find_in(memory, START, false, offset)
    }

    #[test]
    fn a_large_block_has_its_own_mapping() {
        let mut memory = mapped(0x60000, &[(8, 0x2_1002), (0x2_1008, 0x2_2002)]);
        assert_eq!(find_mapped(&memory, 0x10), Some((0x10, 0x2_0ff0)));
        assert_eq!(find_mapped(&memory, 0x2_0fff), Some((0x10, 0x2_0ff0)));
        assert_eq!(find_mapped(&memory, 0x2_1020), Some((0x2_1010, 0x2_1ff0)));
        assert_eq!(find_mapped(&memory, 8), None, "a header");
        assert_eq!(find_mapped(&memory, 0x2_1008), None, "a header");
        assert_eq!(find_mapped(&memory, 0x5_0000), None, "behind the last one");
        memory[0] = 1;
        assert_eq!(find_mapped(&memory, 0x10), None, "nothing is before it");
        for other in [0x2_1000, 0x2_1003, 0x2_1006, 0x2_1012, 0x1002, 0x6_1002] {
            let memory = mapped(0x60000, &[(8, other)]);
            assert_eq!(find_mapped(&memory, 0x10), None, "{other:#x}");
        }
    }

    #[test]
    fn a_large_block_may_have_to_be_aligned() {
        // To 4096 bytes: most of a page is before it, and the first header is still there.
        let words = [(8, 0x2_3002), (0xff0, 0xff0), (0xff8, 0x2_2012)];
        let memory = mapped(0x2_3000, &words);
        assert_eq!(find_mapped(&memory, 0x1000), Some((0x1000, 0x2_2000)));
        assert_eq!(find_mapped(&memory, 0x800), None, "left free");
        // To 32 bytes: with less than a chunk before it, it would be the next one.
        let words = [(8, 0x2_3002), (0x30, 0x30), (0x38, 0x2_2fd2)];
        assert_eq!(
            find_mapped(&mapped(0x2_3000, &words), 0x40),
            Some((0x40, 0x2_2fc0))
        );
        // It has grown since.
        let words = [(8, 0x2_3002), (0xff0, 0xff0), (0xff8, 0x4_2012)];
        let memory = mapped(0x4_3000, &words);
        assert_eq!(find_mapped(&memory, 0x4_0000), Some((0x1000, 0x4_2000)));
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
