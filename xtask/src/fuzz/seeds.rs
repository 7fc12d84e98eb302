//! The files to damage, and their parts.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file to start from.
pub struct Seed {
    pub name: String,
    pub bytes: Vec<u8>,
    /// The parts of it by name: headers and sections.
    pub parts: Vec<(String, Range<usize>)>,
}

/// A larger file would make every case slow.
const MAX_SIZE: usize = 400 << 10;

/// Has a bit of everything that debug information describes.
const PROGRAM: &str = r#"
    #include <stdio.h>
    #include <string.h>
    #include <stdatomic.h>
    enum colour { RED, GREEN };
    union number { long whole; double real; };
    typedef struct node { struct node *next; union number value; unsigned a:3, b:29; enum colour c; } node;
    static node nodes[16]; _Atomic int ready; volatile int flag; __thread int mine; int (*callback)(const char *) = puts;
    static inline __attribute__((always_inline)) void touch(node *n) { n->value.whole++; n->b = 7; }
    __attribute__((noinline, cold)) static void complain(node *n) { printf("%ld\n", n->value.whole); }
    __attribute__((noinline)) static void work(node *n, int k) {
        switch (k) { case 0: touch(n); break; case 1: n->next = 0; break; case 2: flag++; break;
                     case 3: ready++; break; case 4: mine++; break; default: complain(n); }
    }
    int main(int argc, char **argv) {
        char copy[64]; strncpy(copy, argv[0], sizeof copy);
        for (int i = 0; i < argc; i++) work(&nodes[i], i);
        return callback(copy);
    }
"#;

/// The seeds: a program built in several ways that differ in what is parsed, a kernel, a
/// program of the system, and a handful of bytes.
pub fn gather(folder: &Path) -> Result<Vec<Seed>> {
    let source = folder.join("seed.c");
    fs::write(&source, PROGRAM).with_context(|| format!("cannot write {}", source.display()))?;
    let mut seeds = vec![Seed::new("tiny", tiny())];
    for (name, flags) in [
        ("dwarf5", &["-O2", "-g", "-gdwarf-5"][..]),
        ("dwarf4", &["-O1", "-g", "-gdwarf-4", "-no-pie"]),
        ("compressed", &["-O0", "-g", "-gz"]),
        (
            "library",
            &["-O2", "-g", "-shared", "-fPIC", "-fcf-protection=full"],
        ),
        ("stripped", &["-O2", "-s", "-rdynamic"]),
    ] {
        let output = folder.join(name);
        let status = Command::new("gcc")
            .arg(&source)
            .arg("-o")
            .arg(&output)
            .args(flags)
            .status()
            .context("gcc cannot be started: install it")?;
        ensure!(
            status.success(),
            "gcc does not build the fuzzer's seed {name}"
        );
        seeds.push(Seed::new(name, fs::read(&output)?));
        fs::remove_file(&output)?;
    }
    seeds.extend(super::kernel::seeds(folder)?);
    if let Ok(bytes) = fs::read("/bin/true")
        && bytes.len() <= MAX_SIZE
    {
        seeds.push(Seed::new("true", bytes));
    }
    Ok(seeds)
}

impl Seed {
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        let mut parts = vec![("header".to_owned(), 0..64.min(bytes.len()))];
        parts.extend(parts_of(&bytes).unwrap_or_default());
        parts.retain(|(_, range)| !range.is_empty() && range.end <= bytes.len());
        Self {
            name: name.to_owned(),
            bytes,
            parts,
        }
    }
}

/// Header tables and sections, read without checks because the seeds are sound.
fn parts_of(bytes: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let number = |at: usize, size: usize| -> Option<usize> {
        let mut value = [0; 8];
        value
            .get_mut(..size)?
            .copy_from_slice(bytes.get(at..at + size)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let (segments, sections) = (number(32, 8)?, number(40, 8)?);
    let mut parts = vec![(
        "segments".to_owned(),
        segments..segments + 56 * number(56, 2)?,
    )];
    let count = number(60, 2)?;
    if count == 0 {
        return Some(parts);
    }
    parts.push(("sections".to_owned(), sections..sections + 64 * count));
    let names = number(sections + 64 * number(62, 2)? + 24, 8)?;
    for index in 0..count {
        let header = sections + 64 * index;
        let name: Vec<u8> = bytes
            .get(names + number(header, 4)?..)?
            .iter()
            .copied()
            .take_while(|byte| *byte != 0)
            .collect();
        let (kind, start, size) = (
            number(header + 4, 4)?,
            number(header + 24, 8)?,
            number(header + 32, 8)?,
        );
        const NOBITS: usize = 8;
        if kind != NOBITS {
            parts.push((
                String::from_utf8_lossy(&name).into_owned(),
                start..start.checked_add(size)?,
            ));
        }
    }
    Some(parts)
}

/// A program of one segment and no sections: `mov eax, [rdi]; ret`.
fn tiny() -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    let code = [0x8b, 0x07, 0xc3];
    let mut put = |at: usize, value: u64, size: usize| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    put(0, 0x0001_0102_464c_457f, 8);
    put(16, 2, 2); // an executable
    put(18, 62, 2); // for x86-64
    put(20, 1, 4);
    put(24, 0x40_0000 + 120, 8); // entry
    put(32, 64, 8); // segments
    put(52, 64, 2);
    put(54, 56, 2);
    put(56, 1, 2); // one
    put(58, 64, 2);
    put(64, 1, 4); // loaded
    put(68, 5, 4); // readable, executable
    put(80, 0x40_0000, 8);
    put(96, 123, 8);
    put(104, 123, 8);
    bytes.extend(code);
    bytes
}
