//! The folder with QEMU and kernels: what it has.
//!
//! Packages are unpacked over each other into one folder, as they would be into
//! `/`. A part whose unpacking was begun and not finished has a mark, and is not
//! taken for what it seems; so a folder that somebody filled by hand is as good as
//! one that we did.

use super::{Qemu, unsupported};
use crate::TargetError;
use redhanded_image::user_cache;
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

/// What is to be provided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Which kernel.
    pub archive: Archive,
    /// With its debug information.
    pub debug: bool,
    /// With what building modules for it takes.
    pub headers: bool,
}

/// What any virtual machine takes, whatever kernel it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tools {
    /// QEMU: the host's, or one from the cache folder.
    pub qemu: Qemu,
    /// A busybox for the guest.
    pub busybox: PathBuf,
}

/// What a virtual machine is started from.
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
    /// The debug information of the kernel's own modules, in a like folder.
    pub modules_debug: Option<PathBuf>,
    /// What `uname -r` will say.
    pub release: String,
}

/// The folder in which packages are kept: `REDHANDED_KERNELS` if that is set.
///
/// # Errors
/// When there is neither that nor a home.
pub fn cache_folder() -> Result<PathBuf, TargetError> {
    match env::var_os("REDHANDED_KERNELS") {
        Some(folder) if !folder.is_empty() => Ok(folder.into()),
        _ => user_cache("kernels").ok_or_else(|| {
            unsupported("there is no home for a cache folder: set REDHANDED_KERNELS to one")
        }),
    }
}

/// The host's own kernel as boot loaders take it.
///
/// # Errors
/// When the host does not have it, or keeps it to itself.
pub fn host_kernel() -> Result<PathBuf, TargetError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let path = PathBuf::from(format!("/boot/vmlinuz-{release}"));
    let alone = PathBuf::from(format!("/lib/modules/{release}/vmlinuz"));
    let Err(why) = File::open(&path) else {
        return Ok(path);
    };
    if File::open(&alone).is_ok() {
        return Ok(alone);
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
    if tools().iter().any(|part| part.missing(folder)) {
        return None;
    }
    Some(Tools {
        qemu: qemu_in(folder)?,
        busybox: busybox_in(folder)?,
    })
}

/// What the folder (and the host) has of what is wanted, if it has all of it.
#[must_use]
pub fn find(folder: &Path, wanted: &Wanted) -> Option<Provision> {
    let release = release_in(folder, wanted.archive)?;
    let parts = parts(wanted, &release);
    if parts.iter().any(|part| part.missing(folder)) {
        return None;
    }
    let there = |path: String| Some(folder.join(path)).filter(|path| path.exists());
    Some(Provision {
        tools: find_tools(folder)?,
        kernel: folder.join(format!("boot/vmlinuz-{release}")),
        vmlinux: there(format!("usr/lib/debug/boot/vmlinux-{release}")),
        headers: there(format!("usr/src/linux-headers-{release}")),
        modules: ["", "usr/"]
            .into_iter()
            .find_map(|usr| there(format!("{usr}lib/modules/{release}"))),
        modules_debug: ["", "usr/"]
            .into_iter()
            .find_map(|usr| there(format!("usr/lib/debug/{usr}lib/modules/{release}"))),
        release,
    })
}

/// Packages that belong together, and a file that is there when they are.
pub struct Part {
    /// Its own name.
    pub name: String,
    file: String,
    /// The names of its packages, the main one first.
    pub packages: Vec<String>,
}

impl Part {
    /// Whether it is to be fetched.
    pub fn missing(&self, folder: &Path) -> bool {
        let there = match self.name.as_str() {
            "qemu" => qemu_in(folder).is_some(),
            "busybox" => busybox_in(folder).is_some(),
            _ => folder.join(&self.file).exists(),
        };
        !there || self.mark(folder).exists()
    }

    /// Stands while its packages are being unpacked.
    pub fn mark(&self, folder: &Path) -> PathBuf {
        folder.join(".unfinished").join(&self.name)
    }
}

/// QEMU, of which there is one for all kernels.
pub fn qemu_part() -> Part {
    Part {
        name: "qemu".to_owned(),
        file: String::new(),
        packages: vec!["qemu-system-x86".to_owned()],
    }
}

/// What every machine takes.
pub fn tools() -> Vec<Part> {
    vec![
        qemu_part(),
        Part {
            name: "busybox".to_owned(),
            file: String::new(),
            packages: vec!["busybox-static".to_owned()],
        },
    ]
}

/// What a wish consists of, for a kernel of this release.
pub fn parts(wanted: &Wanted, release: &str) -> Vec<Part> {
    let part = |name: &str, file: String, packages: Vec<String>| Part {
        name: name.to_owned(),
        file,
        packages,
    };
    let mut parts = tools();
    parts.push(part(
        &format!("kernel-{release}"),
        format!("boot/vmlinuz-{release}"),
        vec![format!("linux-image-{release}")],
    ));
    if wanted.debug {
        parts.push(part(
            &format!("debug-{release}"),
            format!("usr/lib/debug/boot/vmlinux-{release}"),
            vec![format!("linux-image-{release}-dbg")],
        ));
    }
    if wanted.headers {
        parts.push(part(
            &format!("headers-{release}"),
            format!("usr/src/linux-headers-{release}/Makefile"),
            vec![format!("linux-headers-{release}")],
        ));
    }
    parts
}

