//! The cache folder: where it is, who may write to it, and how it is filled.
//!
//! ```text
//! tools/qemu-system-x86/…                     packages, unpacked
//! release/6.1.0-54-cloud-amd64_6.1.172-1/     one version of the release's kernel
//!     image/…  debug/…  headers/…
//! backports/…                                 the same for newer kernels
//! .fetching-…/                                what is being fetched
//! ```
//!
//! Packages are downloaded and unpacked in a `.fetching-` folder, whose parts are
//! then renamed to where they belong. So what is there is complete, and whatever an
//! interrupted run leaves behind has a name by which the next run removes it. Other
//! files in the folder, such as those of earlier versions of Redhanded, are ignored.

use super::{on_file, unsupported};
use crate::ProvisionError;
use redhanded_sys::{Exchangeable, exchangeable, make_own_folder, user_cache};
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FETCHING: &str = ".fetching-";
/// The mode of folders: writable by us only, whatever the umask is.
const MODE: u32 = 0o755;

/// The folder in which packages are kept: `REDHANDED_KERNELS` if that is set.
///
/// # Errors
/// When neither that nor a home folder is set.
pub fn cache_folder() -> Result<PathBuf, ProvisionError> {
    let set = env::var_os("REDHANDED_KERNELS").filter(|value| !value.is_empty());
    if let Some(folder) = set {
        return Ok(folder.into());
    }
    user_cache("kernels").ok_or_else(|| {
        unsupported("no home folder to keep packages in: set REDHANDED_KERNELS to a folder")
    })
}

/// Refuses a folder that another user could change: programs from it are run.
///
/// # Errors
/// When it or a folder above it belongs to neither us nor root, or others may write to it.
pub fn check_owner(folder: &Path) -> Result<(), ProvisionError> {
    let folder = folder.canonicalize().map_err(on_file("find", folder))?;
    let metadata = fs::metadata(&folder).map_err(on_file("find", &folder))?;
    match exchangeable(&folder).map_err(on_file("find", &folder))? {
        Some(exchangeable) => Err(refused(&exchangeable)),
        // Its group, too.
        None if metadata.mode() & 0o022 != 0 => Err(refused(&Exchangeable::Writable(folder))),
        None => Ok(()),
    }
}

fn refused(exchangeable: &Exchangeable) -> ProvisionError {
    unsupported(match exchangeable {
        Exchangeable::Owned(_) => {
            format!("{exchangeable}: set REDHANDED_KERNELS to a folder of your own")
        }
        Exchangeable::Writable(part) => format!(
            "{exchangeable}: run `chmod go-w {}`, or set REDHANDED_KERNELS to another folder",
            part.display()
        ),
    })
}

/// The cache folder, made if need be, if nobody else can change it: what is kept there is
/// believed, and what is old there is removed.
///
/// # Errors
/// When it cannot be made, or another user could change it.
pub fn own_cache_folder() -> Result<PathBuf, ProvisionError> {
    make_own(&cache_folder()?)
}

/// Makes it, and gives its path from the root and without links.
fn make_own(folder: &Path) -> Result<PathBuf, ProvisionError> {
    let made = make_own_folder(folder, MODE).map_err(on_file("create", folder))?;
    let folder = made.map_err(|exchangeable| refused(&exchangeable))?;
    check_owner(&folder)?;
    Ok(folder)
}

/// Creates a folder and those above it, writable by us only whatever the umask is.
pub fn make_folder(folder: &Path) -> Result<(), ProvisionError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(MODE).create(folder);
    made.map_err(on_file("create", folder))
}

/// The cache folder while it is being filled: locked against other runs.
pub struct Cache {
    /// Where it is, from the root and without links.
    pub folder: PathBuf,
    lock: File,
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Closing the file is not enough: a program that another thread is just starting has
        // the lock too, until it runs.
        drop(self.lock.unlock());
    }
}

impl Cache {
    /// Creates the folder if need be, waits for its lock, and removes what
    /// interrupted runs have left behind.
    pub fn lock(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Self, ProvisionError> {
        let folder = make_own(folder)?;
        let path = folder.join(".lock");
        let lock = open_lock(&path).map_err(on_file("open", &path))?;
        if lock.try_lock().is_err() {
            let folder = folder.display();
            say(&format!("waiting for another run that fills {folder}"));
            lock.lock().map_err(on_file("lock", &path))?;
        }
        remove_leftovers(&folder);
        Ok(Self { folder, lock })
    }

    /// A folder to fetch into.
    pub fn stage(&self) -> Result<TempDir, ProvisionError> {
        tempfile::Builder::new()
            .prefix(FETCHING)
            // apt's own user has to get through it.
            .permissions(Permissions::from_mode(0o711))
            .tempdir_in(&self.folder)
            .map_err(on_file("create a folder in", &self.folder))
    }
}

/// Removes what interrupted runs have left behind, unless another run is at work.
pub fn tidy(folder: &Path) {
    let lock = open_lock(&folder.join(".lock"));
    if lock.is_ok_and(|lock| check_owner(folder).is_ok() && lock.try_lock().is_ok()) {
        remove_leftovers(folder);
    }
}

fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(FETCHING.as_bytes()) {
            // What cannot be removed takes up room and does no other harm.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o644);
    options.custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_sys::effective_user;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for mode in [0o700, 0o755] {
            fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
            check_owner(folder).unwrap();
        }
        for mode in [0o775, 0o757, 0o1777] {
            fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
            let error = check_owner(folder).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
            assert!(Cache::lock(folder, &mut |_| ()).is_err());
        }
        if effective_user() == 0 {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(folder, Some(12345), None).unwrap();
            let error = check_owner(folder).unwrap_err().to_string();
            assert!(error.contains("another user"), "{error}");
            // Its owner could exchange what is in it, whoever that belongs to.
            let below = folder.join("below");
            fs::create_dir(&below).unwrap();
            let error = check_owner(&below).unwrap_err().to_string();
            assert!(error.contains("another user"), "{error}");
        }
    }

    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let cache = folder.path().join("cache");
        fs::create_dir(&cache).unwrap();
        std::os::unix::fs::symlink(&victim, cache.join(".lock")).unwrap();
        assert!(Cache::lock(&cache, &mut |_| ()).is_err());
        fs::remove_file(cache.join(".lock")).unwrap();
        fs::hard_link(&victim, cache.join(".lock")).unwrap();
        assert!(Cache::lock(&cache, &mut |_| ()).is_ok());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn leftovers_go_unless_somebody_is_at_work() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let cache = Cache::lock(folder, &mut |_| ()).unwrap();
        let stage = cache.stage().unwrap().keep();
        fs::write(stage.join("half"), "").unwrap();
        tidy(folder);
        assert!(stage.exists(), "the lock is held");
        // What a program has that is just being started.
        let _inherited = cache.lock.try_clone().unwrap();
        drop(cache);
        tidy(folder);
        assert!(!stage.exists());
    }
}
