//! The kernel's list of loadable modules.

use super::Kernel;
use crate::Source;
use std::collections::BTreeMap;
use std::ops::Range;

/// No list is followed further.
const MOST_MODULES: usize = 1000;
/// No module has more sections.
const MOST_SECTIONS: u64 = 500;
/// The longest names of modules and sections.
const MODULE_NAME: usize = 56;
const SECTION_NAME: usize = 64;
/// The states in which a module's code is complete: live, or about to initialise.
const USABLE: [u32; 2] = [0, 1];

/// A module in the kernel's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoadedModule {
    pub address: u64,
    pub name: String,
}

impl Kernel {
    /// The list's head, which points to its first and last module.
    pub fn module_list(&self) -> Option<(u64, usize)> {
        Some((self.symbol("modules")?, 16))
    }

    /// The modules in the list whose code is complete. Each takes a round trip.
    pub fn loaded_modules(&self, source: &mut dyn Source) -> Option<Vec<LoadedModule>> {
        let (head, _) = self.module_list()?;
        let offsets = self.offsets.module.as_ref()?;
        let mut loaded = Vec::new();
        let mut at = source.word(head)?;
        for _ in 0..MOST_MODULES {
            if at == head {
                return Some(loaded);
            }
            let address = at.wrapping_sub(offsets.list);
            let next = source.word(at)?;
            let state = source.half_word(address.wrapping_add(offsets.state))?;
            if USABLE.contains(&state) {
                let name = source.string(address.wrapping_add(offsets.name), MODULE_NAME)?;
                loaded.push(LoadedModule { address, name });
            }
            at = next;
        }
        None
    }

    /// The range of a module's per-CPU variables in the data of a CPU.
    pub fn module_per_cpu(&self, source: &mut dyn Source, module: u64) -> Option<Range<u64>> {
        let (start, size) = self.offsets.module.as_ref()?.per_cpu?;
        let start = source.word(module.wrapping_add(start))?;
        let size = source.half_word(module.wrapping_add(size))?;
        Some(start..start.checked_add(u64::from(size))?)
    }

    /// The names and addresses of a module's sections, as sysfs shows them.
    pub fn module_sections(
        &self,
        source: &mut dyn Source,
        module: u64,
    ) -> Option<Vec<(String, u64)>> {
        let offsets = self.offsets.sections.as_ref()?;
        let table = source.word(module.wrapping_add(offsets.table))?;
        let count = match offsets.count {
            Some(at) => u64::from(source.half_word(table.wrapping_add(at))?),
            None => MOST_SECTIONS,
        };
        let mut sections = BTreeMap::new();
        for index in 0..count.min(MOST_SECTIONS) {
            let entry = table.wrapping_add(offsets.first + index * offsets.size);
            let name = source.word(entry.wrapping_add(offsets.name))?;
            if name == 0 {
                break;
            }
            let name = source.string(name, SECTION_NAME)?;
            // Memory that only initialisation needed has been freed and reused.
            if !name.starts_with(".init") {
                let address = source.word(entry.wrapping_add(offsets.address))?;
                sections.insert(name, address);
            }
        }
        (!sections.is_empty()).then(|| sections.into_iter().collect())
    }
}
