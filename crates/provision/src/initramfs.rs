//! The guest's only file system, and its first program.
//!
//! Our own files are in `/redhanded` and are called by their full paths, so that
//! neither the user's files nor a further initrd can get in their way.

use super::cpio::Cpio;
use super::host_files::{Chooser, Room};
use super::libraries::Program;
use super::module_dependencies::read_module;
use super::{Added, VmOptions, on_file, system, unsupported};
use crate::ProvisionError;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The path of the guest's first program.
pub const INIT: &str = "/redhanded/init";

const BUSYBOX: &str = "/redhanded/busybox";

/// Writes the file system of a machine to `path`: busybox with its links, the added
/// files, and an init that loads modules, runs the workload, reports its exit status
/// and powers the machine off.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write_initramfs(options: &VmOptions, path: &Path) -> Result<(), ProvisionError> {
    let file = File::create(path).map_err(on_file("create", path))?;
    let mut tree = Tree {
        cpio: Cpio::new(BufWriter::new(file)),
        companions: BTreeSet::new(),
        // The guest holds it in memory twice: as the archive, and unpacked.
        room: Room::new((u64::from(options.memory) << 20) / 2),
    };
    tree.skeleton(&options.busybox)
        .map_err(on_file("write", path))?;
    tree.add(&Chooser::CALLER, &options.busybox, Path::new(BUSYBOX))?;
    let mut workload = options.workload.clone();
    if let Some(program) = program_on_host(options)? {
        workload[0] = program.clone().into_os_string();
        tree.add(&Chooser::CALLER, &program, &program)?;
    }
    for added in &options.added {
        if added.load {
            let module = read_module(&added.from, &options.busybox, &mut tree.room)?;
            let written = tree
                .cpio
                .file(added.to.as_os_str().as_bytes(), 0o644, &module);
            written.map_err(on_file("add", &added.from))?;
        } else {
            tree.add(&Chooser::CALLER, &added.from, &added.to)?;
        }
    }
    let modules = options.added.iter().filter(|added| added.load);
    let init = init(modules, &workload, options.waits);
    tree.cpio
        .file(INIT.as_bytes(), 0o755, &init)
        .map_err(on_file("write", path))?;
    let mut out = tree.cpio.finish().map_err(on_file("write", path))?;
    if let Some(initrd) = &options.initrd {
        let opened = Chooser::CALLER.open(initrd);
        let (further, _) = opened.map_err(on_file("open", initrd))?;
        let mut further = further.take(tree.room.left().saturating_add(1));
        let copied = io::copy(&mut further, &mut out);
        let copied = copied.and_then(|bytes| tree.room.take(bytes));
        copied.map_err(on_file("copy", initrd))?;
    }
    out.flush().map_err(on_file("write", path))
}

/// The workload's program as an absolute path, if it has to be taken from the host:
/// it is named by a path, is not among the added files, and exists on the host.
fn program_on_host(options: &VmOptions) -> Result<Option<PathBuf>, ProvisionError> {
    let Some(program) = options.workload.first() else {
        return Err(unsupported(
            "there is no workload to run in the virtual machine",
        ));
    };
    let path = Path::new(program);
    let in_guest = Path::new("/").join(path.strip_prefix(".").unwrap_or(path));
    let brought = options.added.iter().any(|a| in_guest.starts_with(&a.to));
    if brought || !program.as_bytes().contains(&b'/') || !path.is_file() {
        return Ok(None);
    }
    // Links are not resolved: some programs look at the name they are called by.
    let path = std::path::absolute(path).map_err(on_file("find", path))?;
    Ok(Some(path))
}

struct Tree {
    cpio: Cpio<BufWriter<File>>,
    companions: BTreeSet<PathBuf>,
    room: Room,
}

