//! Finds a field by name.

use super::{Btf, MAX_HOPS, kind};
use std::collections::BTreeSet;

/// Where a field is in its structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The offset of its first byte.
    pub offset_bytes: u64,
    /// Its first bit in that byte; 0 unless it is a bit-field.
    pub bit_offset: u32,
    /// Its size in bits if it is a bit-field, else 0.
    pub bit_size: u32,
    /// The number of bytes that it is in.
    pub size: u64,
}

/// One step of a path.
enum Step<'p> {
    Member(&'p str),
    Element(u64),
}

impl Btf {
    /// The field at `path` in the structure, union or typedef `holder`, for example `comm`,
    /// `core_layout.base` or `mem[0].base`. Members of unnamed structures and unions are
    /// found as in C. If several types have the name, the first with such a field counts.
    #[must_use]
    pub fn field(&self, holder: &str, path: &str) -> Option<Field> {
        let steps = steps(path)?;
        self.holders(holder).find_map(|id| self.follow(id, &steps))
    }

    /// The size of a structure, union or typedef in bytes.
    #[must_use]
    pub fn size_of(&self, name: &str) -> Option<u64> {
        self.holders(name).find_map(|id| self.size(id))
    }

    /// The structures and unions with a name, then the typedefs.
    pub(super) fn holders(&self, name: &str) -> impl Iterator<Item = u32> {
        let (only, name) = match name.split_once(' ') {
            Some(("struct", name)) => (Some(kind::STRUCT), name),
            Some(("union", name)) => (Some(kind::UNION), name),
            _ => (None, name),
        };
        let all = self.named(name);
        let of = |wanted: &[u8]| -> Vec<u32> {
            let matches = |id: &u32| {
                self.get(*id)
                    .is_some_and(|found| wanted.contains(&found.kind))
            };
            all.iter().copied().filter(matches).collect()
        };
        match only {
            Some(only) => of(&[only]).into_iter().chain(Vec::new()),
            None => of(&[kind::STRUCT, kind::UNION])
                .into_iter()
                .chain(of(&[kind::TYPEDEF])),
        }
    }

    fn follow(&self, holder: u32, steps: &[Step<'_>]) -> Option<Field> {
        let (mut id, mut start, mut bits) = (holder, 0u64, None);
        for step in steps {
            let (bare, found) = self.bare(id)?;
            match step {
                Step::Member(name) => {
                    let member = self.member(bare, name, &mut BTreeSet::new(), MAX_HOPS)?;
                    start = start.checked_add(member.start)?;
                    (id, bits) = (member.kind, member.bits);
                }
                Step::Element(index) => {
                    let (element, count) = found.array()?;
                    // An array at the end of a structure may be longer than declared.
                    if count != 0 && *index >= u64::from(count) {
                        return None;
                    }
                    let distance = self.size(element)?.checked_mul(8)?.checked_mul(*index)?;
                    start = start.checked_add(distance)?;
                    (id, bits) = (element, None);
                }
            }
        }
        let (offset_bytes, bit_offset) = (start / 8, (start % 8) as u32);
        let size = match bits {
            None => self.size(id)?,
            Some(bits) => u64::from(bit_offset + bits).div_ceil(8),
        };
        Some(Field {
            offset_bytes,
            bit_offset,
            bit_size: bits.unwrap_or(0),
            size,
        })
    }

    /// The member with this name, which may be in an unnamed member. A type that was searched
    /// in vain is not searched again.
    fn member<'b>(
        &'b self,
        holder: u32,
        name: &str,
        seen: &mut BTreeSet<u32>,
        hops: usize,
    ) -> Option<super::Member<'b>> {
        if !seen.insert(holder) {
            return None;
        }
        let found = self.get(holder)?;
        if let Some(member) = found.members().find(|member| member.name == name) {
            return Some(member);
        }
        let hops = hops.checked_sub(1)?;
        found
            .members()
            .filter(|member| member.name.is_empty())
            .find_map(|unnamed| {
                let (inner, _) = self.bare(unnamed.kind)?;
                let mut member = self.member(inner, name, seen, hops)?;
                member.start = member.start.checked_add(unnamed.start)?;
                Some(member)
            })
    }
}

/// Splits `a.b[2].c` into its steps.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for piece in path.split('.') {
        let (name, mut indices) = piece.split_at(piece.find('[').unwrap_or(piece.len()));
        if name.is_empty() {
            return None;
        }
        steps.push(Step::Member(name));
        while let Some(rest) = indices.strip_prefix('[') {
            let (index, rest) = rest.split_once(']')?;
            steps.push(Step::Element(index.parse().ok()?));
            indices = rest;
        }
        if !indices.is_empty() {
            return None;
        }
    }
    Some(steps)
}
