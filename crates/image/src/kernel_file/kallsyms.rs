//! The symbols that a kernel contains for its own use (kallsyms).
//!
//! They are a handful of tables without names or headers, in an order that has changed over
//! the years. So each is recognised by its relations to the others:
//!
//! - the *token table* and *token index*: 256 strings, and where each begins;
//! - the *number of symbols*, followed by the *names*: each is a length and as many tokens,
//!   whose first letter is the kind;
//! - the *markers* after the names: where every 256th name begins;
//! - the *addresses*, before the number or after the token index: either absolute, or 32-bit
//!   offsets with a base. They are sorted, and functions are in code.

mod addresses;
mod names;
mod tokens;

use super::KernelFileError;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, elf};
use std::ops::Range;

/// A symbol of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelSymbol {
    /// Its address if the kernel is not relocated. For a per-CPU variable it is the offset
    /// in each CPU's area, if that area is linked at 0.
    pub address: u64,
    /// Its kind as a letter of `nm`: `T` and `t` are code, and so on.
    pub kind: char,
    /// Its name.
    pub name: String,
}

/// The symbols of the kernel whose ELF file is `image`, by address.
///
/// # Errors
/// If it is not an ELF file, or if the tables are missing or inconsistent.
pub fn symbols(image: &[u8]) -> Result<Vec<KernelSymbol>, KernelFileError> {
    let kernel = Kernel::parse(image)?;
    let mut missing = no_symbols("its token table is not found");
    for part in &kernel.loaded {
        for tokens in tokens::find(part.data) {
            missing = no_symbols("a token table is found, but no names that go with it");
            for names in names::find(part.data, &tokens) {
                let expanded = match names.expand(part.data, &tokens) {
                    Ok(expanded) => expanded,
                    Err(error) => {
                        missing = error;
                        continue;
                    }
                };
                missing = no_symbols("names are found, but no addresses that go with them");
                if let Some(addresses) =
                    addresses::find(part, &tokens, &names, &expanded, &kernel.code)
                {
                    return Ok(together(addresses, expanded));
                }
            }
        }
    }
    Err(missing)
}

const fn no_symbols(why: &'static str) -> KernelFileError {
    KernelFileError::NoSymbols { why }
}

fn together(addresses: Vec<u64>, names: Vec<(char, String)>) -> Vec<KernelSymbol> {
    let symbol = |(address, (kind, name))| KernelSymbol {
        address,
        kind,
        name,
    };
    addresses.into_iter().zip(names).map(symbol).collect()
}

/// A segment's bytes in the file and its address in memory.
struct Loaded<'d> {
    data: &'d [u8],
    address: u64,
}

/// The relevant parts of the ELF file.
struct Kernel<'d> {
    loaded: Vec<Loaded<'d>>,
    /// The addresses of code, sorted.
    code: Vec<Range<u64>>,
}

impl<'d> Kernel<'d> {
    fn parse(image: &'d [u8]) -> Result<Self, KernelFileError> {
        let malformed = |why: object::Error| KernelFileError::malformed("ELF image", why);
        let file = ElfFile64::<Endianness>::parse(image).map_err(malformed)?;
        let endian = file.endian();
        if file.elf_header().e_machine(endian) != elf::EM_X86_64 || endian == Endianness::Big {
            return Err(KernelFileError::NotKernel {
                what: "an ELF file for another machine".to_owned(),
            });
        }
        let (mut loaded, mut code) = (Vec::new(), Vec::new());
        for program in file.elf_program_headers() {
            if program.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            let data = program.data(endian, image).map_err(|()| {
                KernelFileError::malformed("ELF image", "a segment lies outside the file")
            })?;
            let address = program.p_vaddr(endian);
            loaded.push(Loaded { data, address });
            if program.p_flags(endian) & elf::PF_X != 0 {
                code.push(address..address.saturating_add(program.p_memsz(endian)));
            }
        }
        // Prefer sections, because a kernel's segments mix code and data.
        let executable = u64::from(elf::SHF_ALLOC | elf::SHF_EXECINSTR);
        let sections: Vec<_> = file
            .elf_section_table()
            .iter()
            .filter(|section| section.sh_flags(endian) & executable == executable)
            .map(|section| {
                let start = section.sh_addr(endian);
                start..start.saturating_add(section.sh_size(endian))
            })
            .collect();
        if !sections.is_empty() {
            code = sections;
        }
        code.sort_by_key(|range| range.start);
        Ok(Self { loaded, code })
    }
}

/// Tables are aligned to 8 bytes, and in 7.x to 4.
const ALIGNMENTS: [usize; 2] = [8, 4];
const LEAST_ALIGNMENT: usize = 4;

const fn aligned(at: usize, to: usize) -> usize {
    at.saturating_add(to - 1) & !(to - 1)
}

/// Whether the bytes between two tables are only padding.
fn is_padding(data: &[u8], from: usize, to: usize) -> bool {
    to.checked_sub(from).is_some_and(|len| len < 8)
        && data
            .get(from..to)
            .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}
