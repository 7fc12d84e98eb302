//! A kernel's own modules, and what they depend on.

use super::host_files::{Chooser, Room};
use super::{Provision, last_line, on_file, unsupported};
use crate::ProvisionError;
use object::{Object, ObjectSection};
use redhanded_sys::die_with_this_thread;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files of the named modules and of those that they depend on, in the order in
/// which they have to be loaded. Modules that are built into the kernel have no file
/// and are left out.
///
/// # Errors
/// When there is no such module, or it cannot be read.
pub fn needed_modules(
    provision: &Provision,
    names: &[&str],
) -> Result<Vec<PathBuf>, ProvisionError> {
    let Some(folder) = &provision.modules else {
        return Err(unsupported(format!(
            "the modules of {} are missing",
            provision.release,
        )));
    };
    let mut files = BTreeMap::new();
    list(folder, &mut files)?;
    let builtin = folder.join("modules.builtin");
    let builtin = fs::read_to_string(&builtin).unwrap_or_default();
    let builtin: Vec<String> = builtin
        .lines()
        .map(|line| canonical(Path::new(line)))
        .collect();
    let mut search = Search {
        files,
        builtin,
        busybox: &provision.tools.busybox,
        above: Vec::new(),
        found: Vec::new(),
    };
    for name in names {
        search.need(&name.replace('-', "_"))?;
    }
    Ok(search.found)
}

/// A depth-first search for dependencies.
struct Search<'a> {
    files: BTreeMap<String, PathBuf>,
    builtin: Vec<String>,
    busybox: &'a Path,
    /// The modules whose dependencies are being searched.
    above: Vec<String>,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    fn need(&mut self, name: &str) -> Result<(), ProvisionError> {
        let Some(path) = self.files.get(name).cloned() else {
            if self.builtin.iter().any(|built| built == name) {
                return Ok(());
            }
            return Err(unsupported(format!("the kernel has no module {name}")));
        };
        // Damaged files could depend on each other in a circle.
        if self.found.contains(&path) || self.above.iter().any(|above| above == name) {
            return Ok(());
        }
        let bytes = read_module(&path, self.busybox, &mut Room::new(LARGEST))?;
        let Some(dependencies) = dependencies(&bytes) else {
            let path = path.display();
            return Err(unsupported(format!("{path} is not a readable module")));
        };
        self.above.push(name.to_owned());
        for dependency in dependencies {
            self.need(&dependency)?;
        }
        self.above.pop();
        self.found.push(path);
        Ok(())
    }
}

/// No module is larger than this.
const LARGEST: u64 = 256 << 20;

/// Reads a module, and decompresses it if need be.
pub fn read_module(
    path: &Path,
    busybox: &Path,
    room: &mut Room,
) -> Result<Vec<u8>, ProvisionError> {
    let (file, _) = Chooser::CALLER.open(path).map_err(on_file("open", path))?;
    let (program, argument) = match path.extension().and_then(OsStr::to_str) {
        Some("xz") => (busybox, "xzcat"),
        Some("gz") => (busybox, "zcat"),
        Some("zst") => (Path::new("zstd"), "-dcq"),
        _ => return room.read(file).map_err(on_file("read", path)),
    };
    let mut command = Command::new(program);
    command.arg(argument).stdin(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    die_with_this_thread(&mut command, Vec::new());
    let mut child = command.spawn().map_err(on_file("run", program))?;
    let unpacked = child.stdout.take().map(|from| room.read(from));
    // With its pipe closed it ends, if it has more to say.
    let output = child.wait_with_output().map_err(on_file("run", program))?;
    let unpacked = unpacked.transpose().map_err(on_file("unpack", path))?;
    if output.status.success() {
        return Ok(unpacked.unwrap_or_default());
    }
    let why = last_line(&output.stderr);
    let path = path.display();
    Err(unsupported(format!("cannot decompress {path}: {why}")))
}

/// The modules that a module says it depends on.
fn dependencies(module: &[u8]) -> Option<Vec<String>> {
    let file = object::File::parse(module).ok()?;
    let information = file.section_by_name(".modinfo")?;
    let mut entries = information.data().ok()?.split(|byte| *byte == 0);
    let list = entries.find_map(|entry| entry.strip_prefix(b"depends="))?;
    let list = String::from_utf8_lossy(list);
    let names = list.split(',').filter(|name| !name.is_empty());
    Some(names.map(|name| name.replace('-', "_")).collect())
}

fn list(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), ProvisionError> {
    for entry in fs::read_dir(folder).map_err(on_file("list", folder))? {
        let entry = entry.map_err(on_file("list", folder))?;
        let kind = entry.file_type().map_err(on_file("list", folder))?;
        let path = entry.path();
        if kind.is_dir() {
            list(&path, files)?;
        } else if is_module(&path) {
            files.insert(canonical(&path), path);
        }
    }
    Ok(())
}

/// Whether a file has the name of a module, compressed or not.
pub fn is_module(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    [".ko", ".ko.xz", ".ko.gz", ".ko.zst"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The name that the kernel has for a module.
fn canonical(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split_once(".ko").map_or(&*name, |(stem, _)| stem);
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_is_not_a_module_has_no_dependencies() {
        assert_eq!(dependencies(b""), None);
        assert_eq!(dependencies(b"\x7fELF\x02\x01\x01 lies"), None);
    }

    #[test]
    fn a_module_unpacks_to_what_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let module = folder.path().join("zeros.ko");
        fs::write(&module, vec![0; 1 << 20]).unwrap();
        let packed = Command::new("gzip").arg(&module).status();
        assert!(packed.unwrap().success());
        let module = folder.path().join("zeros.ko.gz");
        // It is called as busybox would be.
        let unpacker = folder.path().join("unpacker");
        fs::write(&unpacker, "#!/bin/sh\nexec \"$@\"\n").unwrap();
        fs::set_permissions(&unpacker, fs::Permissions::from_mode(0o755)).unwrap();
        let unpacked = |room: u64| read_module(&module, &unpacker, &mut Room::new(room));
        assert_eq!(unpacked(1 << 20).unwrap().len(), 1 << 20);
        let error = unpacked((1 << 20) - 1).unwrap_err().to_string();
        assert!(error.contains("too little memory"), "{error}");
    }

    #[test]
    fn names_are_those_that_the_kernel_uses() {
        for name in ["a/dm-mod.ko", "dm_mod.ko.xz", "dm-mod.ko.zst"] {
            assert!(is_module(Path::new(name)));
            assert_eq!(canonical(Path::new(name)), "dm_mod");
        }
        assert!(!is_module(Path::new("dm-mod.ko.debug")));
    }
}
