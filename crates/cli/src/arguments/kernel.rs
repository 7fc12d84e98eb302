//! What `redhanded kernel` and the demo take.

use super::{Documents, Watch, duration, some_time};
use clap::{Args, ValueEnum};
use redhanded_provision::Accel;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  redhanded kernel --kernel vmlinuz --for 1m -- sh -c 'while :; do ls -lR / >/dev/null; done'
      boot a kernel in a virtual machine and sample it while a workload runs there
  redhanded kernel --kernel bzImage --vmlinux vmlinux --add driver.ko -- ./test-driver
      print names, fields and lines; copy a module and a program into the guest
  redhanded kernel --gdb unix:/run/vm.gdb --vmlinux vmlinux --for 10m
      observe any running virtual machine that has a gdbstub (QEMU: -gdb or -s)
  redhanded kernel --focus 'ext4_*' --kernel vmlinuz -- ./fs-test
      sample only these functions

Exit status:
  that of the workload if no race was found (0 with --gdb)
  66   a race was found (--exit-code, --fail-on)
  67   too little was looked at (--min-samples, --min-coverage), and no race was found
  125  Redhanded, the virtual machine or its kernel failed, or no code matched the globs";

/// What is observed of a kernel, and how its machine comes to be.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kernel {
    /// What to run in the virtual machine: a program of this host, or a busybox command
    #[arg(trailing_var_arg = true, value_name = "WORKLOAD")]
    pub workload: Vec<OsString>,

    /// The kernel image to boot (vmlinuz, bzImage). Default: this host's own
    #[arg(long, value_name = "VMLINUZ", conflicts_with = "gdb")]
    pub kernel: Option<PathBuf>,

    /// The kernel with debug information, for names, fields and lines; without it
    /// Redhanded uses what the image itself holds
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,

    /// Attach to the gdbstub of a running machine: unix:PATH or HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workload")]
    pub gdb: Option<String>,

    /// Allow a gdbstub on another host; the connection is not protected
    #[arg(long, requires = "gdb")]
    pub remote: bool,

    /// Module files of the kernel (.ko), or folders that hold them
    #[arg(long, value_name = "DIR")]
    pub modules: Vec<PathBuf>,

    /// Copy a file or folder of this host into the guest; a module (.ko) is loaded
    /// before the workload starts
    #[arg(long, value_name = "PATH[:IN-GUEST]", conflicts_with = "gdb")]
    pub add: Vec<OsString>,

    /// Another initrd for the guest
    #[arg(long, value_name = "FILE", conflicts_with = "gdb")]
    pub initrd: Option<PathBuf>,

    /// Words to add to the kernel's command line
    #[arg(long, value_name = "WORDS", conflicts_with = "gdb")]
    pub append: Vec<String>,

    /// How many CPUs the virtual machine has
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "gdb")]
    pub smp: u32,

    /// How much memory it has, in MiB
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 512,
        conflicts_with = "gdb"
    )]
    pub memory: u32,

    /// What executes the guest's code
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "gdb")]
    pub accel: AccelWith,

    /// Another argument for QEMU
    #[arg(
        long,
        value_name = "ARG",
        allow_hyphen_values = true,
        conflicts_with = "gdb"
    )]
    pub qemu_arg: Vec<OsString>,

    /// Observe for this long, then end the machine, or with --gdb let it run on
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub until: Option<Duration>,

    /// The longest time to hold a CPU while interrupts or preemption are off
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub atomic_delay: Duration,

    /// The longest time to hold a CPU in an interrupt handler; 0 does not hold it
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    pub interrupt_delay: Duration,

    #[command(flatten)]
    pub watch: Watch,
}

/// `redhanded demo [kernel]`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded demo                     catch the races of a small program
  redhanded demo kernel              catch those of a kernel module, in a virtual machine
  redhanded demo --json races.json   write the report for scripts, too")]
pub struct Demo {
    /// What to observe: a small program, or a kernel in a virtual machine
    #[arg(value_enum, default_value = "program")]
    pub what: DemoOf,

    #[command(flatten)]
    pub documents: Documents,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DemoOf {
    /// A program built into this binary
    Program,
    /// A Linux kernel with a racy module, downloaded and booted in a virtual machine
    Kernel,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AccelWith {
    /// The processor (KVM) where that works, else QEMU
    Auto,
    /// The processor
    Kvm,
    /// QEMU
    Tcg,
}

impl From<AccelWith> for Accel {
    fn from(with: AccelWith) -> Self {
        match with {
            AccelWith::Auto => Self::Auto,
            AccelWith::Kvm => Self::Kvm,
            AccelWith::Tcg => Self::Tcg,
        }
    }
}