impl Tree {
    /// Adds what is there before the user's files.
    fn skeleton(&mut self, busybox: &Path) -> io::Result<()> {
        let cpio = &mut self.cpio;
        for folder in [
            "bin",
            "dev",
            "proc",
            "redhanded",
            "root",
            "run",
            "sys",
            "tmp",
        ] {
            cpio.directory(folder.as_bytes())?;
        }
        for (link, to) in [
            ("sbin", "bin"),
            ("usr/bin", "../bin"),
            ("usr/sbin", "../bin"),
        ] {
            cpio.directory_link(link.as_bytes(), to.as_bytes())?;
        }
        // Not every kernel fills /dev, and the first program's own files are opened
        // before anything is mounted there.
        for (name, numbers) in [
            ("dev/console", (5, 1)),
            ("dev/null", (1, 3)),
            ("dev/zero", (1, 5)),
            ("dev/ttyS1", (4, 65)),
            ("dev/ttyS2", (4, 66)),
            ("dev/ttyS3", (4, 67)),
        ] {
            cpio.device(name.as_bytes(), numbers)?;
        }
        for applet in applets(busybox)? {
            let link = [b"bin/", applet.as_slice()].concat();
            cpio.link(&link, BUSYBOX.as_bytes())?;
        }
        Ok(())
    }

    /// Adds a file or a whole folder that `chooser` names, with the libraries of programs in it.
    fn add(&mut self, chooser: &Chooser, from: &Path, to: &Path) -> Result<(), ProvisionError> {
        let found = chooser.at(from).map_err(on_file("read", from));
        let (real, chooser) = found?;
        let metadata = chooser.with(|| fs::metadata(&real));
        let metadata = metadata.map_err(on_file("read", from))?;
        if metadata.is_dir() {
            let written = self.cpio.directory(to.as_os_str().as_bytes());
            written.map_err(on_file("add", from))?;
            return self.add_folder(&chooser, &real, to);
        }
        if !metadata.is_file() {
            let why = format!(
                "cannot add {}: it is neither a file nor a folder",
                from.display()
            );
            return Err(unsupported(why));
        }
        let mode = metadata.permissions().mode();
        let (file, chooser) = chooser.open(from).map_err(on_file("open", from))?;
        let contents = self.room.read(file).map_err(on_file("add", from))?;
        self.cpio
            .file(to.as_os_str().as_bytes(), mode, &contents)
            .map_err(on_file("add", from))?;
        if mode & 0o111 == 0 {
            return Ok(());
        }
        let program = Program {
            path: from,
            contents: &contents,
            chooser: &chooser,
        };
        program.companions(&mut |path, file| {
            if self.companions.contains(path) {
                return self.room.look(file).map_err(on_file("read", path));
            }
            let contents = self.room.read(file).map_err(on_file("add", path))?;
            self.companions.insert(path.to_owned());
            let written = self
                .cpio
                .file(path.as_os_str().as_bytes(), 0o755, &contents);
            written.map_err(on_file("add", path))?;
            Ok(contents)
        })
    }

    fn add_folder(
        &mut self,
        chooser: &Chooser,
        from: &Path,
        to: &Path,
    ) -> Result<(), ProvisionError> {
        let names = chooser.with(|| {
            let names = fs::read_dir(from)?.map(|entry| Ok(entry?.file_name()));
            names.collect::<io::Result<Vec<OsString>>>()
        });
        let mut names = names.map_err(on_file("list", from))?;
        // Sorted, so that the same folder gives the same archive.
        names.sort();
        for name in names {
            let (from, to) = (from.join(&name), to.join(&name));
            let kind = chooser.with(|| fs::symlink_metadata(&from));
            let kind = kind.map_err(on_file("read", &from))?;
            if kind.is_symlink() {
                // Links are kept: following them could lead in circles.
                let target = chooser.with(|| fs::read_link(&from));
                let target = target.map_err(on_file("read", &from))?;
                let target = target.into_os_string().into_vec();
                let written = self.cpio.link(to.as_os_str().as_bytes(), &target);
                written.map_err(on_file("add", &from))?;
            } else if kind.is_dir() || kind.is_file() {
                self.add(chooser, &from, &to)?;
            }
        }
        Ok(())
    }
}

/// The names of busybox's programs.
fn applets(busybox: &Path) -> io::Result<Vec<Vec<u8>>> {
    let output = Command::new(busybox)
        .arg("--list")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let lines = output.stdout.split(|b| *b == b'\n');
    let names = lines.filter(|name| !name.is_empty() && !name.contains(&b'/'));
    let names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
    if names.iter().any(|name| name == b"sh") {
        Ok(names)
    } else {
        let why = format!("{} is not a busybox with a shell", busybox.display());
        Err(io::Error::other(why))
    }
}

