//! The mappings of the process, and how much of each is stored.
//!
//! That depends on what only `smaps` tells: whether a private mapping of a file was
//! ever written to, and the flags that a program set with `madvise`.

use super::layout::{Load, PAGE};
use redhanded_sys as sys;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::Deref;

/// One mapping, and how much of it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    line: sys::Mapping,
    /// Whether the process has private copies of pages, by writing to them.
    written: bool,
    /// `MADV_DONTDUMP`.
    unwanted: bool,
    /// Memory of a device. Reading it may have effects.
    device: bool,
    huge: bool,
    /// How many of its bytes are stored, from its start.
    stored: u64,
}

/// The bits of `coredump_filter`.
mod kind {
    pub const ANONYMOUS_PRIVATE: u32 = 1 << 0;
    pub const ANONYMOUS_SHARED: u32 = 1 << 1;
    pub const FILE_PRIVATE: u32 = 1 << 2;
    pub const FILE_SHARED: u32 = 1 << 3;
    pub const ELF_HEADER: u32 = 1 << 4;
    pub const HUGE_PRIVATE: u32 = 1 << 5;
    pub const HUGE_SHARED: u32 = 1 << 6;
    /// The kernel's default.
    pub const DEFAULT: u32 = ANONYMOUS_PRIVATE | ANONYMOUS_SHARED | ELF_HEADER | HUGE_PRIVATE;
}

impl Deref for Mapping {
    type Target = sys::Mapping;

    fn deref(&self) -> &sys::Mapping {
        &self.line
    }
}

impl Mapping {
    /// Whether pages that the process never touched are sure to hold zeros. They are
    /// not read, because that would create them.
    ///
    /// Not so the vDSO, which the kernel maps page by page, and shared memory, which
    /// other processes may have touched.
    pub fn untouched_is_zero(&self) -> bool {
        let named = |names: &[&[u8]]| names.iter().any(|name| self.name.starts_with(name));
        let anonymous = self.name.is_empty() || named(&[b"[heap]", b"[stack", b"[anon:"]);
        self.huge || (anonymous && !self.shared)
    }

    /// The addresses whose bytes are stored.
    pub fn stored(&self) -> std::ops::Range<u64> {
        self.start..self.start + self.stored
    }

    /// Its segment of the core.
    pub fn load(&self) -> Load {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        Load {
            address: self.start,
            size: self.end - self.start,
            stored: self.stored,
            flags: flag(self.readable, 4) | flag(self.writable, 2) | flag(self.executable, 1),
        }
    }

    /// How many of its bytes belong in the core, by the kernel's rule.
    fn wanted(&self, filter: u32, images: &HashSet<Vec<u8>>) -> u64 {
        let whole = self.end - self.start;
        let by = |kinds: u32| if filter & kinds != 0 { whole } else { 0 };
        // The kernel's clock pages cannot be read from outside, and its legacy page is
        // beyond every process's memory.
        let kernels = self.name.starts_with(b"[vvar") || self.name == b"[vsyscall]";
        if !self.readable || kernels || self.device {
            return 0;
        }
        if self.name == b"[vdso]" {
            return whole;
        }
        if self.unwanted {
            return 0;
        }
        match (self.shared, self.huge) {
            (true, true) => by(kind::HUGE_SHARED),
            (false, true) => by(kind::HUGE_PRIVATE),
            // To the kernel, shared memory without a name is a deleted file.
            (true, false) if !self.has_file() || self.name.ends_with(b" (deleted)") => {
                by(kind::ANONYMOUS_SHARED)
            }
            (true, false) => by(kind::FILE_SHARED),
            (false, false) if images.contains(&self.name) => whole,
            (false, false) if self.written && filter & kind::ANONYMOUS_PRIVATE != 0 => whole,
            (false, false) if !self.has_file() => 0,
            (false, false) if filter & kind::FILE_PRIVATE != 0 => whole,
            (false, false) if self.offset == 0 => by(kind::ELF_HEADER).min(PAGE),
            (false, false) => 0,
        }
    }
}

/// The mappings of the process of thread `tid`.
///
/// # Errors
/// If it is gone or may not be read.
pub fn read(tid: i32) -> io::Result<Vec<Mapping>> {
    let file = |name: &str| {
        let path = format!("/proc/{tid}/{name}");
        fs::read(&path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
    };
    // A kernel may be built without `smaps`.
    let text = file("smaps").or_else(|_| file("maps"))?;
    let filter = file("coredump_filter")
        .ok()
        .and_then(|text| u32::from_str_radix(str::from_utf8(&text).ok()?.trim(), 16).ok())
        .unwrap_or(kind::DEFAULT);
    let mappings = parse(&text, filter);
    if mappings.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("thread {tid} has no memory any more"),
        ));
    }
    Ok(mappings)
}

fn parse(text: &[u8], filter: u32) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(line) = sys::Mapping::parse(line) {
            mappings.push(Mapping {
                line,
                // Without the details, any private mapping may have been written to.
                written: true,
                ..Mapping::default()
            });
        } else if let Some(mapping) = mappings.last_mut() {
            parse_detail(line, mapping);
        }
    }
    let images: HashSet<_> = mappings
        .iter()
        .filter(|mapping| mapping.executable && mapping.has_file())
        .map(|mapping| mapping.name.clone())
        .collect();
    for mapping in &mut mappings {
        mapping.stored = mapping.wanted(filter, &images);
    }
    mappings
}

