//! The bytes of a collision: numbers, changed bits, and the bit-fields they are.

use crate::numbers::counted;
use crate::style::Style;
use redhanded_model::{BitField, Race, Values};

/// More runs of bits or bytes than this are counted instead of listed.
const RUNS: usize = 4;
/// Eight bytes: a word.
const WORD: usize = 8;

/// A bit-field's content before and after.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldValue<'a> {
    pub(crate) field: &'a BitField,
    /// Before and after; missing where the field reaches past the accessed
    /// bytes or is wider than a word.
    pub(crate) values: Option<(u64, u64)>,
    pub(crate) changed: bool,
}

/// One word of a wide value that changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WordChange {
    pub(crate) offset: usize,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// Up to eight bytes as the machine reads them.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > WORD {
        return None;
    }
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)),
    )
}

/// `0x00000011`: a number with all its digits, so that widths compare.
pub(crate) fn hexadecimal(bytes: &[u8]) -> Option<String> {
    let digits = bytes.len() * 2;
    number(bytes).map(|number| format!("0x{number:0digits$x}"))
}

/// The value before and after in the terms of its type, where those say more than
/// hexadecimal. Bit-fields are told one by one.
pub(crate) fn typed(race: &Race) -> Option<(String, String)> {
    if !race.what.bit_fields.is_empty() {
        return None;
    }
    let values = &race.values;
    if let Some(typed) = &values.typed {
        // Two addresses may both be of the heap.
        let tells = typed.before != typed.after || values.before == values.after;
        return tells.then(|| (typed.before.clone(), typed.after.clone()));
    }
    // Reports of earlier versions have only the type's name.
    let type_name = race.what.type_name.as_deref();
    in_type(&values.before, type_name).zip(in_type(&values.after, type_name))
}

/// Whether a type is that of a number, of which an access has the whole.
pub(crate) fn is_number(type_name: &str) -> bool {
    let name = bare(type_name);
    matches!(
        name,
        "float" | "f32" | "double" | "f64" | "bool" | "_Bool" | "char"
    ) || is_signed(name).is_some()
}

fn bare(type_name: &str) -> &str {
    type_name
        .trim_start_matches("const ")
        .trim_start_matches("volatile ")
}

/// Whether the integers of this type have a sign.
fn is_signed(name: &str) -> Option<bool> {
    match name {
        "int" | "short" | "short int" | "long" | "long int" | "long long" | "long long int"
        | "signed char" | "int8_t" | "int16_t" | "int32_t" | "int64_t" | "ssize_t" | "i8"
        | "i16" | "i32" | "i64" | "isize" => Some(true),
        "unsigned int"
        | "unsigned"
        | "short unsigned int"
        | "unsigned short"
        | "long unsigned int"
        | "unsigned long"
        | "long long unsigned int"
        | "unsigned long long"
        | "unsigned char"
        | "uint8_t"
        | "uint16_t"
        | "uint32_t"
        | "uint64_t"
        | "size_t"
        | "u8"
        | "u16"
        | "u32"
        | "u64"
        | "usize" => Some(false),
        _ => None,
    }
}

/// The value in the terms of its type, where those say more than hexadecimal:
/// `42`, `-1`, `1.5`, `true`.
fn in_type(bytes: &[u8], type_name: Option<&str>) -> Option<String> {
    let number = number(bytes)?;
    let name = bare(type_name?);
    match (name, bytes.len()) {
        ("float" | "f32", 4) => return Some(f32::from_bits(number as u32).to_string()),
        ("double" | "f64", 8) => return Some(format!("{:?}", f64::from_bits(number))),
        ("bool" | "_Bool", 1) if number < 2 => return Some((number == 1).to_string()),
        _ => {}
    }
    let unused = 64 - 8 * bytes.len() as u32;
    Some(if is_signed(name)? {
        // Shifted up and back down, the sign fills the unused bits.
        (((number << unused) as i64) >> unused).to_string()
    } else {
        number.to_string()
    })
}

/// The words of a wide value that differ.
pub(crate) fn changed_words(values: &Values) -> Vec<WordChange> {
    values
        .before
        .chunks(WORD)
        .zip(values.after.chunks(WORD))
        .enumerate()
        .filter(|(_, (before, after))| before != after)
        .filter_map(|(at, (before, after))| {
            Some(WordChange {
                offset: at * WORD,
                before: hexadecimal(before)?,
                after: hexadecimal(after)?,
            })
        })
        .collect()
}

/// Which bits of a value of up to a word differ, or which bytes of a wider one:
/// `bit 5`, `bits 0–3 and 7`, `17 bits`. Empty when none does.
pub(crate) fn changed_bits(values: &Values, style: &Style) -> String {
    let changed = values.changed();
    let (runs, one, many) = if changed.len() > WORD {
        (
            runs(changed.len(), |byte| changed[byte] != 0),
            "byte",
            "bytes",
        )
    } else {
        (
            runs(changed.len() * 8, |bit| is_set(&changed, bit)),
            "bit",
            "bits",
        )
    };
    let total: usize = runs.iter().map(|(first, last)| last - first + 1).sum();
    if total == 0 {
        return String::new();
    }
    if runs.len() > RUNS {
        return counted(total as u64, one, many);
    }
    let noun = if total == 1 { one } else { many };
    format!("{noun} {}", list(&runs, style))
}

