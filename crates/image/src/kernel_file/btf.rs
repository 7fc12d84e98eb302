//! BTF: the types in a kernel.
//!
//! It is a list of types that refer to each other by number, and a table of strings. A
//! module's list continues the kernel's (*split* BTF): its numbers and strings begin after
//! those of its base. The numbers are not trusted: they may refer to nothing, or make a type
//! contain itself. So every walk is bounded.

mod fields;
mod parts;
mod spelling;

pub use fields::Field;

use super::{KernelFileError, u16_at, u32_at};
use std::sync::Arc;

/// How far types are followed. Nobody nests them deeper.
const MAX_HOPS: usize = 64;

/// What a type is, by its number in the format.
mod kind {
    pub const INT: u8 = 1;
    pub const POINTER: u8 = 2;
    pub const ARRAY: u8 = 3;
    pub const STRUCT: u8 = 4;
    pub const UNION: u8 = 5;
    pub const ENUM: u8 = 6;
    pub const FORWARD: u8 = 7;
    pub const TYPEDEF: u8 = 8;
    pub const VOLATILE: u8 = 9;
    pub const CONST: u8 = 10;
    pub const RESTRICT: u8 = 11;
    pub const FUNCTION: u8 = 12;
    pub const PROTOTYPE: u8 = 13;
    pub const VARIABLE: u8 = 14;
    pub const DATA_SECTION: u8 = 15;
    pub const FLOAT: u8 = 16;
    pub const DECLARATION_TAG: u8 = 17;
    pub const TYPE_TAG: u8 = 18;
    pub const ENUM64: u8 = 19;
}

/// The types of a kernel or of one module.
pub struct Btf {
    base: Option<Arc<Btf>>,
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each type begins in `types`.
    starts: Vec<u32>,
    /// The number of the first type; 0 is `void`.
    first: u32,
    /// The offset of the first string.
    first_string: u32,
    /// The numbers of structures, unions, typedefs and variables, by name.
    by_name: Vec<u32>,
}

impl std::fmt::Debug for Btf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Btf")
            .field("types", &self.starts.len())
            .field("split", &self.base.is_some())
            .finish()
    }
}

/// One type.
#[derive(Clone, Copy)]
struct Type<'b> {
    of: &'b Btf,
    name: u32,
    kind: u8,
    count: usize,
    /// Whether the members of a structure have bit sizes.
    flag: bool,
    /// A size or the number of another type.
    value: u32,
    /// The bytes after it: members, parameters and the like.
    rest: &'b [u8],
}

/// A member of a structure or union.
#[derive(Clone, Copy)]
struct Member<'b> {
    name: &'b str,
    kind: u32,
    /// Its offset in bits.
    start: u64,
    /// Its size in bits if it is a bit-field.
    bits: Option<u32>,
}

impl Btf {
    /// Reads the `.BTF` section of a kernel, or of a module with the kernel's as `base`.
    ///
    /// # Errors
    /// If it is not BTF or is truncated.
    pub fn parse(section: &[u8], base: Option<Arc<Self>>) -> Result<Self, KernelFileError> {
        let wrong = |why: &str| KernelFileError::malformed("type information (BTF)", why);
        const MAGIC: u16 = 0xeb9f;
        if u16_at(section, 0) != Some(MAGIC) || section.get(2) != Some(&1) {
            return Err(wrong("it does not begin as version 1 does"));
        }
        let word = |at: usize| {
            u32_at(section, at)
                .and_then(|value| usize::try_from(value).ok())
                .ok_or_else(|| wrong("its header is cut short"))
        };
        let header = word(4)?;
        let part = |at: usize| {
            let (offset, len) = (word(at)?, word(at + 4)?);
            header
                .checked_add(offset)
                .and_then(|start| section.get(start..start.checked_add(len)?))
                .ok_or_else(|| wrong("its parts lie outside of it"))
        };
        let (types, strings) = (part(8)?, part(16)?);
        let (first, first_string) = match &base {
            None => (1, 0),
            Some(base) => (base.next_type(), base.next_string()),
        };
        let mut starts = Vec::new();
        let mut at = 0;
        while at < types.len() {
            starts.push(u32::try_from(at).map_err(|_| wrong("it is too large"))?);
            let len =
                record_len(types, at).ok_or_else(|| wrong("a type is cut short or unknown"))?;
            at += len;
        }
        if at != types.len() {
            return Err(wrong("the last type is cut short"));
        }
        let mut btf = Self {
            base,
            types: types.to_vec(),
            strings: strings.to_vec(),
            starts,
            first,
            first_string,
            by_name: Vec::new(),
        };
        btf.by_name = btf.sorted_names();
        Ok(btf)
    }

    fn next_type(&self) -> u32 {
        let count = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        self.first.saturating_add(count)
    }

    fn next_string(&self) -> u32 {
        let len = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.first_string.saturating_add(len)
    }

    fn sorted_names(&self) -> Vec<u32> {
        let mut named: Vec<(&str, u32)> = (self.first..self.next_type())
            .filter_map(|id| {
                let found = self.get(id)?;
                let sought = matches!(
                    found.kind,
                    kind::STRUCT | kind::UNION | kind::TYPEDEF | kind::VARIABLE
                );
                (sought && !found.name().is_empty()).then(|| (found.name(), id))
            })
            .collect();
        named.sort_unstable();
        named.into_iter().map(|(_, id)| id).collect()
    }

