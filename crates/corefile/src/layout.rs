//! The layout of the file: headers, then notes, then memory.

use super::fields::Fields;
use std::io;

/// The size of a page, to which segments are aligned.
pub const PAGE: u64 = 4096;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;

/// The count of program headers that means "see the first section header": the field
/// has 16 bits, and a process can have more mappings.
const MANY: u16 = 0xffff;

/// One piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub address: u64,
    pub size: u64,
    /// How many of its bytes, from its start, are in the file.
    pub stored: u64,
    /// `PF_R` (4), `PF_W` (2), `PF_X` (1).
    pub flags: u32,
}

/// The layout.
pub struct Layout {
    /// Headers and notes: the file's start.
    pub head: Vec<u8>,
    /// Where in the file each load begins.
    pub offsets: Vec<u64>,
    /// The file's length.
    pub length: u64,
}

/// Lays out a core of these loads and notes.
///
/// # Errors
/// If it would be longer than a file can be.
pub fn lay_out(loads: &[Load], notes: &[u8]) -> io::Result<Layout> {
    let count = loads.len() + 1;
    let too_many = || io::Error::new(io::ErrorKind::InvalidInput, "too many mappings for a core");
    let all = u32::try_from(count).map_err(|_| too_many())?;
    let many = count >= usize::from(MANY);
    let sections = HEADER + count * PROGRAM_HEADER;
    let notes_at = sections + if many { SECTION_HEADER } else { 0 };
    let mut end = ((notes_at + notes.len()) as u64).next_multiple_of(PAGE);
    let mut offsets = Vec::with_capacity(loads.len());
    for load in loads {
        offsets.push(end);
        end = end
            .checked_add(load.stored)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    }

    let mut out = Fields::default();
    out.0.extend_from_slice(b"\x7fELF\x02\x01\x01");
    out.align(16);
    out.u16(4); // ET_CORE
    out.u16(62); // EM_X86_64
    out.u32(1);
    out.u64(0); // no entry
    out.u64(HEADER as u64);
    out.u64(if many { sections as u64 } else { 0 });
    out.u32(0);
    out.u16(64);
    out.u16(56);
    out.u16(u16::try_from(count).unwrap_or(MANY));
    out.u16(if many { 64 } else { 0 });
    out.u16(u16::from(many));
    out.u16(0);

    // PT_NOTE
    out.u32(4);
    out.u32(0);
    out.u64(notes_at as u64);
    out.u64(0);
    out.u64(0);
    out.u64(notes.len() as u64);
    out.u64(0);
    out.u64(4);
    for (load, offset) in loads.iter().zip(&offsets) {
        out.u32(1); // PT_LOAD
        out.u32(load.flags);
        out.u64(*offset);
        out.u64(load.address);
        out.u64(0);
        out.u64(load.stored);
        out.u64(load.size);
        out.u64(PAGE);
    }
    if many {
        out.zeros(32);
        out.u64(1); // sh_size: how many section headers
        out.u32(0);
        out.u32(all); // sh_info: how many program headers
        out.zeros(16);
    }
    out.0.extend_from_slice(notes);
    Ok(Layout {
        head: out.0,
        offsets,
        length: end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::LittleEndian;
    use object::elf::FileHeader64;
    use object::read::elf::{FileHeader, ProgramHeader};

    fn loads(count: u64) -> Vec<Load> {
        (1..=count)
            .map(|n| Load {
                address: n * 2 * PAGE,
                size: PAGE,
                stored: if n % 2 == 0 { PAGE } else { 0 },
                flags: 6,
            })
            .collect()
    }

    #[test]
    fn every_load_is_found_again_however_many_they_are() {
        for count in [0, 1, 3, 65_533, 65_534, 65_535, 70_000] {
            let loads = loads(count);
            let layout = lay_out(&loads, b"notes").unwrap();
            let header = FileHeader64::<LittleEndian>::parse(&*layout.head).unwrap();
            let endian = header.endian().unwrap();
            let found = header.program_headers(endian, &*layout.head).unwrap();
            assert_eq!(found.len() as u64, count + 1);
            assert_eq!(found[0].data(endian, &*layout.head), Ok(&b"notes"[..]));
            for ((found, load), offset) in found[1..].iter().zip(&loads).zip(&layout.offsets) {
                assert_eq!(found.p_type(endian), object::elf::PT_LOAD);
                assert_eq!(found.p_vaddr(endian), load.address);
                assert_eq!(found.p_filesz(endian), load.stored);
                assert_eq!(found.p_memsz(endian), load.size);
                assert_eq!(found.p_offset(endian), *offset);
                assert_eq!(offset % PAGE, 0);
                assert!(*offset >= layout.head.len() as u64);
                assert!(offset + load.stored <= layout.length);
            }
        }
    }

    #[test]
    fn a_file_longer_than_files_can_be_is_refused() {
        let huge = Load {
            address: 0,
            size: 1 << 62,
            stored: 1 << 62,
            flags: 4,
        };
        assert!(lay_out(&[huge, huge], b"").is_err());
    }
}