/// The bits that changed and belong to none of `fields`.
pub(crate) fn changed_outside(values: &Values, fields: &[BitField], style: &Style) -> String {
    let changed = values.changed();
    let runs = runs(changed.len().saturating_mul(8), |bit| {
        is_set(&changed, bit) && !fields.iter().any(|field| holds(field, bit))
    });
    let total: usize = runs.iter().map(|(first, last)| last - first + 1).sum();
    match total {
        0 => String::new(),
        _ if runs.len() > RUNS => counted(total as u64, "bit", "bits"),
        1 => format!("bit {}", list(&runs, style)),
        _ => format!("bits {}", list(&runs, style)),
    }
}

/// Every bit-field with its content.
pub(crate) fn fields<'a>(values: &Values, fields: &'a [BitField]) -> Vec<FieldValue<'a>> {
    let changed = values.changed();
    fields
        .iter()
        .map(|field| FieldValue {
            field,
            values: extract(&values.before, field).zip(extract(&values.after, field)),
            changed: (0..changed.len() * 8).any(|bit| is_set(&changed, bit) && holds(field, bit)),
        })
        .collect()
}

fn holds(field: &BitField, bit: usize) -> bool {
    let bit = bit as u64;
    let first = u64::from(field.first_bit);
    (first..first + u64::from(field.bits)).contains(&bit)
}

fn is_set(bytes: &[u8], bit: usize) -> bool {
    bytes
        .get(bit / 8)
        .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

fn extract(bytes: &[u8], field: &BitField) -> Option<u64> {
    let first = field.first_bit as usize;
    let end = first.checked_add(field.bits as usize)?;
    if field.bits == 0 || field.bits > 64 || end > bytes.len() * 8 {
        return None;
    }
    Some(
        (first..end)
            .rev()
            .fold(0, |value, bit| (value << 1) | u64::from(is_set(bytes, bit))),
    )
}

/// The runs of positions below `end` for which `is` holds: first and last.
fn runs(end: usize, is: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in (0..end).filter(|at| is(*at)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    runs
}

fn list(runs: &[(usize, usize)], style: &Style) -> String {
    let texts: Vec<String> = runs
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}{}{last}", style.to())
            }
        })
        .collect();
    match texts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => texts.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(before: &[u8], after: &[u8]) -> Values {
        Values {
            before: before.to_vec(),
            after: after.to_vec(),
            ..Values::default()
        }
    }

    fn field(name: &str, first_bit: u32, bits: u32) -> BitField {
        BitField {
            name: name.into(),
            first_bit,
            bits,
        }
    }

    #[test]
    fn numbers_are_little_endian_with_all_digits() {
        assert_eq!(hexadecimal(&[0x11, 0, 0, 0]).unwrap(), "0x00000011");
        assert_eq!(hexadecimal(&[1, 2]).unwrap(), "0x0201");
        assert_eq!(hexadecimal(&[]), None);
        assert_eq!(hexadecimal(&[0; 9]), None);
    }

    #[test]
    fn types_give_values_their_meaning() {
        let show = |bytes: &[u8], name| in_type(bytes, Some(name));
        assert_eq!(show(&[0xff; 4], "int").unwrap(), "-1");
        assert_eq!(show(&[0xff; 4], "unsigned int").unwrap(), "4294967295");
        assert_eq!(show(&[0xff; 8], "i64").unwrap(), "-1");
        assert_eq!(show(&1.5f64.to_le_bytes(), "double").unwrap(), "1.5");
        assert_eq!(show(&[1], "bool").unwrap(), "true");
        assert_eq!(show(&[1; 8], "Node *"), None);
    }

    #[test]
    fn changed_bits_are_listed_as_runs() {
        let style = Style::default();
        let show = |before: &[u8], after: &[u8]| changed_bits(&values(before, after), &style);
        assert_eq!(show(&[0x11], &[0x31]), "bit 5");
        assert_eq!(show(&[0, 0], &[0x8f, 0]), "bits 0–3 and 7");
        assert_eq!(show(&[0, 0], &[0x55, 0x01]), "5 bits");
        assert_eq!(show(&[7], &[7]), "");
        let mut wide = [0; 16];
        wide[8..12].fill(1);
        assert_eq!(show(&[0; 16], &wide), "bytes 8–11");
    }

    #[test]
    fn bit_fields_get_their_values_across_bytes() {
        let all = [
            field("busy", 0, 1),
            field("count", 6, 4),
            field("past", 14, 8),
        ];
        let changed = fields(&values(&[0x41, 0x00], &[0x41, 0x03]), &all);
        assert_eq!(changed[0].values, Some((1, 1)));
        assert!(!changed[0].changed);
        assert_eq!(changed[1].values, Some((1, 13)));
        assert!(changed[1].changed);
        assert_eq!(changed[2].values, None);
    }

    #[test]
    fn bits_of_no_field_are_told_apart() {
        let all = [field("low", 0, 4)];
        let style = Style::default();
        assert_eq!(
            changed_outside(&values(&[0], &[0x21]), &all, &style),
            "bit 5"
        );
        assert_eq!(changed_outside(&values(&[0], &[0x01]), &all, &style), "");
        let huge = [field("x", u32::MAX, u32::MAX)];
        assert_eq!(changed_outside(&values(&[0], &[1]), &huge, &style), "bit 0");
    }
}
