//! Adds a symbol table to a kernel.
//!
//! The kernel in a vmlinuz has sections but no symbol table. This one is made from kallsyms,
//! which has addresses, kinds and names. It has no sizes, so a symbol is assumed to extend to
//! the next. The tables are appended to the file and its bytes stay where they are: writing
//! it anew with `object` would mean to copy all headers one by one.

use super::{KernelFileError, KernelSymbol};
use crate::layout::is_code;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, elf};
use std::ops::Range;

const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;

/// The same ELF file with `symbols` as its symbol table. A file that has one
/// already is returned as it is.
///
/// # Errors
/// If the file's headers are inconsistent.
pub fn with_symbols(elf: &[u8], symbols: &[KernelSymbol]) -> Result<Vec<u8>, KernelFileError> {
    let wrong = |why: object::Error| KernelFileError::malformed("ELF image", why);
    let file = ElfFile64::<Endianness>::parse(elf).map_err(wrong)?;
    if !file.elf_symbol_table().is_empty() {
        return Ok(elf.to_vec());
    }
    let old = Sections::of(&file).map_err(wrong)?;
    let mut out = elf.get(..old.end).unwrap_or(elf).to_vec();
    let mut headers = old.headers;
    let count = headers.len() + if headers.is_empty() { 4 } else { 2 };
    let (count, names_index) = match (u16::try_from(count), old.names_index) {
        (Ok(count), index) if count < elf::SHN_LORESERVE => (count, index),
        _ => return Err(KernelFileError::malformed("ELF image", "too many sections")),
    };
    if headers.is_empty() {
        // Number 0 is reserved; the section names are number 1.
        headers.resize(2, [0; SECTION_HEADER]);
    }

    let mut names = old.names.to_vec();
    let mut name = |text: &str| {
        let at = names.len();
        names.extend_from_slice(text.as_bytes());
        names.push(0);
        at as u64
    };
    let (table_name, strings_name, names_name) =
        (name(".symtab"), name(".strtab"), name(".shstrtab"));

    let (table, strings, locals) = tables(symbols, &old.loaded);
    let strings_index = u64::from(count) - 1;
    headers.push(header(
        table_name,
        elf::SHT_SYMTAB,
        append(&mut out, &table),
        strings_index | locals << 32,
        SYMBOL as u64,
    ));
    let range = append(&mut out, &strings);
    headers.push(header(strings_name, elf::SHT_STRTAB, range, 0, 0));
    let range = append(&mut out, &names);
    if let Some(own) = headers.get_mut(usize::from(names_index)) {
        *own = header(names_name, elf::SHT_STRTAB, range, 0, 0);
    }

    let at = append(&mut out, headers.as_flattened()).start as u64;
    put(&mut out, 40, &at.to_le_bytes());
    put(&mut out, 58, &(SECTION_HEADER as u16).to_le_bytes());
    put(&mut out, 60, &count.to_le_bytes());
    put(&mut out, 62, &names_index.to_le_bytes());
    Ok(out)
}

/// The sections that the file has already.
struct Sections<'d> {
    headers: Vec<[u8; SECTION_HEADER]>,
    /// Those that are in memory, by address.
    loaded: Vec<LoadedSection>,
    names: &'d [u8],
    names_index: u16,
    /// The end of the last byte that a header refers to. What follows is not part of the
    /// ELF file: a kernel is followed by its relocations.
    end: usize,
}

struct LoadedSection {
    number: u16,
    range: Range<u64>,
    code: bool,
}

impl<'d> Sections<'d> {
    fn of(file: &ElfFile64<'d, Endianness>) -> object::Result<Self> {
        let endian = file.endian();
        let data = file.data();
        let header = file.elf_header();
        let mut end = header.e_phoff(endian).saturating_add(
            u64::from(header.e_phentsize(endian)) * u64::from(header.e_phnum(endian)),
        );
        for program in file.elf_program_headers() {
            let (start, size) = program.file_range(endian);
            end = end.max(start.saturating_add(size));
        }
        let table = file.elf_section_table();
        let (mut headers, mut loaded) = (Vec::new(), Vec::new());
        for (number, section) in table.iter().enumerate() {
            headers.push(
                <[u8; SECTION_HEADER]>::try_from(object::pod::bytes_of(section))
                    .unwrap_or([0; SECTION_HEADER]),
            );
            if let Some((start, size)) = section.file_range(endian) {
                end = end.max(start.saturating_add(size));
            }
            let flags = section.sh_flags(endian);
            if flags & u64::from(elf::SHF_ALLOC) != 0
                && let Ok(number) = u16::try_from(number)
            {
                let start = section.sh_addr(endian);
                loaded.push(LoadedSection {
                    number,
                    range: start..start.saturating_add(section.sh_size(endian)),
                    code: is_code(flags),
                });
            }
        }
        loaded.sort_by_key(|section| section.range.start);
        let index = header.shstrndx(endian, data)?;
        let names = match table.section(object::SectionIndex(usize::try_from(index).unwrap_or(0))) {
            Ok(section) if index != 0 => section.data(endian, data)?,
            _ => &[0],
        };
        Ok(Self {
            names_index: u16::try_from(index).unwrap_or(0).max(1),
            headers,
            loaded,
            names,
            end: usize::try_from(end).unwrap_or(usize::MAX).min(data.len()),
        })
    }
}

