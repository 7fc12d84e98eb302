//! Lists of names that are evidence: allocators, memory functions, special variables.

use redhanded_model::{Region, What};
use redhanded_target::VMLINUX;

const ALLOCATORS: &str = include_str!("allocators.txt");
const MEMORY_FUNCTIONS: &str = include_str!("memory_functions.txt");
/// Kernel variables that are accessed without synchronisation on purpose, and why.
const SPECIAL: &str = include_str!("special.txt");
/// Variables that compilers add to programs, by what their names begin with, and why they are
/// accessed without synchronisation.
const ADDED: &str = include_str!("added.txt");

/// What a function of an allocator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allocator {
    /// It gives memory back.
    Frees,
    /// It hands memory out.
    Allocates,
    /// Part of both.
    Inner,
}

/// The rows of a list, cut at the tab.
fn rows(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
}

/// The name of a function without parameters, and without what compilers append and the C
/// library prefixes: `operator delete(void*)`, `_int_free.constprop.0`, `__GI___libc_free`.
fn bare(function: &str) -> &str {
    let name = function.split('(').next().unwrap_or(function);
    let name = name.split('.').next().unwrap_or(name);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    name.strip_prefix("__libc_").unwrap_or(name)
}

/// What a function is to its allocator, if it belongs to one; and its bare name.
pub(super) fn allocator(function: &str) -> Option<(&str, Allocator)> {
    let name = bare(function);
    let (_, does) = rows(ALLOCATORS).find(|(known, _)| *known == name)?;
    Some((
        name,
        match does {
            "frees" => Allocator::Frees,
            "allocates" => Allocator::Allocates,
            _ => Allocator::Inner,
        },
    ))
}

/// The memory function that a function of the C library is a variant of.
pub(super) fn memory_function(function: &str) -> Option<&'static str> {
    let whole = bare(function);
    let name = whole.trim_start_matches('_');
    let name = name.strip_prefix("builtin_").unwrap_or(name);
    // Only the library's own names begin with two underscores.
    let varies = whole.starts_with("__");
    rows(MEMORY_FUNCTIONS)
        .map(|(known, _)| known)
        .find(|known| {
            let rest = name.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || (varies && rest.starts_with('_')))
        })
}

/// Why a variable may be accessed without a lock, if it may: one of a kernel, or one that a
/// compiler added.
pub(super) fn special(what: &What) -> Option<&'static str> {
    let name = what.name.as_deref()?;
    let Region::Global { module } = &what.region else {
        return None;
    };
    let of_kernel = || rows(SPECIAL).find(|(known, _)| module == VMLINUX && *known == name);
    let added = rows(ADDED).find(|(prefix, _)| name.starts_with(prefix));
    added.or_else(of_kernel).map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(name: &str, module: &str) -> What {
        What {
            name: Some(name.to_owned()),
            type_name: None,
            field: None,
            field_in_full: None,
            bit_fields: Vec::new(),
            address: 0,
            size: 8,
            region: Region::Global {
                module: module.to_owned(),
            },
            pointee: None,
            sides_differ: false,
            frame: None,
            block: None,
        }
    }

    #[test]
    fn each_special_variable_has_a_reason() {
        for (name, reason) in rows(SPECIAL).chain(rows(ADDED)) {
            assert!(!name.contains(' ') && reason.len() > 10, "{name}");
        }
    }

    #[test]
    fn only_the_kernels_own_are_special() {
        assert!(special(&what("jiffies_64", "vmlinux")).is_some());
        assert!(special(&what("jiffies_64", "demo")).is_none());
        assert!(special(&what("jiffies_65", "vmlinux")).is_none());
    }

    #[test]
    fn counters_of_a_compiler_are_special_in_any_program() {
        assert!(special(&what("__gcov0.main", "demo")).is_some());
        assert!(special(&what("gcov", "demo")).is_none());
    }

    #[test]
    fn allocators_are_known_by_their_whole_names() {
        let does = |name| allocator(name).map(|(_, does)| does);
        assert_eq!(does("free"), Some(Allocator::Frees));
        assert_eq!(
            does("operator delete(void*, unsigned long)"),
            Some(Allocator::Frees)
        );
        assert_eq!(does("_int_free.constprop.0"), Some(Allocator::Inner));
        assert_eq!(does("malloc"), Some(Allocator::Allocates));
        assert_eq!(
            allocator("__GI___libc_free"),
            Some(("free", Allocator::Frees))
        );
        for other in [
            "pool_free",
            "free_list",
            "freeaddrinfo",
            "Pool::free(void*)",
        ] {
            assert_eq!(does(other), None, "{other}");
        }
        for (name, does) in rows(ALLOCATORS) {
            assert!(matches!(does, "frees" | "allocates" | "inner"), "{name}");
        }
    }

    #[test]
    fn memory_functions_have_variants() {
        assert_eq!(
            memory_function("__memmove_avx_unaligned_erms"),
            Some("memmove")
        );
        assert_eq!(memory_function("__memcpy_chk"), Some("memcpy"));
        assert_eq!(memory_function("strlen"), Some("strlen"));
        for other in [
            "memory_pool",
            "memsetter",
            "strtol",
            "my_memcpy",
            "memcpy_atomic",
        ] {
            assert_eq!(memory_function(other), None, "{other}");
        }
    }
}
