//! Types: their size, their name as written in source, and whether every access to them
//! synchronises.

use super::names::shorten;
use super::program::{Die, MAX_HOPS, Program};
use gimli::constants as dw;
use gimli::{DwLang, DwTag};
use std::cell::Cell;

/// Type names are cut at this length.
const MAX_NAME: usize = 4096;
/// A type name is built from at most this many entries, because function types branch.
const MAX_SPELLED: usize = 256;

/// Why every access to a variable or field synchronises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum How {
    /// Its type is atomic.
    Atomic,
    /// Its type is volatile.
    Volatile,
    /// It guards the initialisation of a C++ function static.
    Guard,
}

/// How source text spells types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    C,
    Cpp,
    Rust,
}

impl Spelling {
    pub(super) fn of(language: Option<DwLang>) -> Self {
        match language {
            Some(dw::DW_LANG_Rust) => Self::Rust,
            Some(
                dw::DW_LANG_C_plus_plus
                | dw::DW_LANG_C_plus_plus_03
                | dw::DW_LANG_C_plus_plus_11
                | dw::DW_LANG_C_plus_plus_14
                | dw::DW_LANG_C_plus_plus_17
                | dw::DW_LANG_C_plus_plus_20,
            ) => Self::Cpp,
            _ => Self::C,
        }
    }
}

/// Whether `tag` only modifies the type that it refers to.
pub(super) const fn is_qualifier(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type
            | dw::DW_TAG_immutable_type
            | dw::DW_TAG_packed_type
            | dw::DW_TAG_typedef
    )
}

