//! A Linux kernel in a virtual machine, driven through the machine's gdbstub.
//!
//! Takes the address of a gdbstub and the files of the kernel that runs there;
//! [`GuestMachine`] gives the window driver a [`Machine`](redhanded_target::Machine)
//! whose tasks are the virtual CPUs. Refuses machines that are not x86-64 and
//! kernels that are not the one of the files.
//!
//! Three parts. `gdb` and `linux` know nothing of each other; `machine` uses both:
//! - [`gdb`]: a client of the GDB remote protocol;
//! - `linux`: what a kernel's memory says (where it is, who runs, which modules
//!   there are), read through a [`Source`], of which a gdbstub is one;
//! - `machine`: breakpoints, watches and resumption, in as few round trips as
//!   possible, because no CPU runs during one.

mod files;
pub mod gdb;
mod linux;
mod machine;
mod source;

pub use files::KernelFiles;
pub use gdb::{Address, rescue};
pub use linux::{NotAKernel, explore_forged};
pub use machine::GuestMachine;
pub use source::{Source, VcpuRegisters};
