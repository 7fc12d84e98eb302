//! The source files in a unit's line table.

use super::program::{Die, Program};
use gimli::{AttributeValue, UnitOffset};
use std::path::PathBuf;

/// No unit has more files than this.
const MAX_FILES: u64 = 1 << 16;

impl Program<'_> {
    /// The path of file `index` of `holder`'s unit.
    pub(super) fn file(&self, holder: Die, index: u64) -> Option<PathBuf> {
        let (dwarf, unit) = self.dwarf_and_unit(holder)?;
        let header = unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let text = |value: AttributeValue<_>| {
            let text = dwarf.attr_string(unit, value).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let mut path = PathBuf::new();
        if let Some(folder) = &unit.comp_dir {
            path.push(&*folder.to_string_lossy());
        }
        // Folder 0 is the unit's own. Joining an absolute path replaces it.
        if file.directory_index() != 0
            && let Some(folder) = file.directory(header)
        {
            path.push(text(folder)?);
        }
        path.push(text(file.path_name())?);
        Some(path)
    }

    /// All files in the unit's line table.
    pub(super) fn files(&self, unit: u32) -> Vec<PathBuf> {
        let die = Die::new(unit, UnitOffset(0));
        let count = self
            .dwarf_and_unit(die)
            .and_then(|(_, unit)| Some(unit.line_program.as_ref()?.header().file_names().len()))
            .unwrap_or(0) as u64;
        let mut files: Vec<PathBuf> = (0..=count.min(MAX_FILES))
            .filter_map(|index| self.file(die, index))
            .collect();
        files.sort();
        files.dedup();
        files
    }
}
