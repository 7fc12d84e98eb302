//! Where stores are, and which places are refused.

use crate::StoreError;
use redhanded_sys::{
    Exchangeable, Folder, effective_user, exchangeable, folder_of, make_own_folder,
};
use std::env;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where Redhanded keeps state in the user's home, if there is one.
#[must_use]
pub fn state_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(state.join("redhanded"))
}

/// The store of the project in `folder`: its name for people, and a hash of its path because
/// two projects may have the same name.
#[must_use]
pub fn project_store(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).take(40).collect();
    let path = redhanded_model::Fingerprint(folder.to_string_lossy().into_owned());
    Some(
        state_folder()?
            .join(format!("{name}-{}", path.id()))
            .join("races.db"),
    )
}

/// Makes the folders above a store in the user's state folder, for this user alone: a store
/// has what was in the memory of programs.
pub fn make_folders(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = state_folder().filter(|state| path.starts_with(state)) else {
        return Ok(());
    };
    match make_own_folder(folder_of(path), 0o700) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(exchangeable)) => Err(refused(path, &exchangeable)),
        Err(source) => Err(StoreError::Io {
            path: folder,
            source,
        }),
    }
}

fn refused(path: &Path, exchangeable: &Exchangeable) -> StoreError {
    let why = match exchangeable {
        Exchangeable::Owned(part) => format!(
            "{} belongs to another user, who could exchange it; name a folder of your own",
            part.display()
        ),
        Exchangeable::Writable(part) => {
            let part = part.display();
            format!(
                "other users may write to {part}; run `chmod go-w {part}`, or name another folder"
            )
        }
    };
    StoreError::Refused {
        path: path.to_owned(),
        why,
    }
}

/// The path of a store without links, if nobody else can exchange any part of it. SQLite
/// opens its files by path, more than once, so descriptors alone would not help.
pub fn safe(path: &Path) -> Result<PathBuf, StoreError> {
    let unfit = |why: String| StoreError::Refused {
        path: path.to_owned(),
        why,
    };
    let failed = |source| StoreError::Io {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_name()
        .ok_or_else(|| unfit("it is a folder".to_owned()))?;
    let above = folder_of(path);
    let folder = Folder::open(above).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            unfit(format!("there is no folder {}", above.display()))
        }
        _ => failed(error),
    })?;
    let place = folder.path().map_err(failed)?;
    // Beside a store they could plant the journal that SQLite looks for, and believes.
    if let Some(exchangeable) = exchangeable(&place).map_err(failed)? {
        return Err(refused(path, &exchangeable));
    }
    match folder.look(name).and_then(|found| found.metadata()) {
        Ok(found) if found.is_symlink() => Err(unfit(
            "it is a symbolic link; name the file itself".to_owned(),
        )),
        Ok(found) if !found.is_file() => Err(unfit("it is no regular file".to_owned())),
        Ok(found) if ![0, effective_user()].contains(&found.uid()) => Err(unfit(
            "it belongs to another user; name a file of your own".to_owned(),
        )),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(place.join(name)),
    }
}
