//! Sampling sets kept between runs, one file for each program or library.
//!
//! Decoding all code of a large program takes seconds; reading what was found in it last
//! time takes milliseconds. A wrong site would make us patch the middle of an instruction,
//! so a set is used only if it was made by this very executable, from this very file, in a
//! folder that nobody else can write to.

use super::{SamplingSet, encoding};
use crate::{FileIdentity, Image};
use nix::dir::Dir;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::env;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Less code than this is decoded faster than a file is read and written.
const LEAST_TEXT: u64 = 16 << 10;
/// A larger file is not ours: a kernel's takes a tenth of it.
const LARGEST: u64 = 128 << 20;
/// All files together may take so much. It is looked at once in a run.
const MOST_KEPT: u64 = 512 << 20;
const NO_ONE_ELSE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A folder with the sampling sets of earlier runs.
pub struct SiteCache {
    folder: OwnedFd,
    /// This executable: another one may decode differently.
    maker: FileIdentity,
    trimmed: Once,
}

impl SiteCache {
    /// The cache in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be opened, or when somebody else owns it or may write to it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        if let Err(error) = folder.symlink_metadata()
            && error.kind() == io::ErrorKind::NotFound
        {
            make(folder)?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(AT_FDCWD, folder, flags, Mode::empty())?;
        check(&folder, SFlag::S_IFDIR)?;
        Ok(Self {
            folder,
            maker: FileIdentity::of(&env::current_exe()?)?,
            trimmed: Once::new(),
        })
    }

    /// What was found in `image` in an earlier run.
    pub(super) fn load(&self, image: &Image) -> Option<SamplingSet> {
        let (name, key) = self.entry(image)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = openat(&self.folder, name.as_str(), flags, Mode::empty()).ok()?;
        let size = check(&file, SFlag::S_IFREG).ok()?;
        if size > LARGEST {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?);
        File::from(file)
            .take(LARGEST)
            .read_to_end(&mut bytes)
            .ok()?;
        encoding::decode(&bytes, &key)
    }

    /// Keeps what was found in `image`. That it cannot be kept is nobody's concern.
    pub(super) fn store(&self, image: &Image, set: &SamplingSet) {
        let Some((name, key)) = self.entry(image) else {
            return;
        };
        // The file may have changed while its code was decoded.
        let unchanged = image.identity().is_some_and(|identity| {
            !identity.is_fresh() && FileIdentity::of(image.path()).is_ok_and(|now| now == *identity)
        });
        let bytes = encoding::encode(set, &key);
        if unchanged && bytes.len() as u64 <= LARGEST {
            let _ = self.write(&name, &bytes);
        }
    }

    /// The name of an image's file here, and all that the set depends on.
    fn entry(&self, image: &Image) -> Option<(String, Vec<u8>)> {
        let text: u64 = image
            .segments()
            .iter()
            .filter(|s| s.executable)
            .map(|s| s.file_size)
            .sum();
        let identity = image.identity().filter(|_| text >= LEAST_TEXT)?;
        let mut key = self.maker.to_bytes();
        key.extend(identity.to_bytes());
        // A stripped file has its functions from there.
        if let Some(debug) = image.debug().source().filter(|path| *path != image.path()) {
            key.extend(FileIdentity::of(debug).ok()?.to_bytes());
        }
        let (device, inode) = identity.place();
        Some((format!("{device:x}-{inode:x}"), key))
    }

    /// Writes a file whole or not at all.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.trimmed.call_once(|| {
            let _ = self.trim(MOST_KEPT);
        });
        let unfinished = format!("{name}.{}", std::process::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = openat(&self.folder, unfinished.as_str(), flags, NO_ONE_ELSE)?;
        let written = File::from(file).write_all(bytes).and_then(|()| {
            Ok(renameat(
                &self.folder,
                unfinished.as_str(),
                &self.folder,
                name,
            )?)
        });
        if written.is_err() {
            unlinkat(
                &self.folder,
                unfinished.as_str(),
                UnlinkatFlags::NoRemoveDir,
            )?;
        }
        written
    }

    /// Removes the oldest files until all of them take `most` bytes at most.
    fn trim(&self, most: u64) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let mut files = Vec::new();
        let here = flags | OFlag::O_DIRECTORY;
        for entry in Dir::openat(&self.folder, ".", here, Mode::empty())?.iter() {
            let name = entry?.file_name().to_owned();
            if let Ok(file) = openat(&self.folder, name.as_c_str(), flags, Mode::empty())
                && let Ok(size) = check(&file, SFlag::S_IFREG)
            {
                files.push((File::from(file).metadata()?.modified()?, size, name));
            }
        }
        files.sort();
        let mut kept: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in files {
            if kept <= most {
                break;
            }
            unlinkat(&self.folder, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            kept -= size;
        }
        Ok(())
    }
}

