//! The names of symbols, their number, and the markers.

use super::super::{KernelFileError, u32_at, u64_at};
use super::tokens::Tokens;
use super::{ALIGNMENTS, aligned, is_padding};
use std::cmp::Reverse;

/// There is a marker for every so many names.
const STRIDE: usize = 256;

/// The kernel itself allows at most 512 bytes.
const MAX_NAME: usize = 4096;

/// How much longer than the file the unpacked names may be. Usually they are two or three
/// times as long as their table.
const MAX_GROWTH: usize = 8;

/// The names, found in a segment.
#[derive(Debug)]
pub struct Names {
    /// Where their number is, and where they begin.
    pub number: usize,
    first: usize,
    /// How many they are.
    pub count: usize,
}

/// How many candidates are tried. The more names one has, the more markers confirm it, and
/// in a kernel no wrong one comes close.
const MAX_CANDIDATES: usize = 16;

/// Candidates for the names that belong to `tokens`, those with the most names first: a
/// number, that many names, and matching markers. Up to 256 names have a single marker, which
/// is 0, and other bytes can look like that; then only the kinds and addresses decide.
pub fn find(data: &[u8], tokens: &Tokens) -> Vec<Names> {
    let before = data.get(..tokens.table).unwrap_or_default();
    // Most positions that look like a number lead to a few steps over names. In a hostile
    // file the steps could be endless.
    let mut steps = data.len().saturating_mul(4);
    let places = |alignment| (0..before.len()).step_by(alignment);
    let places = ALIGNMENTS.map(|alignment| places(alignment).map(move |at| (at, alignment)));
    let mut found: Vec<Names> = places
        .into_iter()
        .flatten()
        .filter_map(|(number, alignment)| candidate(before, number, alignment, &mut steps))
        .collect();
    found.sort_by_key(|names| Reverse(names.count));
    found.truncate(MAX_CANDIDATES);
    found
}

/// The names whose number is at `number`, in tables of this alignment.
fn candidate(data: &[u8], number: usize, alignment: usize, steps: &mut usize) -> Option<Names> {
    // It has 4 bytes and padding up to 8, or 8 bytes, which looks the same.
    let count = match alignment {
        8 => u64_at(data, number)?,
        _ => u32_at(data, number)?.into(),
    };
    let count = usize::try_from(count).ok()?;
    // Each name takes at least two bytes.
    if count == 0 || count > (data.len() - number) / 2 {
        return None;
    }
    let first = number + alignment;
    let mut at = first;
    let mut marks = Vec::new();
    for name in 0..count {
        *steps = steps.checked_sub(1)?;
        if name % STRIDE == 0 {
            marks.push(at - first);
        }
        at = name_at(data, at)?.1;
    }
    let markers = aligned(at, alignment);
    // Since 4.20 a marker has 4 bytes.
    let narrow = |nth: usize| u32_at(data, markers + 4 * nth).map(u64::from);
    let wide = |nth: usize| u64_at(data, markers + 8 * nth);
    let agree = |marker: &dyn Fn(usize) -> Option<u64>| {
        let mut told = marks.iter().enumerate();
        told.all(|(nth, mark)| marker(nth) == Some(*mark as u64))
    };
    (is_padding(data, at, markers) && (agree(&narrow) || agree(&wide))).then_some(Names {
        number,
        first,
        count,
    })
}

/// The tokens of the name at `at`, and where the next begins.
fn name_at(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let low = usize::from(*data.get(at)?);
    // Since 6.1 a length above 127 takes two bytes.
    let (len, start) = if low & 0x80 == 0 {
        (low, at + 1)
    } else {
        let high = usize::from(*data.get(at + 1)?);
        (low & 0x7f | high << 7, at + 2)
    };
    let end = start + len;
    let tokens = data.get(start..end)?;
    (len > 0).then_some((tokens, end))
}

impl Names {
    /// The kinds and names themselves.
    pub fn expand(
        &self,
        data: &[u8],
        tokens: &Tokens,
    ) -> Result<Vec<(char, String)>, KernelFileError> {
        let wrong = |why| KernelFileError::malformed("table of symbol names", why);
        let mut budget = data.len().saturating_mul(MAX_GROWTH);
        let mut names = Vec::new();
        let mut at = self.first;
        for _ in 0..self.count {
            let (packed, next) = name_at(data, at).ok_or_else(|| wrong("it is cut short"))?;
            at = next;
            let mut bytes = packed.iter().flat_map(|token| tokens.get(data, *token));
            let kind = bytes
                .next()
                .ok_or_else(|| wrong("a symbol has no kind"))
                .map(|byte| char::from(*byte))?;
            // Tokens are ASCII: a byte is a character.
            let name: String = bytes
                .take(MAX_NAME + 1)
                .map(|byte| char::from(*byte))
                .collect();
            if name.len() > MAX_NAME {
                return Err(wrong("a name has thousands of letters"));
            }
            budget = budget
                .checked_sub(name.len())
                .ok_or_else(|| wrong("the names are longer than the kernel"))?;
            names.push((kind, name));
        }
        Ok(names)
    }
}
