//! Writing the linked file.

use super::{LinkError, MAX_BYTES};
use object::elf;
use std::collections::HashMap;

/// What is in a section.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// Nothing that a file has: zeros at first.
    Zeros,
}

/// A section of the file to be written.
pub(super) struct Section<'a> {
    pub name: &'a str,
    pub kind: u32,
    /// Whether it is in memory; it gets a segment then.
    pub loaded: bool,
    pub writable: bool,
    pub executable: bool,
    pub address: u64,
    /// In memory; that of the contents, where there are any, goes before.
    pub size: u64,
    pub content: Content,
    /// Its number in the object file, by which symbols refer to it.
    pub number: Option<usize>,
}

/// A symbol of the file to be written.
pub(super) struct Symbol<'a> {
    pub name: &'a [u8],
    pub info: u8,
    pub address: u64,
    pub size: u64,
    /// The number of its section in the object file.
    pub section: usize,
}

/// The file to be written.
#[derive(Default)]
pub(super) struct Output<'a> {
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol<'a>>,
}

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A segment is not interrupted by a gap up to this: sections are aligned.
const MAX_GAP: u64 = 4096;

/// Loaded sections that follow each other and allow the same.
struct Segment {
    sections: Vec<usize>,
    address: u64,
    offset: u64,
    file_size: u64,
    mem_size: u64,
    flags: u32,
}

/// Where a section's bytes are in the file.
type Placed = HashMap<usize, (u64, u64)>;

impl Section<'_> {
    fn file_size(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeros => 0,
        }
    }

    fn mem_size(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeros => self.size,
        }
    }

    fn segment_flags(&self) -> u32 {
        let mut flags = elf::PF_R;
        if self.writable {
            flags |= elf::PF_W;
        }
        if self.executable {
            flags |= elf::PF_X;
        }
        flags
    }
}

impl Output<'_> {
    pub fn write(&self) -> Result<Vec<u8>, LinkError> {
        let mut segments = self.segments();
        let mut file = File {
            bytes: vec![0; HEADER + PROGRAM_HEADER * segments.len()],
        };
        let mut placed: Placed = HashMap::new();
        for segment in &mut segments {
            file.align(16);
            segment.offset = file.len();
            for index in &segment.sections {
                if let Some(section) = self.sections.get(*index) {
                    let gap = section.address.saturating_sub(segment.address);
                    file.pad_to(segment.offset.saturating_add(gap))?;
                    placed.insert(*index, file.add(section));
                }
            }
            segment.file_size = file.len() - segment.offset;
        }
        for (index, section) in self.sections.iter().enumerate() {
            placed.entry(index).or_insert_with(|| {
                file.align(16);
                file.add(section)
            });
        }
        self.finish(file, &segments, &placed)
    }

    /// Groups the loaded sections, by address.
    fn segments(&self) -> Vec<Segment> {
        let mut loaded: Vec<usize> = (0..self.sections.len())
            .filter(|index| {
                let section = self.sections.get(*index);
                section.is_some_and(|section| section.loaded && section.mem_size() > 0)
            })
            .collect();
        loaded.sort_by_key(|index| self.sections.get(*index).map(|section| section.address));
        let mut segments: Vec<Segment> = Vec::new();
        for index in loaded {
            let Some(section) = self.sections.get(index) else {
                continue;
            };
            let flags = section.segment_flags();
            let end = section.address.saturating_add(section.mem_size());
            let reach = |last: &Segment| last.address.saturating_add(last.mem_size);
            let in_file = section.file_size() > 0;
            match segments.last_mut() {
                // What is not in the file can only end a segment: it is given one
                // of its own.
                Some(last)
                    if in_file
                        && last.file_size > 0
                        && last.flags == flags
                        && section.address.saturating_sub(reach(last)) <= MAX_GAP =>
                {
                    last.sections.push(index);
                    last.mem_size = end - last.address;
                }
                _ => segments.push(Segment {
                    sections: vec![index],
                    address: section.address,
                    offset: 0,
                    file_size: section.file_size(),
                    mem_size: end - section.address,
                    flags,
                }),
            }
        }
        segments
    }

    fn finish(
        &self,
        mut file: File,
        segments: &[Segment],
        placed: &Placed,
    ) -> Result<Vec<u8>, LinkError> {
        let mut numbers: HashMap<usize, u16> = HashMap::new();
        let mut headers = vec![SectionHeader::default()];
        let mut names = vec![0];
        for (index, section) in self.sections.iter().enumerate() {
            if let (Some(number), Ok(header)) = (section.number, u16::try_from(headers.len())) {
                numbers.insert(number, header);
            }
            let (offset, size) = placed.get(&index).copied().unwrap_or_default();
            let mut flags = 0;
            if section.loaded {
                flags |= elf::SHF_ALLOC;
                flags |= if section.writable { elf::SHF_WRITE } else { 0 };
                flags |= if section.executable {
                    elf::SHF_EXECINSTR
                } else {
                    0
                };
            }
            headers.push(SectionHeader {
                name: string(&mut names, section.name.as_bytes()),
                kind: section.kind,
                flags: u64::from(flags),
                address: section.address,
                offset,
                size: if section.kind == elf::SHT_NOBITS {
                    section.size
                } else {
                    size
                },
                ..SectionHeader::default()
            });
        }
        let strings_number = u32::try_from(headers.len() + 1).unwrap_or(0);
        file.align(16);
        let (symbols, strings, locals) = self.symbol_table(&numbers);
        let symbols = file.add_bytes(&symbols);
        headers.push(SectionHeader {
            name: string(&mut names, b".symtab"),
            kind: elf::SHT_SYMTAB,
            offset: symbols.0,
            size: symbols.1,
            link: strings_number,
            info: locals,
            entry_size: 24,
            ..SectionHeader::default()
        });
        let strings = file.add_bytes(&strings);
        headers.push(SectionHeader {
            name: string(&mut names, b".strtab"),
            kind: elf::SHT_STRTAB,
            offset: strings.0,
            size: strings.1,
            ..SectionHeader::default()
        });
        let name = string(&mut names, b".shstrtab");
        let names = file.add_bytes(&names);
        headers.push(SectionHeader {
            name,
            kind: elf::SHT_STRTAB,
            offset: names.0,
            size: names.1,
            ..SectionHeader::default()
        });
        file.align(16);
        let table = file.len();
        for header in &headers {
            header.write(&mut file.bytes);
        }
        if file.bytes.len() > 2 * MAX_BYTES {
            return Err(LinkError::TooLarge);
        }
        let count = |count: usize| {
            u16::try_from(count)
                .map_err(|_| LinkError::Malformed("too many sections to write".to_owned()))
        };
        let counts = [count(segments.len())?, count(headers.len())?];
        file.write_head(segments, table, counts);
        Ok(file.bytes)
    }

    /// The symbol table, its strings, and how many of its symbols are local:
    /// those have to come first.
    fn symbol_table(&self, numbers: &HashMap<usize, u16>) -> (Vec<u8>, Vec<u8>, u32) {
        let mut table = vec![0; 24];
        let mut strings = vec![0];
        let is_local = |symbol: &Symbol<'_>| symbol.info >> 4 == elf::STB_LOCAL;
        let (locals, others): (Vec<&Symbol<'_>>, Vec<_>) =
            self.symbols.iter().partition(|symbol| is_local(symbol));
        for symbol in locals.iter().chain(&others) {
            table.extend(string(&mut strings, symbol.name).to_le_bytes());
            table.extend([symbol.info, 0]);
            let section = numbers.get(&symbol.section).copied().unwrap_or(0);
            table.extend(section.to_le_bytes());
            table.extend(symbol.address.to_le_bytes());
            table.extend(symbol.size.to_le_bytes());
        }
        let first_other = u32::try_from(locals.len() + 1).unwrap_or(u32::MAX);
        (table, strings, first_other)
    }
}

