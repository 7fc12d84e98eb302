//! Damaging files in ways that parsers do not expect.

use super::seeds::Seed;

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

/// One damaged file.
pub fn mutant(seeds: &[Seed], random: &mut Random) -> Vec<u8> {
    let Some(seed) = random.pick(seeds) else {
        return Vec::new();
    };
    let mut bytes = seed.bytes.clone();
    let count = 1 + random.below(8);
    for _ in 0..count {
        // A part is drawn first, however small it is, then a place in it.
        let Some((_, part)) = random.pick(&seed.parts).cloned() else {
            break;
        };
        let at = part.start + random.below(part.len());
        change(&mut bytes, at, random);
        if random.below(6) == 0
            && let Some(other) = random.pick(seeds)
        {
            splice(&mut bytes, at, &other.bytes, random);
        }
    }
    if random.below(24) == 0 {
        bytes.truncate(random.below(bytes.len() + 1));
    }
    bytes
}

/// Damages a few bytes at one place.
pub fn change(bytes: &mut [u8], at: usize, random: &mut Random) {
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

/// Copies some bytes of `from` to `at`.
fn splice(bytes: &mut [u8], at: usize, from: &[u8], random: &mut Random) {
    let start = random.below(from.len());
    let len = 1 + random.below(256);
    let piece = from.iter().skip(start).take(len);
    for (byte, new) in bytes.iter_mut().skip(at).zip(piece) {
        *byte = *new;
    }
}

fn overwrite(tail: &mut [u8], with: &[u8]) {
    for (byte, new) in tail.iter_mut().zip(with) {
        *byte = *new;
    }
}
