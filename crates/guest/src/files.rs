//! The files of a kernel and of its modules.

use redhanded_image::kernel_file::unpack;
use redhanded_sys::FileMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a kernel.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    /// An ELF file with symbols: a vmlinux, or what was made from a vmlinuz.
    pub(crate) kernel: PathBuf,
    /// Files of modules (`.ko`), and folders to search for them.
    modules: Vec<PathBuf>,
    /// A folder for files that are made from them.
    cache: PathBuf,
    /// What was used so far. What is made of it is ours, and does not tell whose it was.
    origins: Arc<Mutex<Vec<PathBuf>>>,
}

impl KernelFiles {
    /// Those of `kernel`, which is `given` or was made from it, and of modules in `modules`.
    /// Files that are made from these go to `cache`.
    #[must_use]
    pub fn new(kernel: PathBuf, given: PathBuf, modules: Vec<PathBuf>, cache: PathBuf) -> Self {
        Self {
            kernel,
            modules,
            cache,
            origins: Arc::new(Mutex::new(vec![given])),
        }
    }

    /// The files that were given, as far as they were used.
    #[must_use]
    pub fn origins(&self) -> Vec<PathBuf> {
        let origins = self.origins.lock();
        origins.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find(&self, is: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let found = self.modules.iter().find_map(|place| find(place, is))?;
        let origins = self.origins.lock();
        let mut origins = origins.unwrap_or_else(PoisonError::into_inner);
        if !origins.contains(&found) {
            origins.push(found.clone());
        }
        Some(found)
    }

    /// The folder for modules linked to their addresses in this run's guest. Removes
    /// the folders of runs that are over.
    pub(crate) fn linked(&self) -> PathBuf {
        let all = self.cache.join("linked");
        for run in fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(run.file_name()).exists() {
                let _ = fs::remove_dir_all(run.path());
            }
        }
        // The parent opens them too, perhaps after we have ended.
        all.join(std::os::unix::process::parent_id().to_string())
    }

    /// The file of a module.
    pub(crate) fn find_module(&self, name: &str) -> Option<PathBuf> {
        let is = |path: &Path| module_of(path).is_some_and(|(of, debug)| of == name && !debug);
        self.find(&is)
    }

    /// The separate debug information of a module.
    pub(crate) fn find_debug(&self, file: &Path, name: &str) -> Option<Vec<u8>> {
        // A file beside it may be the same one, compressed.
        let elsewhere = |path: &Path| path.parent() != file.parent();
        let is = |path: &Path| {
            let of = module_of(path);
            of.is_some_and(|(of, debug)| of == name && (debug || elsewhere(path)))
        };
        let file = FileMap::open(&self.find(&is)?).ok()?;
        Some(unpack(&file).ok()?.into_owned())
    }
}

/// The module that a file's name stands for, with `-` read as `_`, and whether the
/// name says that it is only debug information.
fn module_of(path: &Path) -> Option<(String, bool)> {
    let name = path.file_name()?.to_str()?;
    let name = [".gz", ".xz", ".zst"]
        .iter()
        .find_map(|packed| name.strip_suffix(packed))
        .unwrap_or(name);
    let (name, debug) = match name.strip_suffix(".debug") {
        Some(name) => (name, true),
        None => (name, false),
    };
    Some((name.strip_suffix(".ko")?.replace('-', "_"), debug))
}

/// The first file at or below `place` that is wanted.
fn find(place: &Path, is: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    if place.is_file() {
        return is(place).then(|| place.to_owned());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(place)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().find_map(|entry| find(entry, is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered_by_all_copies() {
        let place = tempfile::tempdir().unwrap();
        let module = place.path().join("toy.ko");
        fs::write(&module, "").unwrap();
        let [kernel, given] = ["unpacked", "vmlinuz"].map(PathBuf::from);
        let modules = vec![place.path().to_owned()];
        let files = KernelFiles::new(kernel, given.clone(), modules, PathBuf::new());
        let copy = files.clone();
        assert_eq!(files.origins(), std::slice::from_ref(&given));
        assert_eq!(copy.find_module("toy"), Some(module.clone()));
        assert_eq!(copy.find_module("toy"), Some(module.clone()));
        assert_eq!(files.origins(), [given, module]);
    }

    #[test]
    fn files_of_modules_have_their_names() {
        let of = |name: &str| module_of(Path::new(name));
        let is = |name: &str, debug| Some((name.to_owned(), debug));
        assert_eq!(of("/lib/x/snd-hda.ko"), is("snd_hda", false));
        assert_eq!(of("snd_hda.ko.xz"), is("snd_hda", false));
        assert_eq!(of("snd_hda.ko.debug"), is("snd_hda", true));
        assert_eq!(of("snd_hda.ko.zst"), is("snd_hda", false));
        assert_eq!(of("snd_hda.o"), None);
    }
}