impl Program<'_> {
    /// The spelling of types in unit number `unit`, if its language is supported.
    pub(super) fn unit_spelling(&self, unit: u32) -> Option<Spelling> {
        let language = self.language(Die::new(unit, gimli::UnitOffset(0)));
        match (Spelling::of(language), language?) {
            (
                Spelling::C,
                dw::DW_LANG_C
                | dw::DW_LANG_C89
                | dw::DW_LANG_C99
                | dw::DW_LANG_C11
                | dw::DW_LANG_C17,
            ) => Some(Spelling::C),
            (Spelling::C, _) => None,
            (spelling, _) => Some(spelling),
        }
    }

    /// How the unit of `die` spells types.
    pub(super) fn spelling(&self, die: Die) -> Spelling {
        Spelling::of(self.language(die))
    }

    /// The size of a type in bytes, if it is complete.
    pub(super) fn size_of(&self, die: Die) -> Option<u64> {
        let mut die = die;
        let mut times = 1u64;
        for _ in 0..MAX_HOPS {
            let entry = self.entry(die)?;
            if let Some(size) = self.number(die, dw::DW_AT_byte_size) {
                return times.checked_mul(size);
            }
            match entry.tag() {
                dw::DW_TAG_pointer_type
                | dw::DW_TAG_reference_type
                | dw::DW_TAG_rvalue_reference_type => return times.checked_mul(8),
                dw::DW_TAG_array_type => {
                    for count in self.dimensions(die) {
                        times = times.checked_mul(count)?;
                    }
                }
                tag if is_qualifier(tag) || tag == dw::DW_TAG_enumeration_type => {}
                _ => {
                    let size = self.number(self.defined(die), dw::DW_AT_byte_size)?;
                    return times.checked_mul(size);
                }
            }
            die = self.link(die, dw::DW_AT_type)?;
        }
        None
    }

    /// The number of elements in each dimension of an array; 0 if unknown.
    pub(super) fn dimensions(&self, array: Die) -> Vec<u64> {
        self.children(array)
            .into_iter()
            .filter(|(_, entry)| entry.tag() == dw::DW_TAG_subrange_type)
            .map(|(die, _)| {
                if let Some(count) = self.number(die, dw::DW_AT_count) {
                    return count;
                }
                let lower = self.number(die, dw::DW_AT_lower_bound).unwrap_or(0);
                self.number(die, dw::DW_AT_upper_bound)
                    .and_then(|upper| upper.checked_add(1)?.checked_sub(lower))
                    .unwrap_or(0)
            })
            .collect()
    }

    /// The type's name with the scopes that it is declared in.
    pub(super) fn qualified(&self, die: Die) -> Option<String> {
        let name = self.name(die)?;
        let mut parts = self.scopes(die);
        // Nobody writes the version namespaces of the standard library.
        parts.retain(|part| !matches!(part.as_str(), "__1" | "__cxx11" | "__8" | "_V2"));
        parts.push(name);
        Some(shorten(&parts.join("::")))
    }

    /// Whether this type itself makes accesses through it synchronise.
    pub(super) fn synchronises(&self, die: Die) -> Option<How> {
        match self.entry(die)?.tag() {
            dw::DW_TAG_atomic_type => Some(How::Atomic),
            dw::DW_TAG_volatile_type => Some(How::Volatile),
            // GCC makes a base type of an atomic typedef before DWARF 5.
            dw::DW_TAG_base_type => is_standard_atomic(&self.name(die)?).then_some(How::Atomic),
            // Before DWARF 5 only the name shows it, if the header that defines it is the
            // compiler's or the kernel's.
            dw::DW_TAG_typedef => {
                let name = self.name(die)?;
                let header = if is_standard_atomic(&name) {
                    "stdatomic.h"
                } else if matches!(name.as_str(), "atomic_t" | "atomic64_t" | "atomic_long_t") {
                    "linux/types.h"
                } else {
                    return None;
                };
                let (file, _) = self.declared(die)?;
                file.ends_with(header).then_some(How::Atomic)
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => {
                // Finding scopes walks the unit, so it is done only for candidates.
                let name = self.name(die)?;
                if !name.contains("tomic") {
                    return None;
                }
                is_atomic_type(&self.qualified(die)?).then_some(How::Atomic)
            }
            _ => None,
        }
    }

    /// Like [`synchronises`](Self::synchronises), but looks through typedefs, qualifiers and
    /// arrays.
    pub(super) fn synchronises_deeply(&self, die: Die) -> Option<How> {
        let mut die = die;
        for _ in 0..MAX_HOPS {
            if let Some(how) = self.synchronises(die) {
                return Some(how);
            }
            let tag = self.entry(die)?.tag();
            if !is_qualifier(tag) && tag != dw::DW_TAG_array_type {
                return None;
            }
            die = self.link(die, dw::DW_AT_type)?;
        }
        None
    }

    /// The type as written in source. `None` is C's `void`.
    pub(super) fn type_name(&self, die: Option<Die>) -> String {
        let left = Cell::new(MAX_SPELLED);
        let mut name = self.spell(die, MAX_HOPS, &left);
        if name.len() > MAX_NAME {
            let mut end = MAX_NAME;
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name.truncate(end);
            name.push('…');
        }
        name
    }

    fn spell(&self, die: Option<Die>, hops: usize, left: &Cell<usize>) -> String {
        let Some(die) = die else {
            return "void".to_owned();
        };
        let (Some(hops), Some(rest)) = (hops.checked_sub(1), left.get().checked_sub(1)) else {
            return "…".to_owned();
        };
        left.set(rest);
        let Some(entry) = self.entry(die) else {
            return "…".to_owned();
        };
        let inner = || self.spell(self.link(die, dw::DW_AT_type), hops, left);
        let spelling = self.spelling(die);
        let tag = entry.tag();
        // Rust names its pointers, C never does.
        if !is_qualifier(tag)
            && !matches!(
                tag,
                dw::DW_TAG_structure_type | dw::DW_TAG_union_type | dw::DW_TAG_enumeration_type
            )
            && let Some(name) = self.qualified(die)
        {
            return match tag {
                dw::DW_TAG_base_type => as_written(&name).to_owned(),
                _ => name,
            };
        }
        match tag {
            dw::DW_TAG_typedef => self.qualified(die).unwrap_or_else(inner),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => {
                self.aggregate(die, spelling, "struct")
            }
            dw::DW_TAG_union_type => self.aggregate(die, spelling, "union"),
            dw::DW_TAG_enumeration_type => self.aggregate(die, spelling, "enum"),
            dw::DW_TAG_pointer_type => self.pointer(die, "*", hops, left),
            dw::DW_TAG_reference_type => self.pointer(die, "&", hops, left),
            dw::DW_TAG_rvalue_reference_type => self.pointer(die, "&&", hops, left),
            dw::DW_TAG_const_type => qualify("const", &inner()),
            dw::DW_TAG_volatile_type => qualify("volatile", &inner()),
            dw::DW_TAG_atomic_type => qualify("_Atomic", &inner()),
            dw::DW_TAG_restrict_type => format!("{} restrict", inner()),
            dw::DW_TAG_array_type => {
                let dimensions = self.dimensions(die);
                if spelling == Spelling::Rust {
                    return dimensions
                        .iter()
                        .rev()
                        .fold(inner(), |inner, count| format!("[{inner}; {count}]"));
                }
                let mut name = inner();
                for count in dimensions {
                    match count {
                        0 => name.push_str("[]"),
                        count => name.push_str(&format!("[{count}]")),
                    }
                }
                name
            }
            dw::DW_TAG_subroutine_type => self.function(die, "", hops, left),
            tag if is_qualifier(tag) => inner(),
            _ => "…".to_owned(),
        }
    }

    fn aggregate(&self, die: Die, spelling: Spelling, keyword: &str) -> String {
        match (self.qualified(die), spelling) {
            (Some(name), Spelling::C) => format!("{keyword} {name}"),
            (Some(name), _) => name,
            (None, Spelling::Cpp) if self.is_lambda(die) => "<lambda>".to_owned(),
            (None, _) => format!("{keyword} {{…}}"),
        }
    }

    /// Whether a class is what a lambda keeps its captures in.
    pub(super) fn is_lambda(&self, class: Die) -> bool {
        self.name(class).is_none()
            && self.children(class).into_iter().any(|(die, entry)| {
                entry.tag() == dw::DW_TAG_subprogram
                    && self.name(die).as_deref() == Some("operator()")
            })
    }

    fn pointer(&self, die: Die, mark: &str, hops: usize, left: &Cell<usize>) -> String {
        let inner = self.link(die, dw::DW_AT_type);
        if let Some(function) = inner
            && self
                .entry(function)
                .is_some_and(|entry| entry.tag() == dw::DW_TAG_subroutine_type)
        {
            return self.function(function, &format!("({mark})"), hops, left);
        }
        let inner = self.spell(inner, hops, left);
        let space = if inner.ends_with(['*', '&']) { "" } else { " " };
        format!("{inner}{space}{mark}")
    }

    fn function(&self, die: Die, name: &str, hops: usize, left: &Cell<usize>) -> String {
        let result = self.spell(self.link(die, dw::DW_AT_type), hops, left);
        let parameters: Vec<String> = self
            .children(die)
            .into_iter()
            .filter(|(_, entry)| entry.tag() == dw::DW_TAG_formal_parameter)
            .take(MAX_HOPS)
            .map(|(parameter, _)| self.spell(self.link(parameter, dw::DW_AT_type), hops, left))
            .collect();
        let parameters = if parameters.is_empty() {
            "void".to_owned()
        } else {
            parameters.join(", ")
        };
        format!("{result} {name}({parameters})")
    }
}

