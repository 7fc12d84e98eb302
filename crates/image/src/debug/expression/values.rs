//! The types of expressions.

use crate::debug::program::{Die, MAX_HOPS, Program};
use crate::debug::types::{How, is_qualifier};
use gimli::constants as dw;

/// The type of an expression: declared in the debug information, or made by the expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) enum Type {
    Declared(Die),
    /// A row of an array with several dimensions: the array, and how many are left.
    Row(Die, usize),
    Pointer(Box<Type>),
    Qualified(How, Box<Type>),
    /// A number, or anything else that is neither atomic nor volatile, of this size.
    Scalar(Option<u64>),
    /// An object of this type, which a cast to a reference denotes.
    Object(Box<Type>),
    /// A function that returns this.
    Function(Box<Type>),
    Unknown,
}

/// A member of a structure.
pub(in crate::debug) struct Member {
    pub(in crate::debug) die: Die,
    pub(in crate::debug) kind: Type,
    pub(in crate::debug) offset: u64,
    /// The bits of a bit-field, counted from the start of the structure.
    pub(in crate::debug) bits: Option<std::ops::Range<u64>>,
    /// The anonymous member that it is a member of.
    pub(in crate::debug) anonymous: Option<Die>,
}

impl Type {
    pub(in crate::debug) fn pointer_to(self) -> Self {
        Self::Pointer(Box::new(self))
    }

    pub(in crate::debug) fn volatile(self) -> Self {
        Self::Qualified(How::Volatile, Box::new(self))
    }
}