/// The guest's first program.
///
/// Which serial port carries what is in [`super::serial_ports`]. The reports on the
/// fourth are read by [`super::console`].
fn init<'a>(
    modules: impl Iterator<Item = &'a Added>,
    workload: &[OsString],
    waits: bool,
) -> Vec<u8> {
    let mut script = format!(
        "#!{BUSYBOX} sh
b={BUSYBOX}
$b mkdir -p /dev /proc /sys /tmp /run
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mkdir -p /dev/pts /dev/shm
$b mount -t devpts pts /dev/pts
$b mount -t tmpfs -o mode=1777 shm /dev/shm
# Added files may be in there.
$b mkdir /redhanded/tmp
$b mount -t tmpfs -o mode=1777 tmp /redhanded/tmp
$b cp -a /tmp/. /redhanded/tmp
$b rm -rf /tmp/* /tmp/.[!.]*
$b mount -o move /redhanded/tmp /tmp
$b chmod 1777 /tmp
$b ifconfig lo up
export PATH=/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin:/ HOME=/root TERM=dumb
cd /
# From here on, only the kernel writes to its port.
exec </dev/null >/dev/null 2>&1
for port in 1 2 3; do $b stty -F /dev/ttyS$port raw -echo; done
report() {{ echo \"$*\" >/dev/ttyS3; }}
end() {{ report \"$@\"; $b sync; $b poweroff -f; $b reboot -f; while :; do $b sleep 9; done; }}
"
    )
    .into_bytes();
    for module in modules {
        let path = quote(module.to.as_os_str());
        script.extend_from_slice(b"$b insmod ");
        script.extend_from_slice(&path);
        script.extend_from_slice(b" 2>/dev/ttyS2 || end module ");
        script.extend_from_slice(&path);
        script.push(b'\n');
    }
    script.extend_from_slice(b"report ready\n");
    if waits {
        script.extend_from_slice(b"read -r go </dev/ttyS3\n");
    }
    // In a subshell, because `exit` can be a workload, too.
    script.extend_from_slice(b"( ");
    for word in workload {
        script.extend_from_slice(&quote(word));
        script.push(b' ');
    }
    // Processes that the workload left behind must not hold the ports.
    script.extend_from_slice(
        b") </dev/null >/dev/ttyS1 2>/dev/ttyS2\nstatus=$?\n$b kill -9 -1\nend exit $status\n",
    );
    script
}

/// Quotes a word for the shell.
fn quote(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Writes the file system to a folder, if the machine has enough memory for it.
pub fn in_folder(options: &VmOptions, folder: &Path) -> Result<PathBuf, ProvisionError> {
    let path = folder.join("initramfs");
    write_initramfs(options, &path)?;
    let size = fs::metadata(&path).map_err(on_file("read", &path))?.len();
    // The guest holds it in memory twice: as the archive, and unpacked.
    let room = u64::from(options.memory) << 20;
    if size.saturating_mul(2) > room {
        fs::remove_file(&path).map_err(system("cannot remove the initramfs"))?;
        return Err(unsupported(format!(
            "{} MiB of memory are not enough for {} MiB of files: give the machine more",
            options.memory,
            size >> 20,
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_quoted_words_back() {
        let words = [
            "plain",
            "two words",
            "it's",
            "$HOME `x` \"y\" \\",
            "a\nb",
            "",
        ];
        for word in words
            .map(OsStr::new)
            .into_iter()
            .chain([OsStr::from_bytes(b"\xff\xfe'")])
        {
            let mut script = b"printf %s ".to_vec();
            script.extend_from_slice(&quote(word));
            let output = Command::new("sh")
                .arg("-c")
                .arg(OsStr::from_bytes(&script))
                .output()
                .unwrap();
            assert_eq!(OsStr::from_bytes(&output.stdout), word);
        }
    }

    #[test]
    fn modules_are_loaded_in_order_and_before_the_workload() {
        let modules = ["/a.ko", "/b's.ko"].map(|path| Added::module(Path::new(path)));
        let script = init(modules.iter(), &["echo".into(), "it's".into()], false);
        let script = String::from_utf8(script).unwrap();
        let at = |part: &str| script.find(part).unwrap_or_else(|| panic!("no {part}"));
        assert!(at("insmod '/a.ko'") < at("insmod '/b'\\''s.ko'"));
        assert!(at("s.ko' 2>") < at("report ready"));
        assert!(at("report ready") < at("( 'echo' 'it'\\''s' ) </dev/null"));
    }
}
