//! A running virtual machine.

use super::accelerator::{self, Accelerator};
use super::console::VmState;
use super::initramfs::{self, INIT};
use super::serial_ports::{self, Listeners, Output, Ports};
use super::{VmOptions, last_line, on_file, system, unsupported};
use crate::ProvisionError;
use redhanded_sys::{die_with_this_thread, effective_user, open_regular, temporary_place};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How the folders of machines are called, and the lock in each.
const PREFIX: &str = "redhanded-vm-";
const LOCK: &str = "lock";

/// How long QEMU may take to open its socket.
const START: Duration = Duration::from_secs(20);

/// How long a machine may take to power off.
const POWER_OFF: Duration = Duration::from_secs(10);

/// How much of QEMU's own messages is read: their end.
const MESSAGE_BYTES: u64 = 1 << 16;

/// A virtual machine that we started. Dropping it ends it.
pub struct VirtualMachine {
    child: Child,
    ports: Listeners,
    accelerator: Accelerator,
    folder: TempDir,
    /// Held as long as the folder is in use.
    _lock: File,
}

impl VirtualMachine {
    /// Starts a machine. With [`VmOptions::stopped`] it executes nothing until a
    /// debugger connects and resumes it.
    ///
    /// QEMU gets its own process group, so that Ctrl-C at the terminal reaches only
    /// us. It dies with the calling *thread*: start machines from a thread that
    /// lives as long as they are needed.
    ///
    /// # Errors
    /// When a file cannot be read, KVM is demanded but unavailable, or QEMU refuses.
    pub fn launch(options: &VmOptions, output: Output) -> Result<Self, ProvisionError> {
        open_regular(&options.kernel).map_err(on_file("open the kernel", &options.kernel))?;
        if options.smp == 0 || options.memory == 0 {
            return Err(unsupported(
                "a virtual machine needs at least one processor and some memory",
            ));
        }
        let accelerator = accelerator::choose(options)?;
        // Only the owner can reach the folder, and nobody else exchange it: whoever can
        // connect to the gdbstub controls the machine.
        let place = temporary_place();
        remove_stale(&place);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place)
            .map_err(system("cannot create a folder for the virtual machine"))?;
        let lock = lock(folder.path()).map_err(system("cannot lock a folder"))?;
        let initramfs = initramfs::in_folder(options, folder.path())?;
        let said = folder.path().join("qemu.err");
        let stderr = File::create(&said).map_err(on_file("create", &said))?;
        let ports = Ports::new()?;
        let mut command = options.qemu.command();
        command
            .args(accelerator.arguments())
            .args(["-smp", &options.smp.to_string()])
            .args(["-m", &format!("{}M", options.memory)])
            .arg("-kernel")
            .arg(&options.kernel)
            .arg("-initrd")
            .arg(&initramfs)
            .args(["-append", &command_line(&options.append)])
            .args(serial_ports::arguments(ports.files()))
            .arg("-gdb")
            .arg(gdb_argument(&folder.path().join("gdb")))
            .args(options.stopped.then_some("-S"))
            .args(&options.qemu_args)
            .stdout(Stdio::null())
            .stderr(stderr)
            .process_group(0);
        die_with_this_thread(&mut command, ports.files().to_vec());
        let child = command
            .spawn()
            .map_err(on_file("run", &options.qemu.program))?;
        let mut vm = Self {
            child,
            ports: ports.listen(output),
            accelerator,
            folder,
            _lock: lock,
        };
        vm.await_socket(&options.qemu.program)?;
        // QEMU has read it by now. If we are killed, less is left behind.
        drop(fs::remove_file(initramfs));
        Ok(vm)
    }

    /// The socket of the gdbstub.
    #[must_use]
    pub fn gdb(&self) -> PathBuf {
        self.folder.path().join("gdb")
    }

    /// Starts a workload that waits for this ([`VmOptions::waits`]).
    pub fn start(&mut self) {
        self.ports.start();
    }

    /// The accelerator in use, with the reason if it is not KVM.
    #[must_use]
    pub const fn accelerator(&self) -> &Accelerator {
        &self.accelerator
    }

    /// QEMU's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> VmState {
        self.ports.state()
    }

    /// Waits until the state is no longer `state`, or `limit` has passed.
    #[must_use]
    pub fn wait_beyond(&self, state: &VmState, limit: Duration) -> VmState {
        self.ports.wait_beyond(state, limit)
    }

    /// Waits until the workload has ended or the machine is gone, at most for `limit`.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> VmState {
        let deadline = Instant::now() + limit;
        let mut state = self.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.is_over() || left.is_zero() {
                return state;
            }
            state = self.wait_beyond(&state, left);
        }
    }

    /// The end of the kernel's log, at most 1 MiB of it.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.ports.log()
    }

    /// Lines of the log that report a fault of the kernel: panics, oopses, bugs.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        self.ports.troubles()
    }

    /// The end of QEMU's own messages.
    #[must_use]
    pub fn qemu_said(&self) -> String {
        let mut said = Vec::new();
        // Without a file there are no messages.
        drop(
            File::open(self.folder.path().join("qemu.err")).and_then(|mut file| {
                let length = file.metadata()?.len();
                file.seek(SeekFrom::Start(length.saturating_sub(MESSAGE_BYTES)))?;
                file.take(MESSAGE_BYTES).read_to_end(&mut said)
            }),
        );
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Ends the machine. If its workload is over it gets a moment to power off,
    /// otherwise it is killed at once. Afterwards all output has been passed on and
    /// the log is complete.
    pub fn finish(&mut self) -> VmState {
        if self.state().is_over() {
            let deadline = Instant::now() + POWER_OFF;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.end();
        self.state()
    }

    fn end(&mut self) {
        // Both fail only if QEMU is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
        self.ports.finish();
    }

    fn await_socket(&mut self, program: &Path) -> Result<(), ProvisionError> {
        let deadline = Instant::now() + START;
        let socket = self.gdb();
        while !socket.exists() {
            let ended = self.child.try_wait();
            let ended = ended.map_err(system("cannot wait for QEMU"))?;
            if ended.is_some() || Instant::now() > deadline {
                let why = match ended {
                    Some(_) => last_line(self.qemu_said().as_bytes()),
                    None => format!("no gdbstub within {} s", START.as_secs()),
                };
                let program = program.display().to_string();
                return Err(ProvisionError::NotRunnable { program, why });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Locks a new folder. The lock has its name only when it is held.
fn lock(folder: &Path) -> io::Result<File> {
    let new = folder.join("new-lock");
    let file = File::create_new(&new)?;
    file.try_lock()?;
    fs::rename(new, folder.join(LOCK))?;
    Ok(file)
}

/// Removes the folders of machines whose tool was killed.
fn remove_stale(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry
            .metadata()
            .is_ok_and(|about| about.is_dir() && about.uid() == effective_user());
        if !is_ours || !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let folder = entry.path();
        let lock = open_regular(&folder.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // What cannot be removed takes up room and does no other harm.
            drop(fs::remove_dir_all(folder));
        }
    }
}

impl Drop for VirtualMachine {
    fn drop(&mut self) {
        self.end();
    }
}

/// The kernel's command line. The user's words come last, because the last one wins.
fn command_line(append: &[String]) -> String {
    // On a busy host timer interrupts come late. The kernel's check would take the
    // timer for broken.
    let ours = format!("console=ttyS0 rdinit={INIT} panic=-1 loglevel=7 no_timer_check");
    let words = std::iter::once(ours).chain(append.iter().cloned());
    words.collect::<Vec<_>>().join(" ")
}

/// The socket as QEMU's option, where a comma in a value is written twice.
fn gdb_argument(socket: &Path) -> OsString {
    let mut argument = OsString::from("unix:");
    let text = socket.to_string_lossy();
    match text.contains(',') {
        true => argument.push(text.replace(',', ",,")),
        false => argument.push(socket),
    }
    argument.push(OsStr::new(",server=on,wait=off"));
    argument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_whose_machine_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("qemu.err"), "").unwrap();
            folder
        };
        let (used, begun) = (make("redhanded-vm-used"), make("redhanded-vm-begun"));
        let (stale, other) = (make("redhanded-vm-stale"), make("another"));
        let held = lock(&used).unwrap();
        drop(lock(&stale).unwrap());
        drop(lock(&other).unwrap());
        remove_stale(place.path());
        assert!(used.exists() && begun.exists() && other.exists());
        assert!(!stale.exists());
        drop(held);
        remove_stale(place.path());
        assert!(!used.exists());
    }

    #[test]
    fn the_users_words_come_last() {
        let line = command_line(&["panic=0".to_owned(), "nokaslr".to_owned()]);
        assert!(line.starts_with("console=ttyS0 "));
        assert!(line.ends_with(" panic=0 nokaslr"));
    }

    #[test]
    fn commas_in_a_socket_path_are_escaped() {
        let argument = gdb_argument(Path::new("/a,b/gdb"));
        assert_eq!(argument, "unix:/a,,b/gdb,server=on,wait=off");
    }
}
