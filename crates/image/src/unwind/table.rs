//! The unwind tables of a file, and the rules that they have for an address.

use super::orc::Orc;
use super::step::{FrameRegisters, Step};
use crate::file_bytes::FileBytes;
use crate::{DebugInfo, Image};
use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

pub(super) type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// The tables of a file, by file addresses.
pub(super) struct Tables {
    orc: Option<Arc<Orc>>,
    eh_frame: Option<EhTable>,
    debug: DebugInfo,
    debug_frame: OnceLock<Option<(Section, Index)>>,
}

struct EhTable {
    start: u64,
    data: Section,
    /// The header and its address.
    header: Option<(u64, Section)>,
    bases: BaseAddresses,
    /// Built if the header has no search table.
    index: OnceLock<Index>,
}

/// The sorted ranges of all entries, with their offsets in the section.
struct Index(Vec<(Range<u64>, usize)>);

impl Tables {
    pub(super) fn of(image: &Image) -> Self {
        Self {
            orc: image.orc().cloned(),
            eh_frame: EhTable::of(image),
            debug: image.debug().clone(),
            debug_frame: OnceLock::new(),
        }
    }

    /// Whether there is a kernel's table.
    pub(super) const fn is_kernel(&self) -> bool {
        self.orc.is_some()
    }

    /// Steps from the frame at `svma` to its caller's; `None` if no table covers it.
    pub(super) fn step(
        &self,
        svma: u64,
        frame: &mut FrameRegisters<'_>,
        context: &mut UnwindContext<usize>,
    ) -> Option<Step> {
        // Only this one covers code that is not written in C.
        if let Some(table) = &self.orc
            && let Some(step) = table.step(svma, frame)
        {
            return Some(step);
        }
        if let Some(table) = &self.eh_frame
            && let Some(step) = table.step(svma, frame, context)
        {
            return Some(step);
        }
        let (data, index) = self
            .debug_frame
            .get_or_init(|| {
                let data = Section::Owned(self.debug.section(".debug_frame")?);
                let mut section = DebugFrame::new(&data, LittleEndian);
                section.set_address_size(8);
                let index = Index::of(&section, &BaseAddresses::default());
                Some((data, index))
            })
            .as_ref()?;
        let mut section = DebugFrame::new(data, LittleEndian);
        section.set_address_size(8);
        let bases = BaseAddresses::default();
        let entry = index.entry(&section, &bases, svma)?;
        frame.step(&section, &entry, &bases, svma, context)
    }
}

impl EhTable {
    fn of(image: &Image) -> Option<Self> {
        let object = image.object()?;
        let find = |name: &str| {
            let section = object.section_by_name(name)?;
            let start = section.address();
            Some((start, Section::of(image, &section)?))
        };
        let (start, data) = find(".eh_frame").filter(|(_, data)| !data.is_empty())?;
        let mut bases = BaseAddresses::default().set_eh_frame(start);
        for (name, set) in [
            (".text", BaseAddresses::set_text as fn(_, _) -> _),
            (".got", BaseAddresses::set_got),
            (".eh_frame_hdr", BaseAddresses::set_eh_frame_hdr),
        ] {
            if let Some(section) = object.section_by_name(name) {
                bases = set(bases, section.address());
            }
        }
        Some(Self {
            start,
            data,
            header: find(".eh_frame_hdr"),
            bases,
            index: OnceLock::new(),
        })
    }

    fn step(
        &self,
        svma: u64,
        frame: &mut FrameRegisters<'_>,
        context: &mut UnwindContext<usize>,
    ) -> Option<Step> {
        let mut section = EhFrame::new(&self.data, LittleEndian);
        section.set_address_size(8);
        let entry = match self.by_header(&section, svma) {
            Some(found) => found?,
            None => self
                .index
                .get_or_init(|| Index::of(&section, &self.bases))
                .entry(&section, &self.bases, svma)?,
        };
        frame.step(&section, &entry, &self.bases, svma, context)
    }