/// Shortens the names of integer types, which compilers write out in full.
pub(crate) fn as_written(name: &str) -> &str {
    match name {
        "short int" => "short",
        "short unsigned int" => "unsigned short",
        "long int" => "long",
        "long unsigned int" => "unsigned long",
        "long long int" => "long long",
        "long long unsigned int" => "unsigned long long",
        name => name,
    }
}

/// Adds a qualifier: after a pointer, before anything else.
pub(crate) fn qualify(word: &str, inner: &str) -> String {
    if inner.ends_with('*') {
        format!("{inner} {word}")
    } else {
        format!("{word} {inner}")
    }
}

/// Whether `<stdatomic.h>` gives an atomic type this name.
pub(super) fn is_standard_atomic(name: &str) -> bool {
    const NAMES: [&str; 37] = [
        "bool",
        "char",
        "schar",
        "uchar",
        "short",
        "ushort",
        "int",
        "uint",
        "long",
        "ulong",
        "llong",
        "ullong",
        "char8_t",
        "char16_t",
        "char32_t",
        "wchar_t",
        "flag",
        "int_least8_t",
        "uint_least8_t",
        "int_least16_t",
        "uint_least16_t",
        "int_least32_t",
        "uint_least32_t",
        "int_least64_t",
        "uint_least64_t",
        "int_fast8_t",
        "uint_fast8_t",
        "int_fast16_t",
        "uint_fast16_t",
        "int_fast32_t",
        "uint_fast32_t",
        "int_fast64_t",
        "uint_fast64_t",
        "intptr_t",
        "uintptr_t",
        "size_t",
        "ptrdiff_t",
    ];
    name.strip_prefix("atomic_")
        .is_some_and(|kind| NAMES.contains(&kind) || matches!(kind, "intmax_t" | "uintmax_t"))
}

/// Whether every access to a class with this qualified name is atomic.
pub(super) fn is_atomic_type(name: &str) -> bool {
    const CPP: [&str; 6] = [
        "std::atomic<",
        "std::atomic_flag",
        "std::__atomic_",
        "std::experimental::atomic",
        "boost::atomic",
        "__gnu_cxx::__atomic",
    ];
    const RUST: [&str; 3] = [
        "core::sync::atomic::Atomic",
        "std::sync::atomic::Atomic",
        "portable_atomic::Atomic",
    ];
    CPP.iter().chain(&RUST).any(|start| name.starts_with(start))
}
