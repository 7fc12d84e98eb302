//! Restartable sequences: the kernel sends a thread that it stops or moves within one back to
//! its beginning, so plain accesses to memory of one processor do not meet there.
//!
//! Each sequence has a descriptor in a section of its own, by which debuggers, too, find them.

use crate::Image;
use crate::layout::elf_file;
use object::elf;
use object::read::elf::{Rela, SectionHeader};
use object::{Object, ObjectSection};
use redhanded_model::Svma;
use std::collections::HashMap;

/// Where the descriptors are, by convention of all that use such sequences.
const SECTION: &str = "__rseq_cs";
/// Version and flags, the first instruction, the length, and where to go on after a stop.
const DESCRIPTOR: usize = 32;
/// Longer ones are none: the kernel is not held up for long.
const LONGEST: u64 = 4096;

impl Image {
    /// Whether the instruction at `svma` is in a restartable sequence.
    #[must_use]
    pub fn in_restartable_sequence(&self, svma: Svma) -> bool {
        let found = || {
            let file = elf_file(self)?;
            let section = file.section_by_name(SECTION)?;
            let moved = self.relative_addresses();
            let start = section.address();
            let data = section.data().ok()?;
            let within = data.chunks_exact(DESCRIPTOR).zip(0..).any(|(one, number)| {
                let word = |at: usize| {
                    let bytes = one.get(at..at + 8)?.try_into().ok()?;
                    Some(u64::from_le_bytes(bytes))
                };
                let slot = start.wrapping_add(number * DESCRIPTOR as u64 + 8);
                let (Some(written), Some(length)) = (word(8), word(16)) else {
                    return false;
                };
                let first = moved.get(&slot).copied().unwrap_or(written);
                length <= LONGEST && svma.0.wrapping_sub(first) < length
            });
            Some(within)
        };
        found().unwrap_or(false)
    }

    /// What the loader writes, by where: addresses of the file itself.
    fn relative_addresses(&self) -> HashMap<u64, u64> {
        let Some(file) = elf_file(self) else {
            return HashMap::new();
        };
        let endian = file.endian();
        let sections = file.elf_section_table().iter();
        sections
            .filter(|section| section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0)
            .filter_map(|section| section.rela(endian, self.data()).ok().flatten())
            .flat_map(|(relocations, _)| relocations)
            .filter(|one| one.r_type(endian, false) == elf::R_X86_64_RELATIVE)
            .map(|one| (one.r_offset(endian), one.r_addend(endian).cast_unsigned()))
            .collect()
    }
}
