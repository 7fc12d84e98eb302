//! Where the text of a source is found: at hand, at the path that the debug information gives,
//! or in a tree that the user names.

use super::locate::DebugSearch;
use redhanded_sys::read_source;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// How many folders of a path are tried.
const MAX_FOLDERS: usize = 64;

/// The text of a source that is part of this program, which can so name its own code wherever
/// it is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedSource {
    /// What its compiler called it: `file!()`. The debug information may put the compiler's
    /// folder before it.
    pub file: &'static str,
    /// What was compiled.
    pub text: &'static str,
}

/// The text of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceText {
    /// The text, in whatever encoding it has.
    pub bytes: Cow<'static, [u8]>,
    /// Whether it was at hand, and is what was compiled for certain.
    pub carried: bool,
}

impl DebugSearch {
    /// The text of the source that the debug information calls `path`.
    #[must_use]
    pub fn source(&self, path: &Path) -> Option<SourceText> {
        let mut carried = self.carried.iter();
        if let Some(source) = carried.find(|source| path.ends_with(source.file)) {
            return Some(SourceText {
                bytes: Cow::Borrowed(source.text.as_bytes()),
                carried: true,
            });
        }
        // A relative name would be resolved in our folder, not in the compiler's.
        let own = path.is_absolute().then(|| read_source(path)).flatten();
        let bytes = own.or_else(|| self.in_trees(path).find_map(|path| read_source(&path)))?;
        Some(SourceText {
            bytes: Cow::Owned(bytes),
            carried: false,
        })
    }

    /// Where in the source trees a file may be that the debug information names by a path of
    /// another machine: the path's tails, longest first. A bare file name could be any file,
    /// so a folder is required; the name of the tree counts as one.
    fn in_trees(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let parts: Vec<&OsStr> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let ends = (0..parts.len().min(MAX_FOLDERS))
            .filter_map(|start| parts.get(start..))
            .filter(|end| end.len() > 1 || parts.len() == 1)
            .map(|end| end.iter().collect::<PathBuf>())
            .collect::<Vec<_>>();
        self.sources.iter().flat_map(move |tree| {
            let in_tree = |end: &PathBuf| match tree.file_name() {
                Some(own) if end.starts_with(own) && !says_nothing(own) => {
                    let below = end.strip_prefix(own).unwrap_or(end);
                    vec![tree.join(end), tree.join(below)]
                }
                _ => vec![tree.join(end)],
            };
            ends.iter().flat_map(in_tree).collect::<Vec<_>>()
        })
    }
}

/// Whether many projects have a folder with this name.
fn says_nothing(folder: &OsStr) -> bool {
    ["src", "source", "sources", "lib", "include"]
        .iter()
        .any(|common| folder == *common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_hand_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("src")).unwrap();
        std::fs::write(at("src/a.rs"), "edited since").unwrap();
        let search = DebugSearch {
            carried: vec![CarriedSource {
                file: "src/a.rs",
                text: "compiled",
            }],
            ..DebugSearch::nowhere()
        };
        let find = |path: &Path| {
            let found = search.source(path)?;
            Some((
                String::from_utf8_lossy(&found.bytes).into_owned(),
                found.carried,
            ))
        };
        let carried = Some(("compiled".to_owned(), true));
        assert_eq!(find(Path::new("/build/of/another/src/a.rs")), carried);
        assert_eq!(find(&at("src/a.rs")), carried, "not the file of today");
        assert_eq!(find(Path::new("/build/of/another/a.rs")), None);
        assert_eq!(find(Path::new("/build/xsrc/a.rs")), None);
        let edited = DebugSearch::nowhere().source(&at("src/a.rs")).unwrap();
        assert_eq!(
            (&*edited.bytes, edited.carried),
            (&b"edited since"[..], false)
        );
    }
}
