//! Reads an object file: its sections, symbols and relocations.

use super::LinkError;
use super::relocate::Relocation;
use crate::budget::Budget;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, Rela, SectionHeader, Sym};
use object::{CompressionFormat, Endianness, Object, ObjectSection, SectionIndex};
use std::collections::HashMap;

/// Enough for a module with one section per function.
const MAX_SECTIONS: usize = 1 << 16;

/// A section of an object file.
pub(super) struct InputSection {
    pub number: usize,
    pub name: String,
    /// How many sections before it have the same name.
    pub nth: usize,
    pub kind: u32,
    pub alloc: bool,
    pub writable: bool,
    pub executable: bool,
    /// The size in memory, after decompression.
    pub size: u64,
}

/// A symbol of an object file.
pub(super) struct InputSymbol<'a> {
    pub name: &'a [u8],
    pub info: u8,
    pub section: Option<usize>,
    pub absolute: bool,
    pub value: u64,
    pub size: u64,
}

impl InputSymbol<'_> {
    /// Whether it names code or data.
    pub fn is_named(&self) -> bool {
        let kind = self.info & 0xf;
        !self.name.is_empty() && !matches!(kind, elf::STT_SECTION | elf::STT_FILE)
    }
}

/// An object file.
pub(super) struct Input<'a> {
    file: ElfFile64<'a, Endianness>,
    budget: Budget,
    pub sections: Vec<InputSection>,
    pub symbols: Vec<InputSymbol<'a>>,
    /// The relocation sections of each section.
    relocations: HashMap<usize, Vec<usize>>,
}

fn malformed(error: object::Error) -> LinkError {
    LinkError::Malformed(error.to_string())
}

impl<'a> Input<'a> {
    pub fn read(data: &'a [u8]) -> Result<Self, LinkError> {
        let file: ElfFile64<'a, Endianness> =
            ElfFile64::parse(data).map_err(|e| LinkError::NotAnObject(e.to_string()))?;
        let endian = file.endian();
        let header = file.elf_header();
        if header.e_machine(endian) != elf::EM_X86_64 || endian != Endianness::Little {
            return Err(LinkError::NotAnObject(
                "it is for another machine".to_owned(),
            ));
        }
        if header.e_type(endian) != elf::ET_REL {
            return Err(LinkError::NotAnObject("it is linked already".to_owned()));
        }
        let mut input = Self {
            sections: Vec::new(),
            symbols: Vec::new(),
            relocations: HashMap::new(),
            budget: Budget::of_file(data.len()),
            file,
        };
        input.read_sections()?;
        input.read_symbols();
        Ok(input)
    }

    fn read_sections(&mut self) -> Result<(), LinkError> {
        let endian = self.file.endian();
        let table = self.file.elf_section_table();
        if table.len() > MAX_SECTIONS {
            let why = "it claims to have tens of thousands of sections";
            return Err(LinkError::Malformed(why.to_owned()));
        }
        let mut seen: HashMap<&[u8], usize> = HashMap::new();
        for (index, section) in table.enumerate() {
            let number = index.0;
            let kind = section.sh_type(endian);
            if kind == elf::SHT_RELA {
                let of = section.info_link(endian).0;
                self.relocations.entry(of).or_default().push(number);
            }
            if !matches!(
                kind,
                elf::SHT_PROGBITS
                    | elf::SHT_NOBITS
                    | elf::SHT_NOTE
                    | elf::SHT_INIT_ARRAY
                    | elf::SHT_FINI_ARRAY
                    | elf::SHT_X86_64_UNWIND
            ) {
                // Nothing refers to the other kinds; they are written anew.
                continue;
            }
            let name = table.section_name(endian, section).map_err(malformed)?;
            let nth = seen.entry(name).or_default();
            let flags = section.sh_flags(endian);
            let has = |flag: u32| flags & u64::from(flag) != 0;
            self.sections.push(InputSection {
                number,
                name: String::from_utf8_lossy(name).into_owned(),
                nth: *nth,
                kind,
                alloc: has(elf::SHF_ALLOC),
                writable: has(elf::SHF_WRITE),
                executable: has(elf::SHF_EXECINSTR),
                size: section.sh_size(endian),
            });
            *nth += 1;
        }
        Ok(())
    }

    fn read_symbols(&mut self) {
        let endian = self.file.endian();
        let table = self.file.elf_symbol_table();
        // Relocations refer to symbols by number, so none is left out.
        for (index, symbol) in table.enumerate() {
            let number = symbol.st_shndx(endian);
            let section = table.symbol_section(endian, symbol, index);
            self.symbols.push(InputSymbol {
                name: table.symbol_name(endian, symbol).unwrap_or_default(),
                info: symbol.st_info(),
                section: section.ok().flatten().map(|section| section.0),
                absolute: number == elf::SHN_ABS,
                value: symbol.st_value(endian),
                size: symbol.st_size(endian),
            });
        }
    }

    /// The section with this number in the file.
    pub fn section(&self, number: usize) -> Option<&InputSection> {
        let at = self
            .sections
            .binary_search_by_key(&number, |section| section.number)
            .ok()?;
        self.sections.get(at)
    }

    /// The bytes of a section; `None` if it has none in the file.
    pub fn contents(&self, number: usize) -> Result<Option<Vec<u8>>, LinkError> {
        let section = self
            .file
            .section_by_index(SectionIndex(number))
            .map_err(malformed)?;
        if self
            .section(number)
            .is_some_and(|s| s.kind == elf::SHT_NOBITS)
        {
            return Ok(None);
        }
        let compressed = section.compressed_data().map_err(malformed)?;
        let alloc = self.section(number).is_some_and(|section| section.alloc);
        if alloc && compressed.format != CompressionFormat::None {
            let why = "what is loaded cannot be compressed";
            return Err(LinkError::Malformed(why.to_owned()));
        }
        // Plain sections, too, become copies, and all of them may be the same bytes.
        if compressed.format == CompressionFormat::None {
            let len = compressed.data.len() as u64;
            self.budget.take(len).map_err(|_| LinkError::TooLarge)?;
        }
        let bytes = self.budget.section(compressed);
        let bytes = bytes.map_err(|error| LinkError::Malformed(error.to_string()))?;
        Ok(Some(bytes.into_owned()))
    }

    /// The relocations of a section.
    pub fn relocations(
        &self,
        number: usize,
    ) -> Result<impl Iterator<Item = Relocation> + use<'_, 'a>, LinkError> {
        let endian = self.file.endian();
        let mut tables = Vec::new();
        for table in self.relocations.get(&number).into_iter().flatten() {
            let section = self
                .file
                .elf_section_table()
                .section(SectionIndex(*table))
                .map_err(malformed)?;
            if let Some((table, _)) = section.rela(endian, self.file.data()).map_err(malformed)? {
                tables.push(table);
            }
        }
        Ok(tables.into_iter().flatten().map(move |rela| Relocation {
            offset: rela.r_offset(endian),
            kind: rela.r_type(endian, false),
            symbol: usize::try_from(rela.r_sym(endian, false)).ok(),
            addend: rela.r_addend(endian),
        }))
    }
}