    /// Looks in the header's search table, if there is one.
    fn by_header<'d>(
        &self,
        frame: &EhFrame<Slice<'d>>,
        svma: u64,
    ) -> Option<Option<FrameDescriptionEntry<Slice<'d>>>> {
        let (start, header) = self.header.as_ref()?;
        let table = search_table(header)?;
        // Both words of a row are relative to the header.
        let address = |row: &[u8; 8], at: usize| {
            let word = row.get(at..at + 4)?.try_into().ok()?;
            start.checked_add_signed(i64::from(i32::from_le_bytes(word)))
        };
        let find = || {
            let after = table.partition_point(|row| address(row, 0).is_some_and(|at| at <= svma));
            let entry = address(table.get(after.checked_sub(1)?)?, 4)?;
            let offset = usize::try_from(entry.checked_sub(self.start)?).ok()?;
            let entry = frame
                .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
                .ok()?;
            entry.contains(svma).then_some(entry)
        };
        Some(find())
    }
}

/// The rows of a header's search table, in the only encoding that linkers use: sorted pairs
/// of four-byte numbers, relative to the header.
fn search_table(header: &[u8]) -> Option<&[[u8; 8]]> {
    const VERSION: u8 = 1;
    let &[VERSION, pointer, count, table, ..] = header else {
        return None;
    };
    let four_bytes = |encoding: gimli::DwEhPe| matches!(encoding.0 & 0x0f, 0x03 | 0x0b);
    let as_usual = four_bytes(gimli::DwEhPe(pointer))
        && gimli::DwEhPe(count) == gimli::DW_EH_PE_udata4
        && table == gimli::DW_EH_PE_datarel.0 | gimli::DW_EH_PE_sdata4.0;
    if !as_usual {
        return None;
    }
    let count = header.get(8..12)?.try_into().map(u32::from_le_bytes).ok()?;
    let (rows, _) = header.get(12..)?.as_chunks::<8>();
    rows.get(..usize::try_from(count).ok()?)
}

impl Index {
    fn of<'d, S: UnwindSection<Slice<'d>>>(section: &S, bases: &BaseAddresses) -> Self {
        let mut ranges = Vec::new();
        let mut entries = section.entries(bases);
        // The iterator ends at the first inconsistent entry.
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(entry) = partial.parse(S::cie_from_offset)
                && let Some(end) = entry.initial_address().checked_add(entry.len())
            {
                ranges.push((entry.initial_address()..end, entry.offset()));
            }
        }
        ranges.sort_by_key(|(range, _)| range.start);
        Self(ranges)
    }

    fn entry<'d, S: UnwindSection<Slice<'d>>>(
        &self,
        section: &S,
        bases: &BaseAddresses,
        svma: u64,
    ) -> Option<FrameDescriptionEntry<Slice<'d>>>
    where
        S::Offset: From<usize>,
    {
        let after = self.0.partition_point(|(range, _)| range.start <= svma);
        let (range, offset) = self.0.get(after.checked_sub(1)?)?;
        if !range.contains(&svma) {
            return None;
        }
        section
            .fde_from_offset(bases, (*offset).into(), S::cie_from_offset)
            .ok()
    }
}

/// The bytes of a section, which they keep alive.
#[derive(Debug)]
pub(super) enum Section {
    Mapped(Arc<FileBytes>, Range<usize>),
    Owned(Vec<u8>),
}

impl Section {
    pub(super) fn of<'d>(image: &'d Image, section: &impl ObjectSection<'d>) -> Option<Self> {
        let (start, len) = section.file_range()?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        image.data().get(start..end)?;
        Some(Self::Mapped(image.mapping(), start..end))
    }
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file, range) => file.get(range.clone()).unwrap_or_default(),
            Self::Owned(bytes) => bytes,
        }
    }
}
