//! How a document writes what JSON has no notation for: addresses, bytes and
//! seconds. For `#[serde(with = …)]`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Writes an object whose keys are spelled out, in this order. A key after
/// `some` is left out where its value is `None`.
macro_rules! object {
    ($out:expr, { $($($some:ident)? $key:literal: $value:expr,)* }) => {{
        use serde::ser::SerializeMap;
        let mut object = $out.serialize_map(None)?;
        $(object!(@entry object, $($some)? $key, $value);)*
        object.end()
    }};
    (@entry $object:ident, some $key:literal, $value:expr) => {
        if let Some(value) = &$value {
            $object.serialize_entry($key, value)?;
        }
    };
    (@entry $object:ident, $key:literal, $value:expr) => {
        $object.serialize_entry($key, &$value)?;
    };
}
pub(crate) use object;

/// Addresses are strings, `"0x1f00"`: half of JSON's readers keep numbers as
/// doubles, which cannot hold them.
pub mod address {
    use super::{Deserialize, Deserializer, Error};
    use serde::Serializer;

    pub fn serialize<S: Serializer>(
        address: &(impl Into<u64> + Copy),
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_str(&format_args!("{:#x}", (*address).into()))
    }

    pub fn deserialize<'de, T: From<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let number = u64::from_str_radix(digits, 16);
        number.map(T::from).map_err(|_| {
            let what = format!("{text:?} is no address: 0x and hexadecimal digits are expected");
            D::Error::custom(what)
        })
    }
}

/// Bytes as they lie in memory, two digits each: unambiguous at any length.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`hexadecimal`] wrote.
pub fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let byte = |pair: &[u8]| {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        u8::try_from(digit(0)? << 4 | digit(1)?).ok()
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| {
        D::Error::custom(format!(
            "{text:?} are no bytes: pairs of hexadecimal digits are expected"
        ))
    })
}

/// [`hexadecimal`], for what is written and read alike.
pub mod memory {
    use super::{Deserializer, hexadecimal};
    use serde::Serializer;

    pub fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&hexadecimal(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        super::bytes(from)
    }
}

/// A number of seconds to the microsecond, which is finer than anything measured
/// here; more digits would be noise in a diff. JSON has no infinity and no NaN:
/// they become 0.
#[must_use]
pub fn rounded(seconds: f64) -> f64 {
    let rounded = (seconds * 1e6).round() / 1e6;
    if rounded.is_finite() { rounded } else { 0.0 }
}

/// Seconds, [`rounded`].
pub mod seconds {
    use super::{Deserialize, Deserializer, rounded};
    use serde::Serializer;

    pub fn serialize<S: Serializer>(seconds: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_f64(rounded(*seconds))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        f64::deserialize(from)
    }
}