    /// The type with this number; `None` for `void` and for wrong numbers.
    fn get(&self, id: u32) -> Option<Type<'_>> {
        if id < self.first {
            return self.base.as_ref()?.get(id);
        }
        let nth = usize::try_from(id - self.first).ok()?;
        let start = usize::try_from(*self.starts.get(nth)?).ok()?;
        let info = u32_at(&self.types, start + 4)?;
        let end = start + record_len(&self.types, start)?;
        Some(Type {
            of: self,
            name: u32_at(&self.types, start)?,
            kind: (info >> 24 & 0x1f) as u8,
            count: (info & 0xffff) as usize,
            flag: info >> 31 != 0,
            value: u32_at(&self.types, start + 8)?,
            rest: self.types.get(start + 12..end)?,
        })
    }

    /// The string at `offset`; empty if there is none.
    fn string(&self, offset: u32) -> &str {
        let Some(own) = offset.checked_sub(self.first_string) else {
            return self.base.as_ref().map_or("", |base| base.string(offset));
        };
        usize::try_from(own)
            .ok()
            .and_then(|start| self.strings.get(start..))
            .and_then(|tail| tail.split(|byte| *byte == 0).next())
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// The numbers of the types with this name: a module's own, then those of its base.
    fn named(&self, name: &str) -> Vec<u32> {
        let name_of = |id: u32| self.get(id).map_or("", |found| found.name());
        let from = self.by_name.partition_point(|id| name_of(*id) < name);
        let mut found: Vec<u32> = self
            .by_name
            .iter()
            .skip(from)
            .copied()
            .take_while(|id| name_of(*id) == name)
            .collect();
        if let Some(base) = &self.base {
            found.extend(base.named(name));
        }
        found
    }

    /// The type without typedefs and qualifiers.
    fn bare(&self, id: u32) -> Option<(u32, Type<'_>)> {
        let mut id = id;
        for _ in 0..MAX_HOPS {
            let found = self.get(id)?;
            if !found.is_qualifier() {
                return Some((id, found));
            }
            id = found.value;
        }
        None
    }

    /// The size of a type in bytes, if it is complete.
    fn size(&self, id: u32) -> Option<u64> {
        let (mut id, mut times) = (id, 1u64);
        for _ in 0..MAX_HOPS {
            let found = self.get(id)?;
            match found.kind {
                kind::POINTER => return times.checked_mul(8),
                kind::INT
                | kind::STRUCT
                | kind::UNION
                | kind::ENUM
                | kind::ENUM64
                | kind::FLOAT
                | kind::DATA_SECTION => return times.checked_mul(u64::from(found.value)),
                kind::ARRAY => {
                    let (element, count) = found.array()?;
                    times = times.checked_mul(u64::from(count))?;
                    id = element;
                }
                kind::VARIABLE => id = found.value,
                _ if found.is_qualifier() => id = found.value,
                _ => return None,
            }
        }
        None
    }
}

impl<'b> Type<'b> {
    fn name(&self) -> &'b str {
        self.of.string(self.name)
    }

    /// Whether it only modifies the type that it refers to.
    const fn is_qualifier(&self) -> bool {
        matches!(
            self.kind,
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG
        )
    }

    const fn is_aggregate(&self) -> bool {
        matches!(self.kind, kind::STRUCT | kind::UNION)
    }

    /// The type of an array's elements, and their number.
    fn array(&self) -> Option<(u32, u32)> {
        (self.kind == kind::ARRAY).then_some(())?;
        Some((u32_at(self.rest, 0)?, u32_at(self.rest, 8)?))
    }

    /// The members of a structure or union, in order.
    fn members(&self) -> impl Iterator<Item = Member<'b>> + use<'b> {
        let (of, flag) = (self.of, self.flag);
        let count = if self.is_aggregate() { self.count } else { 0 };
        self.rest
            .chunks_exact(12)
            .take(count)
            .filter_map(move |raw| {
                let (name, kind, place) = (u32_at(raw, 0)?, u32_at(raw, 4)?, u32_at(raw, 8)?);
                let (start, bits) = if flag {
                    let bits = place >> 24;
                    (place & 0x00ff_ffff, (bits > 0).then_some(bits))
                } else {
                    (place, None)
                };
                Some(Member {
                    name: of.string(name),
                    kind,
                    start: u64::from(start),
                    bits,
                })
            })
    }

    /// The names and types of a prototype's parameters.
    fn parameters(&self) -> impl Iterator<Item = (&'b str, u32)> + use<'b> {
        let of = self.of;
        let count = if self.kind == kind::PROTOTYPE {
            self.count
        } else {
            0
        };
        self.rest
            .chunks_exact(8)
            .take(count)
            .filter_map(move |raw| Some((of.string(u32_at(raw, 0)?), u32_at(raw, 4)?)))
    }
}

/// The number of bytes that the type at `at` occupies.
fn record_len(types: &[u8], at: usize) -> Option<usize> {
    let info = u32_at(types, at.checked_add(4)?)?;
    let count = (info & 0xffff) as usize;
    let rest = match (info >> 24 & 0x1f) as u8 {
        kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATA_SECTION | kind::ENUM64 => 12 * count,
        kind::ENUM | kind::PROTOTYPE => 8 * count,
        kind::POINTER
        | kind::FORWARD
        | kind::TYPEDEF
        | kind::VOLATILE
        | kind::CONST
        | kind::RESTRICT
        | kind::FUNCTION
        | kind::FLOAT
        | kind::TYPE_TAG => 0,
        _ => return None,
    };
    let len = 12 + rest;
    types.get(at..at + len).map(|_| len)
}