/// Adds a string to a string table.
fn string(table: &mut Vec<u8>, text: &[u8]) -> u32 {
    let at = u32::try_from(table.len()).unwrap_or(0);
    table.extend(text);
    table.push(0);
    at
}

struct File {
    bytes: Vec<u8>,
}

impl File {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn pad_to(&mut self, offset: u64) -> Result<(), LinkError> {
        let offset = usize::try_from(offset).map_err(|_| LinkError::TooLarge)?;
        if offset > 2 * MAX_BYTES {
            return Err(LinkError::TooLarge);
        }
        self.bytes.resize(offset.max(self.bytes.len()), 0);
        Ok(())
    }

    fn add(&mut self, section: &Section<'_>) -> (u64, u64) {
        match &section.content {
            Content::Bytes(bytes) => self.add_bytes(bytes),
            Content::Zeros => (self.len(), 0),
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> (u64, u64) {
        let at = self.len();
        self.bytes.extend(bytes);
        (at, bytes.len() as u64)
    }

    fn write_head(&mut self, segments: &[Segment], table: u64, [programs, sections]: [u16; 2]) {
        let mut head = Vec::with_capacity(HEADER + PROGRAM_HEADER * segments.len());
        head.extend(elf::ELFMAG);
        head.extend([elf::ELFCLASS64, elf::ELFDATA2LSB, elf::EV_CURRENT]);
        head.resize(16, 0);
        // It is made for the very addresses it states.
        head.extend(elf::ET_EXEC.to_le_bytes());
        head.extend(elf::EM_X86_64.to_le_bytes());
        head.extend(u32::from(elf::EV_CURRENT).to_le_bytes());
        for word in [0, HEADER as u64, table] {
            head.extend(word.to_le_bytes());
        }
        head.extend([0; 4]);
        let names = sections.saturating_sub(1);
        for half in [
            HEADER as u16,
            PROGRAM_HEADER as u16,
            programs,
            64,
            sections,
            names,
        ] {
            head.extend(half.to_le_bytes());
        }
        for segment in segments {
            head.extend(elf::PT_LOAD.to_le_bytes());
            head.extend(segment.flags.to_le_bytes());
            for word in [
                segment.offset,
                segment.address,
                segment.address,
                segment.file_size,
                segment.mem_size,
                16,
            ] {
                head.extend(word.to_le_bytes());
            }
        }
        for (to, from) in self.bytes.iter_mut().zip(head) {
            *to = from;
        }
    }
}

#[derive(Default)]
struct SectionHeader {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    entry_size: u64,
}

impl SectionHeader {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.name.to_le_bytes());
        to.extend(self.kind.to_le_bytes());
        for word in [self.flags, self.address, self.offset, self.size] {
            to.extend(word.to_le_bytes());
        }
        to.extend(self.link.to_le_bytes());
        to.extend(self.info.to_le_bytes());
        to.extend(1u64.to_le_bytes());
        to.extend(self.entry_size.to_le_bytes());
    }
}
