//! Getting, building and starting a virtual machine.
//!
//! [`provide`] finds or fetches QEMU, a kernel and a busybox; [`build_module`]
//! makes a loadable module from C; [`Vm::launch`] packs a first file system with
//! the workload in it and starts QEMU, stopped, with a gdbstub on a private socket.
//!
//! Nothing is installed on the host, and a machine that was started here does not
//! outlive who started it.

mod accel;
mod added;
mod apt;
mod channels;
mod cpio;
mod initramfs;
mod libraries;
mod module;
mod needed;
mod packages;
mod provision;
mod qemu;

pub use accel::{Accel, Accelerator};
pub use added::Added;
pub use channels::{Output, VmState};
pub use cpio::Cpio;
pub use initramfs::write_initramfs;
pub use module::{build_module, build_modules};
pub use needed::needed_modules;
pub use packages::{provide, provide_newer_qemu, provide_tools};
pub use provision::{Archive, Provision, Tools, Wanted, cache_folder, find, host_kernel};
pub use qemu::{Qemu, Vm};

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a machine cannot be had or started.
#[derive(Debug, Error)]
pub enum ProvisionError {
    /// A program cannot be run.
    #[error("cannot run {program}: {why}")]
    NotRunnable {
        /// Which.
        program: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried, with what to do about a refusal.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was asked for is not possible on this machine.
    #[error("{0}")]
    Unsupported(String),
}

/// What a virtual machine is made of, and what runs in it.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// The QEMU that runs it.
    pub qemu: Qemu,
    /// A kernel as boot loaders take it.
    pub kernel: PathBuf,
    /// A busybox for the guest: its shell and its small programs.
    pub busybox: PathBuf,
    /// A further initrd: unpacked after ours, so that its files win.
    pub initrd: Option<PathBuf>,
    /// Words for the kernel's command line.
    pub append: Vec<String>,
    /// How many processors.
    pub smp: u32,
    /// How much memory, in MiB.
    pub memory: u32,
    /// How it is to be run.
    pub accel: Accel,
    /// Further arguments for QEMU.
    pub qemu_args: Vec<OsString>,
    /// Files, folders and modules that go along.
    pub added: Vec<Added>,
    /// The workload, as it would be typed in the guest's root folder. A program
    /// that is a path on the host goes along with its libraries.
    pub workload: Vec<OsString>,
    /// Whether the machine waits for a debugger before its first instruction.
    pub stopped: bool,
    /// Whether the workload waits for [`Vm::start`].
    pub waits: bool,
}

impl VmOptions {
    /// Two processors and 256 MiB.
    #[must_use]
    pub fn new(tools: &Tools, kernel: PathBuf, workload: Vec<OsString>) -> Self {
        Self {
            qemu: tools.qemu.clone(),
            kernel,
            busybox: tools.busybox.clone(),
            initrd: None,
            append: Vec::new(),
            smp: 2,
            memory: 256,
            accel: Accel::Auto,
            qemu_args: Vec::new(),
            added: Vec::new(),
            workload,
            stopped: true,
            waits: false,
        }
    }
}

/// The error of a system call, with what was tried.
fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> ProvisionError {
    let action = action.into();
    |source| ProvisionError::System { action, source }
}

/// The error of a system call on a file.
fn on_file(action: &str, path: &Path) -> impl FnOnce(io::Error) -> ProvisionError {
    system(format!("cannot {action} {}", path.display()))
}

/// What is asked for cannot be done, in a sentence.
fn unsupported(why: impl Into<String>) -> ProvisionError {
    ProvisionError::Unsupported(why.into())
}

/// The last line of what a program said, which mostly is why it failed.
fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said.lines().rev().map(str::trim).find(|l| !l.is_empty());
    last.unwrap_or("it said nothing").to_owned()
}
