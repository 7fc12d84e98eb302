//! Writes the linked file.

use super::{LinkError, MAX_BYTES};
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, Writer};
use object::{Endianness, elf};
use std::collections::HashMap;

/// The contents of a section.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// Zeros, which are not in the file.
    Zeros,
}

/// A section of the file to be written.
pub(super) struct Section<'a> {
    pub name: &'a str,
    pub kind: u32,
    /// Whether it is in memory, and so in a segment.
    pub loaded: bool,
    pub writable: bool,
    pub executable: bool,
    pub address: u64,
    /// The size in memory if there are no bytes.
    pub size: u64,
    pub content: Content,
    /// Its number in the object file, which symbols refer to.
    pub number: Option<usize>,
}

/// A symbol of the file to be written.
pub(super) struct Symbol<'a> {
    pub name: &'a [u8],
    pub info: u8,
    pub address: u64,
    pub size: u64,
    /// The number of its section in the object file; `None` if it is elsewhere.
    pub section: Option<usize>,
}

/// The file to be written.
#[derive(Default)]
pub(super) struct Output<'a> {
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol<'a>>,
}

/// The alignment of segments, and of sections outside of them, in the file.
const ALIGNMENT: usize = 16;

/// Gaps up to this size, which come from alignment, do not end a segment.
const MAX_GAP: u64 = 4096;

/// Consecutive loaded sections with the same permissions.
struct Segment<'a> {
    /// Each with its index in the output.
    sections: Vec<(usize, &'a Section<'a>)>,
    address: u64,
    offset: usize,
    file_size: u64,
    mem_size: u64,
    flags: u32,
}

impl Segment<'_> {
    fn header(&self) -> ProgramHeader {
        ProgramHeader {
            p_type: elf::PT_LOAD,
            p_flags: self.flags,
            p_offset: self.offset as u64,
            p_vaddr: self.address,
            p_paddr: self.address,
            p_filesz: self.file_size,
            p_memsz: self.mem_size,
            p_align: ALIGNMENT as u64,
        }
    }
}

impl Section<'_> {
    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            Content::Zeros => &[],
        }
    }

    fn mem_size(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeros => self.size,
        }
    }

    /// Whether it is in a segment.
    fn is_mapped(&self) -> bool {
        self.loaded && self.mem_size() > 0
    }

    fn segment_flags(&self) -> u32 {
        let writable = if self.writable { elf::PF_W } else { 0 };
        let executable = if self.executable { elf::PF_X } else { 0 };
        elf::PF_R | writable | executable
    }

    fn header(&self, name: StringId, offset: usize) -> SectionHeader {
        let mut flags = 0;
        if self.loaded {
            flags |= elf::SHF_ALLOC;
            flags |= if self.writable { elf::SHF_WRITE } else { 0 };
            flags |= if self.executable {
                elf::SHF_EXECINSTR
            } else {
                0
            };
        }
        SectionHeader {
            name: Some(name),
            sh_type: self.kind,
            sh_flags: u64::from(flags),
            sh_addr: self.address,
            sh_offset: offset as u64,
            sh_size: if self.kind == elf::SHT_NOBITS {
                self.size
            } else {
                self.bytes().len() as u64
            },
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 1,
            sh_entsize: 0,
        }
    }
}

