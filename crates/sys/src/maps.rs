//! The memory map of a process, as `/proc/PID/maps` prints it.
//!
//! Names are bytes, because a file can have any name. The kernel prints a line feed in
//! a name as `\012`, does not escape backslashes, and appends ` (deleted)` to the name
//! of a deleted file, so that a line is ambiguous. [`Mapping::file`] looks at the files
//! to find out.
//!
//! The `procfs` crate is no help: a name that is not UTF-8 makes it reject the whole
//! map, and it leaves both ambiguities to its callers.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const DELETED: &[u8] = b" (deleted)";
const LINE_FEED: &[u8] = b"\\012";

/// One mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's four permissions"
)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
    /// Whether others that map the same see what is written to it.
    pub shared: bool,
    /// Where in its file it starts.
    pub offset: u64,
    /// Device and inode of the file. Shared memory without a name has them as well.
    pub file_id: (String, u64),
    /// A path, a name in brackets, or nothing.
    pub name: Vec<u8>,
}

impl Mapping {
    /// Reads one line of the map. Returns `None` for other lines, such as those of
    /// `smaps`.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        // start-end perms offset device inode          name
        let mut rest = line;
        let mut field = || {
            let trimmed = rest.trim_ascii_start();
            let end = trimmed.iter().position(|byte| *byte == b' ');
            let (field, after) = trimmed.split_at(end.unwrap_or(trimmed.len()));
            rest = after;
            str::from_utf8(field).ok()
        };
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?;
        let offset = field()?;
        let (device, inode) = (field()?.to_owned(), field()?);
        let number = |text| u64::from_str_radix(text, 16).ok();
        let start = number(start)?;
        Some(Self {
            start,
            end: number(end).filter(|end| *end > start)?,
            readable: permissions.contains('r'),
            writable: permissions.contains('w'),
            executable: permissions.contains('x'),
            shared: permissions.contains('s'),
            offset: number(offset)?,
            file_id: (device, inode.parse().unwrap_or(0)),
            name: replace(rest.trim_ascii_start(), LINE_FEED, b"\n"),
        })
    }

    /// Whether `address` is in it.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether it maps a file, even a deleted one.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.name.starts_with(b"/")
    }

    /// The path of its file below `root`, if the file still exists under its name.
    /// `pid` is a process that has the mapping.
    #[must_use]
    pub fn file(&self, pid: i32, root: &Path) -> Option<PathBuf> {
        let mut name = self.has_file().then(|| self.name.clone())?;
        if name.contains(&b'\n') {
            // A line feed or a literal `\012`: the link has the exact name.
            let link = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
            name = fs::read_link(link).map_or(name, |path| path.into_os_string().into_vec());
        }
        let path = root.join(OsStr::from_bytes(name.strip_prefix(b"/")?));
        let is_it = || fs::metadata(&path).is_ok_and(|file| file.ino() == self.file_id.1);
        (!name.ends_with(DELETED) || is_it()).then_some(path)
    }
}

/// The map of `pid`, empty if it is gone.
#[must_use]
pub fn mappings(pid: i32) -> Vec<Mapping> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(Mapping::parse).collect()
}

/// Whether the mapping of `pid` that starts at `start` grows downwards by itself. That takes
/// the kernel long for a process with much memory.
#[must_use]
pub fn grows_down(pid: i32, start: u64) -> bool {
    let file = fs::File::open(format!("/proc/{pid}/smaps"));
    file.is_ok_and(|file| has_flag(BufReader::new(file), start, "gd"))
}

/// Whether `smaps` lists this flag for the mapping that starts at `start`.
fn has_flag(smaps: impl BufRead, start: u64, flag: &str) -> bool {
    let mut lines = smaps.split(b'\n').map_while(Result::ok);
    let is_it = |line: &Vec<u8>| Mapping::parse(line).is_some_and(|map| map.start == start);
    if !lines.any(|line| is_it(&line)) {
        return false;
    }
    let flags = lines.find(|line| line.starts_with(b"VmFlags:"));
    let flags = flags.map(|line| String::from_utf8_lossy(&line).into_owned());
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|word| word == flag))
}

fn replace(mut text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    while let Some(&byte) = text.first() {
        if let Some(after) = text.strip_prefix(from) {
            replaced.extend_from_slice(to);
            text = after;
        } else {
            replaced.push(byte);
            text = &text[1..];
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_is_told_by_its_flags() {
        let smaps = b"1000-2000 rw-p 00000000 00:00 0\nRss: 4 kB\nVmFlags: rd wr mr\n\
            7000-9000 rw-p 00000000 00:00 0 [stack]\nRss: 4 kB\nVmFlags: rd wr gd ac\n";
        assert!(has_flag(&smaps[..], 0x7000, "gd"));
        for other in [0x1000, 0x2000, 0x8000] {
            assert!(!has_flag(&smaps[..], other, "gd"), "{other:#x}");
        }
        let own = mappings(std::process::id().cast_signed());
        let stack = own.iter().find(|map| map.name == b"[stack]").unwrap();
        assert!(grows_down(std::process::id().cast_signed(), stack.start));
    }

    #[test]
    fn a_line_is_taken_apart() {
        let line = b"7f00-7f80 r-xp 00002000 fe:00 1234       /my app/x\\012\xff.so (deleted)";
        let map = Mapping::parse(line).unwrap();
        assert_eq!((map.start, map.end, map.offset), (0x7f00, 0x7f80, 0x2000));
        assert!(map.readable && map.executable && !map.writable && !map.shared);
        assert_eq!(map.name, b"/my app/x\n\xff.so (deleted)");
        assert_eq!(map.file_id, ("fe:00".to_owned(), 1234));
        assert_eq!(map.file(0, Path::new("/")), None);
        let anonymous = Mapping::parse(b"1000-2000 rw-s 00000000 00:00 0 ").unwrap();
        assert!(anonymous.shared && anonymous.name.is_empty() && !anonymous.has_file());
        for wrong in ["", "nonsense", "2000-1000 r--p 0 0 0", "Rss: 4 kB"] {
            assert_eq!(Mapping::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
