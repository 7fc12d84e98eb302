//! Damaged debug information gives less, never a panic or a hang.

use super::compile::{Built, build};
use object::{Object, ObjectSection};
use proptest::prelude::*;
use redhanded_image::{DebugInfo, DebugSearch, Image, Unwinder};
use redhanded_model::{Registers, Svma};
use std::sync::LazyLock;

struct Sound {
    built: Built,
    bytes: Vec<u8>,
    addresses: Vec<Svma>,
    /// Where the sections with debug information and unwind tables are.
    ranges: Vec<(usize, usize)>,
}

impl Sound {
    fn new(fixture: &str, options: &[&str]) -> Self {
        let built = build(fixture, options);
        let bytes = std::fs::read(&built.program).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let ranges = object
            .sections()
            .filter(|section| {
                let name = section.name().unwrap();
                name.starts_with(".debug_") || name.starts_with(".eh_frame")
            })
            .filter_map(|section| section.file_range())
            .map(|(start, size)| (start as usize, size as usize))
            .filter(|(_, size)| *size > 0)
            .collect();
        let mut addresses: Vec<Svma> = built.symbols().into_iter().map(|(_, svma)| svma).collect();
        addresses.sort();
        addresses.dedup();
        addresses.truncate(60);
        Self {
            built,
            bytes,
            addresses,
            ranges,
        }
    }

    /// Asks everything of the program with `changes` made to it.
    fn ask(&self, changes: &[(prop::sample::Index, prop::sample::Index, u8)]) {
        let mut bytes = self.bytes.clone();
        for (section, at, value) in changes {
            let (start, size) = self.ranges[section.index(self.ranges.len())];
            bytes[start + at.index(size)] = *value;
        }
        let path = self
            .built
            .folder
            .path()
            .join(format!("{:?}", std::thread::current().id()));
        std::fs::write(&path, &bytes).unwrap();
        let image = Image::open(&path).unwrap();
        let debug = DebugInfo::new(&image, DebugSearch::nowhere());
        let mut unwinder = Unwinder::new();
        unwinder.add_module(&image, 0);
        for svma in &self.addresses {
            let _ = debug.frames(svma.offset(1));
            let _ = debug.source_evidence(svma.offset(4));
            if let Some(variable) = debug.variable_at(*svma) {
                for (offset, size) in [(0, 1), (3, 8), (40, 4), (u64::MAX - 2, 8)] {
                    let _ = variable.part(offset, size);
                }
            }
            let registers = Registers {
                rip: svma.0,
                gpr: [0x5000; 16],
                ..Registers::default()
            };
            unwinder.unwind(&registers, &mut |at| Some(at.wrapping_add(svma.0)));
        }
    }
}

static C: LazyLock<Sound> = LazyLock::new(|| Sound::new("variables.c", &["-g", "-O1"]));
static OLD: LazyLock<Sound> = LazyLock::new(|| {
    Sound::new(
        "idioms.c",
        &["-g", "-O2", "-gdwarf-4", "-fdebug-types-section"],
    )
});
static CPP: LazyLock<Sound> = LazyLock::new(|| Sound::new("frames.cc", &["-g", "-O2"]));

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn damage_is_survived(
        which in 0usize..3,
        changes in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, u8)>(), 1..12)
    ) {
        let sound: &Sound = [&*C, &*OLD, &*CPP][which];
        sound.ask(&changes);
    }
}

#[test]
fn a_type_that_refers_to_itself_has_an_end() {
    let built = build("cycle.c", &["-g", "-gdwarf-4"]);
    let mut bytes = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let (start, size) = object
        .section_by_name(".debug_info")
        .unwrap()
        .file_range()
        .unwrap();
    let info = start as usize..(start + size) as usize;
    // Every reference of four bytes to the type of `self` leads to itself: the
    // typedef is made its own target.
    let dwarf = gimli::DebugInfo::new(&bytes[info.clone()], gimli::LittleEndian);
    let header = dwarf.units().next().unwrap().unwrap();
    let abbreviations = object
        .section_by_name(".debug_abbrev")
        .unwrap()
        .data()
        .unwrap();
    let abbreviations = gimli::DebugAbbrev::new(abbreviations, gimli::LittleEndian);
    let abbreviations = header.abbreviations(&abbreviations).unwrap();
    let mut entries = header.entries(&abbreviations);
    let mut patch = Vec::new();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() == gimli::DW_TAG_typedef
            && let Some(gimli::AttributeValue::UnitRef(target)) =
                entry.attr_value(gimli::DW_AT_type)
        {
            patch.push((entry.offset().0 as u32, target.0 as u32));
        }
    }
    assert!(!patch.is_empty());
    for (itself, target) in patch {
        let from = target.to_le_bytes();
        let at = info.start + itself as usize;
        let within = bytes[at..at + 32]
            .windows(4)
            .position(|word| word == from)
            .unwrap();
        bytes[at + within..at + within + 4].copy_from_slice(&itself.to_le_bytes());
    }
    let path = built.folder.path().join("cyclic");
    std::fs::write(&path, &bytes).unwrap();
    let image = Image::open(&path).unwrap();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let variable = debug.variable_at(built.symbol("ring")).unwrap();
    assert_eq!((variable.name.as_str(), variable.size), ("ring", 8));
    let _ = variable.part(0, 8);
}

#[test]
fn a_file_that_is_cut_short_in_use_gives_less() {
    let built = build("variables.c", &["-g", "-O1"]);
    let bump = built.symbol("bump");
    let debug = |image: &Image| DebugInfo::new(image, DebugSearch::nowhere());
    let image = built.image();
    assert!(debug(&image).frames(bump)[0].line.is_some());
    // The first page has the headers; the sections' own are at the end.
    let file = std::fs::OpenOptions::new().write(true).open(&built.program);
    file.unwrap().set_len(4096).unwrap();
    assert!(debug(&image).frames(bump).is_empty());
    assert_eq!(image.section(".debug_info"), None);
    assert!(image.functions().as_slice().is_empty());
    let _ = image.data().iter().max();
}
