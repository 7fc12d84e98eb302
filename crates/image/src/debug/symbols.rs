//! Names from the symbol tables, for code and data without debug information.

use crate::file_bytes::FileBytes;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::HashSet;

/// Where LLVM has the counters of a profile. They have no symbols of their own.
const PROFILE_COUNTERS: &str = "__llvm_prf_cnts";
/// The end of a linker's table, which names nothing although it is said to be an object.
const LINKER_MARK: &str = "__TMC_END__";

/// One symbol that names code or data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Symbol {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: String,
}

/// The symbols of a file, sorted by address.
#[derive(Default)]
pub(super) struct Symbols {
    code: Vec<Symbol>,
    data: Vec<Symbol>,
    /// The names of all functions, also of those that are imported.
    functions: HashSet<String>,
}

impl Symbols {
    /// All symbols of these files, which are an image and its separate debug file.
    pub(super) fn read(files: &[&FileBytes]) -> Self {
        let mut symbols = Self::default();
        for file in files {
            if let Ok(object) = object::File::parse(&***file) {
                object
                    .symbols()
                    .chain(object.dynamic_symbols())
                    .for_each(|symbol| symbols.add(&object, &symbol));
                let counters = object.section_by_name(PROFILE_COUNTERS);
                symbols.data.extend(counters.map(|section| Symbol {
                    start: section.address(),
                    size: section.size(),
                    name: PROFILE_COUNTERS.to_owned(),
                }));
            }
        }
        symbols.data.retain(|symbol| symbol.name != LINKER_MARK);
        for list in [&mut symbols.code, &mut symbols.data] {
            // Of several names at one address, prefer one with a size, then the nicest: `free`
            // is also `cfree` and `__libc_free`.
            let nice = |name: &str| (name.starts_with('_'), name.len());
            list.sort_by(|a, b| {
                let (one, other) = ((a.start, b.size), (b.start, a.size));
                (one, nice(&a.name), &a.name).cmp(&(other, nice(&b.name), &b.name))
            });
            list.dedup_by_key(|symbol| symbol.start);
        }
        symbols
    }

    /// Whether there is a function with this name, here or imported.
    pub(super) fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    fn add<'d>(&mut self, object: &object::File<'d>, symbol: &impl ObjectSymbol<'d>) {
        if matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown)
            && let Ok(name) = symbol.name()
        {
            // Undefined symbols of programs are written with their version.
            let name = name.split('@').next().unwrap_or(name);
            self.functions.insert(name.to_owned());
        }
        let list = match symbol.kind() {
            SymbolKind::Text => &mut self.code,
            SymbolKind::Data => &mut self.data,
            // From assembly that does not declare a type.
            SymbolKind::Unknown if symbol.size() > 0 && is_in_code(object, symbol) => {
                &mut self.code
            }
            _ => return,
        };
        if symbol.is_undefined() || symbol.address() == 0 {
            return;
        }
        let Ok(name) = symbol.name() else { return };
        let size = match symbol.size() {
            // Hand-written assembly often declares no size: extend the symbol to the next
            // one, but not beyond its section.
            0 => symbol
                .section_index()
                .and_then(|index| object.section_by_index(index).ok())
                .and_then(|section| section.address().checked_add(section.size()))
                .map_or(0, |end| end.saturating_sub(symbol.address())),
            size => size,
        };
        if !name.is_empty() {
            list.push(Symbol {
                start: symbol.address(),
                size,
                name: name.to_owned(),
            });
        }
    }

    /// The function symbol that covers `svma`.
    pub(super) fn code_at(&self, svma: u64) -> Option<&Symbol> {
        before(&self.code, svma).filter(|symbol| svma - symbol.start < symbol.size)
    }

    /// The data symbol that covers `svma`.
    pub(super) fn data_at(&self, svma: u64) -> Option<&Symbol> {
        before(&self.data, svma).filter(|symbol| svma - symbol.start < symbol.size)
    }

    /// The data symbol that starts at `svma`.
    pub(super) fn data_from(&self, svma: u64) -> Option<&Symbol> {
        before(&self.data, svma).filter(|symbol| symbol.start == svma)
    }
}

fn is_in_code<'d>(object: &object::File<'d>, symbol: &impl ObjectSymbol<'d>) -> bool {
    let section = symbol.section_index();
    let section = section.and_then(|index| object.section_by_index(index).ok());
    section.is_some_and(|section| section.kind() == SectionKind::Text)
}

fn before(list: &[Symbol], svma: u64) -> Option<&Symbol> {
    let next = list.partition_point(|symbol| symbol.start <= svma);
    list.get(next.checked_sub(1)?)
}
