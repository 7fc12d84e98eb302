//! Which parts of an image are code, PLT stubs and the GOT.

use crate::Image;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, ReadRef};
use redhanded_model::Svma;
use std::ops::Range;

/// A range of addresses that holds code and is wholly in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodePart {
    pub range: Range<u64>,
    /// The size of one stub, if it is a PLT section.
    pub stub: Option<u64>,
}

/// An image's address ranges by what they hold.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Sorted, without overlaps.
    pub code: Vec<CodePart>,
    /// The parts of the global offset table (GOT).
    pub got: Vec<Range<u64>>,
    /// Whether there are no section headers: only segments are known.
    pub bare: bool,
}

/// No linker produces more sections than this.
const MAX_SECTIONS: usize = 1 << 16;

impl Layout {
    pub fn of(image: &Image) -> Self {
        let mut layout = Self::default();
        if let Some(file) = elf_file(image) {
            layout.read_sections(&file, image);
        }
        if layout.code.is_empty() {
            // Without section headers there are only segments, and functions come from
            // the unwind tables alone.
            layout.bare = true;
            for segment in image.segments().iter().filter(|s| s.executable) {
                layout.add_code(image, segment.svma.0, segment.mem_size, None);
            }
        }
        layout.code.sort_by_key(|region| region.range.start);
        let mut end = 0;
        layout.code.retain_mut(|region| {
            region.range.start = region.range.start.max(end);
            end = end.max(region.range.end);
            !region.range.is_empty()
        });
        layout
    }

    fn read_sections(&mut self, file: &ElfFile64<'_, Endianness>, image: &Image) {
        let endian = file.endian();
        let sections = file.elf_section_table();
        for section in sections.iter().take(MAX_SECTIONS) {
            let flags = section.sh_flags(endian);
            if flags & u64::from(elf::SHF_ALLOC) == 0 {
                continue;
            }
            let name = sections.section_name(endian, section).unwrap_or_default();
            let (start, size) = (section.sh_addr(endian), section.sh_size(endian));
            if is_code(flags) {
                let stub = is_plt(name).then(|| match section.sh_entsize(endian) {
                    size @ (8 | 16 | 32) => size,
                    _ => 16,
                });
                if section.sh_type(endian) != elf::SHT_NOBITS {
                    self.add_code(image, start, size, stub);
                }
            } else if name.starts_with(b".got") {
                self.got.push(start..start.saturating_add(size));
            }
        }
    }

    /// Adds the part of `start..start + size` that is in the file and executable.
    fn add_code(&mut self, image: &Image, start: u64, size: u64, stub: Option<u64>) {
        let Some(segment) = image.segment_at(Svma(start)) else {
            return;
        };
        if !segment.executable {
            return;
        }
        let available = segment.file_size.saturating_sub(start - segment.svma.0);
        let range = start..start.saturating_add(size.min(available));
        if !range.is_empty() {
            self.code.push(CodePart { range, stub });
        }
    }

    /// The code region that `svma` lies in.
    pub fn region_at(&self, svma: u64) -> Option<&CodePart> {
        let after = self.code.partition_point(|r| r.range.start <= svma);
        let region = self.code.get(after.checked_sub(1)?)?;
        region.range.contains(&svma).then_some(region)
    }

    pub fn in_got(&self, svma: u64) -> bool {
        self.got.iter().any(|range| range.contains(&svma))
    }
}

/// Whether a section with these flags is code. In newer kernels, data sections are flagged
/// as executable too, but they are writable.
pub fn is_code(flags: u64) -> bool {
    let both = u64::from(elf::SHF_EXECINSTR | elf::SHF_WRITE);
    flags & both == u64::from(elf::SHF_EXECINSTR)
}

fn is_plt(name: &[u8]) -> bool {
    name == b".plt" || name.starts_with(b".plt.") || name == b".iplt"
}

/// The image as a 64-bit ELF file; `None` if its tables are inconsistent.
pub(crate) fn elf_file(image: &Image) -> Option<ElfFile64<'_, Endianness>> {
    ElfFile64::parse(image.data()).ok()
}

/// The `PT_GNU_EH_FRAME` segment, which survives the removal of section headers.
pub(crate) fn eh_frame_header(image: &Image) -> Option<(u64, &[u8])> {
    use object::read::elf::ProgramHeader;
    let data = image.data();
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let program = header
        .program_headers(endian, data)
        .ok()?
        .iter()
        .find(|p| p.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
    let bytes = data
        .read_bytes_at(program.p_offset(endian), program.p_filesz(endian))
        .ok()?;
    Some((program.p_vaddr(endian), bytes))
}
