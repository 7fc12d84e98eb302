//! A running QEMU.

use super::accel::{self, Accelerator};
use super::channels::{self, Channels, Output, Ports, VmState};
use super::initramfs::{self, INIT};
use super::{VmOptions, last_line, on_file, system, unsupported};
use crate::ProvisionError;
use redhanded_sys::die_with_this_thread;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long QEMU may take to open its socket.
const START: Duration = Duration::from_secs(20);

/// How long a machine may take to switch itself off.
const FAREWELL: Duration = Duration::from_secs(10);

/// A QEMU, installed or unpacked somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Where it finds libraries that the host does not have.
    pub library_path: Vec<PathBuf>,
    /// Where it finds its firmware, if not where it was built to.
    pub data_dirs: Vec<PathBuf>,
}

impl Qemu {
    /// One that finds everything by itself.
    #[must_use]
    pub const fn installed(program: PathBuf) -> Self {
        Self {
            program,
            library_path: Vec::new(),
            data_dirs: Vec::new(),
        }
    }

    /// A command that starts it with a machine that has nothing yet.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if !self.library_path.is_empty() {
            let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let inherited = std::env::split_paths(&inherited).filter(|p| p != Path::new(""));
            let all = self.library_path.iter().cloned().chain(inherited);
            // A folder with a colon in it cannot be named; the loader then says so.
            if let Ok(joined) = std::env::join_paths(all) {
                command.env("LD_LIBRARY_PATH", joined);
            }
        }
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none", "-vga", "none"]);
        for folder in &self.data_dirs {
            command.arg("-L").arg(folder);
        }
        command.stdin(Stdio::null());
        command
    }

    /// What it calls itself.
    ///
    /// # Errors
    /// When it does not run here.
    pub fn version(&self) -> Result<String, ProvisionError> {
        let mut command = self.command();
        let output = command
            .arg("--version")
            .output()
            .map_err(on_file("run", &self.program))?;
        if !output.status.success() {
            return Err(ProvisionError::NotRunnable {
                program: self.program.display().to_string(),
                why: last_line(&output.stderr),
            });
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }
}

/// A virtual machine that was started here. Dropping it ends it.
pub struct Vm {
    child: Child,
    channels: Channels,
    accelerator: Accelerator,
    folder: TempDir,
}

impl Vm {
    /// Starts a machine. With [`VmOptions::stopped`] it executes nothing before a
    /// debugger connects and lets it.
    ///
    /// QEMU has a process group of its own, so that Ctrl-C at the terminal is ours
    /// to act on, and it dies with the calling *thread*: start machines from one
    /// that lives as long as they are needed.
    ///
    /// # Errors
    /// When a file cannot be read, KVM was asked for and is not to be had, or QEMU
    /// refuses.
    pub fn launch(options: &VmOptions, output: Output) -> Result<Self, ProvisionError> {
        File::open(&options.kernel).map_err(on_file("open the kernel", &options.kernel))?;
        if options.smp == 0 || options.memory == 0 {
            return Err(unsupported("a machine needs a processor and memory"));
        }
        let accelerator = accel::choose(options)?;
        // The folder is readable by its owner only: who can connect to the
        // gdbstub owns the machine.
        let folder = tempfile::Builder::new()
            .prefix("redhanded-vm-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(system("cannot make a folder for the machine"))?;
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
            .args(channels::arguments(ports.files()))
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
            channels: ports.listen(output),
            accelerator,
            folder,
        };
        vm.await_socket(&options.qemu.program)?;
        // QEMU has read it, and whatever kills us leaves less behind.
        drop(fs::remove_file(initramfs));
        Ok(vm)
    }

    /// The socket of its gdbstub.
    #[must_use]
    pub fn gdb(&self) -> PathBuf {
        self.folder.path().join("gdb")
    }

    /// Lets the workload start that waits for this.
    pub fn start(&mut self) {
        self.channels.start();
    }

    /// How it is run, and why so.
    #[must_use]
    pub const fn accelerator(&self) -> &Accelerator {
        &self.accelerator
    }

    /// QEMU's process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> VmState {
        self.channels.state()
    }

    /// Waits until the state is another than `state`, or `limit` has passed.
    #[must_use]
    pub fn wait_beyond(&self, state: &VmState, limit: Duration) -> VmState {
        self.channels.wait_beyond(state, limit)
    }

    /// Waits until the workload has ended or the machine is gone, or `limit` has
    /// passed.
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
        self.channels.log()
    }

    /// Lines of the log that tell of a fault of the kernel: panics, oopses, bugs.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        self.channels.troubles()
    }

    /// What QEMU itself had to say.
    #[must_use]
    pub fn qemu_said(&self) -> String {
        let said = fs::read(self.folder.path().join("qemu.err")).unwrap_or_default();
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Ends it: a machine whose workload is over gets a moment to switch itself
    /// off, any other is ended at once. Afterwards all output was handed on, and the
    /// log is whole.
    pub fn finish(&mut self) -> VmState {
        if self.state().is_over() {
            let deadline = Instant::now() + FAREWELL;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.end();
        self.state()
    }

    fn end(&mut self) {
        // Both fail only when it is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
        self.channels.finish();
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

impl Drop for Vm {
    fn drop(&mut self) {
        self.end();
    }
}

/// The kernel's command line: the user's words last, because the last one wins.
fn command_line(append: &[String]) -> String {
    // The timer is not to be checked: on a busy host it comes late, and the kernel
    // would take that for a broken one.
    let ours = format!("console=ttyS0 rdinit={INIT} panic=-1 loglevel=7 no_timer_check");
    let words = std::iter::once(ours).chain(append.iter().cloned());
    words.collect::<Vec<_>>().join(" ")
}

/// A comma in a value is written twice.
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
    fn the_users_words_come_last() {
        let line = command_line(&["panic=0".to_owned(), "nokaslr".to_owned()]);
        assert!(line.starts_with("console=ttyS0 "));
        assert!(line.ends_with(" panic=0 nokaslr"));
    }

    #[test]
    fn commas_in_a_socket_path_are_no_options() {
        let argument = gdb_argument(Path::new("/a,b/gdb"));
        assert_eq!(argument, "unix:/a,,b/gdb,server=on,wait=off");
    }

    #[test]
    fn a_program_that_is_no_qemu_is_told_with_its_words() {
        let error = Qemu::installed("/bin/false".into()).version();
        assert!(error.unwrap_err().to_string().contains("/bin/false"));
        assert!(Qemu::installed("/absent/qemu".into()).version().is_err());
    }
}
