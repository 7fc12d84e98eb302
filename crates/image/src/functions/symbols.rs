//! The symbols that name code, one for each address.

use crate::Image;
use crate::layout::{Layout, elf_file};
use object::elf;
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The best symbol at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbol {
    pub name: Arc<str>,
    /// The longest of those at the address.
    pub size: u64,
    /// Whether one of them is a function. Otherwise they are labels, useful only as names.
    pub function: bool,
    rank: u8,
}

/// How much higher a function ranks than a label.
const FUNCTION: u8 = 2;

/// Longer names are useless to people.
const MAX_NAME: usize = 1 << 14;

/// The symbols of code outside PLT stubs: from both symbol tables, and for a stripped file
/// also from its separate debug file.
pub(crate) fn code_symbols(image: &Image, layout: &Layout) -> BTreeMap<u64, Symbol> {
    let mut symbols = BTreeMap::new();
    let Some(file) = elf_file(image) else {
        return symbols;
    };
    let stripped = file.symbols().next().is_none();
    let kernel = image.is_kernel();
    read(&file, layout, kernel, &mut symbols);
    if stripped
        && let Some(debug) = image.debug().separate_file()
        && let Ok(file) = ElfFile64::parse(&**debug)
    {
        read(&file, layout, kernel, &mut symbols);
    }
    symbols
}

fn read(
    file: &ElfFile64<'_, Endianness>,
    layout: &Layout,
    kernel: bool,
    symbols: &mut BTreeMap<u64, Symbol>,
) {
    let endian = file.endian();
    // In a damaged file all symbols may share one long name. In a sound one, the names
    // are no longer than the file.
    let mut budget = file.data().len().saturating_mul(2);
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let raw = symbol.elf_symbol();
        let function = match raw.st_type() {
            elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
            // Kernel code that is not called like a function has a size but no type.
            elf::STT_NOTYPE => kernel && raw.st_size(endian) > 0,
            _ => continue,
        };
        if raw.st_shndx(endian) == elf::SHN_UNDEF {
            continue;
        }
        let address = symbol.address();
        if layout
            .region_at(address)
            .is_none_or(|region| region.stub.is_some())
        {
            continue;
        }
        let name = symbol.name_bytes().unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME {
            continue;
        }
        let Some(rest) = budget.checked_sub(name.len()) else {
            break;
        };
        budget = rest;
        let shared = matches!(raw.st_bind(), elf::STB_GLOBAL | elf::STB_WEAK);
        let rank = u8::from(shared) + if function { FUNCTION } else { 0 };
        offer(symbols, address, name, rank, raw.st_size(endian));
    }
}

/// Keeps the better of the symbols at one address: functions before labels,
/// global and weak names before local ones (C libraries make the public name of
/// a family of aliases the weak one), then the name with fewer leading
/// underscores, then the shorter.
fn offer(symbols: &mut BTreeMap<u64, Symbol>, address: u64, name: &[u8], rank: u8, size: u64) {
    // `name@VERSION` and `name@@VERSION` name the same function.
    let name = name.split(|byte| *byte == b'@').next().unwrap_or(name);
    let function = rank >= FUNCTION;
    match symbols.entry(address) {
        Entry::Vacant(entry) => {
            entry.insert(Symbol {
                name: String::from_utf8_lossy(name).into(),
                size: if function { size } else { 0 },
                function,
                rank,
            });
        }
        Entry::Occupied(mut entry) => {
            let kept = entry.get_mut();
            let quality = |name: &[u8]| {
                let underscores = name.iter().take_while(|byte| **byte == b'_').count();
                // The leading underscore of a mangled name does not count.
                (underscores.max(1), name.len())
            };
            let old = (kept.rank, quality(kept.name.as_bytes()));
            let better = rank > old.0
                || (rank == old.0 && (quality(name), name) < (old.1, kept.name.as_bytes()));
            if better {
                kept.name = String::from_utf8_lossy(name).into();
                kept.rank = rank;
            }
            if function {
                kept.size = kept.size.max(size);
                kept.function = true;
            }
        }
    }
}
