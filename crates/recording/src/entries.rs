//! The entries of a thread, each with its number and values.

use crate::blocks::{Source, unpack};
use crate::container::Placed;
use crate::wire::{ENTRY_SIZE, Entry, Kind};

/// An entry has no more values.
pub const MOST_VALUES: usize = 8;

/// An entry with what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The entry.
    pub entry: Entry,
    /// Its number, if it is a sequencer.
    pub number: Option<u64>,
    values: [u64; MOST_VALUES],
    count: u8,
}

impl Item {
    /// An entry with its number and values. Values beyond [`MOST_VALUES`] are dropped.
    #[must_use]
    pub fn new(entry: Entry, number: Option<u64>, values: &[u64]) -> Self {
        let mut item = Self {
            entry,
            number,
            values: [0; MOST_VALUES],
            count: 0,
        };
        for (index, value) in values.iter().enumerate() {
            item.set(index, *value);
        }
        item
    }

    /// A value of it.
    #[must_use]
    pub fn value(&self, index: usize) -> Option<u64> {
        self.values().get(index).copied()
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values[..usize::from(self.count)]
    }

    /// How many bytes an access has.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self.entry.size {
            0 => self.value(0).unwrap_or(0),
            size => u64::from(size),
        }
    }

    fn set(&mut self, index: usize, value: u64) {
        if let Some(place) = self.values.get_mut(index) {
            *place = value;
            self.count = self.count.max(index as u8 + 1);
        }
    }

    /// The entries that it is written as.
    #[must_use]
    pub fn to_entries(&self) -> Vec<Entry> {
        let plain = |kind, size, word| Entry {
            kind,
            size,
            address: 0,
            word,
        };
        let number = self.number.map(|number| plain(Kind::Number, 0, number));
        let values = self.values().iter().enumerate();
        let values = values.map(|(index, value)| plain(Kind::Value, index as u8, *value));
        number
            .into_iter()
            .chain([self.entry])
            .chain(values)
            .collect()
    }
}

/// The entries of a thread. After an error there are no more.
pub struct Entries<'a> {
    source: &'a dyn Source,
    pieces: std::slice::Iter<'a, Placed>,
    piece: Vec<u8>,
    at: usize,
    /// The entry after the last that was given.
    next: Option<Entry>,
    failed: Option<String>,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(source: &'a dyn Source, pieces: &'a [Placed]) -> Self {
        Self {
            source,
            pieces: pieces.iter(),
            piece: Vec::new(),
            at: 0,
            next: None,
            failed: None,
        }
    }

    /// The next entry as it is in the file.
    fn raw(&mut self) -> Option<Entry> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        while self.at >= self.piece.len() {
            let Some(piece) = self.pieces.next() else {
                // Threads that have ended need no memory.
                self.piece = Vec::new();
                self.at = 0;
                return None;
            };
            self.at = 0;
            if let Err(why) = unpack(self.source, *piece, &mut self.piece) {
                return self.fail(why);
            }
        }
        let bytes = self.piece.get(self.at..)?.first_chunk::<ENTRY_SIZE>()?;
        self.at += ENTRY_SIZE;
        match Entry::unpack(*bytes) {
            Some(entry) => Some(entry),
            None => self.fail("it has an entry of an unknown kind".into()),
        }
    }

    fn fail(&mut self, why: String) -> Option<Entry> {
        self.failed = Some(why);
        self.piece = Vec::new();
        self.at = 0;
        self.pieces = [].iter();
        None
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Item, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut number = None;
        let entry = loop {
            match self.raw() {
                None => return self.failed.take().map(Err),
                Some(entry) => match entry.kind {
                    Kind::Number => number = Some(entry.word),
                    // Its entry was lost.
                    Kind::Value => {}
                    _ => break entry,
                },
            }
        };
        let mut item = Item::new(entry, number, &[]);
        while let Some(value) = self.raw() {
            if value.kind != Kind::Value {
                self.next = Some(value);
                break;
            }
            item.set(usize::from(value.size), value.word);
        }
        Some(Ok(item))
    }
}