fn parse_detail(line: &[u8], mapping: &mut Mapping) {
    let Some((key, value)) = str::from_utf8(line)
        .ok()
        .and_then(|line| line.split_once(':'))
    else {
        return;
    };
    let some = || !value.trim_start().starts_with("0 ");
    match key {
        "Rss" => mapping.written = false,
        // A swapped page was written to.
        "Anonymous" | "Swap" => mapping.written |= some(),
        "VmFlags" => {
            for flag in value.split_ascii_whitespace() {
                match flag {
                    "dd" => mapping.unwanted = true,
                    "io" => mapping.device = true,
                    "ht" => mapping.huge = true,
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are stored of a mapping with this line and these details.
    fn stored(head: &str, details: &str, filter: u32) -> u64 {
        let text = format!("{head}\nRss: 4 kB\n{details}\n");
        let mappings = parse(text.as_bytes(), filter);
        assert_eq!(mappings.len(), 1);
        mappings[0].stored
    }

    #[test]
    fn what_the_kernel_would_store_is_stored() {
        let rows = [
            ("1000-5000 rw-p 0 00:00 0 [heap]", "Anonymous: 4 kB", 0x4000),
            ("1000-5000 rw-p 0 00:00 0", "Swap: 4 kB", 0x4000),
            // Never touched: a hole says the same.
            ("1000-5000 rw-p 0 00:00 0", "Anonymous: 0 kB", 0),
            ("1000-5000 ---p 0 00:00 0", "Anonymous: 4 kB", 0),
            (
                "1000-5000 rw-p 0 00:00 0",
                "Anonymous: 4 kB\nVmFlags: rd wr dd",
                0,
            ),
            ("1000-5000 rw-s 0 00:05 9 /dev/mem", "VmFlags: rd wr io", 0),
            ("1000-5000 r--p 0 00:00 0 [vvar]", "VmFlags: rd io dd", 0),
            ("1000-5000 r-xp 0 00:00 0 [vdso]", "VmFlags: rd ex", 0x4000),
            ("1000-5000 --xp 0 00:00 0 [vsyscall]", "VmFlags: ex", 0),
            ("1000-5000 r-xp 7000 fe:00 9 /lib/x.so", "", 0x4000),
            ("1000-5000 r--p 7000 fe:00 9 /data", "Anonymous: 0 kB", 0),
            ("1000-5000 r--p 0 fe:00 9 /data", "Anonymous: 0 kB", 0x1000),
            (
                "1000-5000 rw-p 7000 fe:00 9 /data",
                "Anonymous: 8 kB",
                0x4000,
            ),
            ("1000-5000 rw-s 0 fe:00 9 /data", "", 0),
            (
                "1000-5000 rw-s 0 00:01 9 /dev/zero (deleted)",
                "Anonymous: 0 kB",
                0x4000,
            ),
        ];
        for (head, details, expected) in rows {
            assert_eq!(
                stored(head, details, kind::DEFAULT),
                expected,
                "{head} {details}"
            );
        }
    }

    #[test]
    fn the_filter_of_the_process_is_heeded() {
        let shared = "1000-5000 rw-s 0 fe:00 9 /data";
        assert_eq!(stored(shared, "", kind::FILE_SHARED), 0x4000);
        let private = "1000-5000 r--p 7000 fe:00 9 /data";
        assert_eq!(stored(private, "", kind::FILE_PRIVATE), 0x4000);
        let huge = "1000-5000 rw-p 0 00:0f 9 /anon_hugepage (deleted)";
        assert_eq!(stored(huge, "VmFlags: ht", kind::HUGE_PRIVATE), 0x4000);
        assert_eq!(stored(huge, "VmFlags: ht", kind::ANONYMOUS_PRIVATE), 0);
        let heap = "1000-5000 rw-p 0 00:00 0 [heap]";
        assert_eq!(stored(heap, "Anonymous: 4 kB", 0), 0);
    }

    #[test]
    fn an_image_is_stored_wholly_and_its_data_too() {
        let text = b"1000-2000 r--p 0 fe:00 9 /x\nRss: 4 kB\n2000-3000 r-xp 1000 fe:00 9 /x\nRss: 4 kB\n3000-5000 rw-p 2000 fe:00 9 /x\nRss: 4 kB\n";
        let stored: Vec<_> = parse(text, kind::DEFAULT)
            .iter()
            .map(|mapping| mapping.stored)
            .collect();
        assert_eq!(stored, [0x1000, 0x1000, 0x2000]);
    }

    #[test]
    fn only_private_memory_without_a_file_is_zero_until_touched() {
        let rows = [
            ("1000-2000 rw-p 0 00:00 0", true),
            ("1000-2000 rw-p 0 00:00 0 [heap]", true),
            ("1000-2000 rw-p 0 00:00 0 [anon:glibc: malloc]", true),
            ("1000-2000 rw-s 0 00:00 0 [anon_shmem:name]", false),
            ("1000-2000 rw-s 0 00:01 9 /dev/zero (deleted)", false),
            ("1000-2000 r-xp 0 00:00 0 [vdso]", false),
            ("1000-2000 rw-p 0 fe:00 9 /data", false),
        ];
        for (line, expected) in rows {
            let mappings = parse(line.as_bytes(), kind::DEFAULT);
            assert_eq!(mappings[0].untouched_is_zero(), expected, "{line}");
        }
    }
}
