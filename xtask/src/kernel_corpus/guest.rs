//! The virtual machine that modules are loaded into, and a shell in it.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use redhanded_provision::{Added, Output, Provision, VirtualMachine, VmOptions, VmState};
use tempfile::TempDir;

/// How long a kernel may take to boot when everything is emulated.
const BOOTS_WITHIN: Duration = Duration::from_secs(180);
/// How long a command in the guest may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Where the modules are in the guest.
const MODULES: &str = "/corpus";

/// Runs the commands that arrive on a serial port, line by line.
const SHELL: &str = "stty -F /dev/ttyS4 raw -echo
exec </dev/ttyS4 >/dev/ttyS4 2>&1
echo ended 0
while read -r line; do eval \"$line\"; echo \"ended $?\"; done";

/// A booted kernel with two CPUs.
pub struct Guest {
    vm: VirtualMachine,
    shell: BufReader<UnixStream>,
    /// Contains the shell's socket.
    _folder: TempDir,
}

impl Guest {
    /// Boots a kernel whose file system contains the modules in `folder`.
    pub fn boot(provision: &Provision, folder: &Path) -> Result<Self> {
        let start = Instant::now();
        let sockets = tempfile::tempdir().context("cannot make a folder for a socket")?;
        let socket = sockets.path().join("shell");
        let mut options = VmOptions::new(
            &provision.tools,
            provision.kernel.clone(),
            ["sh", "-c", SHELL].map(Into::into).to_vec(),
        );
        options.stopped = false;
        // The four standard ports are taken.
        options.append.push("8250.nr_uarts=5".to_owned());
        let chardev = format!(
            "socket,id=shell,path={},server=on,wait=off",
            socket.display()
        );
        let port = ["-chardev", &chardev, "-device", "pci-serial,chardev=shell"];
        options.qemu_args.extend(port.map(Into::into));
        for list in ["expected", "never"] {
            for module in modules_in(&folder.join(list))? {
                let name = module.file_name().unwrap_or_default();
                options.added.push(Added {
                    to: Path::new(MODULES).join(list).join(name),
                    from: module,
                    load: false,
                });
            }
        }
        options.added.push(Added {
            from: folder.join("bin"),
            to: "/usr/local/bin".into(),
            load: false,
        });
        let vm = VirtualMachine::launch(
            &options,
            Output {
                stdout: Box::new(io::sink()),
                stderr: Box::new(io::sink()),
            },
        )?;
        let shell = UnixStream::connect(&socket).context("cannot reach the guest's shell")?;
        let state = vm.wait_beyond(&VmState::Booting, BOOTS_WITHIN);
        ensure!(
            state == VmState::Running,
            "the kernel does not boot: {state:?}\n{}",
            vm.log().join("\n")
        );
        let mut guest = Self {
            vm,
            shell: BufReader::new(shell),
            _folder: sockets,
        };
        let (status, _) = guest.answer("its own start")?;
        ensure!(status == 0, "the guest has no shell");
        println!(
            "Linux {} booted in {:.1} s on {}",
            provision.release,
            start.elapsed().as_secs_f64(),
            guest.vm.accelerator()
        );
        Ok(guest)
    }

    /// The address of its gdbstub, for `--gdb`.
    pub fn gdb(&self) -> String {
        format!("unix:{}", self.vm.gdb().display())
    }

    /// Runs a command, which must succeed; returns its output.
    pub fn run(&mut self, command: &str) -> Result<String> {
        let (status, said) = self.ask(command)?;
        ensure!(
            status == 0,
            "in the guest `{command}` ended with status {status}: {said}"
        );
        Ok(said)
    }

    /// Repeats a command until it succeeds.
    pub fn persuade(&mut self, command: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let (status, said) = self.ask(command)?;
            if status == 0 {
                return Ok(());
            }
            ensure!(
                start.elapsed() < ANSWERS_WITHIN,
                "in the guest `{command}` ends with status {status}: {said}"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Loads a module; `file` is relative to the corpus.
    pub fn load(&mut self, file: &Path) -> Result<()> {
        let path = Path::new(MODULES).join(file);
        self.run(&format!("insmod {}", path.display())).map(drop)
    }

    /// Fails if the kernel has logged a problem.
    pub fn in_order(&mut self) -> Result<()> {
        let troubles = self.vm.troubles();
        ensure!(
            troubles.is_empty(),
            "the kernel complains: {}",
            troubles.join("\n")
        );
        Ok(())
    }

    fn ask(&mut self, command: &str) -> Result<(i32, String)> {
        let sent = writeln!(self.shell.get_mut(), "{command}");
        sent.with_context(|| format!("cannot ask the guest for `{command}`"))?;
        self.answer(command)
    }

    fn answer(&mut self, command: &str) -> Result<(i32, String)> {
        let limit = Instant::now() + ANSWERS_WITHIN;
        let mut said = String::new();
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!(
                    "the guest does not answer `{command}`; the end of its log is\n{}",
                    self.end_of_log()
                );
            }
            self.shell.get_ref().set_read_timeout(Some(left))?;
            let from = said.len();
            match self.shell.read_line(&mut said) {
                Ok(0) => bail!(
                    "the guest is gone; the end of its log is\n{}",
                    self.end_of_log()
                ),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error).context("cannot read from the guest"),
            }
            if let Some(status) = said[from..].strip_prefix("ended ") {
                let status = status.trim().parse();
                let status = status.context("the guest's shell gave no exit status")?;
                said.truncate(from);
                return Ok((status, said));
            }
        }
    }

    fn end_of_log(&self) -> String {
        let log = self.vm.log();
        log[log.len().saturating_sub(20)..].join("\n")
    }
}

fn modules_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder
        .read_dir()
        .with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths
        .filter(|path| path.extension().is_some_and(|end| end == "ko"))
        .collect())
}
