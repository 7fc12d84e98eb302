//! Recognises Linux and its modules, and tells which parts of their text must not be
//! sampled.

use crate::Image;
use crate::kernel_file::THIS_MODULE;
use crate::layout::elf_file;
use object::elf;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, Object, ObjectSymbol};
use redhanded_model::Excluded;
use std::collections::HashMap;
use std::ops::Range;

/// A section that only Linux and its modules have.
const MARKS: [&str; 4] = [".orc_unwind", "__ksymtab", ".modinfo", THIS_MODULE];

/// Text between two symbols of the linker script.
const BETWEEN: [(&str, &str, Excluded); 7] = [
    // Freed after the kernel has started, so something else is there now.
    ("_sinittext", "_einittext", Excluded::InitText),
    ("__init_begin", "__init_end", Excluded::InitText),
    // Runs before the kernel has set up the registers that it relies on, or where a trap
    // would be fatal.
    (
        "__entry_text_start",
        "__entry_text_end",
        Excluded::EntryText,
    ),
    (
        "__noinstr_text_start",
        "__noinstr_text_end",
        Excluded::EntryText,
    ),
    (
        "__cpuidle_text_start",
        "__cpuidle_text_end",
        Excluded::EntryText,
    ),
    (
        "__kprobes_text_start",
        "__kprobes_text_end",
        Excluded::EntryText,
    ),
    ("__exittext_begin", "__exittext_end", Excluded::InitText),
];

/// The same by section name, for modules and for parts of a kernel that its linker script
/// keeps separate.
const SECTIONS: [(&str, Excluded); 8] = [
    (".init.text", Excluded::InitText),
    (".exit.text", Excluded::InitText),
    (".entry.text", Excluded::EntryText),
    (".noinstr.text", Excluded::EntryText),
    (".cpuidle.text", Excluded::EntryText),
    (".kprobes.text", Excluded::EntryText),
    (".altinstr_replacement", Excluded::Alternative),
    (".altinstr_aux", Excluded::Alternative),
];

/// Data that is not written any more once the kernel has started.
const READ_ONLY: (&str, &str) = ("__start_rodata", "__end_rodata");

/// The thunks through which a kernel makes indirect jumps.
const THUNKS: (&str, &str) = ("__indirect_thunk_start", "__indirect_thunk_end");

/// The parts of a kernel's text that are not sampled or need special treatment.
#[derive(Debug, Default)]
pub(crate) struct KernelText {
    ranges: Vec<(Range<u64>, Excluded)>,
    read_only: Option<Range<u64>>,
    thunks: Option<Range<u64>>,
}

impl KernelText {
    /// `None` for anything but a kernel.
    fn of(image: &Image) -> Option<Self> {
        let file = elf_file(image)?;
        if !MARKS
            .iter()
            .any(|mark| file.section_by_name(mark).is_some())
        {
            return None;
        }
        let mut text = Self::default();
        text.read_sections(&file);
        text.read_symbols(&file);
        Some(text)
    }

    fn read_sections(&mut self, file: &ElfFile64<'_, Endianness>) {
        let endian = file.endian();
        let sections = file.elf_section_table();
        for section in sections.iter() {
            let name = sections.section_name(endian, section).unwrap_or_default();
            let reason = SECTIONS.iter().find(|(known, _)| known.as_bytes() == name);
            let loaded = section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0;
            if let Some((_, reason)) = reason.filter(|_| loaded) {
                let start = section.sh_addr(endian);
                let end = start.saturating_add(section.sh_size(endian));
                self.ranges.push((start..end, *reason));
            }
        }
    }

    fn read_symbols(&mut self, file: &ElfFile64<'_, Endianness>) {
        let mut wanted: HashMap<&[u8], Option<u64>> = BETWEEN
            .iter()
            .map(|(start, end, _)| (*start, *end))
            .chain([READ_ONLY, THUNKS])
            .flat_map(|(start, end)| [(start.as_bytes(), None), (end.as_bytes(), None)])
            .collect();
        for symbol in file.symbols() {
            if let Ok(name) = symbol.name_bytes()
                && let Some(address) = wanted.get_mut(name)
            {
                *address = Some(symbol.address());
            }
        }
        let between = |start: &str, end: &str| {
            let at = |name: &str| wanted.get(name.as_bytes()).copied().flatten();
            let range = at(start)?..at(end)?;
            (!range.is_empty()).then_some(range)
        };
        for (start, end, reason) in BETWEEN {
            self.ranges
                .extend(between(start, end).map(|range| (range, reason)));
        }
        self.read_only = between(READ_ONLY.0, READ_ONLY.1);
        self.thunks = between(THUNKS.0, THUNKS.1);
    }

    /// Why the code at `svma` is not sampled, if it is not.
    pub fn excluded(&self, svma: u64) -> Option<Excluded> {
        self.ranges
            .iter()
            .find(|(range, _)| range.contains(&svma))
            .map(|(_, reason)| *reason)
    }

    /// The thunks for indirect jumps.
    pub fn thunks(&self) -> Option<Range<u64>> {
        self.thunks.clone()
    }

    /// Whether the data at `svma` is written only while the kernel starts.
    pub fn is_read_only(&self, svma: u64) -> bool {
        self.read_only.as_ref().is_some_and(|r| r.contains(&svma))
    }
}

impl Image {
    /// Whether it is Linux or a module of it.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.kernel_text().is_some()
    }

    pub(crate) fn kernel_text(&self) -> Option<&KernelText> {
        self.code
            .kernel
            .get_or_init(|| KernelText::of(self))
            .as_ref()
    }
}
