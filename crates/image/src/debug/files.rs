//! The source files in a unit's line table, and its macros.

use super::program::{Die, Program};
use super::text::macros::{Defined, Macro};
use gimli::{AttributeValue, MacroEntry, UnitOffset, constants as dw};
use std::path::{Path, PathBuf};

/// No unit has more files than this.
const MAX_FILES: u64 = 1 << 16;
/// No unit defines more macros than this.
const MAX_MACROS: usize = 1 << 20;

/// Whether a file came with the system.
pub(super) fn is_of_system(path: &Path) -> bool {
    path.starts_with("/usr/include") || path.starts_with("/usr/lib")
}

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

    /// All files in the unit's line table, each with its MD5 sum if the table has them.
    pub(super) fn files(&self, unit: u32) -> Vec<(PathBuf, Option<[u8; 16]>)> {
        let die = Die::new(unit, UnitOffset(0));
        let Some(header) = self
            .dwarf_and_unit(die)
            .and_then(|(_, unit)| Some(unit.line_program.as_ref()?.header()))
        else {
            return Vec::new();
        };
        let count = header.file_names().len() as u64;
        let mut files: Vec<_> = (0..=count.min(MAX_FILES))
            .filter_map(|index| {
                let sum = header
                    .file(index)
                    .filter(|_| header.file_has_md5())
                    .map(|file| *file.md5())
                    // Linkers and assemblers write zeros for what they do not know.
                    .filter(|sum| *sum != [0; 16]);
                Some((self.file(die, index)?, sum))
            })
            .collect();
        files.sort();
        // With a sum before without.
        files.reverse();
        files.dedup_by(|one, other| one.0 == other.0);
        files
    }

    /// The macro definitions of a unit compiled with `-g3`; `None` if it has none. What is undefined
    /// later is among them.
    pub(super) fn macros(&self, unit: u32) -> Option<Vec<Defined>> {
        let root_die = Die::new(unit, UnitOffset(0));
        let (dwarf, held) = self.dwarf_and_unit(root_die)?;
        let root = held.entry(held.header.root_offset()).ok()?;
        let mut open = Vec::new();
        for name in [dw::DW_AT_macros, dw::DW_AT_GNU_macros, dw::DW_AT_macro_info] {
            match root.attr_value(name) {
                Some(AttributeValue::DebugMacroRef(offset)) => {
                    open.push(dwarf.macros(offset).ok()?);
                }
                Some(AttributeValue::DebugMacinfoRef(offset)) => {
                    open.push(dwarf.macinfo(offset).ok()?);
                }
                Some(AttributeValue::SecOffset(offset)) if name != dw::DW_AT_macro_info => {
                    open.push(dwarf.macros(gimli::DebugMacroOffset(offset)).ok()?);
                }
                _ => {}
            }
        }
        if open.is_empty() {
            return None;
        }
        let unit = held.unit_ref(dwarf);
        let mut found = Vec::new();
        let mut imported = 0;
        // The files that are open, and whether each came with the system.
        let mut files: Vec<bool> = Vec::new();
        while let Some(mut entries) = open.pop() {
            // An import is read where it stands, then the rest.
            while let Some(entry) = entries.next().ok()? {
                match entry {
                    MacroEntry::Define { text, .. } => {
                        let text = text.string(unit).ok()?.to_string_lossy().into_owned();
                        if let Some((name, meaning)) = Macro::parse(&text) {
                            found.push(Defined {
                                name,
                                meaning,
                                of_system: files.last().copied().unwrap_or(false),
                            });
                        }
                    }
                    MacroEntry::StartFile { file, .. } => {
                        let path = self.file(root_die, file);
                        files.push(path.is_some_and(|path| is_of_system(&path)));
                    }
                    MacroEntry::EndFile => {
                        files.pop();
                    }
                    MacroEntry::Import { offset } => {
                        imported += 1;
                        if imported > MAX_FILES {
                            return None;
                        }
                        open.push(entries);
                        entries = dwarf.macros(offset).ok()?;
                    }
                    MacroEntry::ImportSup { .. } => return None,
                    _ => {}
                }
                if found.len() > MAX_MACROS {
                    return None;
                }
            }
        }
        Some(found)
    }
}
