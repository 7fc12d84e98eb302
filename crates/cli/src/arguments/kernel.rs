//! What `redhanded kernel` and the demo take.

use super::{Watch, duration, some_time};
use clap::{Args, ValueEnum};
use redhanded_provision::Accel;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  redhanded kernel --kernel vmlinuz -- sh -c 'while :; do ls -lR / >/dev/null; done' --for 1m
      boot a kernel in a virtual machine, run a workload in it and sample meanwhile
  redhanded kernel --kernel bzImage --vmlinux vmlinux --add driver.ko -- ./test-driver
      with names, fields and lines; a module and a program of yours go along
  redhanded kernel --gdb unix:/run/vm.gdb --vmlinux vmlinux --for 10m
      any running virtual machine that has a gdbstub (QEMU: -gdb or -s)
  redhanded kernel --focus 'ext4_*' --kernel vmlinuz -- ./fs-test
      sample these functions only

Exit status:
  that of the workload when no race was found (0 with --gdb)
  66   a race was found (--exit-code, --fail-on)
  125  Redhanded, the virtual machine or its kernel failed";

/// What is observed of a kernel, and how its machine comes to be.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kernel {
    /// The workload in the virtual machine: a program of this host, or a command
    /// of busybox there
    #[arg(trailing_var_arg = true, value_name = "WORKLOAD")]
    pub workload: Vec<OsString>,

    /// The kernel to boot, as boot loaders take it. Default: this host's own
    #[arg(long, value_name = "VMLINUZ", conflicts_with = "gdb")]
    pub kernel: Option<PathBuf>,

    /// The kernel with its debug information, from which names, fields and lines
    /// are taken; without it, what the kernel itself holds
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,

    /// Attach to the gdbstub of a machine that runs already: unix:PATH or HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workload")]
    pub gdb: Option<String>,

    /// Allow a gdbstub on another host, whose connection nobody protects
    #[arg(long, requires = "gdb")]
    pub remote: bool,

    /// Files of the kernel's modules (.ko), or folders with them
    #[arg(long, value_name = "DIR")]
    pub modules: Vec<PathBuf>,

    /// Take a file or folder of this host along; a module (.ko) is loaded before
    /// the workload starts
    #[arg(long, value_name = "PATH[:IN-GUEST]", conflicts_with = "gdb")]
    pub add: Vec<OsString>,

    /// A further initrd for the guest
    #[arg(long, value_name = "FILE", conflicts_with = "gdb")]
    pub initrd: Option<PathBuf>,

    /// Words for the kernel's command line
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

    /// Who executes the guest's code
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "gdb")]
    pub accel: AccelWith,

    /// A further argument for QEMU
    #[arg(
        long,
        value_name = "ARG",
        allow_hyphen_values = true,
        conflicts_with = "gdb"
    )]
    pub qemu_arg: Vec<OsString>,

    /// Look for this long, then end the machine, or with --gdb let it run on
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub until: Option<Duration>,

    /// The longest a CPU is held where interrupts or preemption are off
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub atomic_delay: Duration,

    /// The longest a CPU is held in the handler of an interrupt; 0 lets it pass
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    pub interrupt_delay: Duration,

    #[command(flatten)]
    pub watch: Watch,
}

/// `redhanded demo [kernel]`.
#[derive(Debug, Args)]
pub struct Demo {
    /// What is caught: a small program, or a kernel in a virtual machine
    #[arg(value_enum, default_value = "program")]
    pub what: DemoOf,

    /// Write the report as JSON to FILE (docs/json.md)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DemoOf {
    /// A program that is part of this binary
    Program,
    /// A Linux kernel with a racy module, which is fetched and booted
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
