//! Kernels packed in every format, by the format's own tool.

use proptest::prelude::*;
use redhanded_image::kernel_file::{KernelFileError, unpack};
use std::borrow::Cow;
use std::io::Write;
use std::process::{Command, Stdio};

/// How the kernel's build packs, and whether it writes the size behind.
const FORMATS: [(&str, &[&str], bool); 8] = [
    ("gzip", &["-n", "-9"], false),
    ("bzip2", &["-9"], true),
    ("xz", &["--check=crc32", "--x86", "--lzma2=dict=1MiB"], true),
    ("xz", &["--check=crc64"], true),
    ("lzma", &["-9"], true),
    ("lz4", &["-l", "-9"], true),
    ("zstd", &["-19"], true),
    // A window of 128 MiB, as the highest level has.
    ("zstd", &["--long=27"], true),
];

/// A real ELF file with code in it, which the filter of xz changes.
fn program() -> Vec<u8> {
    let bytes = std::fs::read("/bin/true").unwrap();
    assert_eq!(&bytes[..4], b"\x7fELF");
    bytes
}

/// What the tool makes of `bytes`; `None` when it is not installed.
fn packed(tool: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let started = Command::new(tool)
        .args(arguments)
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            println!("skipped {tool}: it cannot be started ({error}); install it");
            return None;
        }
    };
    let mut input = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{tool} {arguments:?} fails");
    Some(output.stdout)
}

/// A bzImage around a payload: two sectors of setup, the unpacking program's
/// code before it and more behind it.
fn bz_image(payload: &[u8], version: u16) -> Vec<u8> {
    const BEFORE: usize = 0x155;
    let mut image = vec![0x90; 3 * 512 + BEFORE];
    image[0x1f1] = 2;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&version.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&(BEFORE as u32).to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image.extend([0x5a; 777]);
    image
}

/// The payload as the kernel's build makes it.
fn payload(nth: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let (tool, arguments, sized) = FORMATS[nth];
    let mut payload = packed(tool, arguments, bytes)?;
    if sized {
        payload.extend((bytes.len() as u32).to_le_bytes());
    }
    Some(payload)
}

#[test]
fn every_format_unpacks() {
    let program = program();
    for (nth, format) in FORMATS.iter().enumerate() {
        let Some(payload) = payload(nth, &program) else {
            continue;
        };
        let image = bz_image(&payload, 0x20f);
        let unpacked = unpack(&image).unwrap_or_else(|error| panic!("{format:?}: {error}"));
        assert!(unpacked == program, "{format:?} gives other bytes");
        // A packed vmlinux without anything around it, as some distributions
        // install it.
        assert!(unpack(&payload).unwrap() == program, "{format:?} alone");
    }
}

#[test]
fn what_is_not_packed_is_not_copied() {
    let program = program();
    assert!(matches!(unpack(&program), Ok(Cow::Borrowed(found)) if found == program));
    let image = bz_image(&program, 0x20f);
    assert!(matches!(unpack(&image), Ok(Cow::Borrowed(found)) if found == program));
}

#[test]
fn other_files_are_told() {
    let told = |bytes: &[u8]| unpack(bytes).unwrap_err().to_string();
    assert!(told(b"").contains("it is empty"));
    assert!(told(b"#!/bin/sh\n").contains("some other kind of file"));
    assert!(told(&bz_image(b"what is this?", 0x20f)).contains("packed in an unknown way"));
    assert!(told(&bz_image(&program(), 0x204)).contains("boot protocol is 2.04"));
    if let Some(text) = packed("gzip", &[], b"no program") {
        assert!(told(&bz_image(&text, 0x20f)).contains("no ELF file"));
    }
}

#[test]
fn lies_of_the_header_are_errors() {
    let image = bz_image(&program(), 0x20f);
    for (at, value) in [(0x248, u32::MAX), (0x24c, u32::MAX), (0x24c, 0)] {
        let mut lying = image.clone();
        lying[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(
            matches!(unpack(&lying), Err(KernelFileError::Malformed { .. })),
            "{value:#x} at {at:#x}"
        );
    }
    for len in [0x203, 0x207, 0x249, 0x24f, 0x700] {
        assert!(unpack(&image[..len]).is_err(), "cut to {len:#x} bytes");
    }
}

#[test]
fn a_bomb_is_an_error() {
    const SIZE: u32 = 65 << 20;
    let mut bomb = program();
    bomb.resize(SIZE as usize, 0);
    for (nth, format) in FORMATS.iter().enumerate() {
        let Some(payload) = payload(nth, &bomb) else {
            continue;
        };
        let told = |bytes: &[u8]| match unpack(bytes) {
            Ok(_) => panic!("{format:?} explodes"),
            Err(error) => error.to_string(),
        };
        assert!(told(&payload).contains("far more than"), "{format:?}");
        assert!(
            told(&bz_image(&payload, 0x20f)).contains("far more than"),
            "{format:?}"
        );
        let size = payload.len() - 4;
        let lying = [&payload[..size], &100u32.to_le_bytes()].concat();
        let why = told(&bz_image(&lying, 0x20f));
        assert!(why.contains("more than the 100 bytes"), "{format:?}: {why}");
    }
}

#[test]
fn a_cut_payload_is_an_error() {
    let program = program();
    for (nth, format) in FORMATS.iter().enumerate() {
        let Some(payload) = payload(nth, &program) else {
            continue;
        };
        let cut = &payload[..payload.len() / 2];
        let error = unpack(cut).map(|bytes| bytes.len());
        assert!(error.is_err(), "{format:?} cut in half gives {error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_never_panics(nth in 0..FORMATS.len(), at in any::<prop::sample::Index>(), byte: u8) {
        // Made once each: starting a tool for every case would be slow.
        static PACKED: std::sync::OnceLock<Vec<Option<Vec<u8>>>> = std::sync::OnceLock::new();
        let all = PACKED.get_or_init(|| {
            let program = program();
            (0..FORMATS.len()).map(|nth| payload(nth, &program)).collect()
        });
        if let Some(payload) = &all[nth] {
            let mut image = bz_image(payload, 0x20f);
            let len = image.len();
            // Half of the damage goes to the two headers.
            let place = match at.index(2) {
                0 => 0x1f0 + at.index(0x60),
                _ => 3 * 512 + at.index(len - 3 * 512),
            };
            image[place] = byte;
            let _ = unpack(&image);
        }
    }
}
