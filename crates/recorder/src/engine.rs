//! Where the recorder is.

use redhanded_sys::{Exchangeable, effective_user, exchangeable_but_by};
use std::env;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folder beside the binary, and in the data folder.
const FOLDER: &str = "recorder";
/// DynamoRIO.
const LIBRARY: &str = "libdynamorio.so";
/// Our client of it.
const CLIENT: &str = "libredhanded_recorder.so";

/// The recorder, as `cargo xtask recorder` built it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engine {
    /// DynamoRIO, which is executed in place of the program and loads it.
    pub library: PathBuf,
    /// What runs inside the program.
    pub client: PathBuf,
}

/// There is no recorder that can be used.
#[derive(Debug, Error)]
pub enum NoEngine {
    /// It is in none of these folders.
    #[error(
        "the recorder is not there (looked for it in {}); build it in a checkout of Redhanded with \
         `cargo xtask recorder --install`, which needs cmake and gcc",
        list(.0)
    )]
    Missing(Vec<PathBuf>),
    /// Somebody else could have put it there, and it would run with the caller's rights.
    #[error(
        "the recorder in {} is not used, because {why}; set XDG_DATA_HOME to a folder of your own",
        .folder.display()
    )]
    Refused {
        /// Where it is.
        folder: PathBuf,
        /// Who could.
        why: String,
    },
}

fn list(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    names.join(" and ")
}

impl Engine {
    /// Finds it beside the binary, or in the user's data folder.
    ///
    /// # Errors
    /// Where it was looked for, or why what is there is not used.
    pub fn find() -> Result<Self, NoEngine> {
        let mut folders = Vec::new();
        if let Ok(binary) = env::current_exe()
            && let Some(folder) = binary.parent()
        {
            // Whoever owns the binary could have exchanged that.
            let owner = binary.metadata().map_or(0, |about| about.uid());
            folders.push((folder.join(FOLDER), owner));
        }
        if let Some(folder) = Self::users_folder() {
            folders.push((folder, effective_user()));
        }
        Self::first(&folders)
    }

    /// Where the user's own is: any binary finds it there.
    #[must_use]
    pub fn users_folder() -> Option<PathBuf> {
        Some(data_folder()?.join("redhanded").join(FOLDER))
    }

    /// The first that can be used, of folders and whom else each is trusted to. One that is
    /// refused hides no other.
    fn first(folders: &[(PathBuf, u32)]) -> Result<Self, NoEngine> {
        let mut refused = None;
        for (folder, trusted) in folders {
            match Self::within(folder, *trusted) {
                Ok(Some(engine)) => return Ok(engine),
                Ok(None) => {}
                Err(why) => {
                    refused.get_or_insert(why);
                }
            }
        }
        let missing = || NoEngine::Missing(folders.iter().map(|(at, _)| at.clone()).collect());
        Err(refused.unwrap_or_else(missing))
    }

    /// The recorder in `folder`, if it is there, by paths without links. Whoever could exchange
    /// it would have the caller's rights; that may be root, the caller and `trusted`.
    ///
    /// # Errors
    /// If others could exchange it.
    pub fn within(folder: &Path, trusted: u32) -> Result<Option<Self>, NoEngine> {
        let refused = |why| NoEngine::Refused {
            folder: folder.to_owned(),
            why,
        };
        let (library, client) = (folder.join(LIBRARY), folder.join(CLIENT));
        if !(library.is_file() && client.is_file()) {
            return Ok(None);
        }
        Ok(Some(Self {
            library: trustworthy(&library, trusted).map_err(refused)?,
            client: trustworthy(&client, trusted).map_err(refused)?,
        }))
    }
}

/// The path of a file without links, unless somebody else could exchange or change the file.
fn trustworthy(file: &Path, trusted: u32) -> Result<PathBuf, String> {
    let unknown = |why: io::Error| format!("{} cannot be looked at: {why}", file.display());
    let file = file.canonicalize().map_err(unknown)?;
    // The file itself is the first of its ancestors.
    if let Some(part) = exchangeable_but_by(&file, trusted).map_err(unknown)? {
        return Err(part.to_string());
    }
    let about = file.metadata().map_err(unknown)?;
    if about.mode() & 0o022 != 0 {
        return Err(Exchangeable::Writable(file).to_string());
    }
    Ok(file)
}

/// Where a user's programs keep their data, by the usual convention.
fn data_folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    named("XDG_DATA_HOME").filter(absolute).or_else(|| {
        let home = named("HOME").filter(absolute)?;
        Some(home.join(".local/share"))
    })
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests write into folders of their own"
)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn refused(folder: &Path) -> String {
        let found = Engine::within(folder, effective_user());
        let error = found.expect_err("another user could exchange it");
        error.to_string()
    }

    #[test]
    fn a_recorder_that_others_could_exchange_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let folder = place.join("recorder");
        fs::create_dir(&folder).unwrap();
        let us = effective_user();
        assert_eq!(Engine::within(&folder, us).unwrap(), None);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for name in [LIBRARY, CLIENT] {
            fs::write(folder.join(name), "").unwrap();
            set(&folder.join(name), 0o755);
        }
        symlink(&folder, place.join("link")).unwrap();
        let engine = Engine::within(&place.join("link"), us).unwrap().unwrap();
        assert_eq!(engine.client, folder.join(CLIENT));

        set(&folder.join(CLIENT), 0o775);
        assert!(refused(&folder).contains("other users may write to"));
        set(&folder.join(CLIENT), 0o755);
        set(&folder, 0o777);
        assert!(refused(&folder).contains("other users may write to"));
        set(&folder, 0o755);
        let other = place.join("other");
        fs::create_dir(&other).unwrap();
        let folders = [(folder.clone(), us), (other.clone(), us)];
        set(&folder, 0o777);
        assert!(matches!(
            Engine::first(&folders),
            Err(NoEngine::Refused { .. })
        ));
        for name in [LIBRARY, CLIENT] {
            fs::write(other.join(name), "").unwrap();
            set(&other.join(name), 0o755);
        }
        assert_eq!(Engine::first(&folders).unwrap().client, other.join(CLIENT));
        set(&folder, 0o755);
        assert_eq!(Engine::first(&folders).unwrap().client, folder.join(CLIENT));
        let nowhere = Engine::first(&[(place.join("none"), us)]);
        assert!(matches!(nowhere, Err(NoEngine::Missing(..))));
        if us != 0 {
            eprintln!("skipped in part: only root can give a file away");
            return;
        }
        for theirs in [folder.join(LIBRARY), folder.clone()] {
            chown(&theirs, Some(4711), None).unwrap();
            assert!(refused(&folder).contains("belongs to another user"));
            // The binary is theirs as well.
            assert!(Engine::within(&folder, 4711).unwrap().is_some());
            chown(&theirs, Some(0), None).unwrap();
        }
    }
}
