//! Locates a file's debug information: in the file itself, or in a separate one that is
//! found by build id or debug link.

use super::source_text::CarriedSource;
use crate::file_bytes::FileBytes;
use object::{Object, ObjectSection};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep separate debug files.
const SYSTEM_ROOT: &str = "/usr/lib/debug";

/// The folders in which separate debug files and sources are searched for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugSearch {
    /// Each contains `.build-id/xx/….debug` files, or debug files at the paths of the files
    /// that they belong to.
    pub roots: Vec<PathBuf>,
    /// Each contains a source tree which the debug information names by relative paths or by
    /// paths of another machine. The user vouches for these sources, so their age is not
    /// checked.
    pub sources: Vec<PathBuf>,
    /// Sources whose text is at hand, wherever the files are.
    pub carried: Vec<CarriedSource>,
}

impl Default for DebugSearch {
    fn default() -> Self {
        Self {
            roots: vec![PathBuf::from(SYSTEM_ROOT)],
            sources: vec![],
            carried: vec![],
        }
    }
}

impl DebugSearch {
    /// Only the file itself.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self {
            roots: vec![],
            sources: vec![],
            carried: vec![],
        }
    }
}

/// A mapped file with debug information.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) file: Arc<FileBytes>,
}

/// The file with the debug information of the image `file` at `path`.
pub(super) fn locate(path: &Path, file: &Arc<FileBytes>, search: &DebugSearch) -> Option<Located> {
    let object = object::File::parse(&***file).ok()?;
    if has_debug_info(&object) {
        return Some(Located {
            path: path.to_owned(),
            file: Arc::clone(file),
        });
    }
    let build_id = object.build_id().ok().flatten().unwrap_or_default();
    by_build_id(build_id, search)
        .into_iter()
        .find_map(|candidate| {
            open(&candidate, |debug, _| {
                debug.build_id().ok().flatten() == Some(build_id)
            })
        })
        .or_else(|| {
            let (name, crc) = object.gnu_debuglink().ok().flatten()?;
            by_link(path, Path::new(OsStr::from_bytes(name)), search)
                .into_iter()
                .find_map(|candidate| open(&candidate, |_, data| crc32fast::hash(data) == crc))
        })
}

/// The supplementary file (made by dwz) with entries that `located` refers to.
pub(super) fn supplementary(located: &Located, search: &DebugSearch) -> Option<Located> {
    let object = object::File::parse(&**located.file).ok()?;
    let (name, build_id) = object.gnu_debugaltlink().ok().flatten()?;
    let name = Path::new(OsStr::from_bytes(name));
    let mut candidates = vec![];
    if let Some(folder) = located.path.parent() {
        candidates.push(folder.join(name));
    }
    candidates.extend(by_build_id(build_id, search));
    candidates.into_iter().find_map(|candidate| {
        open(&candidate, |file, _| {
            file.build_id().ok().flatten() == Some(build_id)
        })
    })
}

fn by_build_id(build_id: &[u8], search: &DebugSearch) -> Vec<PathBuf> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let Some((first, rest)) = build_id.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return vec![];
    };
    let name = format!(".build-id/{}/{}.debug", hex(&[*first]), hex(rest));
    search.roots.iter().map(|root| root.join(&name)).collect()
}

fn by_link(path: &Path, name: &Path, search: &DebugSearch) -> Vec<PathBuf> {
    // The link has to be a bare file name. A path could lead anywhere.
    let Some(name) = name.file_name() else {
        return vec![];
    };
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(folder) = path.parent() else {
        return vec![];
    };
    let mut candidates = vec![folder.join(name), folder.join(".debug").join(name)];
    let below = folder.strip_prefix("/").unwrap_or(folder);
    candidates.extend(search.roots.iter().map(|root| root.join(below).join(name)));
    candidates.retain(|candidate| *candidate != path);
    candidates
}

fn open(path: &Path, accept: impl Fn(&object::File<'_>, &[u8]) -> bool) -> Option<Located> {
    let file = FileBytes::open(path).ok()?;
    let object = object::File::parse(&*file).ok()?;
    if !has_debug_info(&object) || !accept(&object, &file) {
        return None;
    }
    Some(Located {
        path: path.to_owned(),
        file: Arc::new(file),
    })
}

fn has_debug_info(object: &object::File<'_>) -> bool {
    object
        .section_by_name(".debug_info")
        .and_then(|section| section.file_range())
        .is_some_and(|(_, size)| size > 0)
}
