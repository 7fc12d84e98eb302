//! Linking a loaded kernel module: its object file and the places of its
//! sections become a file that states where everything is.
//!
//! A module is an object file; the kernel links it while loading. From outside,
//! the same is done again with the addresses that the kernel chose, and for the
//! debug information too. What comes out can be opened as an image like any
//! program: functions, lines, variables and unwind tables hold.
//!
//! Stated addresses are the live ones. Code of the kernel's kind holds absolute
//! addresses, so a file that stated any others would contradict its own
//! instructions.

mod input;
mod output;
mod relocate;

use input::Input;
use output::{Content, Output, Section, Symbol};
use std::collections::{HashMap, VecDeque};
use thiserror::Error;

/// More than any module with its debug information has.
const MAX_BYTES: usize = 1 << 30;

/// Sections that the kernel did not load are stated at addresses apart from all
/// loaded ones, this far behind the last.
const APART: u64 = 1 << 16;

/// Why a module cannot be linked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LinkError {
    /// It is no object file for this machine.
    #[error("not an x86-64 object file: {0}")]
    NotAnObject(String),
    /// Its tables do not hold together.
    #[error("damaged or cut short: {0}")]
    Malformed(String),
    /// None of the sections that are said to be in memory is in the file.
    #[error("none of its sections has a known address")]
    NothingLoaded,
    /// Two sections are said to be in the same place.
    #[error("sections {0} and {1} overlap in memory")]
    Overlap(String, String),
    /// Far more than a module has.
    #[error("its sections add up to more than 1 GiB")]
    TooLarge,
}

/// Links the module `ko`, whose sections are at the given live addresses. The bytes of an
/// ELF file that states these very addresses.
///
/// Sections without an address were not loaded, or are not in memory any more:
/// they are in the file, but in none of its segments. Debug information comes
/// from the separate file `debug` where it is given, else from `ko`. Symbols of
/// the kernel and of other modules are asked of `resolve`; they are 0 if it does
/// not know them, which the live text, laid over the image, makes good.
///
/// # Errors
/// When a file is no x86-64 object file or damaged, or when the sections cannot
/// be where they are said to be.
pub fn link(
    ko: &[u8],
    sections: &[(String, u64)],
    debug: Option<&[u8]>,
    resolve: &dyn Fn(&str) -> Option<u64>,
) -> Result<Vec<u8>, LinkError> {
    let module = Input::read(ko)?;
    let debug = debug.map(Input::read).transpose()?;
    let places = SectionAddresses::choose(&module, sections)?;
    let mut linker = Linker {
        module: &module,
        places,
        resolve,
        output: Output::default(),
        bytes: 0,
    };
    linker.add_loadable()?;
    linker.add_debug(debug.as_ref().unwrap_or(&module))?;
    // Distributions strip debug information from modules, and some the local
    // symbols with it.
    let symbols = debug
        .iter()
        .chain([&module])
        .max_by_key(|input| input.symbols.len());
    linker.add_symbols(symbols.unwrap_or(&module));
    linker.output.write()
}

/// Where each section of the module is, by its number in the file.
struct SectionAddresses {
    by_number: HashMap<usize, u64>,
    loaded: HashMap<usize, bool>,
    /// The same by name, in the file's order: names may occur several times.
    by_name: HashMap<String, Vec<usize>>,
}

impl SectionAddresses {
    fn choose(module: &Input<'_>, given: &[(String, u64)]) -> Result<Self, LinkError> {
        let mut addresses: HashMap<&str, VecDeque<u64>> = HashMap::new();
        for (name, address) in given {
            addresses.entry(name).or_default().push_back(*address);
        }
        let mut places = Self {
            by_number: HashMap::new(),
            loaded: HashMap::new(),
            by_name: HashMap::new(),
        };
        let mut taken: Vec<(u64, u64, &str)> = Vec::new();
        let mut apart = Vec::new();
        for section in module.sections.iter().filter(|section| section.alloc) {
            let name = section.name.as_str();
            places
                .by_name
                .entry(name.to_owned())
                .or_default()
                .push(section.number);
            let address = addresses.get_mut(name).and_then(VecDeque::pop_front);
            places.loaded.insert(section.number, address.is_some());
            let Some(address) = address else {
                apart.push(section);
                continue;
            };
            let malformed = || LinkError::Malformed(format!("{name} reaches over all of memory"));
            let end = address.checked_add(section.size).ok_or_else(malformed)?;
            if section.size > 0 {
                taken.push((address, end, name));
            }
            places.by_number.insert(section.number, address);
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            if let [(_, end, first), (start, _, second)] = pair
                && end > start
            {
                return Err(LinkError::Overlap((*first).into(), (*second).into()));
            }
        }
        let Some((_, end, _)) = taken.last() else {
            return Err(LinkError::NothingLoaded);
        };
        let mut at = end.saturating_add(APART) & !0xfff;
        for section in apart {
            places.by_number.insert(section.number, at);
            at = at.saturating_add(section.size).saturating_add(0x1000) & !0xfff;
        }
        Ok(places)
    }

