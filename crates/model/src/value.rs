//! Values as people read them, and the blocks that they lie in.

use crate::notation;
use serde::{Deserialize, Serialize};

/// What one access read or wrote, of the bytes that both sides touch. For a write of the
/// held thread, which comes later, it is what it is about to write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccessValue {
    /// The bytes.
    #[serde(with = "notation::memory")]
    pub bytes: Vec<u8>,
    /// What they mean in their type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<String>,
}

/// A value before and after, in the terms of its type: `IDLE`, `true`, `&table`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Typed {
    /// Before the other access.
    pub before: String,
    /// After it.
    pub after: String,
}

/// A block of an allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Where it starts.
    #[serde(with = "notation::address")]
    pub address: u64,
    /// How many bytes of it the program may use: what it asked for, rounded up.
    pub size: u64,
}

impl Block {
    /// How far into the block an address is, if it is in it.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.address)?;
        (offset < self.size).then_some(offset)
    }
}
