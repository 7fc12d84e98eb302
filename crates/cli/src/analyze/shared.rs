//! Which memory more than one thread touches. Everything else can neither race nor order
//! anything, and is most of what a program does.

use super::allowance::Allowance;
use redhanded_model::{Avma, Bytes};
use redhanded_recording::translate::accessed;
use redhanded_recording::wire::{Function, Kind};
use redhanded_recording::{Item, Process, Recording, became_another};
use redhanded_report::Progress;
use std::collections::HashMap;

/// The words of a page.
const WORDS: usize = 512;

/// As many pages are kept track of: a gigabyte of notes about four of memory.
const MOST_PAGES: usize = 1 << 20;

/// What is noted of a word that several threads touched.
const SHARED: u16 = u16::MAX;

/// A longer access is cut off, as it is when it is translated.
const LONGEST: u64 = 1 << 20;

/// The words that are shared.
#[derive(Default)]
pub struct Shared {
    /// For each word who touched it: nobody (0), one thread, or several.
    pages: HashMap<u64, Box<[u16; WORDS]>>,
    is_full: bool,
    became_another: bool,
}

impl Shared {
    /// Goes through what all threads of a process did.
    pub fn of(
        recording: &Recording,
        process: &Process,
        progress: &Progress,
        allowance: &mut Allowance,
    ) -> Self {
        let mut shared = Self::default();
        let mut next = 0u16;
        let mut all_last = Vec::new();
        // What the threads did last is looked for even if no more can be kept of their memory.
        let mut is_noting = true;
        'threads: for thread in process.threads() {
            next = next.saturating_add(1).min(SHARED - 1);
            let mut last = None;
            let mut calling = None;
            // What is damaged ends the analysis, too.
            for item in recording.entries(thread).map_while(Result::ok) {
                progress.advance(16);
                if item.number.is_some() {
                    last = Some(item);
                }
                if item.entry.kind == Kind::Start {
                    // Another thread with the same number.
                    next = next.saturating_add(1).min(SHARED - 1);
                }
                let freed = freed(&item);
                for bytes in accessed(&item, None, &mut calling).1.chain(freed) {
                    let length = bytes.len.min(LONGEST);
                    // A page of notes is about 4096 bytes.
                    if is_noting && !allowance.allows_half(1 + length / 4096) {
                        shared.is_full = true;
                        is_noting = false;
                    }
                    if is_noting {
                        shared.touch(bytes.start.0, length, next);
                    } else if !allowance.allows(1) {
                        // Then nothing else is analysed either.
                        break 'threads;
                    }
                }
            }
            all_last.extend(last);
        }
        shared.became_another = became_another(&all_last);
        shared.pages.retain(|_, words| words.contains(&SHARED));
        shared.pages.shrink_to_fit();
        shared
    }

    fn touch(&mut self, address: u64, length: u64, thread: u16) {
        if length == 0 {
            return;
        }
        let last = address.saturating_add(length - 1) / 8;
        for word in address / 8..=last {
            let page = word / WORDS as u64;
            if self.pages.len() >= MOST_PAGES && !self.pages.contains_key(&page) {
                self.is_full = true;
                return;
            }
            let words = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; WORDS]));
            let noted = &mut words[(word % WORDS as u64) as usize];
            if *noted == 0 {
                *noted = thread;
            } else if *noted != thread || thread == SHARED - 1 {
                *noted = SHARED;
            }
        }
    }

    /// Whether the process became another program before its end.
    pub const fn became_another(&self) -> bool {
        self.became_another
    }

    /// Whether there was more memory than can be kept track of.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether any of these bytes is shared.
    pub fn has(&self, bytes: Bytes) -> bool {
        let last = bytes.end().saturating_sub(1) / 8;
        (bytes.start.0 / 8..=last).any(|word| {
            let words = self.pages.get(&(word / WORDS as u64));
            words.is_some_and(|words| words[(word % WORDS as u64) as usize] == SHARED)
        })
    }
}

/// The first word of a block that an item gives back. How long the block is is not known here.
fn freed(item: &Item) -> Option<Bytes> {
    let is_free = item.entry.kind == Kind::Call && item.entry.address == Function::Free as u64;
    let block = item.value(0).filter(|block| is_free && *block != 0)?;
    Some(Bytes::new(Avma(block), 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_recording::wire::{ChunkKind, Entry};
    use redhanded_recording::{Ending, Header, Writer};
    use redhanded_report::Shown;
    use std::path::Path;

    /// The second thread executes another program, and there is no memory for notes of the first.
    #[test]
    fn what_threads_did_last_is_known_without_room_for_notes() {
        let item = |kind, size, address, number| {
            let entry = Entry {
                kind,
                size,
                address,
                word: 1,
            };
            Item::new(entry, number, &[])
        };
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for (thread, last) in [
            (1, item(Kind::Fence, 0, 0, Some(4))),
            (2, item(Kind::SystemCall, 0, 59, Some(3))),
        ] {
            let mut items = vec![item(Kind::Start, 0, 0, Some(u64::from(thread)))];
            items.extend((0..1 << 17).map(|at| item(Kind::Write, 8, 0x50_0000 + at * 8, None)));
            items.push(last);
            let entries = items.iter().flat_map(Item::to_entries);
            let bytes: Vec<u8> = entries.flat_map(Entry::pack).collect();
            for piece in bytes.chunks(1 << 20) {
                let kind = ChunkKind::Entries;
                writer.append(1, kind, thread, piece).unwrap();
            }
        }
        let bytes = writer.finish(&Ending::default()).unwrap();
        let recording = Recording::read(Box::new(bytes), Path::new("r")).unwrap();
        let process = &recording.processes()[0];
        let progress = Progress::bytes(Shown::Nothing, "", 1);
        // Half of it is taken already, and all of it never, whatever other tests do.
        let taken = vec![1u8; 64 << 20];
        let mut allowance = Allowance::of_memory(redhanded_sys::own_memory() * 3 / 2);
        let shared = Shared::of(&recording, process, &progress, &mut allowance);
        assert!(shared.is_full() && allowance.spent().is_none());
        assert!(shared.became_another());
        drop(taken);
    }

    #[test]
    fn words_are_shared_by_whoever_touches_a_byte_of_them() {
        let mut shared = Shared::default();
        shared.touch(0x1000, 4, 1);
        shared.touch(0x1004, 8, 2);
        shared.touch(0x2ffc, 8, 1);
        shared.touch(0x3000, 1, 3);
        let has = |start, len| shared.has(Bytes::new(Avma(start), len));
        assert!(has(0x1000, 1) && has(0x1007, 1));
        assert!(!has(0x1008, 4));
        assert!(!has(0x2ff8, 8) && has(0x2ff8, 9));
        assert!(!has(0x9000, 8));
    }
}