/// The file that says which release an archive's kernel in the folder has.
pub const fn note_of(archive: Archive) -> &'static str {
    match archive {
        Archive::Release => ".release",
        Archive::Backports => ".backports",
    }
}

/// Which kernel of an archive the folder has. Without our own note of it, a release
/// with a plus in it is taken for one of the backports.
fn release_in(folder: &Path, archive: Archive) -> Option<String> {
    let noted = fs::read_to_string(folder.join(note_of(archive))).ok();
    let noted = noted.map(|text| text.trim().to_owned());
    let exists = |release: &String| folder.join(format!("boot/vmlinuz-{release}")).exists();
    if let Some(release) = noted.filter(exists) {
        return Some(release);
    }
    let names = fs::read_dir(folder.join("boot")).ok()?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let releases = names.filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned()));
    let backport = archive == Archive::Backports;
    releases
        .filter(|release| release.contains('+') == backport)
        .max_by_key(|release| version_key(release))
}

/// The numbers in a release, so that 6.1.0-9 comes before 6.1.0-10.
fn version_key(release: &str) -> Vec<u64> {
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn qemu_in(folder: &Path) -> Option<Qemu> {
    let installed = || program_on_path("qemu-system-x86_64").map(Qemu::installed);
    unpacked_qemu(folder).or_else(installed)
}

/// The QEMU that was unpacked into a folder.
pub fn unpacked_qemu(folder: &Path) -> Option<Qemu> {
    let program = folder.join("usr/bin/qemu-system-x86_64");
    let all = |parts: &[&str]| {
        let paths = parts.iter().map(|part| folder.join(part));
        paths.filter(|path| path.exists()).collect()
    };
    program.exists().then(|| Qemu {
        program,
        library_path: all(&["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]),
        // Firmware that the host has is not unpacked again, and is where it is.
        data_dirs: all(&[
            "usr/share/qemu",
            "usr/share/seabios",
            "usr/lib/ipxe/qemu",
            "/usr/share/qemu",
            "/usr/share/seabios",
        ]),
    })
}

fn busybox_in(folder: &Path) -> Option<PathBuf> {
    let unpacked = ["bin/busybox", "usr/bin/busybox"].map(|path| folder.join(path));
    let mut unpacked = unpacked.into_iter().filter(|path| path.exists());
    unpacked.next().or_else(|| program_on_path("busybox"))
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
        File::create(path).unwrap();
    }

    const PLAIN: Wanted = Wanted {
        archive: Archive::Release,
        debug: false,
        headers: false,
    };

    #[test]
    fn a_folder_filled_by_hand_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(find(folder, &PLAIN), None);
        for path in [
            "usr/bin/qemu-system-x86_64",
            "usr/share/seabios/bios.bin",
            "bin/busybox",
            "boot/vmlinuz-6.1.0-9-cloud-amd64",
            "boot/vmlinuz-6.1.0-10-cloud-amd64",
            "boot/vmlinuz-6.12.9+bpo-cloud-amd64",
        ] {
            touch(folder, path);
        }
        let found = find(folder, &PLAIN).unwrap();
        assert_eq!(found.release, "6.1.0-10-cloud-amd64", "the newest");
        assert_eq!(
            found.tools.qemu.data_dirs[0],
            folder.join("usr/share/seabios")
        );
        assert_eq!((found.vmlinux, found.headers), (None, None));
        let backports = Wanted {
            archive: Archive::Backports,
            ..PLAIN
        };
        let found = find(folder, &backports).unwrap();
        assert_eq!(found.release, "6.12.9+bpo-cloud-amd64");
    }

    #[test]
    fn what_is_missing_or_unfinished_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        touch(folder, "usr/bin/qemu-system-x86_64");
        touch(folder, "bin/busybox");
        touch(folder, "boot/vmlinuz-6.1.0-9-cloud-amd64");
        let debug = Wanted {
            debug: true,
            ..PLAIN
        };
        assert!(find(folder, &PLAIN).is_some());
        assert_eq!(find(folder, &debug), None);
        touch(folder, "usr/lib/debug/boot/vmlinux-6.1.0-9-cloud-amd64");
        assert!(find(folder, &debug).unwrap().vmlinux.is_some());
        touch(folder, ".unfinished/debug-6.1.0-9-cloud-amd64");
        assert_eq!(find(folder, &debug), None, "its unpacking was interrupted");
        assert!(find(folder, &PLAIN).is_some(), "which concerns it alone");
    }

    #[test]
    fn the_note_of_an_archive_comes_before_guessing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        touch(folder, "boot/vmlinuz-6.12.1+deb13-cloud-amd64");
        touch(folder, "boot/vmlinuz-6.16.1+deb13-cloud-amd64");
        assert_eq!(release_in(folder, Archive::Release), None);
        fs::write(folder.join(".release"), "6.12.1+deb13-cloud-amd64\n").unwrap();
        let release = release_in(folder, Archive::Release);
        assert_eq!(release.as_deref(), Some("6.12.1+deb13-cloud-amd64"));
        fs::write(folder.join(".release"), "../../etc").unwrap();
        assert_eq!(release_in(folder, Archive::Release), None);
    }
}