/// The symbol table, its strings, and the number of the first global symbol.
fn tables(symbols: &[KernelSymbol], loaded: &[LoadedSection]) -> (Vec<u8>, Vec<u8>, u64) {
    let mut sorted: Vec<&KernelSymbol> = symbols.iter().collect();
    sorted.sort_by_key(|symbol| symbol.address);
    let (mut local, mut global) = (vec![0; SYMBOL], Vec::new());
    let mut strings = vec![0];
    let mut next = None;
    // Backwards, so that the next address is known.
    for group in sorted.chunk_by(|a, b| a.address == b.address).rev() {
        for symbol in group {
            let Ok(name) = u32::try_from(strings.len()) else {
                continue;
            };
            strings.extend(symbol.name.bytes().filter(|byte| *byte != 0));
            strings.push(0);
            let is_local = symbol.kind.is_ascii_lowercase();
            let section = section_at(loaded, symbol.address);
            let (kind, size) = describe(symbol, section, group.len() > 1, next);
            let bind = match symbol.kind {
                'W' | 'V' => elf::STB_WEAK,
                _ if is_local => elf::STB_LOCAL,
                _ => elf::STB_GLOBAL,
            };
            let entry = if is_local { &mut local } else { &mut global };
            entry.extend(name.to_le_bytes());
            entry.extend([bind << 4 | kind, 0]);
            entry.extend(
                section
                    .map_or(elf::SHN_ABS, |section| section.number)
                    .to_le_bytes(),
            );
            entry.extend(symbol.address.to_le_bytes());
            entry.extend(size.to_le_bytes());
        }
        next = group.first().map(|symbol| symbol.address);
    }
    let locals = (local.len() / SYMBOL) as u64;
    local.append(&mut global);
    (local, strings, locals)
}

/// The type and size of a symbol.
fn describe(
    symbol: &KernelSymbol,
    section: Option<&LoadedSection>,
    shared: bool,
    next: Option<u64>,
) -> (u8, u64) {
    let Some(section) = section else {
        return (elf::STT_NOTYPE, 0);
    };
    if is_boundary(&symbol.name, shared) {
        return (elf::STT_NOTYPE, 0);
    }
    let end = next.unwrap_or(u64::MAX).min(section.range.end);
    let size = end.saturating_sub(symbol.address);
    if section.code {
        (elf::STT_FUNC, size)
    } else {
        (elf::STT_OBJECT, size)
    }
}

/// Whether a symbol marks the start or end of a range. Functions may have such names, too:
/// if no other symbol is at the address, only names from the linker script count.
fn is_boundary(name: &str, shared: bool) -> bool {
    let edge = |name: &str| {
        ["_start", "_end", "_begin"]
            .iter()
            .any(|edge| name.ends_with(edge))
    };
    match name.strip_prefix('_') {
        Some("text" | "stext" | "etext" | "sinittext" | "einittext") => true,
        Some("sdata" | "edata" | "end" | "_bss_start" | "_bss_stop") => true,
        Some(rest) if edge(name) => shared || rest.contains("text_"),
        Some(rest) => shared && (rest.starts_with("_start_") || rest.starts_with("_stop_")),
        None => false,
    }
}

/// The section that contains `address`.
fn section_at(loaded: &[LoadedSection], address: u64) -> Option<&LoadedSection> {
    let after = loaded.partition_point(|section| section.range.start <= address);
    loaded
        .get(..after)?
        .iter()
        .rev()
        .take(3)
        .find(|section| address < section.range.end)
}

/// Appends an aligned table, and returns its range.
fn append(out: &mut Vec<u8>, table: &[u8]) -> Range<usize> {
    out.resize(out.len().next_multiple_of(8), 0);
    let start = out.len();
    out.extend_from_slice(table);
    start..out.len()
}

/// The header of a section that is not loaded; `link` is its `sh_link` and `sh_info`.
fn header(
    name: u64,
    kind: u32,
    range: Range<usize>,
    link: u64,
    entry: u64,
) -> [u8; SECTION_HEADER] {
    let words = [
        name | u64::from(kind) << 32,
        0,
        0,
        range.start as u64,
        range.len() as u64,
        link,
        8,
        entry,
    ];
    let mut header = [0; SECTION_HEADER];
    for (bytes, word) in header.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    header
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(field) = out.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}
