//! Paths in JSON. A path is bytes and need not be UTF-8: where it is not, it is
//! written as a list of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let path: &OsStr = path.as_ref();
    match path.to_str() {
        Some(text) => to.serialize_str(text),
        None => path.as_bytes().serialize(to),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::Text(text) => PathBuf::from(text),
        Written::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
    })
}

/// A path, or why there is none.
pub mod or_error {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Named(#[serde(with = "super")] PathBuf);

    type OrError = Result<PathBuf, String>;

    pub fn serialize<S: Serializer>(path: &OrError, to: S) -> Result<S::Ok, S::Error> {
        path.clone().map(Named).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OrError, D::Error> {
        let named = Result::<Named, String>::deserialize(from)?;
        Ok(named.map(|Named(path)| path))
    }
}
