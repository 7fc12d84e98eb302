//! The files to damage.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file to start from.
pub struct Seed {
    pub name: String,
    pub bytes: Vec<u8>,
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

/// What the target `source` asks about: small and without headers, because all of it is read again
/// for each input.
const ASKED: &str = r#"
    typedef struct node { struct node *next; long value; unsigned a:3, b:29; _Atomic int busy; } node;
    static node nodes[16]; static _Atomic int ready; static volatile int flag; static long plain, table[4][4];
    #define BUMP(x) ((x)->value++)
    #define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
    static inline __attribute__((always_inline)) void touch(node *n) { BUMP(n); n->b = 7; }
    __attribute__((noinline)) void work(node *n, int k) {
        for (int i = 0; i < k; i++) table[i & 3][k & 3] += READ_ONCE(plain) ? n->next->value : i;
        if (k && __atomic_load_n(&plain, __ATOMIC_ACQUIRE)) plain += n[k].value;
        switch (k) { case 0: touch(n); break; case 1: n->next = 0; break; case 2: flag++; break;
                     case 3: ready++; break; case 4: __sync_fetch_and_add(&plain, 1); break;
                     default: n->busy = *(volatile int *)&flag; }
    }
    int main(int argc, char **argv) {
        for (int i = 0; i < argc; i++) work(&nodes[i], i);
        return (int)plain + **argv;
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
        (
            "object",
            &["-O2", "-g", "-c", "-mcmodel=kernel", "-fno-pic"],
        ),
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
    }
    let asked = folder.join("asked.c");
    fs::write(&asked, ASKED).context("cannot write a source")?;
    let elsewhere = format!("-ffile-prefix-map={}=/nowhere/sources", folder.display());
    let status = Command::new("gcc")
        .args(["-O1", "-g", "-gdwarf-5", &elsewhere, "-o"])
        .args([&folder.join("asked"), &asked])
        .status()
        .context("gcc cannot be started: install it")?;
    ensure!(
        status.success(),
        "gcc does not build the program to ask about"
    );
    seeds.push(Seed::new("asked.c", ASKED.into()));
    seeds.push(Seed::new("script", b"#! /bin/bash -e\n".to_vec()));
    seeds.extend(super::documents::seeds());
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
        Self {
            name: name.to_owned(),
            bytes,
        }
    }

    /// Whether it is a whole ELF file.
    pub fn is_elf(&self) -> bool {
        self.bytes.starts_with(b"\x7fELF")
    }
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
