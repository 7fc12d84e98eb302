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
    /// Where functions begin that are several in the source, as far as a linker may have folded
    /// them. GCC folds only those that mean the same.
    several_names: HashSet<u64>,
}

impl Symbols {
    /// All symbols of these files, which are an image and its separate debug file.
    pub(super) fn read(files: &[&FileBytes]) -> Self {
        let mut symbols = Self::default();
        for file in files {
            if let Ok(object) = object::File::parse(&***file) {
                for symbol in object.symbols() {
                    symbols.add(&object, &symbol, true);
                }
                for symbol in object.dynamic_symbols() {
                    symbols.add(&object, &symbol, false);
                }
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
        }
        let folds = files.iter().any(|file| may_be_folded(file));
        for same in symbols.code.chunk_by(|one, other| one.start == other.start) {
            if folds
                && let Some((first, others)) = same.split_first()
                && others
                    .iter()
                    .any(|other| !is_same_function(&first.name, &other.name))
            {
                symbols.several_names.insert(first.start);
            }
        }
        for list in [&mut symbols.code, &mut symbols.data] {
            list.dedup_by_key(|symbol| symbol.start);
        }
        symbols
    }

    /// Whether there is a function with this name, here or imported.
    pub(super) fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Adds a symbol of a table that names all functions, or only those that other files use.
    fn add<'d>(
        &mut self,
        object: &object::File<'d>,
        symbol: &impl ObjectSymbol<'d>,
        has_all: bool,
    ) {
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
            // one, but not beyond its section. If not all are known, the next one may be
            // another's.
            0 if has_all => symbol
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

    /// Whether the function at `svma` is several in the source.
    pub(super) fn has_several_names(&self, svma: u64) -> bool {
        self.code_at(svma)
            .is_some_and(|symbol| self.several_names.contains(&symbol.start))
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

/// Whether a linker made the file that can fold functions with the same code.
fn may_be_folded(file: &FileBytes) -> bool {
    const LINKERS: [&[u8]; 2] = [b"LLD ", b"mold "];
    let Ok(object) = object::File::parse(&**file) else {
        return false;
    };
    let comment = object.section_by_name(".comment");
    let comment = comment.and_then(|section| file.section(&section));
    let names = |linker: &&[u8]| {
        let comment = comment.as_deref().unwrap_or_default();
        comment.windows(linker.len()).any(|part| part == *linker)
    };
    object.section_by_name(".note.gnu.gold-version").is_some() || LINKERS.iter().any(names)
}

/// Whether two symbols are names of one function of the source. Constructors and destructors of C++
/// have several, and GCC calls a function by a local alias.
pub(super) fn is_same_function(one: &str, other: &str) -> bool {
    let plain = |name: &str| -> String {
        let name = name.split('@').next().unwrap_or(name);
        name.split(".localalias").next().unwrap_or(name).to_owned()
    };
    let (one, other) = (plain(one), plain(other));
    if one == other {
        return true;
    }
    if one.len() != other.len() || !one.starts_with("_Z") {
        return false;
    }
    let mut before = 0;
    let mut differences = 0;
    for (a, b) in one.bytes().zip(other.bytes()) {
        if a != b {
            let variants =
                matches!(before, b'C' | b'D') && a.is_ascii_digit() && b.is_ascii_digit();
            differences += 1;
            if !variants || differences > 1 {
                return false;
            }
        }
        before = a;
    }
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_function_and_of_several() {
        for (one, other) in [
            ("f", "f"),
            ("f", "f.localalias"),
            ("f@@V1", "f"),
            ("_ZN1AC1Ev", "_ZN1AC2Ev"),
            ("_ZN1AD0Ev", "_ZN1AD2Ev"),
        ] {
            assert!(is_same_function(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("own_get", "shared_get"),
            ("own_get1", "own_get2"),
            ("_Z3getRl", "_Z3getRSt6atomicIlE"),
            ("_Z3getRi", "_Z3getRl"),
            ("_ZN1AC1Ev", "_ZN1BC1Ev"),
            ("_ZN1AC1Ev", "_ZN1BC2Ev"),
        ] {
            assert!(!is_same_function(one, other), "{one} {other}");
        }
    }
}
