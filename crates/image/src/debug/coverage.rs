//! Which of the bytes that an instruction accesses the source accesses, too.
//!
//! Compilers read more than the source: the whole word of a bit-field, members that lie
//! together, and, in vectors, the elements that a loop steps over. They write no more than it.

use super::evidence::{Fixed, Text};
use super::expression::walk::{Base, Candidate, Place};
use super::text::regions::{Function, SourceFile};
use super::words::Bulk;
use crate::Access;
use redhanded_model::Covered;
use std::ops::Range;

impl Text<'_, '_> {
    /// Which of the accessed bytes the expression covers.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of them are what is known of one access"
    )]
    pub(super) fn covers(
        &self,
        file: &SourceFile,
        function: &Function,
        access: Access,
        fixed: Option<&Fixed>,
        chosen: &Candidate,
        place: &Place,
        gaps: bool,
    ) -> Option<Covered> {
        let width = u64::from(access.size);
        let whole = Covered {
            start: 0,
            len: access.size,
        };
        if chosen.bulk.is_some() || width == 0 {
            return None;
        }
        // Nothing may be written that the source does not write, except the rest of the
        // units that hold a bit-field.
        if !access.kind.reads() && place.bits.is_none() {
            return Some(whole);
        }
        let Some(own) = self.bytes(place, access, fixed) else {
            // The type of a bit-field says nothing about how many bytes it takes.
            if place.bit_field.is_some_and(|bits| bits < width * 8) {
                return None;
            }
            let size = self.size_without_padding(place)?;
            let fits = size >= width && self.program.size(&place.kind) == Some(size);
            return (fits || !gaps).then_some(whole);
        };
        if own == (0..width) {
            return Some(whole);
        }
        // Others that the same function reads beside it are read together with it.
        let beside = self.beside(file, function, access, fixed, chosen, place);
        let mut parts: Vec<Range<u64>> = beside.into_iter().map(|(_, part)| part).collect();
        parts.push(own.clone());
        parts.sort_by_key(|part| part.start);
        let mut joined = parts.first()?.clone();
        for part in parts {
            if part.start > joined.end {
                // There is a gap between parts that are all read.
                return None;
            }
            joined.end = joined.end.max(part.end);
        }
        Some(Covered {
            start: u32::try_from(joined.start).ok()?,
            len: u32::try_from(joined.end - joined.start).ok()?,
        })
    }

    /// What else the function accesses of the object in `place`, each with its bytes.
    fn beside(
        &self,
        file: &SourceFile,
        function: &Function,
        access: Access,
        fixed: Option<&Fixed>,
        chosen: &Candidate,
        place: &Place,
    ) -> Vec<(Candidate, Range<u64>)> {
        let all: Vec<usize> = (0..function.regions.len()).collect();
        let candidates = self.candidates(file, function, &all).into_iter();
        candidates
            .filter(|candidate| {
                candidate.reads == chosen.reads || candidate.writes == chosen.writes
            })
            .filter_map(|candidate| {
                let other = candidate.place.as_ref()?;
                let same = other.base == place.base && holder(other) == holder(place);
                let bytes = self.bytes(other, access, fixed).filter(|_| same)?;
                Some((candidate, bytes))
            })
            .collect()
    }

    /// Whether a read takes in what the source reads beside the expression on a condition only:
    /// compilers merge compares of members that lie together.
    pub(super) fn joins_conditional(
        &self,
        file: &SourceFile,
        function: &Function,
        access: Access,
        fixed: Option<&Fixed>,
        chosen: &Candidate,
    ) -> bool {
        let Some(place) = chosen.place.as_ref().filter(|_| !access.kind.writes()) else {
            return false;
        };
        let Some(own) = self.bytes(place, access, fixed) else {
            return false;
        };
        let conditions = |at: (u32, u32)| file.conditions(at.0, Some(at.1).filter(|c| *c != 0));
        let around = conditions(chosen.at);
        let is_conditional = |other: &Candidate| {
            // All that a macro makes has the same place, whatever conditions are in it.
            other.at == chosen.at
                || conditions(other.at)
                    .iter()
                    .any(|one| !one.entered && !around.contains(one))
        };
        let beside = self.beside(file, function, access, fixed, chosen, place);
        let outside = |part: &Range<u64>| part.start < own.start || own.end < part.end;
        let (perhaps, always): (Vec<_>, Vec<_>) = beside
            .into_iter()
            .filter(|(_, part)| outside(part))
            .partition(|(other, _)| is_conditional(other));
        perhaps
            .iter()
            .any(|(_, part)| !always.iter().any(|(_, other)| other == part))
    }

    /// The bytes of an object among those of the access.
    fn bytes(&self, place: &Place, access: Access, fixed: Option<&Fixed>) -> Option<Range<u64>> {
        let width = u64::from(access.size);
        let (start, end) = match &place.bits {
            Some(bits) => (bits.start / 8, bits.end.div_ceil(8)),
            None => {
                let start = place.offset?;
                (
                    start,
                    start.checked_add(self.program.data_size(&place.kind)?)?,
                )
            }
        };
        let operand = &access.operand;
        // Where the access begins, from the start of the base.
        let first = match (operand.constant(), fixed, &place.base) {
            (Some(at), Some(fixed), Base::Global(_)) => at.checked_sub(fixed.start)?,
            (None, _, Base::Pointer) if operand.index.is_none() => operand.displacement,
            _ => return None,
        };
        let from = start.max(first);
        let to = end.min(first.checked_add(width)?);
        (from < to).then(|| from - first..to - first)
    }

    /// The padding at the end of a structure is part of it in C only.
    fn size_without_padding(&self, place: &Place) -> Option<u64> {
        if self.cpp {
            self.program.data_size(&place.kind)
        } else {
            self.program.size(&place.kind)
        }
    }

    /// Whether a read of several elements at once may include some that the source leaves out:
    /// members of other names, or elements that a loop steps over.
    pub(super) fn has_gaps(&self, file: &SourceFile, access: Access, place: &Place) -> bool {
        let size = self.size_without_padding(place);
        // Which part of a padded object it is cannot be seen here.
        let padded = size != self.program.size(&place.kind);
        let several = padded || size.is_some_and(|size| size < u64::from(access.size));
        if place.gaps || !several || access.kind.writes() {
            return place.gaps;
        }
        // The text of a library's function does not show in which steps it is called.
        let stepped = place.index.as_deref();
        stepped.is_some_and(|index| self.place.library || !file.steps_by_one(place.at, index))
    }
}

/// Whether it is a read by a function that looks for a byte, which compilers make in whole words.
pub(super) fn searches_words(access: Access, chosen: &Candidate) -> bool {
    access.size > 1 && !access.kind.writes() && chosen.bulk.is_some_and(Bulk::searches)
}

/// The object that a member is of, by its text.
fn holder(place: &Place) -> &str {
    let end = place.text.rfind(['.', '>']).unwrap_or(0);
    place.text.get(..end).unwrap_or_default()
}
