//! Lists of names that are evidence: special variables.

use redhanded_model::{Region, What};
use redhanded_target::VMLINUX;

/// Kernel variables that are accessed without synchronisation on purpose, and why.
const SPECIAL: &str = include_str!("special.txt");
/// Variables that compilers add to programs, by what their names begin with, and why they are
/// accessed without synchronisation.
const ADDED: &str = include_str!("added.txt");

/// The rows of a list, cut at the tab.
fn rows(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
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
            allocated: None,
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
}
