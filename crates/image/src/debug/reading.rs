//! What the bytes of a part mean in its type: numbers, enumerators by name, addresses, the
//! variants of Rust's enums.

use super::program::{Die, MAX_HOPS, Program};
use super::types::{Spelling, is_qualifier};
use gimli::{AttributeValue, constants as dw};

/// An enumeration with fewer single bits than this may as well be a sequence: 0, 1, 2.
const FLAGS: usize = 3;
/// More enumerators or variants than this are not kept.
const MOST_NAMES: usize = 4096;

/// How the bytes of a part are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// A number that may be negative.
    Signed,
    /// A number that may not.
    Unsigned,
    /// A floating-point number.
    Float,
    /// True or false.
    Bool,
    /// A character.
    Character,
    /// An address.
    Address,
    /// One of several named values, or several named bits.
    Enumeration {
        /// The values, as many bytes as the type has, and their names.
        names: Vec<(u64, String)>,
        /// Whether a value without a name may be negative.
        signed: bool,
    },
    /// A Rust enum, of which the variant is told.
    Variants {
        /// Where in the bytes the discriminant is.
        start: usize,
        /// How many bytes it has.
        size: usize,
        /// The variants by discriminant; without one, that of all other discriminants.
        names: Vec<(Option<u64>, String)>,
    },
}

/// A value as people read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    /// In words.
    Text(String),
    /// An address, of which the running program knows what is there.
    Address(u64),
}

impl Reading {
    /// What `bytes` are. `None` if that is not a value of the type.
    #[must_use]
    pub fn show(&self, bytes: &[u8]) -> Option<Shown> {
        let text = match self {
            Self::Signed => signed(bytes)?.to_string(),
            Self::Unsigned => number(bytes)?.to_string(),
            Self::Float => float(bytes)?,
            Self::Bool => match number(bytes)? {
                0 => "false".to_owned(),
                1 => "true".to_owned(),
                _ => return None,
            },
            Self::Character => character(bytes)?,
            Self::Address => return Some(Shown::Address(number(bytes)?)),
            Self::Enumeration { names, signed } => enumerator(names, *signed, bytes)?,
            Self::Variants { start, size, names } => {
                let tag = bytes.get(*start..start.checked_add(*size)?)?;
                variant(names, number(tag)?)?
            }
        };
        Some(Shown::Text(text))
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (!bytes.is_empty()).then(|| u64::from_le_bytes(word))
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let unused = u32::try_from(8usize.checked_sub(bytes.len())?).ok()? * 8;
    // Shifted up and back down, the sign fills the unused bits.
    Some((number(bytes)? << unused).cast_signed() >> unused)
}

fn float(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = bytes.try_into() {
        return Some(format!("{:?}", f32::from_le_bytes(four)));
    }
    let eight = bytes.try_into().ok()?;
    Some(format!("{:?}", f64::from_le_bytes(eight)))
}

fn character(bytes: &[u8]) -> Option<String> {
    let code = number(bytes)?;
    let character = char::from_u32(u32::try_from(code).ok()?)?;
    let is_shown = match bytes.len() {
        // What the upper half of a byte stands for depends on the encoding.
        1 => character.is_ascii_graphic() || character == ' ',
        _ => !character.is_control(),
    };
    Some(if is_shown {
        format!("'{character}'")
    } else if code == 0 {
        "'\\0'".to_owned()
    } else if bytes.len() == 1 && !character.is_ascii() {
        format!("{code:#x}")
    } else {
        format!("'{}'", character.escape_default())
    })
}

fn enumerator(names: &[(u64, String)], is_signed: bool, bytes: &[u8]) -> Option<String> {
    let value = number(bytes)?;
    let named = |value: u64| {
        let mut same = names.iter().filter(move |(known, _)| *known == value);
        same.next().map(|(_, name)| name.clone())
    };
    if let Some(name) = named(value) {
        return Some(name);
    }
    let mut bits: Vec<u64> = names.iter().map(|(value, _)| *value).collect();
    bits.retain(|value| *value != 0);
    bits.sort_unstable();
    bits.dedup();
    let all = bits.iter().fold(0, |all, bit| all | bit);
    let are_flags = bits.len() >= FLAGS && bits.iter().all(|bit| bit.is_power_of_two());
    if are_flags && value & all != 0 {
        let set = bits.iter().filter(|bit| value & **bit != 0);
        let mut texts: Vec<String> = set.filter_map(|bit| named(*bit)).collect();
        if value & !all != 0 {
            texts.push(format!("{:#x}", value & !all));
        }
        return Some(texts.join(" | "));
    }
    Some(if is_signed {
        signed(bytes)?.to_string()
    } else {
        value.to_string()
    })
}

fn variant(names: &[(Option<u64>, String)], tag: u64) -> Option<String> {
    let exact = names.iter().find(|(value, _)| *value == Some(tag));
    let other = || names.iter().find(|(value, _)| value.is_none());
    exact.or_else(other).map(|(_, name)| name.clone())
}

/// A value cut to as many bytes as its type has.
const fn cut(value: u64, size: u64) -> u64 {
    match size {
        0..8 => value & ((1 << (8 * size)) - 1),
        _ => value,
    }
}

impl Program<'_> {
    /// How `size` bytes are read that begin `into` bytes after the start of a value of type
    /// `kind`. `None` if they are not one value, or none that reads better than its bytes.
    pub(super) fn reading(&self, kind: Die, into: u64, size: u64) -> Option<Reading> {
        let mut die = kind;
        let mut renamed = false;
        for _ in 0..MAX_HOPS {
            let tag = self.entry(die)?.tag();
            if is_qualifier(tag) {
                renamed |= tag == dw::DW_TAG_typedef;
                die = self.link(die, dw::DW_AT_type)?;
                continue;
            }
            if tag == dw::DW_TAG_structure_type {
                return self.variants_read(die, into, size);
            }
            if into != 0 || self.size_of(die)? != size || size > 8 {
                return None;
            }
            return match tag {
                dw::DW_TAG_base_type => self.base_read(die, renamed),
                dw::DW_TAG_enumeration_type => self.enumeration_read(die, size),
                dw::DW_TAG_pointer_type
                | dw::DW_TAG_reference_type
                | dw::DW_TAG_rvalue_reference_type => Some(Reading::Address),
                _ => None,
            };
        }
        None
    }

