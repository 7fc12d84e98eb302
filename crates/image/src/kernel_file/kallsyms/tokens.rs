//! The 256 strings that symbol names are composed of.

use super::super::u16_at;
use super::{LEAST_ALIGNMENT, is_padding};

const COUNT: usize = 256;

/// A token is not longer than a name.
const MAX_LEN: usize = 512;

/// The token table and its index, found in a segment.
pub struct Tokens {
    /// Where the table begins.
    pub table: usize,
    /// Where the index begins, which has 512 bytes.
    pub index: usize,
    starts: [u16; COUNT],
    ends: [u16; COUNT],
}

impl Tokens {
    /// The bytes that `token` stands for.
    pub fn get<'d>(&self, data: &'d [u8], token: u8) -> &'d [u8] {
        let of = |ends: &[u16; COUNT]| self.table + usize::from(ends[usize::from(token)]);
        data.get(of(&self.starts)..of(&self.ends))
            .unwrap_or_default()
    }

    /// Where the index ends.
    pub const fn end(&self) -> usize {
        self.index + 2 * COUNT
    }
}

/// All candidates for the two tables in `data`.
pub fn find(data: &[u8]) -> impl Iterator<Item = Tokens> {
    (0..data.len())
        .step_by(LEAST_ALIGNMENT)
        .filter_map(|at| Some((at, index_at(data, at)?)))
        .filter_map(|(index, starts)| table_before(data, index, starts))
}

/// An index starts at 0 and grows by the length of each string including its terminator.
fn index_at(data: &[u8], at: usize) -> Option<[u16; COUNT]> {
    // Few positions get past the first two entries.
    let bytes = data.get(at..at.checked_add(2 * COUNT)?)?;
    let mut starts = [0; COUNT];
    let mut last = 0;
    for (number, (start, bytes)) in starts.iter_mut().zip(bytes.chunks_exact(2)).enumerate() {
        *start = u16_at(bytes, 0)?;
        let grown = usize::from(start.checked_sub(last)?);
        if (number == 0) != (grown == 0) || grown > MAX_LEN {
            return None;
        }
        last = *start;
    }
    Some(starts)
}

/// The table ends where the index begins, except for padding.
fn table_before(data: &[u8], index: usize, starts: [u16; COUNT]) -> Option<Tokens> {
    let last = usize::from(starts[COUNT - 1]);
    let latest = index.checked_sub(last + 1)? & !(LEAST_ALIGNMENT - 1);
    let earliest = latest.saturating_sub(MAX_LEN + 8);
    (earliest..=latest)
        .rev()
        .step_by(LEAST_ALIGNMENT)
        .find_map(|table| fits(data, table, index, starts))
}

fn fits(data: &[u8], table: usize, index: usize, starts: [u16; COUNT]) -> Option<Tokens> {
    let bytes = data.get(table..index)?;
    let mut ends = [0; COUNT];
    for (number, end) in ends.iter_mut().enumerate() {
        let start = usize::from(*starts.get(number)?);
        let token = bytes.get(start..)?;
        let len = token.iter().position(|byte| *byte == 0)?;
        let next = start + len + 1;
        let fits = match starts.get(number + 1) {
            Some(told) => usize::from(*told) == next,
            None => is_padding(bytes, next, bytes.len()),
        };
        if !fits || !token.iter().take(len).all(u8::is_ascii_graphic) {
            return None;
        }
        *end = u16::try_from(start + len).ok()?;
    }
    // 256 empty strings would be a run of zeros.
    (starts != ends).then_some(Tokens {
        table,
        index,
        starts,
        ends,
    })
}
