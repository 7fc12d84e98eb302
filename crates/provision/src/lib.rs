//! Getting, building and starting virtual machines.
//!
//! **Takes** a wish ([`Wanted`]: which kernel, with debug information, with headers)
//! and a cache folder, or a kernel of the user's; C sources of modules; files of the
//! host and a workload ([`VmOptions`]).
//!
//! **Gives** QEMU, busybox and a kernel with its companions, all of one version
//! ([`provide`], and [`find`] without fetching); modules ([`build_module`]); and a
//! running [`VirtualMachine`] with a gdbstub on a private socket, whose output, log
//! and state are followed.
//!
//! **Refuses** a cache folder that other users may write to, and packages that are
//! not all of one version. It never installs anything on the host, never executes
//! the workload there, and never leaves a half-fetched kernel where it could
//! be taken for a whole one. A machine does not outlive the thread that started it.

mod accelerator;
mod added_files;
mod apt;
mod build_module;
mod cache;
mod console;
mod cpio;
mod fetch;
mod find;
mod host_files;
mod initramfs;
mod libraries;
mod module_dependencies;
mod qemu;
mod serial_ports;
mod virtual_machine;

pub use accelerator::{Accel, Accelerator};
pub use added_files::Added;
pub use build_module::{build_module, build_modules};
pub use cache::{cache_folder, own_cache_folder};
pub use console::VmState;
pub use cpio::Cpio;
pub use fetch::{provide, provide_newer_qemu, provide_tools};
pub use find::{Archive, Provision, Tools, Wanted, find, find_newer_qemu, host_kernel};
pub use initramfs::write_initramfs;
pub use libraries::companions;
pub use module_dependencies::needed_modules;
pub use qemu::Qemu;
pub use serial_ports::{Output, hear_forged};
pub use virtual_machine::VirtualMachine;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a machine cannot be provided or started.
#[derive(Debug, Error)]
pub enum ProvisionError {
    /// A program cannot be run.
    #[error("cannot run {program}: {why}")]
    NotRunnable {
        /// The program.
        program: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// The request cannot be met on this machine.
    #[error("{0}")]
    Unsupported(String),
}

/// What a virtual machine is made of and what runs in it.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// The QEMU that runs it.
    pub qemu: Qemu,
    /// A kernel as boot loaders take it.
    pub kernel: PathBuf,
    /// A busybox: the guest's shell and small programs.
    pub busybox: PathBuf,
    /// A further initrd. It is unpacked after ours, so its files win.
    pub initrd: Option<PathBuf>,
    /// Additions to the kernel's command line.
    pub append: Vec<String>,
    /// The number of processors.
    pub smp: u32,
    /// The amount of memory, in MiB.
    pub memory: u32,
    /// The accelerator.
    pub accel: Accel,
    /// Further arguments for QEMU.
    pub qemu_args: Vec<OsString>,
    /// Files, folders and modules of the host that are put into the guest.
    pub added: Vec<Added>,
    /// The workload, as it would be typed in the guest's root folder. A program
    /// that is a path on the host is put into the guest with its libraries.
    pub workload: Vec<OsString>,
    /// Whether the machine waits for a debugger before its first instruction.
    pub stopped: bool,
    /// Whether the workload waits for [`VirtualMachine::start`].
    pub waits: bool,
}

impl VmOptions {
    /// A machine with two processors and 256 MiB.
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

/// Adds what was tried to the error of a system call.
fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> ProvisionError {
    let action = action.into();
    |source| ProvisionError::System { action, source }
}

/// Adds what was tried on which file to the error of a system call.
fn on_file(action: &str, path: &Path) -> impl FnOnce(io::Error) -> ProvisionError {
    system(format!("cannot {action} {}", path.display()))
}

/// The error for a request that cannot be met.
fn unsupported(why: impl Into<String>) -> ProvisionError {
    ProvisionError::Unsupported(why.into())
}

/// The last line of a program's messages, which mostly says why it failed.
fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said.lines().rev().map(str::trim).find(|l| !l.is_empty());
    last.unwrap_or("it gave no reason").to_owned()
}
