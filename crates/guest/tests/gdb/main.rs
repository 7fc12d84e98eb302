//! The GDB remote protocol client: against a scripted stub, which says what no
//! sound one would; against the `gdbstub` crate; and against QEMU.

mod endless;
mod qemu;
mod script;
mod scripted;
mod stub;
mod troubles;
