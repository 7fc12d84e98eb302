//! Paths that another user could lead elsewhere.

use crate::effective_user;
use nix::unistd::{Gid, Group, Uid, User};
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A folder that lets another user exchange what is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exchangeable {
    /// It is another user's, neither ours nor root's.
    Owned(PathBuf),
    /// All users, or those of a group, may write to it.
    Writable(PathBuf),
}

impl fmt::Display for Exchangeable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned(part) => write!(f, "{} belongs to another user", part.display()),
            Self::Writable(part) => write!(f, "other users may write to {}", part.display()),
        }
    }
}

/// The first folder from `place` up to the root by which another user could exchange
/// `place` or something in it. `place` is a folder, named from the root and without links.
/// In a sticky folder, such as `/tmp`, nobody can move what is not theirs, but can put
/// something beside it.
///
/// # Errors
/// If one of them cannot be looked at.
pub fn exchangeable(place: &Path) -> io::Result<Option<Exchangeable>> {
    exchangeable_but_by(place, effective_user())
}

/// The same, where `trusted` is the user who may exchange it besides root and us.
///
/// # Errors
/// If one of them cannot be looked at.
pub fn exchangeable_but_by(place: &Path, trusted: u32) -> io::Result<Option<Exchangeable>> {
    for part in place.ancestors() {
        let about = fs::metadata(part)?;
        if ![0, effective_user(), trusted].contains(&about.uid()) {
            return Ok(Some(Exchangeable::Owned(part.to_owned())));
        }
        let by_group = about.mode() & 0o020 != 0 && !is_own_group(about.gid(), about.uid());
        let (writable, sticky) = (about.mode() & 0o002 != 0, about.mode() & 0o1000 != 0);
        if (writable || by_group) && (!sticky || part == place) {
            return Ok(Some(Exchangeable::Writable(part.to_owned())));
        }
    }
    Ok(None)
}

/// Whether nobody but `user` and root is in a group: it is root's, or has the user's name and
/// nobody else was added. Many systems give each user such a group, and let it write.
fn is_own_group(group: u32, user: u32) -> bool {
    if group == 0 {
        return true;
    }
    let known = Group::from_gid(Gid::from_raw(group)).ok().flatten();
    let owner = User::from_uid(Uid::from_raw(user)).ok().flatten();
    match (known, owner) {
        (Some(group), Some(owner)) => {
            group.name == owner.name && group.mem.iter().all(|member| *member == owner.name)
        }
        // Where the list of users has neither, as in many containers.
        (None, None) => group == user,
        _ => false,
    }
}

/// Makes a folder and those above it, unless another user could exchange it. Gives its path
/// without links.
///
/// # Errors
/// If it cannot be made or looked at.
pub fn make_own_folder(folder: &Path, mode: u32) -> io::Result<Result<PathBuf, Exchangeable>> {
    // Nothing is made in the folders of others.
    let there = folder.ancestors().find(|part| part.exists());
    let there = there.unwrap_or(Path::new(".")).canonicalize()?;
    match exchangeable(&there)? {
        // It may be sticky, and what is made in it our own.
        Some(Exchangeable::Writable(part)) if part == there => {}
        Some(exchangeable) => return Ok(Err(exchangeable)),
        None => {}
    }
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)?;
    let folder = folder.canonicalize()?;
    Ok(exchangeable(&folder)?.map_or(Ok(folder), Err))
}

/// Where to make private folders that are used by their paths: what `TMPDIR` says, unless another
/// user could exchange what is made there; then `/tmp`. A path from the root and without links.
#[must_use]
pub fn temporary_place() -> PathBuf {
    let wanted = std::env::temp_dir();
    safe_for_temporary(&wanted).unwrap_or_else(|| PathBuf::from("/tmp"))
}

fn safe_for_temporary(wanted: &Path) -> Option<PathBuf> {
    let place = wanted.canonicalize().ok().filter(|place| place.is_dir())?;
    match exchangeable(&place).ok()? {
        None => Some(place),
        // In a sticky folder, what we make stays ours.
        Some(Exchangeable::Writable(part)) if part == place => {
            let is_sticky = fs::metadata(&place).ok()?.mode() & 0o1000 != 0;
            is_sticky.then_some(place)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn private_folders_are_made_where_nobody_else_can_exchange_them() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let open = place.join("open");
        fs::create_dir(&open).unwrap();
        std::os::unix::fs::symlink("open", place.join("link")).unwrap();
        let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        for (bits, is_safe) in [(0o755, true), (0o1777, true), (0o777, false)] {
            mode(bits);
            let safe = is_safe.then(|| open.clone());
            assert_eq!(safe_for_temporary(&open), safe, "{bits:o}");
            assert_eq!(safe_for_temporary(&place.join("link")), safe, "{bits:o}");
        }
        mode(0o755);
        assert_eq!(safe_for_temporary(&place.join("missing")), None);
        if effective_user() == 0 {
            chown(&open, Some(4711), None).unwrap();
            assert_eq!(safe_for_temporary(&open), None);
            let theirs = Some(Exchangeable::Owned(open.clone()));
            assert_eq!(exchangeable_but_by(&open, 4712).unwrap(), theirs);
            assert_eq!(exchangeable_but_by(&open, 4711).unwrap(), None);
        }
    }

    #[test]
    fn the_group_of_another_may_not_write_either() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().canonicalize().unwrap().join("open");
        let below = open.join("below");
        fs::create_dir_all(&below).unwrap();
        let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o775);
        let own = effective_user();
        assert!(is_own_group(0, own) && is_own_group(4712, 4712));
        assert!(!is_own_group(4712, 4711) && !is_own_group(4712, own));
        if own != 0 {
            eprintln!("skipped: only root can give a folder to any group");
            return;
        }
        assert_eq!(exchangeable(&below).unwrap(), None);
        chown(&open, None, Some(4712)).unwrap();
        // That takes the mode away.
        mode(0o775);
        let writable = Some(Exchangeable::Writable(open.clone()));
        assert_eq!(exchangeable(&below).unwrap(), writable);
        mode(0o755);
        assert_eq!(exchangeable(&below).unwrap(), None);
        mode(0o1775);
        assert_eq!(exchangeable(&below).unwrap(), None);
        assert_eq!(exchangeable(&open).unwrap(), writable);
    }

    fn make(path: &Path) -> Result<PathBuf, Exchangeable> {
        make_own_folder(path, 0o700).unwrap()
    }

    #[test]
    fn a_folder_is_ours_if_all_above_it_are() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (open, below) = (place.join("open"), place.join("open/below"));
        assert_eq!(make(&below), Ok(below.clone()));
        let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        assert_eq!(make(&below), Err(Exchangeable::Writable(open.clone())));
        mode(0o1777);
        assert_eq!(make(&below), Ok(below.clone()));
        assert_eq!(make(&open), Err(Exchangeable::Writable(open.clone())));
    }

    #[test]
    fn nothing_is_made_in_another_users_folder() {
        if effective_user() != 0 {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let theirs = place.join("theirs");
        let ours = make(&theirs.join("ours")).unwrap();
        chown(&theirs, Some(4711), None).unwrap();
        for path in [&ours, &theirs.join("new")] {
            assert_eq!(make(path), Err(Exchangeable::Owned(theirs.clone())));
        }
        assert!(!theirs.join("new").exists());
    }
}
