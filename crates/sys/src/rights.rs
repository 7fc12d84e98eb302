//! Whose rights a process or a thread has.

use super::{Exchangeable, Tid, check, exchangeable, status_field};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The user, group and further groups of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rights {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
}

impl Rights {
    /// Nobody's.
    pub const NOBODY: Self = Self {
        user: 65534,
        group: 65534,
        groups: Vec::new(),
    };

    /// Those of a process: of its real, effective, saved and file system users the first that
    /// is not root, because any of them may have written what the process has mapped.
    /// Nobody's, if it is gone.
    #[must_use]
    pub fn of(pid: Tid) -> Self {
        Self::read(pid).unwrap_or(Self::NOBODY)
    }

    fn read(pid: Tid) -> Option<Self> {
        let numbers = |field| -> Option<Vec<u32>> {
            let value = status_field(pid, field)?;
            value.split_whitespace().map(|id| id.parse().ok()).collect()
        };
        let users = numbers("Uid:")?;
        let which = users.iter().position(|user| *user != 0).unwrap_or(0);
        Some(Self {
            user: *users.get(which)?,
            group: *numbers("Gid:")?.get(which)?,
            groups: numbers("Groups:")?,
        })
    }

    /// Those of whoever owns a file, as far as the file tells. That root's group has it, after a
    /// `chown` by root, gives its owner no right to what root's group may read.
    #[must_use]
    pub fn of_owner(user: u32, group: u32) -> Self {
        Self {
            user,
            group: if user != 0 && group == 0 {
                Self::NOBODY.group
            } else {
                group
            },
            groups: Vec::new(),
        }
    }

    /// Those of whoever can decide what is at `path`, if that is not only root: of the file and
    /// the folders above it, the first owner that is not root. And its path without links, which
    /// nobody else can lead elsewhere. For root.
    ///
    /// # Errors
    /// If there is nothing, or it cannot be looked at.
    pub fn over(path: &Path) -> io::Result<(PathBuf, Option<Self>)> {
        let path = path.canonicalize()?;
        // The file itself is the first of its ancestors.
        let rights = match exchangeable(&path)? {
            None => None,
            Some(Exchangeable::Owned(part)) => {
                let about = part.metadata()?;
                Some(Self::of_owner(about.uid(), about.gid()))
            }
            Some(Exchangeable::Writable(_)) => Some(Self::NOBODY),
        };
        Ok((path, rights))
    }

    /// Whether they are root's.
    #[must_use]
    pub const fn are_roots(&self) -> bool {
        self.user == 0
    }

    /// Does something that concerns files with these rights, in a thread that has no others.
    /// So the kernel judges the folders on the way, links and access lists as well.
    ///
    /// # Errors
    /// If it fails, or these rights cannot be taken.
    pub fn with<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let done = crate::thread_builder()?.spawn_scoped(scope, || {
                self.take_for_files()?;
                what()
            })?;
            done.join().unwrap_or_else(|_| Err(denied()))
        })
    }

    /// Takes these rights to files for the calling thread, which keeps none of its own.
    fn take_for_files(&self) -> io::Result<()> {
        let (user, group, groups) = (self.user, self.group, &self.groups);
        // SAFETY: the kernel reads as many groups as are there. The system call changes this
        // thread alone, which the function of the C library would not.
        check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
        // SAFETY: they take numbers. What they return is the number that held before, so a
        // second call with one that cannot be says whether the first succeeded.
        let now = unsafe {
            libc::setfsgid(group);
            libc::setfsuid(user);
            (libc::setfsgid(u32::MAX), libc::setfsuid(u32::MAX))
        };
        if (now.0.cast_unsigned(), now.1.cast_unsigned()) != (group, user) {
            return Err(denied());
        }
        Capabilities(0).set()
    }

    /// Makes this process, which has one thread, one of this user, for good.
    pub(super) fn become_it(&self) -> io::Result<()> {
        let (user, group, groups) = (self.user, self.group, &self.groups);
        // SAFETY: the kernel reads as many groups as are there; the rest are numbers.
        unsafe {
            check(libc::setgroups(groups.len(), groups.as_ptr()).into())?;
            check(libc::setresgid(group, group, group).into())?;
            check(libc::setresuid(user, user, user).into())?;
        }
        Capabilities(0).set()
    }
}

/// Capabilities, a bit for each. All that matter here are among the first 32.
#[derive(Clone, Copy)]
pub(super) struct Capabilities(u32);

/// The third version of the structures that the kernel takes, for this thread.
const HEADER: [u32; 2] = [0x2008_0522, 0];

impl Capabilities {
    /// To read any file (2), and to take the rights of another user (6 and 7), who may not
    /// read all of them.
    pub(super) const READ_AS_ANYBODY: Self = Self(1 << 2 | 1 << 6 | 1 << 7);

    /// Gives up all others that this thread has.
    pub(super) fn keep_only(self) -> io::Result<()> {
        // Effective, permitted and inheritable; first the lower halves, then the upper ones.
        let (header, mut now) = (HEADER, [0_u32; 6]);
        // SAFETY: they have the sizes that this version has, and the kernel fills the second.
        check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, &raw mut now) })?;
        Self(self.0 & now[1]).set()
    }

    fn set(self) -> io::Result<()> {
        let (header, wanted) = (HEADER, [self.0, self.0, 0, 0, 0, 0]);
        // SAFETY: they have the sizes that this version has, and the kernel reads them.
        check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const wanted) })?;
        Ok(())
    }
}

pub(super) fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_file_is_as_trustworthy_as_the_folders_above_it() {
        if crate::effective_user() != 0 {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/file"), "").unwrap();
        symlink("folder/file", at("link")).unwrap();
        let over = |name: &str| Rights::over(&at(name)).unwrap();
        assert_eq!(over("link"), (at("folder/file"), None));
        let mode = |mode| fs::set_permissions(at("folder/file"), Permissions::from_mode(mode));
        mode(0o666).unwrap();
        assert_eq!(over("link").1, Some(Rights::NOBODY));
        mode(0o644).unwrap();
        for theirs in ["folder/file", "folder"] {
            chown(at(theirs), Some(4711), Some(4712)).unwrap();
            assert_eq!(
                over("link").1,
                Some(Rights::of_owner(4711, 4712)),
                "{theirs}"
            );
            chown(at(theirs), Some(0), Some(0)).unwrap();
        }
        assert!(Rights::over(&at("missing")).is_err());
        assert_eq!(Rights::of_owner(4711, 0).group, Rights::NOBODY.group);
    }
}