    fn base_read(&self, die: Die, renamed: bool) -> Option<Reading> {
        let AttributeValue::Encoding(encoding) = self.inherited(die, dw::DW_AT_encoding)?.1 else {
            return None;
        };
        // Other names of a character's type are mostly those of small numbers: `uint8_t`.
        let is_text = || !renamed && self.name(die).is_some_and(|name| name == "char");
        Some(match encoding {
            dw::DW_ATE_signed_char | dw::DW_ATE_unsigned_char if is_text() => Reading::Character,
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => Reading::Signed,
            dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char => Reading::Unsigned,
            dw::DW_ATE_float => Reading::Float,
            dw::DW_ATE_boolean => Reading::Bool,
            dw::DW_ATE_UTF => Reading::Character,
            dw::DW_ATE_address => Reading::Address,
            _ => return None,
        })
    }

    fn enumeration_read(&self, die: Die, size: u64) -> Option<Reading> {
        // `enum class` and Rust's enumerators are written with the type's name.
        let scoped = self.inherited(die, dw::DW_AT_enum_class).is_some();
        let scope = self.name(die).filter(|_| scoped);
        let mut signed = false;
        let mut names = Vec::new();
        for (child, entry) in self.children(die).into_iter().take(MOST_NAMES) {
            if entry.tag() != dw::DW_TAG_enumerator {
                continue;
            }
            let value = entry.attr_value(dw::DW_AT_const_value)?;
            let value = value.udata_value().or_else(|| {
                signed = true;
                value.sdata_value().map(i64::cast_unsigned)
            })?;
            let name = self.name(child)?;
            let name = match &scope {
                Some(scope) => format!("{scope}::{name}"),
                None => name,
            };
            names.push((cut(value, size), name));
        }
        (!names.is_empty()).then_some(Reading::Enumeration { names, signed })
    }

