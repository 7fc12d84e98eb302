//! The identity of a file in one state, so that a changed file is recognised.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file in one state. Anything that writes to the file or replaces it changes this: its
/// owner can set the modification time, but only the kernel sets the time of the last change
/// (ctime). A build id is not enough, because stripping and patching preserve it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    /// The identity of the file that `path` names now.
    ///
    /// # Errors
    /// If there is none, or it cannot be reached.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::new(path, &std::fs::metadata(path)?))
    }

    /// The identity of an open file.
    pub(crate) fn of_open(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self::new(path, &file.metadata()?))
    }

    fn new(path: &Path, data: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        }
    }

    /// The identity without the ctime, which changes also with permissions and hard links. A
    /// file that is mapped has to stay the same then.
    #[must_use]
    pub fn without_ctime(mut self) -> Self {
        self.changed = (0, 0);
        self
    }

    /// An identity for the `number`th image that has no file: there is no device 0.
    #[must_use]
    pub fn without_file(path: &Path, number: u64) -> Self {
        Self {
            path: path.to_owned(),
            inode: number,
            ..Self::default()
        }
    }

    /// The device and inode, which do not depend on the file's state.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether the last change is so recent that another one could have the same time stamp.
    pub(crate) fn is_fresh(&self) -> bool {
        const SETTLED_AFTER: i64 = 2;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs().cast_signed()) < self.changed.0 + SETTLED_AFTER
    }

    /// The identity as bytes, which are equal only if the identities are.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.device,
            self.inode,
            self.size,
            self.modified.0.cast_unsigned(),
            self.modified.1.cast_unsigned(),
            self.changed.0.cast_unsigned(),
            self.changed.1.cast_unsigned(),
        ];
        let path = self.path.as_os_str().as_bytes();
        let fixed = numbers.into_iter().chain([path.len() as u64]);
        fixed
            .flat_map(u64::to_le_bytes)
            .chain(path.iter().copied())
            .collect()
    }
}
