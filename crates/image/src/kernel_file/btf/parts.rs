//! Finds the field or element of a structure that an access touches, as a [`Part`] like
//! those from DWARF.

use super::{Btf, MAX_HOPS, Member, Type, kind};
use crate::debug::{How, Part};
use redhanded_model::BitField;

/// The accessed bytes, relative to the type under examination.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
}

impl Btf {
    /// The part at `size` bytes from `offset` in the structure, union or typedef `holder`.
    /// `None` if there is no such type or it is smaller.
    #[must_use]
    pub fn path_at(&self, holder: &str, offset: u64, size: u64) -> Option<Part> {
        self.holders(holder)
            .find_map(|id| self.part_of(id, offset, size))
    }

    /// The part at `size` bytes from `offset` in the variable `name`. A kernel has the types
    /// of per-CPU variables only.
    #[must_use]
    pub fn part_of_variable(&self, name: &str, offset: u64, size: u64) -> Option<Part> {
        let found = self.named(name).into_iter().filter_map(|id| self.get(id));
        let mut variables = found.filter(|found| found.kind == kind::VARIABLE);
        variables.find_map(|variable| self.part_of(variable.value, offset, size))
    }

    fn part_of(&self, mut id: u32, offset: u64, size: u64) -> Option<Part> {
        let end = offset.checked_add(size.max(1))?;
        if end > self.size(id)? {
            return None;
        }
        let mut span = Span { start: offset, end };
        let mut part = Part::default();
        for _ in 0..MAX_HOPS {
            part.type_name = self.type_name(id);
            let Some(bare) = self.synchronising(id, &mut part.synchronising) else {
                return Some(part);
            };
            // The inside of an atomic is not examined.
            if part.synchronising == Some(How::Atomic) {
                return Some(part);
            }
            let next = match bare.kind {
                kind::STRUCT | kind::UNION => self.inner_member(bare, &mut span, &mut part),
                kind::ARRAY => self.element(bare, &mut span, &mut part),
                _ => None,
            };
            match next {
                Some(next) => id = next,
                None => return Some(part),
            }
        }
        Some(part)
    }

    /// The bare type. If a volatile or atomic type is on the way, the access synchronises.
    fn synchronising(&self, id: u32, how: &mut Option<How>) -> Option<Type<'_>> {
        let mut id = id;
        for _ in 0..MAX_HOPS {
            let found = self.get(id)?;
            *how = how.or(match found.kind {
                kind::VOLATILE => Some(How::Volatile),
                kind::TYPEDEF if found.name().starts_with("atomic_") => Some(How::Atomic),
                _ => None,
            });
            if !found.is_qualifier() {
                return Some(found);
            }
            id = found.value;
        }
        None
    }

    fn inner_member(&self, holder: Type<'_>, span: &mut Span, part: &mut Part) -> Option<u32> {
        let touched = span.start.saturating_mul(8)..span.end.saturating_mul(8);
        let union = holder.kind == kind::UNION;
        let mut spanned: Vec<Member<'_>> = Vec::new();
        let mut bit_fields: Vec<Member<'_>> = Vec::new();
        for member in holder.members() {
            let bits = match member.bits {
                Some(bits) => Some(u64::from(bits)),
                None => self.size(member.kind).and_then(|size| size.checked_mul(8)),
            };
            let Some(end) = bits.and_then(|bits| member.start.checked_add(bits)) else {
                continue;
            };
            if member.bits.is_none() && member.start <= touched.start && touched.end <= end {
                if !member.name.is_empty() {
                    part.path.push('.');
                    part.path.push_str(member.name);
                }
                part.in_union |= union;
                part.bit_fields.clear();
                span.start -= member.start / 8;
                span.end -= member.start / 8;
                return Some(member.kind);
            }
            if member.start < touched.end && touched.start < end {
                match member.bits {
                    Some(_) => bit_fields.push(member),
                    None => spanned.push(member),
                }
            }
        }
        for member in &bit_fields {
            // A field that begins before the accessed bytes is described from there on.
            let first = member.start.max(touched.start);
            let end = member.start + u64::from(member.bits.unwrap_or(0));
            part.bit_fields.push(BitField {
                name: member.name.to_owned(),
                first_bit: u32::try_from(first - touched.start).unwrap_or(u32::MAX),
                bits: u32::try_from(end - first).unwrap_or(u32::MAX),
            });
            let _ = self.synchronising(member.kind, &mut part.synchronising);
        }
        if let ([only], []) = (bit_fields.as_slice(), spanned.as_slice()) {
            part.path.push('.');
            part.path.push_str(only.name);
            part.type_name = self.type_name(only.kind);
        } else if !union {
            let names = spanned.iter().map(|member| member.name.to_owned());
            part.spans = names.collect();
        }
        None
    }

    fn element(&self, array: Type<'_>, span: &mut Span, part: &mut Part) -> Option<u32> {
        let (element, _) = array.array()?;
        let size = self.size(element).filter(|size| *size > 0)?;
        let (first, last) = (span.start / size, (span.end - 1) / size);
        if first != last {
            part.path.push_str(&format!("[{first}..{}]", last + 1));
            return None;
        }
        part.path.push_str(&format!("[{first}]"));
        span.start -= first * size;
        span.end -= first * size;
        Some(element)
    }
}
