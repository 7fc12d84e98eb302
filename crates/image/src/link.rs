//! Links a loaded kernel module to the addresses of its sections.
//!
//! A module is an object file, which the kernel links when it loads it. This does the same
//! again from outside with the addresses that the kernel chose, also for the debug
//! information. The result can be opened as an image like any program, with functions, lines,
//! variables and unwind tables.
//!
//! The addresses in the file are the live ones. Kernel code contains absolute addresses, so a
//! file with any others would contradict its own instructions.

mod input;
mod output;
mod relocate;

use input::Input;
use output::{Content, Output, Section, Symbol};
use std::collections::{HashMap, VecDeque};
use thiserror::Error;

/// No linked module with its debug information is larger than twice this.
const MAX_BYTES: usize = 1 << 30;

/// Sections that the kernel did not load get addresses this far after the last loaded one.
const APART: u64 = 1 << 16;

/// Why a module cannot be linked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LinkError {
    /// It is not an object file for this machine.
    #[error("not an x86-64 object file: {0}")]
    NotAnObject(String),
    /// Its tables are inconsistent.
    #[error("damaged or cut short: {0}")]
    Malformed(String),
    /// None of the given sections is in the file.
    #[error("none of its sections has a known address")]
    NothingLoaded,
    /// Two of the given sections overlap.
    #[error("sections {0} and {1} overlap in memory")]
    Overlap(String, String),
    /// It is far larger than any module.
    #[error("its sections add up to far more than a module of its size holds")]
    TooLarge,
}

/// Links the module `ko`, whose sections are at the given live addresses, and returns an ELF
/// file with these addresses.
///
/// Sections without an address were not loaded, or are no longer in memory. They are in the
/// file but in none of its segments. Debug information comes from the separate file `debug`
/// if there is one, else from `ko`. `resolve` finds symbols of the kernel and of other
/// modules; unknown ones are 0, which the live text of the image corrects. The others are in the
/// file, so that calls of them have names.
///
/// # Errors
/// If a file is not an x86-64 object file or is damaged, or if the sections cannot be at the
/// given addresses.
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
    };
    linker.add_loadable()?;
    linker.add_debug(debug.as_ref().unwrap_or(&module))?;
    // Distributions strip debug information from modules, and some strip local symbols with
    // it.
    let symbols = debug
        .iter()
        .chain([&module])
        .max_by_key(|input| input.symbols.len());
    linker.add_symbols(symbols.unwrap_or(&module));
    linker.output.write()
}

/// The addresses of the module's sections, by their numbers in the file.
struct SectionAddresses {
    by_number: HashMap<usize, u64>,
    loaded: HashMap<usize, bool>,
    /// The numbers by name, in file order, since several sections may have the same name.
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

    /// The address of a section of `input`, which is the module itself or a debug file with
    /// the same sections.
    fn of(&self, input: &Input<'_>, number: usize) -> Option<u64> {
        let section = input.section(number)?;
        if !section.alloc {
            // References to debug information are offsets.
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
}

impl<'a> Linker<'a> {
    /// Adds the sections that are, or were, in memory.
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
        // Calls that leave the module are told by these names.
        for symbol in &self.module.symbols {
            let outside = symbol.section.is_none() && !symbol.absolute && !symbol.name.is_empty();
            let name = std::str::from_utf8(symbol.name).ok().filter(|_| outside);
            if let Some(address) = name.and_then(|name| (self.resolve)(name)) {
                self.output.symbols.push(Symbol {
                    name: symbol.name,
                    info: symbol.info,
                    address,
                    size: 0,
                    section: None,
                });
            }
        }
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
                section: Some(*module_number),
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
        let Some(mut bytes) = input.contents(number)? else {
            return Ok(Content::Zeros);
        };
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
