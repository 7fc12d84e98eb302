//! The archive that a kernel unpacks as its initial file system.

use std::collections::BTreeSet;
use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Writes a cpio archive in the format that kernels read ("newc", no checksums).
///
/// All files belong to root and have no time, so that the same contents give the
/// same bytes.
pub struct Cpio<W> {
    out: W,
    inode: u32,
    directories: BTreeSet<Vec<u8>>,
}

impl<W: Write> Cpio<W> {
    /// Starts an archive.
    pub const fn new(out: W) -> Self {
        Self {
            out,
            inode: 0,
            directories: BTreeSet::new(),
        }
    }

    /// Adds a directory and its parents, unless they are there already.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn directory(&mut self, path: &[u8]) -> io::Result<()> {
        let path = inside(path)?;
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let ends: Vec<usize> = ends.map(|(at, _)| at).chain([path.len()]).collect();
        for end in ends {
            let part = &path[..end];
            if !part.is_empty() && self.directories.insert(part.to_vec()) {
                self.entry(part, DIRECTORY | 0o755, (0, 0), b"")?;
            }
        }
        Ok(())
    }

    /// Adds a file with the permissions in `mode`.
    ///
    /// # Errors
    /// When it cannot be written, or is too large for the format.
    pub fn file(&mut self, path: &[u8], mode: u32, contents: &[u8]) -> io::Result<()> {
        self.parent(path)?;
        self.entry(inside(path)?, FILE | mode & 0o7777, (0, 0), contents)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn link(&mut self, path: &[u8], to: &[u8]) -> io::Result<()> {
        self.parent(path)?;
        self.entry(inside(path)?, LINK | 0o777, (0, 0), to)
    }

    /// Adds a symbolic link to a directory. No real directory is added in its place
    /// later.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn directory_link(&mut self, path: &[u8], to: &[u8]) -> io::Result<()> {
        self.link(path, to)?;
        self.directories.insert(inside(path)?.to_vec());
        Ok(())
    }

    /// Adds a character device by its major and minor number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn device(&mut self, path: &[u8], numbers: (u32, u32)) -> io::Result<()> {
        self.parent(path)?;
        self.entry(inside(path)?, CHARACTER_DEVICE | 0o600, numbers, b"")
    }

    /// Finishes the archive.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(b"TRAILER!!!", 0, (0, 0), b"")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn parent(&mut self, path: &[u8]) -> io::Result<()> {
        let path = inside(path)?;
        match path.iter().rposition(|b| *b == b'/') {
            Some(end) => self.directory(&path[..end]),
            None => Ok(()),
        }
    }

    fn entry(
        &mut self,
        name: &[u8],
        mode: u32,
        (major, minor): (u32, u32),
        contents: &[u8],
    ) -> io::Result<()> {
        let size = u32::try_from(contents.len())
            .map_err(|_| refused("a file of 4 GiB or more does not fit into an initramfs"))?;
        let name_size = u32::try_from(name.len() + 1)
            .map_err(|_| refused("a name is too long for an initramfs"))?;
        // Each file has its own inode number: the kernel takes files with the same
        // number for hard links.
        self.inode += 1;
        let fields = [
            self.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
        ];
        let mut head = b"070701".to_vec();
        for field in fields {
            write!(head, "{field:08X}")?;
        }
        head.extend_from_slice(name);
        head.push(0);
        head.resize(head.len().next_multiple_of(4), 0);
        self.out.write_all(&head)?;
        self.out.write_all(contents)?;
        let padding = contents.len().next_multiple_of(4) - contents.len();
        self.out.write_all(&[0; 3][..padding])
    }
}

/// A path as the archive has it: from the root, without the slash.
fn inside(path: &[u8]) -> io::Result<&[u8]> {
    let start = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    let path = &path[start..];
    if path.contains(&0) || path.split(|b| *b == b'/').any(|part| part == b"..") {
        return Err(refused("a path in the guest leads out of its root"));
    }
    Ok(path)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_layout_of_the_format() {
        let mut cpio = Cpio::new(Vec::new());
        cpio.file(b"/a/b", 0o755, b"hello").unwrap();
        cpio.device(b"/a/c", (4, 65)).unwrap();
        let bytes = cpio.finish().unwrap();
        // The head has 110 bytes; name and contents end on multiples of four.
        let directory = &bytes[..112];
        assert_eq!(&directory[..6], b"070701");
        assert_eq!(&directory[14..22], b"000041ED", "a directory, rwxr-xr-x");
        assert_eq!(&directory[110..], b"a\0");
        let file = &bytes[112..];
        assert_eq!(&file[14..22], b"000081ED", "a file, rwxr-xr-x");
        assert_eq!(&file[54..62], b"00000005", "its size");
        assert_eq!(
            &file[94..102],
            b"00000004",
            "the size of its name, with the zero"
        );
        assert_eq!(&file[110..124], b"a/b\0\0\0hello\0\0\0");
        let device = &file[124..];
        assert_eq!(&device[14..22], b"00002180");
        assert_eq!(&device[78..94], b"0000000400000041", "its numbers");
        assert!(device[116..].starts_with(b"070701"));
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn a_directory_is_added_once_and_never_over_a_link() {
        let mut cpio = Cpio::new(Vec::new());
        cpio.directory_link(b"sbin", b"bin").unwrap();
        cpio.file(b"sbin/one", 0o755, b"").unwrap();
        cpio.file(b"usr/lib/two", 0o644, b"").unwrap();
        cpio.file(b"usr/lib/three", 0o644, b"").unwrap();
        let bytes = cpio.finish().unwrap();
        let heads = bytes.windows(6).filter(|six| *six == b"070701").count();
        assert_eq!(heads, 7, "sbin, one, usr, lib, two, three, the trailer");
    }

    #[test]
    fn paths_out_of_the_root_are_refused() {
        let mut cpio = Cpio::new(Vec::new());
        assert!(cpio.file(b"a/../../b", 0o644, b"").is_err());
        assert!(cpio.link(b"a\0b", b"c").is_err());
        assert!(cpio.file(b"a..b", 0o644, b"").is_ok());
    }
}
