//! What is written is read back, and no damage to a file does more than shorten it.

use proptest::prelude::*;
use redhanded_recording::wire::{ChunkKind, ENTRY_SIZE, Entry, Kind};
use redhanded_recording::{Ending, Header, Item, Recording, RecordingError, Writer};
use std::collections::BTreeMap;
use std::path::Path;

/// The entries of each thread of each process.
type Threads = BTreeMap<(u32, u32), Vec<Item>>;

fn header() -> Header {
    Header {
        tool: "0.1.0".into(),
        program: "/bin/true".into(),
        arguments: vec!["-x".into()],
        folder: "/".into(),
        started: 7,
        functions: vec!["take".into()],
    }
}

fn bytes_of(items: &[Item]) -> Vec<u8> {
    let entries = items.iter().flat_map(Item::to_entries);
    entries.flat_map(Entry::pack).collect()
}

/// A file with these chunks of entries, in this order.
fn file(chunks: &[((u32, u32), Vec<Item>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let hello = br#"{"version":1,"process":40,"parent":1,"program":"/bin/true"}"#;
    writer.append(1, ChunkKind::Hello, 0, hello).unwrap();
    let module = br#"{"path":"/bin/true","start":4096,"end":8192,"offset":0,"parts":[]}"#;
    writer.append(1, ChunkKind::Module, 0, module).unwrap();
    for ((process, thread), items) in chunks {
        let bytes = bytes_of(items);
        let entries = ChunkKind::Entries;
        writer.append(*process, entries, *thread, &bytes).unwrap();
    }
    let pair = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
    let sites = [pair(1, 4100), pair(2, 4200)].concat();
    writer.append(1, ChunkKind::Sites, 0, &sites).unwrap();
    let contexts = [pair(5, 4300), pair(5 << 32 | 6, 4400), pair(8 << 32 | 7, 1)].concat();
    let contexts = [contexts, pair(7 << 32 | 8, 2)].concat();
    writer.append(1, ChunkKind::Contexts, 0, &contexts).unwrap();
    writer.append(1, ChunkKind::Name, 3, b"worker").unwrap();
    writer
        .append(1, ChunkKind::Unmapped, 0, br#"{"start":4096}"#)
        .unwrap();
    writer.append(1, ChunkKind::Goodbye, 0, b"").unwrap();
    let ending = Ending {
        status: Some(3),
        ..Ending::default()
    };
    writer.finish(&ending).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<Recording, RecordingError> {
    Recording::read(Box::new(bytes), Path::new("recording"))
}

/// What is in a recording, and whether any thread ended in damage.
fn read(recording: &Recording) -> (Threads, bool) {
    let mut threads = Threads::new();
    let mut damaged = false;
    for process in recording.processes() {
        for thread in process.threads() {
            let mut items = Vec::new();
            for item in recording.entries(thread) {
                match item {
                    Ok(item) => items.push(item),
                    Err(_) => damaged = true,
                }
            }
            threads.insert((process.number(), thread.id()), items);
        }
    }
    (threads, damaged)
}

fn joined(chunks: &[((u32, u32), Vec<Item>)]) -> Threads {
    let mut threads = Threads::new();
    for (thread, items) in chunks {
        threads.entry(*thread).or_default().extend(items);
    }
    threads.entry((1, 3)).or_default();
    threads
}

fn item() -> impl Strategy<Value = Item> {
    let kinds = [
        Kind::Read,
        Kind::Write,
        Kind::Update,
        Kind::Atomic,
        Kind::Fence,
        Kind::Call,
        Kind::SystemCall,
        Kind::Start,
    ];
    let values = prop::collection::vec(any::<u64>(), 0..7);
    let kind = prop::sample::select(kinds.to_vec());
    let number = any::<Option<u64>>();
    (
        kind,
        any::<u8>(),
        0..1u64 << 48,
        any::<u64>(),
        number,
        values,
    )
        .prop_map(|(kind, size, address, word, number, values)| {
            let entry = Entry {
                kind,
                size,
                address,
                word,
            };
            Item::new(entry, number, &values)
        })
}

fn chunks() -> impl Strategy<Value = Vec<((u32, u32), Vec<Item>)>> {
    let thread = (1..3u32, 1..5u32);
    prop::collection::vec((thread, prop::collection::vec(item(), 1..20)), 0..8)
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(chunks in chunks()) {
        let recording = open(file(&chunks)).unwrap();
        prop_assert_eq!(recording.cut_short(), None);
        prop_assert_eq!(recording.header(), &header());
        let (threads, damaged) = read(&recording);
        prop_assert_eq!(threads, joined(&chunks));
        prop_assert!(!damaged);
        let entries: usize = chunks.iter().map(|(_, items)| bytes_of(items).len() / ENTRY_SIZE).sum();
        prop_assert_eq!(recording.ending().unwrap().counts.entries, entries as u64);
    }

    /// Without its index or any other part of its end, a file has a beginning of each thread.
    #[test]
    fn a_file_that_is_cut_anywhere_is_a_prefix(chunks in chunks(), at in any::<prop::sample::Index>()) {
        let mut bytes = file(&chunks);
        bytes.truncate(at.index(bytes.len()));
        if let Ok(recording) = open(bytes) {
            let whole = joined(&chunks);
            for (thread, items) in read(&recording).0 {
                prop_assert!(whole[&thread].starts_with(&items));
            }
        }
    }

    #[test]
    fn a_changed_byte_gives_an_error_or_a_prefix(
        chunks in chunks(), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let mut bytes = file(&chunks);
        let at = at.index(bytes.len());
        let changed = bytes[at] != to;
        bytes[at] = to;
        if let Ok(recording) = open(bytes) {
            let whole = joined(&chunks);
            let (threads, damaged) = read(&recording);
            for (thread, items) in &threads {
                prop_assert!(whole[thread].starts_with(items));
            }
            let shorter = threads != whole;
            prop_assert!(changed || !shorter);
            prop_assert!(!shorter || damaged || recording.cut_short().is_some());
        }
    }

    #[test]
    fn foreign_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(open(bytes).is_err());
    }
}

#[test]
fn the_parts_of_a_process_are_found() {
    let recording = open(file(&[])).unwrap();
    let process = &recording.processes()[0];
    assert_eq!((process.hello().process, process.hello().parent), (40, 1));
    assert!(process.is_whole());
    assert_eq!(process.site(2), Some(4200));
    assert_eq!(process.site(3), None);
    assert_eq!(process.stack(6), [4400, 4300]);
    assert!(process.stack(0).is_empty());
    let module = process.module_at(5000).unwrap();
    assert_eq!(
        (module.module.path.as_str(), module.unmapped),
        ("/bin/true", true)
    );
    assert!(process.module_at(8192).is_none());
    assert_eq!(process.threads()[0].name(), Some("worker"));
    assert_eq!(recording.ending().unwrap().status, Some(3));
}

#[test]
fn a_stack_that_calls_itself_ends() {
    let recording = open(file(&[])).unwrap();
    assert!(recording.processes()[0].stack(7).len() < 1000);
}

/// Chunks are as long as the recorder likes; pieces are not.
#[test]
fn a_long_chunk_is_read_in_pieces() {
    let entry = Entry {
        kind: Kind::Call,
        size: 0,
        address: 1,
        word: 2,
    };
    let items = vec![Item::new(entry, Some(9), &[1, 2, 3]); 50_000];
    let recording = open(file(&[((1, 3), items.clone())])).unwrap();
    assert_eq!(read(&recording).0[&(1, 3)], items);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let said = |bytes: Vec<u8>| open(bytes).err().map(|why| why.to_string());
    let whole = file(&[]);
    let other = [b"redhanded-rec/9\n".as_slice(), &whole[16..]].concat();
    assert_eq!(
        said(b"\x7fELF and then some more".to_vec()).unwrap(),
        "recording is not a recording, which redhanded record writes"
    );
    assert_eq!(
        said(other).unwrap(),
        "recording is a recording of another version; record the program again"
    );
    assert_eq!(
        said(whole[..30].to_vec()).unwrap(),
        "recording is damaged: it is cut off or damaged at offset 16"
    );
    let cut = open(whole[..whole.len() - 200].to_vec()).unwrap();
    assert!(
        cut.cut_short()
            .unwrap()
            .starts_with("it is cut off or damaged at offset")
    );
}

#[test]
fn nothing_is_written_after_a_failure() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 < bytes.len() {
                self.0 = 0;
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full(400), &header()).unwrap();
    let first = writer.append(1, ChunkKind::Name, 1, &[7; 100]);
    assert!(first.is_ok());
    let noise: Vec<u8> = (0..1000u32)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    assert!(writer.append(1, ChunkKind::Name, 1, &noise).is_err());
    assert!(writer.append(1, ChunkKind::Name, 1, b"a").is_err());
}

/// What packs to a thousandth was made to unpack to gigabytes.
#[test]
fn a_recording_unpacks_to_a_multiple_of_its_size_at_most() {
    let of_chunks = |number: u32| {
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        let alike = vec![0; 4 << 20];
        for _ in 0..number {
            writer.append(1, ChunkKind::Entries, 1, &alike).unwrap();
        }
        writer.append(1, ChunkKind::Goodbye, 0, b"").unwrap();
        open(writer.finish(&Ending::default()).unwrap()).unwrap()
    };
    assert_eq!(of_chunks(63).cut_short(), None);
    let cut_short = of_chunks(65).cut_short().map(str::to_owned);
    assert!(
        cut_short
            .unwrap()
            .contains("far more than a file of its size")
    );
}
