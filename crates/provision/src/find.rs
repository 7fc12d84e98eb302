//! What the cache folder and the host have.

use super::cache::check_owner;
use super::{Qemu, unsupported};
use crate::ProvisionError;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Which of the distribution's kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Archive {
    /// The one that comes with the release.
    Release,
    /// The newer one of its backports.
    Backports,
}

impl Archive {
    const fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Backports => "backports",
        }
    }
}

/// What is to be provided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Which kernel.
    pub archive: Archive,
    /// Whether its debug information is wanted.
    pub debug: bool,
    /// Whether modules are to be built for it.
    pub headers: bool,
}

/// What every virtual machine needs, whatever kernel it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tools {
    /// QEMU: the host's, or one from the cache folder.
    pub qemu: Qemu,
    /// A busybox for the guest.
    pub busybox: PathBuf,
}

/// What a virtual machine is started from. All of the kernel's files are of one
/// version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provision {
    /// QEMU and busybox.
    pub tools: Tools,
    /// The kernel as boot loaders take it.
    pub kernel: PathBuf,
    /// The kernel with its debug information.
    pub vmlinux: Option<PathBuf>,
    /// The folder to build modules against.
    pub headers: Option<PathBuf>,
    /// The folder of the kernel's own modules.
    pub modules: Option<PathBuf>,
    /// The debug information of the kernel's own modules, in a folder laid out like
    /// theirs.
    pub modules_debug: Option<PathBuf>,
    /// What `uname -r` says in the guest.
    pub release: String,
}

/// The host's own kernel as boot loaders take it.
///
/// # Errors
/// When the host does not have it, or only root may read it.
pub fn host_kernel() -> Result<PathBuf, ProvisionError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let path = PathBuf::from(format!("/boot/vmlinuz-{release}"));
    let beside_modules = PathBuf::from(format!("/lib/modules/{release}/vmlinuz"));
    let Err(why) = File::open(&path) else {
        return Ok(path);
    };
    if File::open(&beside_modules).is_ok() {
        return Ok(beside_modules);
    }
    let path = path.display();
    let why = match why.kind() {
        io::ErrorKind::PermissionDenied => format!("{path} is readable by root only"),
        _ => format!("the running kernel is not kept at {path}"),
    };
    Err(unsupported(format!("{why}: name a kernel with --kernel")))
}

/// The tools that the folder or the host has, if it has all of them.
#[must_use]
pub fn find_tools(folder: &Path) -> Option<Tools> {
    Some(Tools {
        qemu: find_qemu(folder)?,
        busybox: find_busybox(folder)?,
    })
}

/// The newest version of a kernel of which the folder has everything that is
/// wanted, with the tools to run it.
#[must_use]
pub fn find(folder: &Path, wanted: &Wanted) -> Option<Provision> {
    check_owner(folder).ok()?;
    let tools = find_tools(folder)?;
    let versions = fs::read_dir(folder.join(wanted.archive.folder())).ok()?;
    let mut versions: Vec<PathBuf> = versions.filter_map(|v| Some(v.ok()?.path())).collect();
    versions.sort_by_key(|path| {
        path.file_name()
            .map(|name| numbers(&name.to_string_lossy()))
    });
    let mut found = versions
        .iter()
        .rev()
        .filter_map(|path| version_in(path, &tools));
    found.find(|it| {
        (!wanted.debug || it.vmlinux.is_some()) && (!wanted.headers || it.headers.is_some())
    })
}

/// The parts of a version's folder. Each is there as a whole or not at all.
pub const IMAGE: &str = "image";
/// The debug information of the kernel and its modules.
pub const DEBUG: &str = "debug";
/// What building modules takes.
pub const HEADERS: &str = "headers";

/// The name of a version's folder: what `uname -r` says, and the version of the
/// packages, because kernels are rebuilt under the same name.
pub fn version_folder(archive: Archive, release: &str, version: &str) -> PathBuf {
    Path::new(archive.folder()).join(format!("{release}_{version}"))
}

fn version_in(folder: &Path, tools: &Tools) -> Option<Provision> {
    let (release, _) = folder.file_name()?.to_str()?.split_once('_')?;
    let there = |path: String| Some(folder.join(path)).filter(|path| path.exists());
    // With or without a merged /usr.
    let either = |part: &str| {
        let mut places = ["", "usr/"].into_iter();
        places.find_map(|usr| there(format!("{part}/{usr}lib/modules/{release}")))
    };
    Some(Provision {
        tools: tools.clone(),
        kernel: there(format!("{IMAGE}/boot/vmlinuz-{release}"))?,
        vmlinux: there(format!("{DEBUG}/usr/lib/debug/boot/vmlinux-{release}")),
        headers: there(format!("{HEADERS}/usr/src/linux-headers-{release}")),
        modules: either(IMAGE),
        modules_debug: either(&format!("{DEBUG}/usr/lib/debug")),
        release: release.to_owned(),
    })
}

