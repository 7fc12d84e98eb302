//! Shadow memory: something kept for each word of the program's memory.
//!
//! Words are in small pages, so that an access to a page that was seen before allocates nothing
//! and an untouched page costs nothing. The page of the latest access is remembered, because
//! the next access is often to the same one.

use redhanded_model::{Avma, Bytes};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// The bytes of a word.
const WORD: u64 = 8;
/// The words of a page.
const PAGE: usize = 64;
/// The longest access that is followed whole. Real ones are far shorter; a damaged recording may
/// claim anything.
const LONGEST: u64 = 1 << 24;

/// What is kept for a word.
pub trait Word: Default {
    /// Forgets the bytes of the mask.
    fn forget(&mut self, mask: u8);
}

/// Something for each word, made on first use.
pub struct Shadow<W> {
    pages: HashMap<u64, u32, QuickHash>,
    words: Vec<[W; PAGE]>,
    latest: (u64, u32),
}

impl<W> Default for Shadow<W> {
    fn default() -> Self {
        Self {
            pages: HashMap::default(),
            words: Vec::new(),
            latest: (u64::MAX, 0),
        }
    }
}

impl<W: Word> Shadow<W> {
    /// The word at this address.
    pub fn word(&mut self, address: u64) -> &mut W {
        let (page, index) = split(address);
        if self.latest.0 != page {
            let words = &mut self.words;
            let at = *self.pages.entry(page).or_insert_with(|| {
                words.push(std::array::from_fn(|_| W::default()));
                u32::try_from(words.len() - 1).expect("fewer pages than fit into memory")
            });
            self.latest = (page, at);
        }
        &mut self.words[self.latest.1 as usize][index]
    }

    /// The word at this address, if any word near it was ever used.
    pub fn existing(&mut self, address: u64) -> Option<&mut W> {
        let (page, index) = split(address);
        if self.latest.0 != page {
            self.latest = (page, *self.pages.get(&page)?);
        }
        Some(&mut self.words[self.latest.1 as usize][index])
    }

    /// Forgets these bytes.
    pub fn forget(&mut self, bytes: Bytes) {
        let size = WORD * PAGE as u64;
        let (first, end) = (bytes.start.0 / size, bytes.end().div_ceil(size));
        if end.saturating_sub(first) <= self.pages.len() as u64 {
            for page in first..end {
                if let Some(at) = self.pages.get(&page) {
                    forget_in(&mut self.words[*at as usize], page, bytes);
                }
            }
        } else {
            for (page, at) in self
                .pages
                .iter()
                .filter(|(page, _)| (first..end).contains(*page))
            {
                forget_in(&mut self.words[*at as usize], *page, bytes);
            }
        }
    }
}

fn forget_in<W: Word>(words: &mut [W; PAGE], page: u64, bytes: Bytes) {
    let size = WORD * PAGE as u64;
    let whole = Bytes::new(Avma(page * size), size);
    if let Some(part) = whole.intersection(bytes) {
        for (address, mask) in words_of(part) {
            words[split(address).1].forget(mask);
        }
    }
}

/// The page of an address, and the word in it.
fn split(address: u64) -> (u64, usize) {
    let word = address / WORD;
    let page = PAGE as u64;
    (
        word / page,
        usize::try_from(word % page).expect("less than a page"),
    )
}

/// The words of some bytes: the address of each, and which of its bytes are meant.
pub fn words_of(bytes: Bytes) -> impl Iterator<Item = (u64, u8)> {
    let end = bytes.start.0.saturating_add(bytes.len.min(LONGEST));
    let first = bytes.start.0 / WORD;
    let past = if end == bytes.start.0 {
        first
    } else {
        (end - 1) / WORD + 1
    };
    (first..past).map(move |word| {
        let address = word * WORD;
        let low = bytes.start.0.saturating_sub(address);
        let high = (end - address).min(WORD);
        (address, (0xff_u8 << low) & (0xff_u8 >> (WORD - high)))
    })
}

/// The bytes from the first to the last of a mask.
pub fn bytes_of(address: u64, mask: u8) -> Bytes {
    let used: Range<u32> = mask.trailing_zeros()..8 - mask.leading_zeros();
    Bytes::new(Avma(address + u64::from(used.start)), used.len() as u64)
}

/// Hashes the numbers of pages and objects. They come from the recorded program, not from
/// someone who wants collisions; the standard hasher takes longer than the rest of an access.
#[derive(Default)]
pub struct QuickHasher(u64);

/// Makes [`QuickHasher`]s.
pub type QuickHash = BuildHasherDefault<QuickHasher>;

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = self.0.rotate_left(5) ^ number;
        let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(u8);

    impl Word for Seen {
        fn forget(&mut self, mask: u8) {
            self.0 &= !mask;
        }
    }

    fn at(start: u64, len: u64) -> Bytes {
        Bytes::new(Avma(start), len)
    }

    #[test]
    fn an_access_has_exactly_its_bytes() {
        for (start, len) in [
            (0x1000, 8),
            (0x1003, 1),
            (0x1006, 4),
            (0x1001, 20),
            (u64::MAX - 3, 3),
            (8, 0),
        ] {
            let mut bytes = Vec::new();
            for (address, mask) in words_of(at(start, len)) {
                bytes.extend(
                    (0..8)
                        .filter(|bit| mask >> bit & 1 == 1)
                        .map(|bit| address + bit),
                );
            }
            assert_eq!(bytes, (start..start + len).collect::<Vec<_>>());
        }
        assert_eq!(bytes_of(0x1000, 0b0011_1100), at(0x1002, 4));
    }

    #[test]
    fn what_is_forgotten_is_exactly_what_was_named() {
        for forgotten in [at(0x11fc, 8), at(0x1004, 0x1000), at(0, u64::MAX)] {
            let mut shadow = Shadow::<Seen>::default();
            for address in (0x1000..0x1400).step_by(8) {
                shadow.word(address).0 = 0xff;
            }
            shadow.forget(forgotten);
            for byte in 0x1000..0x1400 {
                let known = shadow.existing(byte).unwrap().0 >> (byte % 8) & 1 == 1;
                assert_eq!(known, !forgotten.overlaps(at(byte, 1)), "{byte:#x}");
            }
        }
        assert!(Shadow::<Seen>::default().existing(0x1000).is_none());
    }
}
