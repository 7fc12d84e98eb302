//! The unwind table as a list of function ranges, and where in them the top of the frame is.

use crate::Image;
use crate::layout::{eh_frame_header, elf_file};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, EhFrameOffset,
    EndianSlice, LittleEndian, Pointer, UnwindContext, UnwindSection, X86_64,
};
use object::{Object, ObjectSection};
use redhanded_model::Svma;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Cie<'a> = CommonInformationEntry<Bytes<'a>>;

/// No compiler emits a longer CIE, and its rules are run again for each of its functions.
const MAX_CIE: usize = 4096;

/// No compiler emits a longer FDE.
const MAX_FDE: usize = 256 << 10;

/// `DW_OP_breg6`: an expression that starts from rbp.
const BREG_RBP: u8 = 0x76;

/// One entry of the unwind table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fde {
    pub start: u64,
    pub end: u64,
    offset: usize,
}

/// The unwind table of an image: only the ranges; rules are read on demand.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Sorted by start.
    pub fdes: Vec<Fde>,
}

/// What one thread needs to run the rules of single entries.
pub(crate) struct FrameRules<'a> {
    frames: &'a Frames,
    section: Option<(EhFrame<Bytes<'a>>, BaseAddresses)>,
    cies: HashMap<usize, Cie<'a>>,
    context: UnwindContext<usize>,
    /// The last entry that was asked about, since one entry may cover many functions.
    last: Option<(usize, Tops)>,
}

/// The register that a frame's top is computed from at an instruction, and how far above it
/// the top is. The top is where the caller's frame begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Top {
    FromRsp(i64),
    /// Without a distance if it takes an expression.
    FromRbp(Option<i64>),
}

/// Where the top of the frame is, in ranges of addresses that are sorted. Empty if the unwind
/// entry cannot be read, so that nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tops(Arc<[(Range<u64>, Top)]>);

impl Tops {
    pub fn at(&self, svma: u64) -> Option<Top> {
        let after = self.0.partition_point(|(range, _)| range.start <= svma);
        let (range, top) = self.0.get(after.checked_sub(1)?)?;
        range.contains(&svma).then_some(*top)
    }
}

impl Frames {
    pub fn of(image: &Image) -> Self {
        let mut frames = Self::default();
        let Some((section, bases)) = section(image) else {
            return frames;
        };
        let mut cies: HashMap<usize, Cie<'_>> = HashMap::new();
        let mut entries = section.entries(&bases);
        // Each entry consumes bytes of the section, so this terminates. A damaged entry
        // ends it early.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let Ok(fde) = partial.parse(|_, _, offset| cached(&section, &bases, &mut cies, offset))
            else {
                continue;
            };
            let (start, len) = (fde.initial_address(), fde.len());
            let Some(end) = start.checked_add(len).filter(|_| len > 0) else {
                continue;
            };
            frames.fdes.push(Fde {
                start,
                end,
                offset: fde.offset(),
            });
        }
        frames.fdes.sort_by_key(|fde| (fde.start, fde.end));
        frames.fdes.dedup_by_key(|fde| fde.start);
        frames
    }

    /// The entry that covers `svma`.
    pub fn at(&self, svma: u64) -> Option<&Fde> {
        let after = self.fdes.partition_point(|fde| fde.start <= svma);
        self.fdes
            .get(after.checked_sub(1)?)
            .filter(|fde| svma < fde.end)
    }
}

impl<'a> FrameRules<'a> {
    pub fn new(image: &'a Image, frames: &'a Frames) -> Self {
        Self {
            frames,
            section: section(image),
            cies: HashMap::new(),
            context: UnwindContext::new(),
            last: None,
        }
    }

    /// Where the top of the frame is in the function at `start`; `None` if no unwind entry
    /// covers it.
    pub fn tops(&mut self, start: u64) -> Option<Tops> {
        let offset = self.frames.at(start)?.offset;
        if let Some((last, tops)) = &self.last
            && *last == offset
        {
            return Some(tops.clone());
        }
        let tops = Tops(self.run_rules(offset).unwrap_or_default().into());
        self.last = Some((offset, tops.clone()));
        Some(tops)
    }

    /// `None` if the entry's rules cannot be read or are too long.
    fn run_rules(&mut self, offset: usize) -> Option<Vec<(Range<u64>, Top)>> {
        let (section, bases) = self.section.as_ref()?;
        let cies = &mut self.cies;
        let fde = section
            .fde_from_offset(bases, EhFrameOffset(offset), |_, _, offset| {
                cached(section, bases, cies, offset)
            })
            .ok()?;
        if fde.cie().entry_len() > MAX_CIE || fde.entry_len() > MAX_FDE {
            return None;
        }
        let mut ranges = Vec::new();
        let mut rows = fde.rows(section, bases, &mut self.context).ok()?;
        while let Some(row) = rows.next_row().ok()? {
            let top = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => match *register {
                    X86_64::RBP => Some(Top::FromRbp(Some(*offset))),
                    X86_64::RSP => Some(Top::FromRsp(*offset)),
                    _ => None,
                },
                CfaRule::Expression(expression) => expression
                    .get(section)
                    .is_ok_and(|e| e.0.slice().first() == Some(&BREG_RBP))
                    .then_some(Top::FromRbp(None)),
            };
            if let Some(top) = top {
                ranges.push((row.start_address()..row.end_address(), top));
            }
        }
        Some(ranges)
    }
}

fn cached<'a>(
    section: &EhFrame<Bytes<'a>>,
    bases: &BaseAddresses,
    cies: &mut HashMap<usize, Cie<'a>>,
    offset: EhFrameOffset,
) -> gimli::Result<Cie<'a>> {
    if let Some(cie) = cies.get(&offset.0) {
        return Ok(cie.clone());
    }
    let cie = section.cie_from_offset(bases, offset)?;
    cies.insert(offset.0, cie.clone());
    Ok(cie)
}

/// `.eh_frame`, found by its section header or else through `PT_GNU_EH_FRAME`.
fn section(image: &Image) -> Option<(EhFrame<Bytes<'_>>, BaseAddresses)> {
    let mut bases = BaseAddresses::default();
    let by_name = elf_file(image).and_then(|file| {
        for (name, set) in [
            (".text", BaseAddresses::set_text as fn(_, _) -> _),
            (".got", BaseAddresses::set_got),
        ] {
            if let Some(section) = file.section_by_name(name) {
                bases = set(bases.clone(), section.address());
            }
        }
        let section = file.section_by_name(".eh_frame")?;
        Some((section.address(), section.data().ok()?))
    });
    let (address, bytes) = by_name.or_else(|| by_segment(image))?;
    let bases = bases.set_eh_frame(address);
    Some((EhFrame::new(bytes, LittleEndian), bases))
}

fn by_segment(image: &Image) -> Option<(u64, &[u8])> {
    let (address, bytes) = eh_frame_header(image)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let header = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
    let Pointer::Direct(start) = header.eh_frame_ptr() else {
        return None;
    };
    // A zero entry ends it; without one, the segment does.
    Some((start, image.bytes_at(Svma(start), usize::MAX)?))
}
