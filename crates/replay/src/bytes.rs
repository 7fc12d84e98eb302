//! Arrays of bytes that serialise as one piece: pages and vector registers.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// `N` bytes. Serde handles arrays of up to 32 elements only, and one by one.
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl<const N: usize> Serialize for Bytes<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Bytes<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Exactly::<N>)
    }
}

struct Exactly<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for Exactly<N> {
    type Value = Bytes<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{N} bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        let array = bytes
            .try_into()
            .map_err(|_| E::invalid_length(bytes.len(), &self))?;
        Ok(Bytes(array))
    }

    // JSON has no bytes, only lists of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut bytes = Bytes::default();
        for (at, byte) in bytes.0.iter_mut().enumerate() {
            let next = list.next_element()?;
            *byte = next.ok_or_else(|| A::Error::invalid_length(at, &self))?;
        }
        match list.next_element::<u8>()? {
            None => Ok(bytes),
            Some(_) => Err(A::Error::invalid_length(N + 1, &self)),
        }
    }
}
