//! What a thread needs to be replayed, read back from its entries.

use redhanded_recording::wire::{ChunkKind, Entry, Kind, check, register};
use redhanded_recording::{Ending, Header, Item, Recording, Stretch, Until, Writer};
use std::path::Path;

fn entry(kind: Kind, size: u8, address: u64, word: u64) -> Entry {
    Entry {
        kind,
        size,
        address,
        word,
    }
}

fn item(kind: Kind, size: u8, address: u64, word: u64) -> Item {
    Item::new(entry(kind, size, address, word), None, &[])
}

fn at_check(flags: u8, length: u64, count: u64, ip: u64) -> Item {
    Item::new(entry(Kind::Check, flags, length, count), None, &[ip])
}

fn code(address: u64, bytes: &[u8]) -> Vec<u8> {
    let mut all = (address | (bytes.len() as u64) << 48)
        .to_le_bytes()
        .to_vec();
    all.extend(bytes);
    all.resize(24, 0);
    all
}

fn recording(items: &[Item], code: &[u8]) -> Recording {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.append(1, ChunkKind::Hello, 0, b"{}").unwrap();
    writer.append(1, ChunkKind::Code, 0, code).unwrap();
    let bytes: Vec<u8> = items
        .iter()
        .flat_map(Item::to_entries)
        .flat_map(Entry::pack)
        .collect();
    writer.append(1, ChunkKind::Entries, 7, &bytes).unwrap();
    let file = writer.finish(&Ending::default()).unwrap();
    Recording::read(Box::new(file), Path::new("recording")).unwrap()
}

fn stretches(items: &[Item]) -> Vec<Result<Stretch, String>> {
    let recording = recording(items, &[]);
    let process = &recording.processes()[0];
    recording.stretches(&process.threads()[0]).collect()
}

#[test]
fn registers_that_are_not_told_are_as_they_were() {
    let found = stretches(&[
        // Nothing is known before a fresh one.
        at_check(0, 0, 3, 0x900),
        at_check(check::FRESH, 0, 10, 0x1000),
        item(Kind::Register, 0, 0, 5),
        item(Kind::Register, 0, register::FS as u64, 0x7000),
        item(Kind::At, 0, 0, 12),
        item(Kind::Load, 0, 0x2000, 42),
        Item::new(entry(Kind::Fence, 0, 0, 1), Some(77), &[]),
        at_check(0, 0, 15, 0),
        item(Kind::Register, 0, 0, 6),
        at_check(check::OPAQUE, 0, 16, 0x1010),
        at_check(check::STOPPED, 4, 20, 0x1020),
    ]);
    let found: Vec<Stretch> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found.len(), 3);
    let [first, second, third] = &found[..] else {
        unreachable!()
    };
    assert!(first.fresh && !first.opaque);
    assert_eq!((first.count, first.until), (10, Until::Count(15)));
    assert_eq!((first.start.ip, first.end.ip), (Some(0x1000), None));
    assert_eq!((first.start.values[0], first.end.values[0]), (5, 6));
    assert_eq!(first.end.values[register::FS], 0x7000);
    let loads: Vec<_> = first
        .loads
        .iter()
        .map(|l| (l.count, l.address, l.value))
        .collect();
    assert_eq!(loads, [(12, 0x2000, 42)]);
    assert_eq!((first.number, second.number), (None, Some(77)));
    assert!(second.opaque && second.knows_flags && second.start.ip.is_none());
    assert!(third.only_integers && !third.knows_flags && !third.fresh);
    let within = Until::Within {
        from: 20,
        length: 4,
    };
    assert_eq!(third.until, within);
}

#[test]
fn another_thread_with_the_same_number_begins_anew() {
    let found = stretches(&[
        at_check(check::FRESH, 0, 10, 0x1000),
        item(Kind::Start, 0, 0, 0),
        at_check(check::FRESH, 0, 0, 0x1000),
        at_check(0, 0, 5, 0x1005),
    ]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().unwrap().count, 0);
}

#[test]
fn entries_that_make_no_sense_are_said_to_be() {
    let bad = stretches(&[
        at_check(check::FRESH, 0, 0, 0x1000),
        item(Kind::Register, 0, register::ALL as u64, 1),
    ]);
    let why = bad[0].as_ref().unwrap_err();
    assert_eq!(why, "it has a register of an unknown number");
    let bad = stretches(&[
        at_check(check::FRESH, 0, 0, 0x1000),
        item(Kind::At, 0, 0, 9),
        item(Kind::Load, 0, 0x2000, 1),
        item(Kind::At, 0, 0, 8),
        item(Kind::Load, 0, 0x2000, 1),
    ]);
    let why = bad[0].as_ref().unwrap_err();
    assert_eq!(why, "its values are not in their order");
}

#[test]
fn code_is_found_by_its_address() {
    let list = [
        code(0x1000, &[0x90]),
        code(0x1001, &[0x0f, 0x05]),
        code(0x1001, &[0xeb, 0xfe]),
    ];
    let recording = recording(&[], &list.concat());
    let found = recording.processes()[0].code();
    assert_eq!(found.at(0x1000).unwrap().bytes(), [0x90]);
    assert!(!found.at(0x1000).unwrap().changed);
    let changed = found.at(0x1001).unwrap();
    assert_eq!(
        (changed.bytes(), changed.changed),
        (&[0xeb, 0xfe][..], true)
    );
    assert_eq!(found.range(0x1001..0x2000).count(), 1);
    for damaged in [&list[0][..10], &code(0x1000, &[0; 16])[..]] {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        writer.append(1, ChunkKind::Code, 0, damaged).unwrap();
        let file = writer.finish(&Ending::default()).unwrap();
        let recording = Recording::read(Box::new(file), Path::new("recording")).unwrap();
        assert!(recording.cut_short().is_some());
    }
}