/// The numbers in a version, so that 6.1.0-9 comes before 6.1.0-10.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// The package of QEMU.
pub const QEMU: &str = "qemu-system-x86";
/// The package of a busybox that needs no libraries.
pub const BUSYBOX: &str = "busybox-static";

/// Where a package of the tools is unpacked.
pub fn tool_folder(package: &str) -> PathBuf {
    Path::new("tools").join(package)
}

/// The QEMU of the folder, else the host's.
pub fn find_qemu(folder: &Path) -> Option<Qemu> {
    let installed = || program_on_path("qemu-system-x86_64").map(Qemu::installed);
    unpacked_qemu(&folder.join(tool_folder(QEMU))).or_else(installed)
}

/// The QEMU of the backports that [`super::provide_newer_qemu`] fetches.
#[must_use]
pub fn find_newer_qemu(folder: &Path) -> Option<Qemu> {
    unpacked_qemu(&folder.join(tool_folder("newer-qemu")))
}

/// The QEMU that was unpacked into a folder.
fn unpacked_qemu(folder: &Path) -> Option<Qemu> {
    let program = folder.join("usr/bin/qemu-system-x86_64");
    let all = |parts: &[&str]| {
        let paths = parts.iter().map(|part| folder.join(part));
        paths.filter(|path| path.exists()).collect()
    };
    program.exists().then(|| Qemu {
        program,
        library_path: all(&["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]),
        // Packages that the host has installed are not fetched: their firmware is
        // the host's.
        data_dirs: all(&[
            "usr/share/qemu",
            "usr/share/seabios",
            "usr/lib/ipxe/qemu",
            "/usr/share/qemu",
            "/usr/share/seabios",
        ]),
    })
}

/// The busybox of the folder, else the host's.
pub fn find_busybox(folder: &Path) -> Option<PathBuf> {
    let unpacked = folder.join(tool_folder(BUSYBOX));
    let mut places = ["bin/busybox", "usr/bin/busybox"].into_iter();
    let unpacked = places.find_map(|at| Some(unpacked.join(at)).filter(|path| path.exists()));
    unpacked.or_else(|| program_on_path("busybox"))
}

/// Whether there is such a program.
pub fn on_path(program: &str) -> bool {
    program_on_path(program).is_some()
}

fn program_on_path(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let mut paths = env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, path: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn wanted(archive: Archive, debug: bool) -> Wanted {
        Wanted {
            archive,
            debug,
            headers: false,
        }
    }

    #[test]
    fn the_newest_version_that_has_everything_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (plain, debug) = (
            wanted(Archive::Release, false),
            wanted(Archive::Release, true),
        );
        assert_eq!(find(folder, &plain), None);
        touch(folder, "tools/qemu-system-x86/usr/bin/qemu-system-x86_64");
        touch(folder, "tools/qemu-system-x86/usr/share/seabios/bios.bin");
        touch(folder, "tools/busybox-static/bin/busybox");
        for (version, release) in [
            (
                "release/6.1.0-9-cloud-amd64_6.1.27-1",
                "6.1.0-9-cloud-amd64",
            ),
            (
                "release/6.1.0-10-cloud-amd64_6.1.38-1",
                "6.1.0-10-cloud-amd64",
            ),
            (
                "backports/6.12.9+bpo-cloud-amd64_6.12.9-1~bpo12+1",
                "6.12.9+bpo-cloud-amd64",
            ),
        ] {
            touch(folder, &format!("{version}/image/boot/vmlinuz-{release}"));
        }
        let found = find(folder, &plain).unwrap();
        assert_eq!(found.release, "6.1.0-10-cloud-amd64");
        let firmware = folder.join("tools/qemu-system-x86/usr/share/seabios");
        assert_eq!(found.tools.qemu.data_dirs[0], firmware);
        assert_eq!((found.vmlinux, found.headers), (None, None));
        let found = find(folder, &wanted(Archive::Backports, false)).unwrap();
        assert_eq!(found.release, "6.12.9+bpo-cloud-amd64");

        assert_eq!(find(folder, &debug), None);
        let older = "release/6.1.0-9-cloud-amd64_6.1.27-1";
        touch(
            folder,
            &format!("{older}/debug/usr/lib/debug/boot/vmlinux-6.1.0-9-cloud-amd64"),
        );
        let found = find(folder, &debug).unwrap();
        assert_eq!(
            found.release, "6.1.0-9-cloud-amd64",
            "the newer one has none"
        );
        assert!(found.vmlinux.unwrap().starts_with(folder.join(older)));
        assert!(
            found.kernel.starts_with(folder.join(older)),
            "both of one version"
        );
        let rebuilt = "release/6.1.0-9-cloud-amd64_6.1.27-2/image/boot/vmlinuz-6.1.0-9-cloud-amd64";
        touch(folder, rebuilt);
        let found = find(folder, &debug).unwrap();
        assert!(
            found.kernel.starts_with(folder.join(older)),
            "the same build"
        );
    }
}
