//! Source files, whose names come from the target's debug information.
//!
//! That may name any file. What a report quotes must not be more than the user of the
//! target could read, although the caller may be root.

use super::{Tid, check, effective_user, reopen, status_field};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// Larger files are generated: they tell little and take long to read.
const LARGEST: u64 = 16 << 20;

/// As whom sources are read; as the caller, if that was not said.
static READER: OnceLock<Reader> = OnceLock::new();

/// The user, group and further groups of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reader {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

/// From now on reads sources only if the user of this process may read them.
pub fn read_sources_as(pid: Tid) {
    let _ = READER.set(Reader::of(pid).unwrap_or(Reader::NOBODY));
}

/// The text of a source file, if it is a regular file of sensible size: neither `/dev/zero`
/// nor a pipe can hang whoever asks, and no device is opened.
#[must_use]
pub fn read_source(path: &Path) -> Option<Vec<u8>> {
    let file = match READER.get() {
        Some(reader) if reader.user != effective_user() => reader.open(path),
        _ => open(path),
    };
    let mut text = Vec::new();
    file.ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(text)
}

impl Reader {
    const NOBODY: Self = Self {
        user: 65534,
        group: 65534,
        groups: Vec::new(),
    };

    /// Of its real, effective, saved and file system users the first that is not root: one
    /// of them may have written what the process has mapped.
    fn of(pid: Tid) -> Option<Self> {
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

    /// Opens a source with the rights of this user, in a thread that has no others. So the
    /// kernel judges the folders on the way, links and access lists as well.
    fn open(&self, path: &Path) -> io::Result<File> {
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| self.become_it().and_then(|()| open(path)));
            opened.join().unwrap_or_else(|_| Err(denied()))
        })
    }

    /// Takes this user's rights to files for the calling thread, which keeps none of its own.
    fn become_it(&self) -> io::Result<()> {
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
        // The third version of the structures, for this thread; no capability is left.
        let (header, none) = ([0x2008_0522_u32, 0], [0_u32; 6]);
        // SAFETY: they have the sizes that this version has, and the kernel reads them.
        check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) })?;
        Ok(())
    }
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let found = options.read(true).custom_flags(libc::O_PATH).open(path)?;
    let about = found.metadata()?;
    if !about.is_file() || about.len() > LARGEST {
        return Err(denied());
    }
    reopen(&found, OpenOptions::new().read(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn only_regular_files_of_sensible_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.c"), "int x;").unwrap();
        symlink("a.c", at("link.c")).unwrap();
        assert_eq!(read_source(&at("link.c")).unwrap(), b"int x;");
        let pipe = nix::unistd::mkfifo(&at("pipe.c"), nix::sys::stat::Mode::S_IRWXU);
        pipe.unwrap();
        File::create(at("large.c"))
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        for other in ["pipe.c", "large.c", ".", "/dev/zero", "/dev/null"] {
            assert_eq!(read_source(&at(other)), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_read_for_with_its_own_rights() {
        let ours = Reader::of(std::process::id().cast_signed()).unwrap();
        assert_eq!(ours.user, effective_user());
        if effective_user() != 0 {
            eprintln!("skipped: only root can read as somebody else");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let allow = |name: &str, mode| {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir(at("closed")).unwrap();
        for name in ["open.c", "ours.c", "theirs.c", "group.c", "closed/open.c"] {
            fs::write(at(name), name).unwrap();
            allow(name, 0o640);
        }
        symlink("ours.c", at("link.c")).unwrap();
        allow(".", 0o755);
        allow("open.c", 0o644);
        allow("closed/open.c", 0o644);
        allow("closed", 0o700);
        chown(at("theirs.c"), Some(4711), None).unwrap();
        chown(at("group.c"), None, Some(4713)).unwrap();
        let reader = Reader {
            user: 4711,
            group: 4712,
            groups: vec![4713],
        };
        let may_read = |name: &str| reader.open(&at(name)).is_ok();
        assert!(may_read("open.c") && may_read("theirs.c") && may_read("group.c"));
        assert!(!may_read("ours.c") && !may_read("link.c") && !may_read("closed/open.c"));
        assert!(open(&at("ours.c")).is_ok(), "we keep our rights");
    }
}
