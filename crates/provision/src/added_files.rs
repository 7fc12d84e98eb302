//! Files of the host that are put into the guest.

use super::module_dependencies::is_module;
use super::{on_file, unsupported};
use crate::ProvisionError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file, folder or module of the host that is put into the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// Where it is on the host.
    pub from: PathBuf,
    /// Where it is put in the guest: an absolute path.
    pub to: PathBuf,
    /// Whether it is a module that is loaded before the workload starts.
    pub load: bool,
}

impl Added {
    /// Reads `PATH` or `PATH:GUESTPATH`.
    ///
    /// Without `GUESTPATH` the file keeps its name and is put into the guest's root
    /// folder. A module is then loaded, while one with a `GUESTPATH` is left for the
    /// workload to load. A path that contains a colon needs a `GUESTPATH`.
    ///
    /// # Errors
    /// When there is no such file, or `GUESTPATH` is not absolute.
    pub fn parse(text: &OsStr) -> Result<Self, ProvisionError> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().rposition(|b| *b == b':');
        let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
        let (from, to) = match colon {
            Some(at) => (path(&bytes[..at]), Some(path(&bytes[at + 1..]))),
            None => (path(bytes), None),
        };
        let from = from.canonicalize().map_err(on_file("add", &from))?;
        match to {
            Some(to) if !to.is_absolute() => Err(unsupported(format!(
                "cannot add {}: {} is not an absolute path",
                from.display(),
                to.display(),
            ))),
            Some(to) => Ok(Self {
                from,
                to,
                load: false,
            }),
            None => Ok(Self::plain(from)),
        }
    }

    /// A module that is loaded before the workload starts.
    #[must_use]
    pub fn module(path: &Path) -> Self {
        Self {
            load: true,
            ..Self::plain(path.to_owned())
        }
    }

    fn plain(from: PathBuf) -> Self {
        let name = from.file_name().unwrap_or(OsStr::new("added"));
        let to = Path::new("/").join(name);
        let load = is_module(&from) && !from.is_dir();
        Self {
            // It is decompressed here, because not every kernel can do that.
            to: match to.extension() {
                Some(end) if load && end != "ko" => to.with_extension(""),
                _ => to,
            },
            load,
            from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_path_may_be_given_and_modules_without_one_are_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["load", "x.ko", "y.ko.xz", "odd:name"] {
            std::fs::write(base.join(name), "").unwrap();
        }
        let parse = |rest: &str| {
            let added = Added::parse(OsStr::new(&format!("{}/{rest}", base.display())))?;
            let from = added.from.strip_prefix(&base).unwrap().to_owned();
            Ok::<_, ProvisionError>((from, added.to, added.load))
        };
        let expect = |from: &str, to: &str, load| (PathBuf::from(from), PathBuf::from(to), load);
        assert_eq!(parse("load").unwrap(), expect("load", "/load", false));
        let placed = expect("load", "/usr/bin/load", false);
        assert_eq!(parse("load:/usr/bin/load").unwrap(), placed);
        assert_eq!(parse("x.ko").unwrap(), expect("x.ko", "/x.ko", true));
        let unpacked = expect("y.ko.xz", "/y.ko", true);
        assert_eq!(parse("y.ko.xz").unwrap(), unpacked);
        assert_eq!(parse("x.ko:/m.ko").unwrap(), expect("x.ko", "/m.ko", false));
        let odd = expect("odd:name", "/here", false);
        assert_eq!(parse("odd:name:/here").unwrap(), odd);
        assert!(parse("load:relative").is_err());
        assert!(parse("absent").is_err());
    }
}