impl Output<'_> {
    pub fn write(&self) -> Result<Vec<u8>, LinkError> {
        let mut segments = self.segments();
        let mut bytes = Vec::new();
        let mut file = Writer::new(Endianness::Little, true, &mut bytes);
        file.reserve_file_header();
        file.reserve_program_headers(u32::try_from(segments.len()).unwrap_or(u32::MAX));
        // In file order: first what is loaded, then the rest.
        let mut placed: Vec<(usize, usize, &Section<'_>)> = Vec::new();
        for segment in &mut segments {
            segment.offset = file.reserve(0, ALIGNMENT);
            for (number, section) in &segment.sections {
                let gap = usize::try_from(section.address - segment.address).unwrap_or(usize::MAX);
                file.reserve_until(segment.offset.saturating_add(gap).max(file.reserved_len()));
                placed.push((*number, file.reserve(section.bytes().len(), 1), section));
                if file.reserved_len() > 2 * MAX_BYTES {
                    return Err(LinkError::TooLarge);
                }
            }
            segment.file_size = (file.reserved_len() - segment.offset) as u64;
        }
        let sections = || self.sections.iter().enumerate();
        for (number, section) in sections().filter(|(_, section)| !section.is_mapped()) {
            let offset = file.reserve(section.bytes().len(), ALIGNMENT);
            placed.push((number, offset, section));
        }

        file.reserve_null_section_index();
        let mut numbers = HashMap::new();
        let mut names = Vec::new();
        for section in &self.sections {
            names.push(file.add_section_name(section.name.as_bytes()));
            let index = file.reserve_section_index();
            numbers.extend(section.number.map(|number| (number, index)));
        }
        file.reserve_symtab_section_index();
        file.reserve_strtab_section_index();
        file.reserve_shstrtab_section_index();
        file.reserve_null_symbol_index();
        // Local symbols have to come first.
        let is_local = |symbol: &&Symbol<'_>| symbol.info >> 4 == elf::STB_LOCAL;
        let (locals, others): (Vec<_>, Vec<_>) = self.symbols.iter().partition(is_local);
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for symbol in locals.iter().chain(&others) {
            let section = symbol.section.and_then(|it| numbers.get(&it).copied());
            file.reserve_symbol_index(section);
            symbols.push(Sym {
                name: Some(file.add_string(symbol.name)),
                section,
                st_info: symbol.info,
                st_other: 0,
                st_shndx: match symbol.section {
                    Some(_) => elf::SHN_UNDEF,
                    None => elf::SHN_ABS,
                },
                st_value: symbol.address,
                st_size: symbol.size,
            });
        }
        if file.symtab_shndx_needed() {
            return Err(LinkError::Malformed(
                "too many sections to write".to_owned(),
            ));
        }
        file.reserve_symtab();
        file.reserve_strtab();
        file.reserve_shstrtab();
        file.reserve_section_headers();
        if file.reserved_len() > 2 * MAX_BYTES {
            return Err(LinkError::TooLarge);
        }

        let header = FileHeader {
            os_abi: 0,
            abi_version: 0,
            // It is made for exactly these addresses.
            e_type: elf::ET_EXEC,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: 0,
        };
        file.write_file_header(&header)
            .map_err(|why| LinkError::Malformed(why.to_string()))?;
        for segment in &segments {
            file.write_program_header(&segment.header());
        }
        for (_, offset, section) in &placed {
            file.pad_until(*offset);
            file.write(section.bytes());
        }
        file.write_null_symbol();
        for symbol in &symbols {
            file.write_symbol(symbol);
        }
        file.write_strtab();
        file.write_shstrtab();
        file.write_null_section_header();
        placed.sort_by_key(|(number, ..)| *number);
        for ((_, offset, section), name) in placed.into_iter().zip(names) {
            file.write_section_header(&section.header(name, offset));
        }
        file.write_symtab_section_header(u32::try_from(locals.len() + 1).unwrap_or(u32::MAX));
        file.write_strtab_section_header();
        file.write_shstrtab_section_header();
        Ok(bytes)
    }

    /// Groups the mapped sections into segments, by address.
    fn segments(&self) -> Vec<Segment<'_>> {
        let sections = self.sections.iter().enumerate();
        let mut mapped: Vec<_> = sections.filter(|(_, s)| s.is_mapped()).collect();
        mapped.sort_by_key(|(_, section)| section.address);
        let mut segments: Vec<Segment<'_>> = Vec::new();
        for (number, section) in mapped {
            let flags = section.segment_flags();
            let end = section.address.saturating_add(section.mem_size());
            let reach = |last: &Segment<'_>| last.address.saturating_add(last.mem_size);
            match segments.last_mut() {
                // Zeros can only be at the end of a segment, so they get their own.
                Some(last)
                    if !section.bytes().is_empty()
                        && last.file_size > 0
                        && last.flags == flags
                        && section.address.saturating_sub(reach(last)) <= MAX_GAP =>
                {
                    last.sections.push((number, section));
                    last.mem_size = end - last.address;
                }
                _ => segments.push(Segment {
                    sections: vec![(number, section)],
                    address: section.address,
                    offset: 0,
                    file_size: section.bytes().len() as u64,
                    mem_size: end - section.address,
                    flags,
                }),
            }
        }
        segments
    }
}
