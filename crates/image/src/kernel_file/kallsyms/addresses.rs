//! The addresses of symbols.

use super::super::{u32_at, u64_at};
use super::names::Names;
use super::tokens::Tokens;
use super::{ALIGNMENTS, Loaded, aligned};
use std::ops::Range;

/// How an address is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    /// Absolute, in 8 bytes.
    Whole,
    /// Relative to a base.
    Relative {
        /// The base.
        base: u64,
    },
    /// If not negative, the absolute address of a per-CPU variable; otherwise relative to a
    /// base. Used until 6.14 if the kernel supports several CPUs.
    PerCpu {
        /// The base.
        base: u64,
    },
    /// Relative to its own position.
    FromHere,
}

impl Encoding {
    const fn width(self) -> usize {
        match self {
            Self::Whole => 8,
            _ => 4,
        }
    }

    /// The address that is encoded at `at`.
    fn decode(self, part: &Loaded<'_>, at: usize) -> Option<u64> {
        if self == Self::Whole {
            return u64_at(part.data, at);
        }
        let offset = u32_at(part.data, at)?;
        let signed = i64::from(offset.cast_signed());
        Some(match self {
            Self::Whole => return None,
            Self::Relative { base } => base.wrapping_add(u64::from(offset)),
            Self::PerCpu { .. } if signed >= 0 => u64::from(offset),
            Self::PerCpu { base } => base.wrapping_sub(1).wrapping_add_signed(-signed),
            Self::FromHere => part
                .address
                .wrapping_add(at as u64)
                .wrapping_add_signed(signed),
        })
    }
}

/// The addresses of `names`, at the position and in the encoding that make sense.
pub fn find(
    part: &Loaded<'_>,
    tokens: &Tokens,
    names: &Names,
    expanded: &[(char, String)],
    code: &[Range<u64>],
) -> Option<Vec<u64>> {
    let offsets_size = aligned(names.count.checked_mul(4)?, 8);
    let mut places = Vec::new();
    // Until 6.3: addresses or offsets, base, number, names, markers, tokens.
    if let Some(at) = names.number.checked_sub(names.count.checked_mul(8)?) {
        places.push((at, Encoding::Whole));
    }
    if let Some(base_at) = names.number.checked_sub(8)
        && let Some(at) = base_at.checked_sub(offsets_size)
        && let Some(base) = u64_at(part.data, base_at)
    {
        places.extend([
            (at, Encoding::PerCpu { base }),
            (at, Encoding::Relative { base }),
        ]);
    }
    // Since 6.4: addresses come last, followed by the base if there is one.
    for alignment in ALIGNMENTS {
        let at = aligned(tokens.end(), alignment);
        places.extend([(at, Encoding::Whole), (at, Encoding::FromHere)]);
    }
    let at = aligned(tokens.end(), 8);
    if let Some(base) = u64_at(part.data, at.checked_add(offsets_size)?) {
        places.extend([
            (at, Encoding::PerCpu { base }),
            (at, Encoding::Relative { base }),
        ]);
    }
    places
        .into_iter()
        .find_map(|(at, encoding)| read(part, at, encoding, expanded, code))
}

/// The addresses at `at`, if they are sorted and symbols of code are in code.
fn read(
    part: &Loaded<'_>,
    at: usize,
    encoding: Encoding,
    expanded: &[(char, String)],
    code: &[Range<u64>],
) -> Option<Vec<u64>> {
    let mut addresses = Vec::new();
    let (mut functions, mut misplaced, mut last) = (0, 0, 0);
    for (nth, (kind, _)) in expanded.iter().enumerate() {
        let address = encoding.decode(part, at.checked_add(encoding.width() * nth)?)?;
        if address < last {
            return None;
        }
        last = address;
        addresses.push(address);
        if matches!(kind, 'T' | 't') {
            functions += 1;
            misplaced += usize::from(!is_code(code, address));
        }
    }
    // Labels at the ends of sections count as code, too.
    (functions > 0 && misplaced * 10 <= functions).then_some(addresses)
}

fn is_code(code: &[Range<u64>], address: u64) -> bool {
    let after = code.partition_point(|range| range.start <= address);
    after
        .checked_sub(1)
        .and_then(|nth| code.get(nth))
        // A label at the end belongs to it.
        .is_some_and(|range| address <= range.end)
}
