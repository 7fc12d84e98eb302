//! The files that a recording names, and with whose rights they are read.
//!
//! A recorded program writes its own stream, so it names any files it likes as its modules, and
//! their debug information names any files as sources. So everything is read with the rights of
//! whoever chose the names: of the owners of the recording and of the modules the first that is
//! not root.

use redhanded_image::Image;
use redhanded_recording::Recording;
use redhanded_sys::{Rights, effective_user};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A recording with more files is nobody's to trust.
const MOST: usize = 1 << 16;

/// How the files of a recording are reached.
pub enum Files {
    /// As whoever runs this, who is not root.
    AsCaller,
    /// With these rights.
    As(Rights),
    /// As root: by the paths without links of those that nobody else can exchange.
    AsRoot(HashMap<String, PathBuf>),
}

impl Files {
    /// Those that a recording names.
    pub fn of(recording: &Recording) -> Self {
        if effective_user() != 0 {
            return Self::AsCaller;
        }
        match recording.owner() {
            Some((0, _)) => {}
            Some((user, group)) => return Self::As(Rights::of_owner(user, group)),
            None => return Self::As(Rights::NOBODY),
        }
        let mut known = HashMap::new();
        let modules = recording.processes().iter().flat_map(|one| one.modules());
        for mapped in modules {
            let path = &mapped.module.path;
            if known.contains_key(path) {
                continue;
            }
            if known.len() == MOST {
                return Self::As(Rights::NOBODY);
            }
            match Rights::over(Path::new(path)) {
                Ok((_, Some(rights))) => return Self::As(rights),
                Ok((whole, None)) => known.insert(path.clone(), Some(whole)),
                // What comes there later is not looked at.
                Err(_) => known.insert(path.clone(), None),
            };
        }
        let found = known.into_iter();
        Self::AsRoot(
            found
                .filter_map(|(name, path)| Some((name, path?)))
                .collect(),
        )
    }

    /// The rights that are enough to read them, if not the caller's.
    pub fn rights(&self) -> Option<Rights> {
        match self {
            Self::As(rights) => Some(rights.clone()),
            Self::AsCaller | Self::AsRoot(_) => None,
        }
    }

    /// A module, and when it was changed, in seconds.
    pub fn open(&self, path: &str) -> Option<(Image, i64)> {
        let open = |path: &Path| -> io::Result<(Image, i64)> {
            let image = Image::open(path).map_err(io::Error::other)?;
            Ok((image, path.metadata()?.mtime()))
        };
        match self {
            Self::AsCaller => open(Path::new(path)),
            Self::As(rights) => rights.with(|| open(Path::new(path))),
            Self::AsRoot(known) => open(known.get(path)?),
        }
        .ok()
    }
}
