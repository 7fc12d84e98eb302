//! Kernel variables that are accessed without synchronisation on purpose.

use redhanded_model::{Region, What};
use redhanded_target::VMLINUX;

/// One per line: name, tab, reason.
const LINUX: &str = include_str!("special/linux.txt");

/// Why a kernel variable may be accessed without a lock, if it may.
pub fn reason(what: &What) -> Option<&'static str> {
    let name = what.name.as_deref()?;
    if !matches!(&what.region, Region::Global { module } if module == VMLINUX) {
        return None;
    }
    LINUX
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .find(|(known, _)| *known == name)
        .map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(name: &str, module: &str) -> What {
        What {
            name: Some(name.to_owned()),
            type_name: None,
            field: None,
            bit_fields: Vec::new(),
            address: 0,
            size: 8,
            region: Region::Global {
                module: module.to_owned(),
            },
        }
    }

    #[test]
    fn each_has_a_reason() {
        for line in LINUX.lines().filter(|line| !line.starts_with('#')) {
            let (name, reason) = line.split_once('\t').expect(line);
            assert!(!name.contains(' ') && reason.len() > 10, "{line}");
        }
    }

    #[test]
    fn only_the_kernels_own_are_special() {
        assert!(reason(&what("jiffies_64", "vmlinux")).is_some());
        assert!(reason(&what("jiffies_64", "demo")).is_none());
        assert!(reason(&what("jiffies_65", "vmlinux")).is_none());
    }
}
