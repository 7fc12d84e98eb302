//! The DWARF sections of a mapped file together with what is parsed from them, in one value
//! that owns both.

use super::locate::Located;
use super::program::Program;
use crate::file_bytes::FileBytes;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};
use self_cell::self_cell;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

pub(super) type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// The bytes of all DWARF sections, mapped or decompressed.
pub(super) struct Sections {
    file: Arc<FileBytes>,
    places: BTreeMap<&'static str, SectionBytes>,
    supplementary: Option<Box<Sections>>,
}

enum SectionBytes {
    Mapped(usize, usize),
    Inflated(Vec<u8>),
}

impl Sections {
    pub(super) fn new(located: &Located, supplementary: Option<&Located>) -> Option<Self> {
        let mut places = BTreeMap::new();
        let object = object::File::parse(&**located.file).ok()?;
        for id in WANTED {
            if let Some(place) = section_bytes(&located.file, &object, id.name()) {
                places.insert(id.name(), place);
            }
        }
        Some(Self {
            file: Arc::clone(&located.file),
            places,
            supplementary: supplementary
                .and_then(|located| Self::new(located, None))
                .map(Box::new),
        })
    }

    fn bytes(&self, id: SectionId) -> Slice<'_> {
        let bytes = match self.places.get(id.name()) {
            Some(SectionBytes::Mapped(start, end)) => {
                self.file.get(*start..*end).unwrap_or_default()
            }
            Some(SectionBytes::Inflated(bytes)) => bytes,
            None => &[],
        };
        Slice::new(bytes, LittleEndian)
    }

    pub(super) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        let loaded: Result<_, Infallible> = Dwarf::load(|id| Ok(self.bytes(id)));
        let mut dwarf = match loaded {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        };
        if let Some(supplementary) = &self.supplementary {
            dwarf.set_sup(supplementary.dwarf());
        }
        dwarf
    }
}

const WANTED: [SectionId; 15] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

fn section_bytes(file: &FileBytes, object: &object::File<'_>, name: &str) -> Option<SectionBytes> {
    let section = object.section_by_name(name)?;
    match file.section(&section)? {
        Cow::Borrowed(_) => {
            let (start, len) = section.file_range()?;
            let start = usize::try_from(start).ok()?;
            let end = start.checked_add(usize::try_from(len).ok()?)?;
            Some(SectionBytes::Mapped(start, end))
        }
        Cow::Owned(bytes) => Some(SectionBytes::Inflated(bytes)),
    }
}

self_cell!(
    /// The sections, and everything parsed from them so far.
    pub(super) struct Loaded {
        owner: Sections,
        #[not_covariant]
        dependent: Program,
    }
);

impl Loaded {
    pub(super) fn load(located: &Located, supplementary: Option<&Located>) -> Option<Self> {
        let sections = Sections::new(located, supplementary)?;
        Some(Self::new(sections, |sections| {
            Program::new(sections.dwarf())
        }))
    }

    /// Answers a question about the parsed program.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&Program<'_>) -> T) -> T {
        self.with_dependent(|_, program| question(program))
    }
}
