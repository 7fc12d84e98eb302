//! Keeps sampling sets between runs, one file for each program or library.
//!
//! Decoding all code of a large program takes seconds, loading a set takes milliseconds. But
//! a wrong site would put a breakpoint into the middle of an instruction. So a set is used
//! only if this very executable made it from this very file, and if nobody else can write to
//! the folder.

use super::{SamplingSet, encoding};
use crate::{FileIdentity, Image};
use nix::dir::Dir;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use redhanded_sys::make_own_folder;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Once;

/// Less code than this is not worth a file.
const LEAST_TEXT: u64 = 16 << 10;
/// Larger files are not ours: the set of a kernel takes a tenth of this.
const LARGEST: u64 = 128 << 20;
/// The most that all files together may take, checked once per run.
const MOST_KEPT: i64 = 512 << 20;
const NO_ONE_ELSE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A folder with the sampling sets of earlier runs.
pub struct SiteCache {
    folder: OwnedFd,
    /// This executable, since another one may decode differently.
    maker: FileIdentity,
    trimmed: Once,
}

impl SiteCache {
    /// Opens the cache in `folder`, which is created if necessary.
    ///
    /// # Errors
    /// If it cannot be opened, or if somebody else owns it or can write to it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        // A link is not even looked for elsewhere.
        if folder.is_symlink() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Whoever can exchange a folder above it decides what is in it.
        let folder = &make_own_folder(folder, 0o700)?.map_err(|exchangeable| {
            io::Error::new(io::ErrorKind::PermissionDenied, exchangeable.to_string())
        })?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(AT_FDCWD, folder, flags, Mode::empty())?;
        check(&folder, SFlag::S_IFDIR)?;
        Ok(Self {
            folder,
            maker: FileIdentity::of(&env::current_exe()?)?,
            trimmed: Once::new(),
        })
    }

    /// The set of `image` from an earlier run.
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

    /// Stores the set of `image`. Failing to do so only costs time in the next run.
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

    /// The name of an image's file in the cache, and everything that its set depends on.
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
        // The functions of a stripped file come from there.
        if let Some(debug) = image.debug().source().filter(|path| *path != image.path()) {
            key.extend(FileIdentity::of(debug).ok()?.to_bytes());
        }
        let (device, inode) = identity.place();
        Some((format!("{device:x}-{inode:x}"), key))
    }

    /// Writes a file atomically.
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

    /// Removes the oldest files until all of them together take at most `most` bytes.
    fn trim(&self, most: i64) -> io::Result<()> {
        let mut files = Vec::new();
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        for entry in Dir::openat(&self.folder, ".", flags, Mode::empty())?.iter() {
            let name = entry?.file_name().to_owned();
            let data = fstatat(&self.folder, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            if data.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits() {
                files.push((data.st_mtime, data.st_size, name));
            }
        }
        files.sort();
        let mut kept: i64 = files.iter().map(|(_, size, _)| size).sum();
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

/// Checks that an open file is of this kind, belongs to us, and is not writable by others.
/// Returns its size.
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
    use redhanded_model::{AccessKind, Site, Svma};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    fn set(size: u16) -> SamplingSet {
        let site = Site {
            svma: Svma(7),
            function: 0,
            size,
            kind: AccessKind::Read,
        };
        SamplingSet {
            sites: Arc::new(vec![site]),
            excluded_in: vec![0],
            ..SamplingSet::default()
        }
    }

    #[test]
    fn nothing_is_kept_of_a_file_that_may_still_change_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy(env::current_exe().unwrap(), &path).unwrap();
        let cache = SiteCache::open(&folder.path().join("cache")).unwrap();
        loop {
            // This changes it now.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            let image = Image::open(&path).unwrap();
            cache.store(&image, &set(4));
            let kept = cache.load(&image);
            // On a busy machine, the file may have come of age before it was stored.
            if image.identity().unwrap().is_fresh() {
                assert_eq!(kept, None);
                break;
            }
        }
    }

    #[test]
    fn a_set_is_kept_for_as_long_as_the_file_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy(env::current_exe().unwrap(), &path).unwrap();
        let open = || Image::open(&path).unwrap();
        let place = folder.path().join("a/b");
        let cache = SiteCache::open(&place).unwrap();
        std::thread::sleep(Duration::from_secs(3));
        cache.store(&open(), &set(4));
        let again = SiteCache::open(&place).unwrap();
        assert_eq!(again.load(&open()), Some(set(4)));

        let files: Vec<_> = fs::read_dir(&place).unwrap().map(|f| f.unwrap()).collect();
        assert_eq!(files.len(), 1, "no temporary file is left");
        assert_eq!(files[0].metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(place.metadata().unwrap().mode() & 0o777, 0o700);
        let (kept, moved) = (files[0].path(), folder.path().join("moved"));
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(cache.load(&open()), None, "anybody can write");
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&kept, &moved).unwrap();
        symlink(&moved, &kept).unwrap();
        assert_eq!(cache.load(&open()), None, "a link");
        fs::rename(&moved, &kept).unwrap();

        let before = open();
        fs::write(&path, fs::read(&path).unwrap()).unwrap();
        assert_eq!(cache.load(&open()), None, "the file was written to");
        cache.store(&before, &set(8));
        assert_eq!(cache.load(&before), Some(set(4)), "nothing was replaced");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        drop(SiteCache::open(&place).unwrap());
        fs::set_permissions(&place, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(SiteCache::open(&place).is_err(), "the group can write");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(SiteCache::open(&place).is_ok());
        let link = folder.path().join("link");
        symlink(&place, &link).unwrap();
        assert!(SiteCache::open(&link).is_err(), "a link");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&place, Some(1), None).unwrap();
            assert!(SiteCache::open(&place).is_err(), "somebody else's");
            assert!(SiteCache::open(&place.join("new")).is_err(), "in it");
            let below = place.join("below");
            fs::create_dir(&below).unwrap();
            fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
            assert!(SiteCache::open(&below).is_err(), "below it");
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let cache = SiteCache::open(&place).unwrap();
        let now = SystemTime::now();
        for age in 0..4_u8 {
            let name = age.to_string();
            cache.write(&name, &[age; 10]).unwrap();
            let file = File::options().write(true).open(place.join(name)).unwrap();
            let age = Duration::from_secs(age.into());
            file.set_modified(now - age).unwrap();
        }
        cache.trim(25).unwrap();
        let left = |name: &str| place.join(name).exists();
        assert!(left("0") && left("1") && !left("2") && !left("3"));
    }
}