    fn variants_read(&self, die: Die, into: u64, size: u64) -> Option<Reading> {
        if self.spelling(die) != Spelling::Rust {
            return None;
        }
        let is_part = |tag| tag == dw::DW_TAG_variant_part;
        let mut children = self.children(die).into_iter();
        let (part, entry) = children.find(|(_, entry)| is_part(entry.tag()))?;
        let tag = self.follow(part, entry.attr_value(dw::DW_AT_discr)?)?;
        let place = self.entry(tag)?.attr_value(dw::DW_AT_data_member_location);
        let start = place.map_or(Some(0), |place| place.udata_value())?;
        let length = self.size_of(self.link(tag, dw::DW_AT_type)?)?;
        let start = start.checked_sub(into)?;
        if length > 8 || start.checked_add(length)? > size {
            return None;
        }
        let own = self.name(die)?;
        let own = own.split('<').next().unwrap_or_default();
        // These are in Rust's prelude.
        let prefix = match own {
            "Option" | "Result" => String::new(),
            own => format!("{own}::"),
        };
        let mut names = Vec::new();
        for (variant, entry) in self.children(part).into_iter().take(MOST_NAMES) {
            if entry.tag() != dw::DW_TAG_variant {
                continue;
            }
            // A variant of several discriminants.
            if entry.attr_value(dw::DW_AT_discr_list).is_some() {
                return None;
            }
            let value = match entry.attr_value(dw::DW_AT_discr_value) {
                None => None,
                Some(value) => {
                    let signed = || value.sdata_value().map(i64::cast_unsigned);
                    Some(cut(value.udata_value().or_else(signed)?, length))
                }
            };
            let members = self.children(variant);
            let (member, _) = members
                .iter()
                .find(|(_, entry)| entry.tag() == dw::DW_TAG_member)?;
            names.push((value, format!("{prefix}{}", self.name(*member)?)));
        }
        (!names.is_empty()).then_some(Reading::Variants {
            start: usize::try_from(start).ok()?,
            size: usize::try_from(length).ok()?,
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reading: &Reading, bytes: &[u8], expect: Option<&str>) {
        let expect = expect.map(|text| Shown::Text(text.to_owned()));
        assert_eq!(reading.show(bytes), expect, "{bytes:x?}");
    }

    fn names<T: Copy>(names: &[(T, &str)]) -> Vec<(T, String)> {
        names.iter().map(|(v, n)| (*v, (*n).to_owned())).collect()
    }

    #[test]
    fn numbers_have_their_sign_and_width() {
        check(&Reading::Signed, &[0xff, 0xff], Some("-1"));
        check(&Reading::Signed, &[0xff, 0], Some("255"));
        check(&Reading::Unsigned, &[0xff; 8], Some("18446744073709551615"));
        check(&Reading::Float, &1.5f32.to_le_bytes(), Some("1.5"));
        check(&Reading::Float, &(-0.0f64).to_le_bytes(), Some("-0.0"));
        check(&Reading::Float, &[0; 2], None);
        check(&Reading::Signed, &[], None);
        check(&Reading::Signed, &[0; 9], None);
    }

    #[test]
    fn what_is_neither_true_nor_false_is_not_called_so() {
        check(&Reading::Bool, &[1], Some("true"));
        check(&Reading::Bool, &[0], Some("false"));
        check(&Reading::Bool, &[2], None);
    }

    #[test]
    fn characters_are_quoted() {
        check(&Reading::Character, b"a", Some("'a'"));
        check(&Reading::Character, &[0], Some("'\\0'"));
        check(&Reading::Character, b"\n", Some("'\\n'"));
        check(&Reading::Character, &[0xe4], Some("0xe4"));
        check(&Reading::Character, &[0xe4, 0, 0, 0], Some("'ä'"));
        check(&Reading::Character, &[0, 0xd8, 0, 0], None);
    }

    #[test]
    fn enumerators_are_named() {
        let state = Reading::Enumeration {
            names: names(&[(0, "IDLE"), (1, "BUSY"), (2, "DONE"), (0xffff_ffff, "DEAD")]),
            signed: true,
        };
        check(&state, &[1, 0, 0, 0], Some("BUSY"));
        check(&state, &[0xff; 4], Some("DEAD"));
        check(&state, &[3, 0, 0, 0], Some("3"));
        check(&state, &[0xfe, 0xff, 0xff, 0xff], Some("-2"));
    }

    #[test]
    fn flags_are_told_one_by_one() {
        let flags = Reading::Enumeration {
            names: names(&[(1, "READ"), (2, "WRITE"), (8, "EXCLUSIVE")]),
            signed: false,
        };
        check(&flags, &[9], Some("READ | EXCLUSIVE"));
        check(&flags, &[0x42], Some("WRITE | 0x40"));
        check(&flags, &[0], Some("0"));
        check(&flags, &[0x40], Some("64"));
        // 3 of 0, 1 and 2 is a wrong state, not two of them.
        let sequence = Reading::Enumeration {
            names: names(&[(0, "A"), (1, "B"), (2, "C")]),
            signed: false,
        };
        check(&sequence, &[3], Some("3"));
    }

    #[test]
    fn a_variant_without_discriminant_has_all_others() {
        let option = Reading::Variants {
            start: 4,
            size: 4,
            names: names(&[(Some(0), "None"), (None, "Some")]),
        };
        check(&option, &[9, 9, 9, 9, 0, 0, 0, 0], Some("None"));
        check(&option, &[9, 9, 9, 9, 7, 0, 0, 0], Some("Some"));
        check(&option, &[9, 9, 9, 9], None);
        let state = Reading::Variants {
            start: 0,
            size: 1,
            names: names(&[(Some(0), "State::Idle"), (Some(1), "State::Busy")]),
        };
        check(&state, &[1], Some("State::Busy"));
        check(&state, &[2], None);
    }

    #[test]
    fn an_address_is_left_to_who_knows_the_program() {
        let shown = Reading::Address.show(&[0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(shown, Some(Shown::Address(16)));
    }
}
