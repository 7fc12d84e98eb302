//! Folders that somebody else may own, and files that are written into them whole.
//!
//! The owner of a folder can at any moment put a link in the place of the folder or of a
//! file in it. So a folder is opened once, a file in it is looked at without following a
//! link, and everything after that is done to the descriptors, never to a path again.

use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, access, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Names that are tried for a draft before somebody must be taking them on purpose.
const TRIES: u32 = 100;

/// More symbolic links than the kernel follows are a loop.
const LINKS: usize = 40;

/// A folder that was opened once.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// A file in a folder that has no name of its own yet. It goes away unless it gets one.
#[derive(Debug)]
pub struct Draft<'f> {
    folder: &'f Folder,
    name: String,
    file: File,
}

/// The folder that `path` is in: a relative one unless `path` starts at the root.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whether files can be made in a folder, as far as its file system and its mode tell.
///
/// # Errors
/// Why they cannot be.
pub fn takes_files(folder: &Path) -> io::Result<()> {
    Ok(access(folder, AccessFlags::W_OK)?)
}

/// Puts a file with `bytes` in the place of `path` in one step.
///
/// # Errors
/// If the file cannot be written. Nothing is left behind then.
pub fn write_whole(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let folder = Folder::open(folder_of(path))?;
    let draft = folder.draft(mode)?;
    io::Write::write_all(&mut draft.file(), bytes)?;
    draft.place(path)
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// If it cannot be found, or is no folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self(openat(AT_FDCWD, path, flags, Mode::empty())?))
    }

    /// Opens a folder, and makes those that are missing on the way to it. It is reached step
    /// by step: links that are neither ours nor root's are not followed, since whoever owns one
    /// could have folders made anywhere.
    ///
    /// # Errors
    /// If a part of the path is no folder or another user's link, or cannot be made.
    pub fn make_all(path: &Path) -> io::Result<Self> {
        let mut at = Self::open(Path::new("."))?;
        let mut ahead: Vec<PathBuf> = steps(path);
        let mut links = 0;
        while let Some(step) = ahead.pop() {
            let found = at.step(&step)?;
            if !found.metadata()?.is_symlink() {
                at = Self(found.into());
                continue;
            }
            links += 1;
            if links > LINKS {
                return Err(nix::Error::ELOOP.into());
            }
            if ![0, crate::effective_user()].contains(&found.metadata()?.uid()) {
                let step = step.display();
                return Err(io::Error::other(format!(
                    "{step} on the way to it is another user's symbolic link"
                )));
            }
            ahead.extend(steps(Path::new(&link_target(&found)?)));
        }
        Ok(at)
    }

    /// The folder or link of this name, which is made if it is not there.
    fn step(&self, name: &Path) -> io::Result<File> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = || openat(&self.0, name, flags, Mode::empty());
        let found = open().or_else(|error| {
            if error != nix::Error::ENOENT {
                return Err(error);
            }
            // Somebody else may just have made it.
            match mkdirat(&self.0, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(nix::Error::EEXIST) => open(),
                Err(error) => Err(error),
            }
        })?;
        let found = File::from(found);
        let about = found.metadata()?;
        if about.is_dir() || about.is_symlink() {
            Ok(found)
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Removes a file. Nothing is followed, and what cannot be removed stays.
    pub fn remove(&self, name: &OsStr) {
        let _ = unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir);
    }

    /// Where it is now, without links.
    ///
    /// # Errors
    /// If `/proc` does not say.
    pub fn path(&self) -> io::Result<PathBuf> {
        by_descriptor(&self.0).read_link()
    }

    /// What has this name in it, a link included, to look at and to [`reopen`].
    ///
    /// # Errors
    /// If there is nothing, or it may not be looked at.
    pub fn look(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Makes a file of this name, which must not exist.
    ///
    /// # Errors
    /// If it exists, or cannot be made.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_bits_truncate(mode))?.into())
    }

    /// A new file, which nobody else can have made.
    ///
    /// # Errors
    /// If none can be made.
    pub fn draft(&self, mode: u32) -> io::Result<Draft<'_>> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        let mut tries = 0;
        loop {
            let name = format!(".redhanded-{:016x}.tmp", RandomState::new().hash_one(tries));
            match openat(&self.0, name.as_str(), flags, mode) {
                Ok(file) => {
                    let file = file.into();
                    let folder = self;
                    return Ok(Draft { folder, name, file });
                }
                Err(nix::Error::EEXIST) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Draft<'_> {
    /// The file, to write to.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the last name of `path` in its folder, in the place of what has it. A link
    /// of that name is replaced, too. Whoever owns the folder may have exchanged the draft
    /// for another of their files, and gets that one instead.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn place(self, path: &Path) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let folder = &self.folder.0;
        Ok(renameat(folder, self.name.as_str(), folder, name)?)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // There is none by this name any more if it has got another.
        let _ = unlinkat(
            &self.folder.0,
            self.name.as_str(),
            UnlinkatFlags::NoRemoveDir,
        );
    }
}