    /// Where a section of `input` is: of the module itself, or of a debug file
    /// which has the same sections.
    fn of(&self, input: &Input<'_>, number: usize) -> Option<u64> {
        let section = input.section(number)?;
        if !section.alloc {
            // References into debug information are offsets.
            return Some(0);
        }
        let number = self.by_name.get(&section.name)?.get(section.nth)?;
        self.by_number.get(number).copied()
    }
}

struct Linker<'a> {
    module: &'a Input<'a>,
    places: SectionAddresses,
    resolve: &'a dyn Fn(&str) -> Option<u64>,
    output: Output<'a>,
    bytes: usize,
}

impl<'a> Linker<'a> {
    /// Adds what is, or was, in memory.
    fn add_loadable(&mut self) -> Result<(), LinkError> {
        let module = self.module;
        let mut orc: HashMap<&str, usize> = HashMap::new();
        for section in module.sections.iter().filter(|section| section.alloc) {
            let address = self.places.of(module, section.number).unwrap_or(0);
            let content = self.relocated(module, section.number, address)?;
            if matches!(section.name.as_str(), ".orc_unwind" | ".orc_unwind_ip") {
                orc.insert(&section.name, self.output.sections.len());
            }
            self.output.sections.push(Section {
                name: &section.name,
                kind: section.kind,
                loaded: self.places.loaded.get(&section.number) == Some(&true),
                writable: section.writable,
                executable: section.executable,
                address,
                size: section.size,
                content,
                number: Some(section.number),
            });
        }
        if let (Some(distances), Some(rows)) = (orc.get(".orc_unwind_ip"), orc.get(".orc_unwind"))
            && let Ok([distances, rows]) =
                self.output.sections.get_disjoint_mut([*distances, *rows])
            && let (Content::Bytes(distances), Content::Bytes(rows), start) =
                (&mut distances.content, &mut rows.content, distances.address)
        {
            crate::unwind::sort_orc(start, distances, rows);
        }
        Ok(())
    }

    fn add_debug(&mut self, input: &'a Input<'a>) -> Result<(), LinkError> {
        let told = |name: &str| name.starts_with(".debug_") || name.starts_with(".BTF");
        for section in &input.sections {
            if section.alloc || !told(&section.name) {
                continue;
            }
            let content = self.relocated(input, section.number, 0)?;
            self.output.sections.push(Section {
                name: &section.name,
                kind: section.kind,
                loaded: false,
                writable: false,
                executable: false,
                address: 0,
                size: section.size,
                content,
                number: None,
            });
        }
        Ok(())
    }

    fn add_symbols(&mut self, input: &'a Input<'a>) {
        for symbol in &input.symbols {
            let Some(number) = symbol.section.filter(|_| symbol.is_named()) else {
                continue;
            };
            let Some(section) = input.section(number).filter(|section| section.alloc) else {
                continue;
            };
            let module_number = self
                .places
                .by_name
                .get(&section.name)
                .and_then(|numbers| numbers.get(section.nth));
            let (Some(place), Some(module_number)) = (self.places.of(input, number), module_number)
            else {
                continue;
            };
            self.output.symbols.push(Symbol {
                name: symbol.name,
                info: symbol.info,
                address: place.wrapping_add(symbol.value),
                size: symbol.size,
                section: *module_number,
            });
        }
    }

    /// The contents of a section with its relocations applied.
    fn relocated(
        &mut self,
        input: &Input<'_>,
        number: usize,
        address: u64,
    ) -> Result<Content, LinkError> {
        let Some(mut bytes) = input.contents(number, MAX_BYTES - self.bytes)? else {
            return Ok(Content::Zeros);
        };
        self.bytes += bytes.len();
        for relocation in input.relocations(number)? {
            let target = relocation.symbol.and_then(|index| {
                let symbol = input.symbols.get(index)?;
                match symbol.section {
                    Some(section) => {
                        let place = self.places.of(input, section)?;
                        Some(place.wrapping_add(symbol.value))
                    }
                    None if symbol.absolute => Some(symbol.value),
                    None => (self.resolve)(std::str::from_utf8(symbol.name).ok()?),
                }
            });
            relocate::apply(&mut bytes, address, &relocation, target.unwrap_or(0));
        }
        Ok(Content::Bytes(bytes))
    }
}
