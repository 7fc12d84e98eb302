//! Turns a vmlinuz into a file that can be opened as an image, and caches it.
//!
//! In the cache folder, `<build-id>/vmlinux` is the kernel with its symbols, and
//! `files/<hash>` names the one that was made from a vmlinuz with that content. Both are
//! written atomically, so that others can read meanwhile.

use super::{KernelFileError, symbols, unpack, with_symbols};
use crate::file_bytes::FileBytes;
use object::Object;
use redhanded_sys::{folder_of, write_whole};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

/// The current step, for a progress display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The kernel is being unpacked.
    Unpacking,
    /// Its symbols are being searched for.
    FindingSymbols,
    /// The result is being written.
    Writing,
}

/// Incremented when the format of the files in the cache changes.
const VERSION: u32 = 2;

/// The file to open for the kernel in `vmlinuz`. It is created in the folder `cache` unless
/// it is there already. A vmlinux with symbols is used as it is.
///
/// # Errors
/// If the file is not a kernel or has no symbols, or if the cache cannot be written.
pub fn prepare(
    vmlinuz: &Path,
    cache: &Path,
    progress: &mut dyn FnMut(Stage),
) -> Result<PathBuf, KernelFileError> {
    let read_error = |source| KernelFileError::File {
        act: "read",
        path: vmlinuz.to_owned(),
        source,
    };
    let bytes = FileBytes::open(vmlinuz).map_err(read_error)?;
    if has_symbols(&bytes) {
        return Ok(vmlinuz.to_owned());
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let key = format!("{:016x}-{:x}", hasher.finish(), bytes.len());
    let known = cache.join("files").join(&key);
    if let Some(found) = look_up(&known, cache) {
        return Ok(found);
    }

    progress(Stage::Unpacking);
    let elf = unpack(&bytes)?;
    progress(Stage::FindingSymbols);
    let made = if has_symbols(&elf) {
        elf.into_owned()
    } else {
        with_symbols(&elf, &symbols(&elf)?)?
    };
    progress(Stage::Writing);
    let name = build_id(&made).unwrap_or(key);
    let result = kernel_in(cache, &name);
    write(&result, &made)?;
    let note = format!("{VERSION} {name} {}\n", made.len());
    write(&known, note.as_bytes())?;
    Ok(result)
}

fn kernel_in(cache: &Path, name: &str) -> PathBuf {
    cache.join(name).join("vmlinux")
}

fn has_symbols(bytes: &[u8]) -> bool {
    object::File::parse(bytes).is_ok_and(|file| file.symbols().next().is_some())
}

fn build_id(elf: &[u8]) -> Option<String> {
    let file = object::File::parse(elf).ok()?;
    let id = file.build_id().ok().flatten()?;
    // Anything longer is not a hash, and not usable as a folder name.
    (!id.is_empty() && id.len() <= 64)
        .then(|| id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The file that the note names, if it exists and is complete.
fn look_up(note: &Path, cache: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(note).ok()?;
    let mut words = text.split_whitespace();
    let version: u32 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let len: u64 = words.next()?.parse().ok()?;
    let plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if version != VERSION || !name.bytes().all(plain) {
        return None;
    }
    let found = kernel_in(cache, name);
    let there = fs::metadata(&found).ok()?;
    (there.is_file() && there.len() == len).then_some(found)
}

/// Writes a file of the cache under a temporary name, and renames it when it is complete.
fn write(path: &Path, bytes: &[u8]) -> Result<(), KernelFileError> {
    fs::create_dir_all(folder_of(path))
        .and_then(|()| write_whole(path, 0o666, bytes))
        .map_err(|source| KernelFileError::File {
            act: "write",
            path: path.to_owned(),
            source,
        })
}