/// The user's folder for what can be made again, by the name of what is in it.
#[must_use]
pub fn user_cache(name: &str) -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.filter(|path| path.is_absolute());
    let caches = caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
    Some(caches.join("redhanded").join(name))
}

/// Makes a folder for its owner alone, in a place that is the owner's: with `sudo`, the
/// home may be somebody else's, who could not use the folder then.
fn make(folder: &Path) -> io::Result<()> {
    let home = folder.ancestors().find_map(|above| above.metadata().ok());
    if home.is_none_or(|home| home.uid() != geteuid().as_raw()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Checks that an open file is of this kind, ours, and not to be written by others. Its
/// size.
fn check(file: impl AsFd, kind: SFlag) -> io::Result<u64> {
    let data = fstat(file)?;
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    let is_ours = data.st_uid == geteuid().as_raw()
        && SFlag::from_bits_truncate(data.st_mode & SFlag::S_IFMT.bits()) == kind
        && !Mode::from_bits_truncate(data.st_mode).intersects(others);
    if is_ours {
        Ok(data.st_size.cast_unsigned())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A library that is on every machine, copied so that it is ours and can be changed.
    fn program(folder: &Path) -> PathBuf {
        let path = folder.join("program");
        fs::copy(env::current_exe().unwrap(), &path).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3));
        path
    }

    fn set(size: u16) -> SamplingSet {
        let site = redhanded_model::Site {
            svma: redhanded_model::Svma(7),
            function: 0,
            size,
            kind: redhanded_model::AccessKind::Read,
        };
        SamplingSet {
            sites: std::sync::Arc::new(vec![site]),
            excluded_in: vec![0],
            ..SamplingSet::default()
        }
    }

    #[test]
    fn a_set_is_kept_for_as_long_as_the_file_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path());
        let place = folder.path().join("a/b");
        let cache = SiteCache::open(&place).unwrap();
        let open = || Image::open(&path).unwrap();
        assert_eq!(cache.load(&open()), None);
        cache.store(&open(), &set(4));
        let again = SiteCache::open(&place).unwrap();
        assert_eq!(again.load(&open()), Some(set(4)));
        let files: Vec<_> = fs::read_dir(&place)
            .unwrap()
            .map(|file| file.unwrap())
            .collect();
        assert_eq!(files.len(), 1, "no unfinished one is left");
        assert_eq!(files[0].metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(place.metadata().unwrap().mode() & 0o777, 0o700);
        // Changed in place: the image that is mapped is not what it was opened as.
        let (before, bytes) = (open(), fs::read(&path).unwrap());
        fs::write(&path, bytes).unwrap();
        assert_eq!(again.load(&open()), None, "the file was written to");
        again.store(&before, &set(8));
        again.store(&open(), &set(8));
        assert_eq!(again.load(&before), Some(set(4)), "neither may be kept");
    }

    #[test]
    fn what_others_could_have_written_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        drop(SiteCache::open(&place).unwrap());
        let mode = |mode| fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o770);
        assert!(SiteCache::open(&place).is_err(), "the group can write");
        mode(0o700);
        assert!(SiteCache::open(&place).is_ok());
        let link = folder.path().join("link");
        symlink(&place, &link).unwrap();
        assert!(SiteCache::open(&link).is_err(), "a link");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&place, Some(1), None).unwrap();
            assert!(SiteCache::open(&place).is_err(), "somebody else's");
        }
        let path = program(folder.path());
        let image = Image::open(&path).unwrap();
        let place = folder.path().join("other");
        let cache = SiteCache::open(&place).unwrap();
        cache.store(&image, &set(4));
        let file = fs::read_dir(&place)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert_eq!(cache.load(&image), Some(set(4)));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(cache.load(&image), None, "anybody can write");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&file, folder.path().join("moved")).unwrap();
        symlink(folder.path().join("moved"), &file).unwrap();
        assert_eq!(cache.load(&image), None, "a link");
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let cache = SiteCache::open(&place).unwrap();
        let start = std::time::SystemTime::now();
        for age in 0..4_u8 {
            cache.write(&age.to_string(), &[age; 10]).unwrap();
            let file = File::options()
                .write(true)
                .open(place.join(age.to_string()))
                .unwrap();
            file.set_modified(start - std::time::Duration::from_secs(age.into()))
                .unwrap();
        }
        cache.trim(25).unwrap();
        let mut left: Vec<_> = fs::read_dir(&place)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["0", "1"]);
    }
}