impl Program<'_> {
    /// The type of a variable, member or typedef; of a function what it returns.
    pub(in crate::debug) fn type_of(&self, die: Die) -> Type {
        match self.link(die, dw::DW_AT_type) {
            Some(kind) => Type::Declared(kind),
            None => Type::Scalar(None),
        }
    }

    /// The type without typedefs and qualifiers, and what the latter say. A reference is
    /// what it refers to.
    pub(in crate::debug) fn unqualified(&self, kind: &Type) -> (Type, Option<How>) {
        let mut kind = kind.clone();
        let mut how = None;
        for _ in 0..MAX_HOPS {
            let next = match kind {
                Type::Qualified(qualifier, inner) => {
                    how = how.or(Some(qualifier));
                    *inner
                }
                Type::Object(inner) => *inner,
                Type::Declared(die) => {
                    how = how.or_else(|| self.synchronises(die));
                    let Some(entry) = self.entry(die) else {
                        return (Type::Unknown, how);
                    };
                    match entry.tag() {
                        dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                            how = None;
                        }
                        tag if is_qualifier(tag) => {}
                        _ => return (Type::Declared(die), how),
                    }
                    self.type_of(die)
                }
                kind => return (kind, how),
            };
            kind = next;
        }
        (Type::Unknown, how)
    }

    /// Whether accesses to this type are atomic or volatile, also those to its elements.
    pub(in crate::debug) fn how(&self, kind: &Type) -> Option<How> {
        let (bare, how) = self.unqualified(kind);
        how.or_else(|| match bare {
            Type::Declared(die) | Type::Row(die, _) => self.synchronises_deeply(die),
            _ => None,
        })
    }

    pub(in crate::debug) fn is_reference(&self, kind: &Type) -> bool {
        let mut kind = kind.clone();
        for _ in 0..MAX_HOPS {
            let Type::Declared(die) = kind else {
                return false;
            };
            match self.entry(die).map(|entry| entry.tag()) {
                Some(dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type) => return true,
                Some(tag) if is_qualifier(tag) => kind = self.type_of(die),
                _ => return false,
            }
        }
        false
    }

    pub(in crate::debug) fn is_array(&self, kind: &Type) -> bool {
        match self.unqualified(kind).0 {
            Type::Row(..) => true,
            Type::Declared(die) => self
                .entry(die)
                // A vector is a number to the source.
                .is_some_and(|entry| {
                    entry.tag() == dw::DW_TAG_array_type
                        && entry.attr_value(dw::DW_AT_GNU_vector).is_none()
                }),
            _ => false,
        }
    }

    pub(in crate::debug) fn is_structure(&self, kind: &Type) -> bool {
        matches!(self.unqualified(kind).0, Type::Declared(die) if self.entry(die).is_some_and(|entry| {
            matches!(entry.tag(), dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type)
        }))
    }

    /// Whether the type is one of floating point.
    pub(in crate::debug) fn is_float(&self, kind: &Type) -> bool {
        match self.unqualified(kind).0 {
            Type::Declared(die) => {
                let encoding = self
                    .entry(die)
                    .and_then(|e| e.attr_value(dw::DW_AT_encoding));
                encoding == Some(gimli::AttributeValue::Encoding(dw::DW_ATE_float))
            }
            Type::Scalar(size) => size.is_some(),
            _ => false,
        }
    }

    /// What a pointer points to, or the elements of an array.
    pub(in crate::debug) fn target(&self, kind: &Type) -> Type {
        let (bare, how) = self.unqualified(kind);
        // What a volatile array has is volatile.
        let element = |element: Type| match how {
            Some(How::Volatile) => element.volatile(),
            _ => element,
        };
        match bare {
            Type::Pointer(inner) => *inner,
            Type::Row(array, 1) => element(self.type_of(array)),
            Type::Row(array, left) => element(Type::Row(array, left - 1)),
            Type::Declared(die) => match self.entry(die).map(|entry| entry.tag()) {
                Some(dw::DW_TAG_pointer_type) => self.type_of(die),
                Some(dw::DW_TAG_array_type) => element(match self.dimensions(die).len() {
                    0 | 1 => self.type_of(die),
                    count => Type::Row(die, count - 1),
                }),
                _ => self.operator_result(die, &["operator*", "operator[]"]),
            },
            Type::Function(inner) => Type::Function(inner),
            _ => Type::Unknown,
        }
    }

    /// What a class returns from one of these operators.
    pub(in crate::debug) fn operator_result(&self, class: Die, names: &[&str]) -> Type {
        self.returned(&self.methods(class, names, MAX_HOPS))
    }

    /// What functions of one name return, if they agree on what matters: which of them is
    /// called depends on arguments.
    pub(in crate::debug) fn returned(&self, functions: &[Die]) -> Type {
        let kinds: Vec<Type> = functions
            .iter()
            .map(|function| self.type_of(*function))
            .filter(|kind| functions.len() == 1 || *kind != Type::Scalar(None))
            .collect();
        let Some(first) = kinds.first() else {
            return Type::Unknown;
        };
        let pointee = |kind: &Type| match self.unqualified(kind).0 {
            Type::Declared(die) if self.entry(die)?.tag() == dw::DW_TAG_pointer_type => {
                self.how(&self.type_of(die))
            }
            _ => None,
        };
        let about = |kind: &Type| (self.how(kind), pointee(kind));
        let same = |kind: &Type| kind == first || about(kind) == about(first);
        if kinds.iter().all(same) {
            first.clone()
        } else {
            Type::Unknown
        }
    }

    /// The member functions of a class with these names, or else those of its bases.
    pub(in crate::debug) fn methods(&self, class: Die, names: &[&str], hops: usize) -> Vec<Die> {
        let Some(hops) = hops.checked_sub(1) else {
            return Vec::new();
        };
        let children = self.children(class);
        let is_named = |die: &Die| {
            self.name(*die)
                .is_some_and(|name| names.contains(&crate::debug::scope::bare_name(&name)))
        };
        let own: Vec<Die> = children
            .iter()
            .filter(|(_, entry)| entry.tag() == dw::DW_TAG_subprogram)
            .map(|(die, _)| *die)
            .filter(is_named)
            .collect();
        if !own.is_empty() {
            return own;
        }
        children
            .iter()
            .filter(|(_, entry)| entry.tag() == dw::DW_TAG_inheritance)
            .filter_map(|(die, _)| match self.unqualified(&self.type_of(*die)).0 {
                Type::Declared(base) => Some(self.methods(base, names, hops)),
                _ => None,
            })
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    /// The type that a function, a pointer to one, or an object with `operator()` returns.
    pub(in crate::debug) fn result(&self, kind: &Type) -> Type {
        let mut kind = kind.clone();
        for _ in 0..MAX_HOPS {
            match self.unqualified(&kind).0 {
                Type::Function(inner) => return *inner,
                Type::Pointer(inner) => kind = *inner,
                Type::Declared(die) => match self.entry(die).map(|entry| entry.tag()) {
                    Some(dw::DW_TAG_subroutine_type | dw::DW_TAG_subprogram) => {
                        return self.type_of(die);
                    }
                    Some(dw::DW_TAG_pointer_type) => kind = self.type_of(die),
                    _ => return self.operator_result(die, &["operator()"]),
                },
                _ => return Type::Unknown,
            }
        }
        Type::Unknown
    }

    pub(in crate::debug) fn size(&self, kind: &Type) -> Option<u64> {
        match self.unqualified(kind).0 {
            Type::Declared(die) => self.size_of(die),
            Type::Pointer(_) => Some(8),
            Type::Scalar(size) => size,
            _ => None,
        }
    }

    /// The size of a type without the padding at its end: in C++ a derived class may have
    /// members there.
    pub(in crate::debug) fn data_size(&self, kind: &Type) -> Option<u64> {
        let size = self.size(kind)?;
        let Type::Declared(holder) = self.unqualified(kind).0 else {
            return Some(size);
        };
        let is_part = |tag| matches!(tag, dw::DW_TAG_member | dw::DW_TAG_inheritance);
        let ends = self
            .children(self.complete(holder))
            .into_iter()
            .filter(|(_, entry)| is_part(entry.tag()))
            .map(|(die, entry)| {
                if let Some(bits) = self.bit_range(die, &entry) {
                    return Some(bits.end.div_ceil(8));
                }
                let offset = self.number(die, dw::DW_AT_data_member_location);
                self.size(&self.type_of(die))?.checked_add(offset?)
            });
        // A static member has no place. What is not known may be anywhere.
        let ends: Vec<u64> = ends.map(|end| end.unwrap_or(size)).collect();
        Some(ends.into_iter().max().unwrap_or(size).min(size))
    }

    pub(in crate::debug) fn spelled(&self, kind: &Type) -> Option<String> {
        Some(match kind {
            Type::Declared(die) => self.type_name(Some(*die)),
            Type::Pointer(inner) => format!("{} *", self.spelled(inner)?),
            Type::Qualified(How::Volatile, inner) => format!("volatile {}", self.spelled(inner)?),
            Type::Qualified(_, inner) => format!("_Atomic {}", self.spelled(inner)?),
            Type::Object(inner) => self.spelled(inner)?,
            _ => return None,
        })
    }

    /// A member of a structure, also one of an anonymous member or of a base.
    pub(in crate::debug) fn find_member(&self, kind: &Type, name: &str) -> Option<Member> {
        let Type::Declared(holder) = self.unqualified(kind).0 else {
            return None;
        };
        self.member_of(holder, name, MAX_HOPS)
    }

    fn member_of(&self, holder: Die, name: &str, hops: usize) -> Option<Member> {
        let hops = hops.checked_sub(1)?;
        let holder = self.complete(holder);
        let mut nested = Vec::new();
        for (die, entry) in self.children(holder) {
            if !matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance) {
                continue;
            }
            let own = self.name(die);
            let kind = self.type_of(die);
            let offset = self
                .number(die, dw::DW_AT_data_member_location)
                .unwrap_or(0);
            if own.as_deref() == Some(name) && entry.tag() == dw::DW_TAG_member {
                return Some(Member {
                    die,
                    kind,
                    offset,
                    bits: self.bit_range(die, &entry),
                    anonymous: None,
                });
            }
            if own.is_none() || entry.tag() == dw::DW_TAG_inheritance {
                nested.push((die, kind, offset));
            }
        }
        nested.into_iter().find_map(|(die, kind, offset)| {
            let (Type::Declared(inner), how) = self.unqualified(&kind) else {
                return None;
            };
            let mut member = self.member_of(inner, name, hops)?;
            // An anonymous member that is volatile as a whole.
            if how == Some(How::Volatile) {
                member.kind = member.kind.volatile();
            }
            member.anonymous = member.anonymous.or(Some(die));
            member.offset = member.offset.checked_add(offset)?;
            member.bits = member
                .bits
                .map(|bits| bits.start + offset * 8..bits.end + offset * 8);
            Some(member)
        })
    }

    /// The definition of a structure that is only declared in its unit cannot be found
    /// cheaply; a type unit's can.
    fn complete(&self, die: Die) -> Die {
        self.link(die, dw::DW_AT_signature).unwrap_or(die)
    }
}