/// The steps of a path, the first one last.
fn steps(path: &Path) -> Vec<PathBuf> {
    let name = |component: Component<'_>| component.as_os_str().into();
    path.components().rev().map(name).collect()
}

/// Where a link leads that [`Folder::look`] found.
///
/// # Errors
/// If it is no link.
pub fn link_target(link: &File) -> io::Result<OsString> {
    Ok(readlinkat(link, "")?)
}

/// Opens the very file that [`Folder::look`] found, whatever has its name now.
///
/// # Errors
/// If it may not be opened so.
pub fn reopen(file: &File, options: &OpenOptions) -> io::Result<File> {
    options.open(by_descriptor(file))
}

fn by_descriptor(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// What a folder's owner can do between any two of our steps.
    fn exchange(victim: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            fs::remove_file(&entry).unwrap();
            symlink(victim, entry).unwrap();
        }
    }

    #[test]
    fn a_draft_exchanged_for_a_link_leaves_the_linked_file_alone() {
        let place = tempfile::tempdir().unwrap();
        let (victim, hostile) = (place.path().join("victim"), place.path().join("hostile"));
        fs::write(&victim, "precious").unwrap();
        fs::create_dir(&hostile).unwrap();
        let before = fs::metadata(&victim).unwrap();
        let folder = Folder::open(&hostile).unwrap();
        let draft = folder.draft(0o600).unwrap();
        exchange(&victim, &hostile);
        io::Write::write_all(&mut draft.file(), b"report").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        draft.file().set_permissions(mode).unwrap();
        draft.place(Path::new("report.json")).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        let after = fs::metadata(&victim).unwrap();
        assert_eq!((after.mode(), after.uid()), (before.mode(), before.uid()));
    }

    #[test]
    fn a_folder_exchanged_for_a_link_stays_the_one_that_was_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("ours")).unwrap();
        fs::create_dir(at("theirs")).unwrap();
        fs::write(at("theirs/report"), "old").unwrap();
        let folder = Folder::open(&at("theirs")).unwrap();
        let old = folder.look(OsStr::new("report")).unwrap();
        fs::rename(at("theirs"), at("moved")).unwrap();
        symlink(at("ours"), at("theirs")).unwrap();
        let draft = folder.draft(0o600).unwrap();
        draft.place(&at("theirs/report")).unwrap();
        drop(folder.draft(0o600).unwrap());
        assert_eq!(fs::read_dir(at("ours")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(at("moved")).unwrap().count(), 1);
        assert_eq!(fs::read(at("moved/report")).unwrap(), b"");
        let old = reopen(&old, OpenOptions::new().read(true)).unwrap();
        assert_eq!(io::read_to_string(old).unwrap(), "old");
    }

    #[test]
    fn missing_folders_are_made_below_what_is_there() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("there")).unwrap();
        symlink("there", at("ours")).unwrap();
        symlink(at("ours"), at("absolute")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (path, made) in [
            ("there/a/b", "there/a/b"),
            ("ours/c/../d", "there/d"),
            ("absolute/e/", "there/e"),
            ("there", "there"),
        ] {
            let folder = Folder::make_all(&at(path)).unwrap();
            let made = fs::canonicalize(at(made)).unwrap();
            assert_eq!(folder.path().unwrap(), made);
        }
        for path in ["loop/a", "file", "file/a"] {
            assert!(Folder::make_all(&at(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn nothing_is_made_where_another_users_link_leads() {
        if crate::effective_user() != 0 {
            eprintln!("skipped: only root can make a link for somebody else");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("ours")).unwrap();
        symlink("ours", at("theirs")).unwrap();
        std::os::unix::fs::lchown(at("theirs"), Some(4711), None).unwrap();
        for path in ["theirs", "theirs/new"] {
            let error = Folder::make_all(&at(path)).unwrap_err().to_string();
            assert!(error.contains("another user's symbolic link"), "{error}");
        }
        assert_eq!(fs::read_dir(at("ours")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_is_looked_at_and_replaced_but_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (victim, link) = (place.path().join("victim"), place.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink("victim", &link).unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let found = folder.look(OsStr::new("link")).unwrap();
        assert!(found.metadata().unwrap().is_symlink());
        assert_eq!(link_target(&found).unwrap(), "victim");
        write_whole(&link, 0o600, b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(&link).unwrap(), b"new");
    }
}
