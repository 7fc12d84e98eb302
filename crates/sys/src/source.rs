//! Source files, whose names come from the target's debug information.
//!
//! That may name any file. What a report quotes must not be more than the user of the
//! target could read, although the caller may be root.

use super::rights::denied;
use super::{Rights, effective_user, reopen};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Larger files are generated: they tell little and take long to read.
const LARGEST: u64 = 16 << 20;

/// Whether this process has nothing to do with debug information.
static RENOUNCED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// As whom this thread reads sources; as the process, if that was not said.
    static READER: RefCell<Option<Rights>> = const { RefCell::new(None) };
}

/// From now on this thread reads sources only if whoever has these rights may read them.
pub fn read_sources_as(rights: Rights) {
    READER.set(Some(rights));
}

/// From now on this process reads neither debug information nor sources. To do so anyway is
/// a mistake, which debug builds do not survive.
pub fn renounce_debug_information() {
    RENOUNCED.store(true, Ordering::Relaxed);
}

/// Whether this process may read debug information and sources.
#[must_use]
pub fn may_read_debug_information() -> bool {
    let may = !RENOUNCED.load(Ordering::Relaxed);
    debug_assert!(may, "this process must not read debug information");
    may
}

/// The text of a source file, if it is a regular file of sensible size: neither `/dev/zero`
/// nor a pipe can hang whoever asks, and no device is opened.
#[must_use]
pub fn read_source(path: &Path) -> Option<Vec<u8>> {
    if !may_read_debug_information() {
        return None;
    }
    let file = READER.with_borrow(|reader| match reader {
        Some(rights) if rights.user != effective_user() => rights.with(|| open(path)),
        _ => open(path),
    });
    let mut text = Vec::new();
    file.ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(text)
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
        let ours = Rights::of(std::process::id().cast_signed());
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
        let reader = Rights {
            user: 4711,
            group: 4712,
            groups: vec![4713],
        };
        let may_read = |name: &str| reader.with(|| open(&at(name))).is_ok();
        assert!(may_read("open.c") && may_read("theirs.c") && may_read("group.c"));
        assert!(!may_read("ours.c") && !may_read("link.c") && !may_read("closed/open.c"));
        assert!(open(&at("ours.c")).is_ok(), "we keep our rights");
    }
}
