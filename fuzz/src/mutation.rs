//! Damaging files in ways that parsers do not expect.

use std::ops::Range;

/// A small deterministic generator (the finaliser of MurmurHash3 over a counter).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        value ^ (value >> 33)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

/// Numbers at the edges that checks forget.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fff0,
    0xffff_ffff_ffff_ffff,
];

/// Damages an ELF file in a few places.
pub fn damage(bytes: &mut [u8], random: &mut Random) {
    let mut parts = parts_of(bytes).unwrap_or_default();
    parts.push(0..64);
    parts.retain(|part| !part.is_empty() && part.end <= bytes.len());
    for _ in 0..=random.below(4) {
        // A part is drawn first, however small it is, then a place in it.
        let Some(part) = random.pick(&parts).cloned() else {
            break;
        };
        let at = part.start + random.below(part.len());
        change(bytes, at, random);
    }
}

/// Damages a few bytes at one place.
fn change(bytes: &mut [u8], at: usize, random: &mut Random) {
    let Some(tail) = bytes.get_mut(at..) else {
        return;
    };
    match random.below(7) {
        0 => {
            if let Some(byte) = tail.first_mut() {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = tail.first_mut() {
                *byte = random.next().to_le_bytes()[0];
            }
        }
        2 | 3 => {
            // An edge, in one of the sizes that tables use.
            let edge = random.pick(&EDGES).copied().unwrap_or(0);
            let size = [1, 2, 4, 8][random.below(4)];
            overwrite(tail, &edge.to_le_bytes()[..size]);
        }
        4 => {
            // A little more or less than there was: off by one, and by a few.
            let size = [2, 4, 8][random.below(3)];
            if let Some(field) = tail.get(..size) {
                let mut number = [0; 8];
                number[..size].copy_from_slice(field);
                let by = random.below(33) as u64;
                let moved = u64::from_le_bytes(number).wrapping_add(by).wrapping_sub(16);
                overwrite(tail, &moved.to_le_bytes()[..size]);
            }
        }
        5 => {
            // A variable-length number that does not end where it should.
            let len = 1 + random.below(12);
            overwrite(tail, &vec![0xff; len]);
        }
        _ => {
            let len = 1 + random.below(64);
            let fill = [0, 0xff, 0x80, 0x90][random.below(4)];
            overwrite(tail, &vec![fill; len]);
        }
    }
}

fn overwrite(tail: &mut [u8], with: &[u8]) {
    for (byte, new) in tail.iter_mut().zip(with) {
        *byte = *new;
    }
}

/// The places of header tables and sections, as far as the headers can be believed.
fn parts_of(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    const NOBITS: usize = 8;
    let number = |at: usize, size: usize| -> Option<usize> {
        let mut value = [0; 8];
        let field = bytes.get(at..at.checked_add(size)?)?;
        value.get_mut(..size)?.copy_from_slice(field);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let table = |start: usize, len: usize| Some(start..start.checked_add(len)?);
    let (segments, sections) = (number(32, 8)?, number(40, 8)?);
    let mut parts = vec![table(segments, 56 * number(56, 2)?)?];
    let count = number(60, 2)?;
    parts.push(table(sections, 64 * count)?);
    for index in 0..count {
        let header = sections.checked_add(64 * index)?;
        let Some(kind) = number(header.checked_add(4)?, 4) else {
            break;
        };
        let (start, size) = (number(header + 24, 8)?, number(header + 32, 8)?);
        if kind != NOBITS
            && let Some(end) = start.checked_add(size)
        {
            parts.push(start..end);
        }
    }
    Some(parts)
}
