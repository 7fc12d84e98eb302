//! Which memory is which.

use redhanded_analysis::Place;
use redhanded_model::{Avma, Bytes, TaskId};
use std::collections::BTreeMap;

/// More blocks and mappings are not remembered at once; the oldest by address go.
const MOST: usize = 8 << 20;

/// How far below its first stack pointer a thread's stack may reach, where its mapping is not
/// known: as far as a stack usually does.
const STACK: u64 = 8 << 20;

/// How much of a thread's own data may be above its first stack pointer.
const ABOVE_STACK: u64 = 64 << 10;

/// Memory that the program got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The bytes that it asked for.
    pub bytes: Bytes,
    /// From whom.
    pub origin: Origin,
}

/// Where memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// An allocator.
    Heap {
        /// The thread that asked for it.
        by: TaskId,
        /// Where: the site is the return address of the call.
        place: Place,
    },
    /// An allocator of the program's own, which somebody named.
    Own {
        /// The thread that asked for it.
        by: TaskId,
        /// Where: the site is the return address of the call.
        place: Place,
    },
    /// The kernel.
    Mapping,
}

impl Origin {
    /// Whether it is a block that an allocator handed out.
    #[must_use]
    pub const fn is_block(self) -> bool {
        matches!(self, Self::Heap { .. } | Self::Own { .. })
    }
}

/// The run of bytes from an address.
pub const fn bytes(start: u64, len: u64) -> Bytes {
    Bytes::new(Avma(start), len)
}

/// The memory of a process.
#[derive(Default)]
pub struct Memory {
    /// By their first bytes.
    blocks: BTreeMap<u64, Allocation>,
    mappings: BTreeMap<u64, Allocation>,
    /// Where the heap of the kernel's `brk` ends.
    pub end_of_heap: u64,
}

impl Memory {
    /// What an address is in.
    pub fn at(&self, address: u64) -> Option<&Allocation> {
        let in_one = |all: &BTreeMap<u64, Allocation>| {
            let (start, _) = all
                .range(..=address)
                .next_back()
                .filter(|(_, one)| address < one.bytes.end())?;
            Some(*start)
        };
        match in_one(&self.blocks) {
            Some(start) => self.blocks.get(&start),
            None => self.mappings.get(&in_one(&self.mappings)?),
        }
    }

    /// A block begins its life.
    pub fn allocate(&mut self, start: u64, size: u64, origin: Origin) -> Allocation {
        let block = Allocation {
            bytes: bytes(start, size),
            origin,
        };
        make_room(&mut self.blocks);
        self.blocks.insert(start, block);
        block
    }

    /// The block that begins here.
    pub fn block(&self, start: u64) -> Option<&Allocation> {
        self.blocks.get(&start)
    }

    /// A block ends it.
    pub fn free(&mut self, start: u64) -> Option<Allocation> {
        self.blocks.remove(&start)
    }

    /// The kernel gives memory.
    pub fn map(&mut self, mapped: Bytes) {
        self.unmap(mapped);
        make_room(&mut self.mappings);
        self.mappings.insert(
            mapped.start.0,
            Allocation {
                bytes: mapped,
                origin: Origin::Mapping,
            },
        );
    }

    /// The kernel takes memory back, which may be a part of what it gave.
    pub fn unmap(&mut self, gone: Bytes) {
        let touched: Vec<Allocation> = self
            .mappings
            .range(..gone.end())
            .rev()
            .map(|(_, mapping)| *mapping)
            .take_while(|mapping| mapping.bytes.overlaps(gone))
            .collect();
        for mapping in touched {
            self.mappings.remove(&mapping.bytes.start.0);
            let (start, end) = (mapping.bytes.start.0, mapping.bytes.end());
            for (from, to) in [(start, gone.start.0), (gone.end(), end)] {
                if from < to {
                    let bytes = bytes(from, to - from);
                    self.mappings.insert(from, Allocation { bytes, ..mapping });
                }
            }
        }
    }

    /// The memory that has the stack of a thread which begins with this stack pointer.
    pub fn stack(&self, pointer: u64) -> Bytes {
        let below = self.mappings.range(..=pointer).next_back();
        match below.filter(|(_, mapping)| pointer < mapping.bytes.end()) {
            Some((_, mapping)) => mapping.bytes,
            None => {
                let start = pointer.saturating_sub(STACK);
                bytes(start, pointer.saturating_add(ABOVE_STACK) - start)
            }
        }
    }
}

impl Allocation {
    /// What may be used behind a block: the C library has blocks of 16 bytes, less a word. Other
    /// allocators round up at least as far, or else this is the beginning of their next block.
    /// Somebody said how long one of the program's own is.
    pub fn slack(&self) -> Option<Bytes> {
        if !matches!(self.origin, Origin::Heap { .. }) {
            return None;
        }
        let asked = self.bytes.len;
        let usable = (asked.saturating_add(8 + 15) & !15).max(32) - 8;
        (usable > asked).then(|| bytes(self.bytes.start.0.saturating_add(asked), usable - asked))
    }
}

fn make_room(all: &mut BTreeMap<u64, Allocation>) {
    if all.len() >= MOST {
        all.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(memory: &Memory) -> Vec<(u64, u64)> {
        let mappings = memory.mappings.values();
        mappings
            .map(|one| (one.bytes.start.0, one.bytes.len))
            .collect()
    }

    #[test]
    fn parts_of_mappings_are_given_back() {
        let mut memory = Memory::default();
        memory.map(bytes(0x1000, 0x4000));
        memory.map(bytes(0x8000, 0x1000));
        memory.unmap(bytes(0x2000, 0x1000));
        assert_eq!(
            mapped(&memory),
            [(0x1000, 0x1000), (0x3000, 0x2000), (0x8000, 0x1000)]
        );
        memory.unmap(bytes(0, u64::MAX));
        assert_eq!(mapped(&memory), []);
    }

    #[test]
    fn a_block_is_found_in_its_mapping() {
        let mut memory = Memory::default();
        memory.map(bytes(0x1000, 0x1000));
        let origin = Origin::Heap {
            by: TaskId(1),
            place: Place(7),
        };
        let block = memory.allocate(0x1010, 20, origin);
        assert_eq!(block.bytes, bytes(0x1010, 20));
        assert_eq!(block.slack(), Some(bytes(0x1024, 4)));
        assert_eq!(memory.allocate(0x1030, 40, origin).slack(), None);
        assert_eq!(
            memory.allocate(0x1060, 41, origin).slack(),
            Some(bytes(0x1089, 15))
        );
        let own = Origin::Own {
            by: TaskId(1),
            place: Place(7),
        };
        assert_eq!(memory.allocate(0x1090, 20, own).slack(), None);
        assert_eq!(memory.at(0x1012).unwrap().origin, origin);
        assert_eq!(memory.at(0x1800).unwrap().origin, Origin::Mapping);
        assert_eq!(memory.free(0x1010), Some(block));
        assert_eq!(memory.at(0x1012).unwrap().origin, Origin::Mapping);
        assert_eq!(memory.free(0x1010), None);
        assert_eq!(memory.stack(0x1f00), bytes(0x1000, 0x1000));
    }
}
