//! Accesses to memory: their kind, their bytes, and when two of them conflict.

use crate::Avma;
use serde::{Deserialize, Serialize};

/// What an access does to its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessKind {
    /// Reads them.
    Read,
    /// Overwrites them without looking.
    Write,
    /// Reads them and writes them back in one instruction (`add [m], 1`).
    Update,
}

impl AccessKind {
    /// Whether the bytes may be different afterwards.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether the bytes' old value matters.
    #[must_use]
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }

    /// Whether two accesses of these kinds to the same byte conflict: at least
    /// one of them writes.
    #[must_use]
    pub const fn conflicts(self, other: Self) -> bool {
        self.writes() || other.writes()
    }

    /// The kind as reports print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Update => "update",
        }
    }
}

/// A run of bytes in the target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Bytes {
    /// Where it starts.
    pub start: Avma,
    /// How many bytes it has.
    pub len: u64,
}

impl Bytes {
    /// The run of `len` bytes from `start`.
    #[must_use]
    pub const fn new(start: Avma, len: u64) -> Self {
        Self { start, len }
    }

    /// One past the last byte. Saturates: nothing accesses across the top of
    /// the address space.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.0.saturating_add(self.len)
    }

    /// Whether the two runs share a byte.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }

    /// The bytes the two runs share.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.0.max(other.start.0);
        let end = self.end().min(other.end());
        (start < end).then(|| Self::new(Avma(start), end - start))
    }

    /// Whether a run of this length at this place can be one atomic access:
    /// a power of two up to eight bytes, aligned to itself.
    #[must_use]
    pub const fn is_natural(self) -> bool {
        matches!(self.len, 1 | 2 | 4 | 8) && self.start.0.is_multiple_of(self.len)
    }
}

/// Covers `bytes` with pieces a debug register can watch: 1, 2, 4 or 8 bytes,
/// each aligned to its length, at most `limit` of them.
///
/// With few registers the cover may be a superset (one aligned 8-byte piece over
/// an odd-sized run), never less than the run; whoever is hit confirms the exact
/// bytes. `None` when even the coarsest cover needs more than `limit` pieces.
#[must_use]
pub fn pieces(bytes: Bytes, limit: usize) -> Option<Vec<Bytes>> {
    if bytes.len == 0 || bytes.start.0.checked_add(bytes.len).is_none() {
        return None;
    }
    let mut cover = Vec::new();
    let mut at = bytes.start.0;
    let end = bytes.end();
    while at < end {
        // The largest aligned piece that stays inside keeps the cover exact;
        let inside = [8u64, 4, 2, 1]
            .into_iter()
            .find(|size| at.is_multiple_of(*size) && *size <= end - at)
            .unwrap_or(1);
        cover.push(Bytes::new(Avma(at), inside));
        at += inside;
    }
    if cover.len() > limit {
        // ... and where that takes too many, whole aligned words do.
        let first = bytes.start.0 & !7;
        cover = (first..end)
            .step_by(8)
            .map(|word| Bytes::new(Avma(word), 8))
            .collect();
        shrink_ends(&mut cover, bytes);
    }
    (cover.len() <= limit).then_some(cover)
}

/// Narrows the first and last word of a coarse cover to the smallest aligned
/// piece that still holds what is wanted of it, so fewer neighbours are watched.
fn shrink_ends(cover: &mut [Bytes], wanted: Bytes) {
    for piece in cover {
        while piece.len > 1 {
            let half = piece.len / 2;
            let Some(part) = piece.intersection(wanted) else {
                break;
            };
            if part.end() <= piece.start.0 + half {
                piece.len = half;
            } else if part.start.0 >= piece.start.0 + half {
                *piece = Bytes::new(Avma(piece.start.0 + half), half);
            } else {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_reads_do_not_conflict() {
        use AccessKind::{Read, Update, Write};
        assert!(!Read.conflicts(Read));
        for kind in [Read, Write, Update] {
            assert!(kind.conflicts(Write) && Write.conflicts(kind));
            assert!(kind.conflicts(Update) && Update.conflicts(kind));
        }
    }

    #[test]
    fn an_unaligned_word_takes_two_registers_and_no_more() {
        let cover = pieces(Bytes::new(Avma(0x1003), 8), 4).unwrap();
        assert!(cover.len() <= 4);
        let coarse = pieces(Bytes::new(Avma(0x1003), 8), 2).unwrap();
        assert_eq!(
            coarse,
            [Bytes::new(Avma(0x1000), 8), Bytes::new(Avma(0x1008), 4)]
        );
    }

    #[test]
    fn thirty_two_unaligned_bytes_do_not_fit_four_registers() {
        assert!(pieces(Bytes::new(Avma(0x1001), 32), 4).is_none());
        assert_eq!(pieces(Bytes::new(Avma(0x1000), 32), 4).unwrap().len(), 4);
    }

    proptest! {
        #[test]
        fn a_cover_holds_every_byte_and_each_piece_is_watchable(
            start in prop_oneof![0u64..0x7fff_ffff_f000, u64::MAX - 80..u64::MAX],
            len in 1u64..64, limit in 1usize..9
        ) {
            let len = len.min(u64::MAX - start);
            let bytes = Bytes::new(Avma(start), len);
            if let Some(cover) = pieces(bytes, limit) {
                prop_assert!(cover.len() <= limit);
                for piece in &cover {
                    prop_assert!(piece.is_natural());
                    prop_assert!(piece.overlaps(bytes));
                }
                for byte in start..start + len {
                    prop_assert!(cover.iter().any(|p| p.overlaps(Bytes::new(Avma(byte), 1))));
                }
            }
        }

        #[test]
        fn overlap_is_symmetric_and_agrees_with_intersection(
            a in 0u64..64, la in 1u64..40, b in 0u64..64, lb in 1u64..40
        ) {
            let (x, y) = (Bytes::new(Avma(a), la), Bytes::new(Avma(b), lb));
            prop_assert_eq!(x.overlaps(y), y.overlaps(x));
            prop_assert_eq!(x.overlaps(y), x.intersection(y).is_some());
        }
    }
}
