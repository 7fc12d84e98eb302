//! The `redhanded` binary from the outside: what a user, a shell script or a CI
//! job sees of it. Everything runs through [`place::Place`], which also holds
//! every run to what is always promised: no panic, and nothing left behind.

mod attach;
mod bad_input;
mod exit_status;
mod fidelity;
mod gdbstub;
mod interruption;
mod log;
mod permissions;
mod place;
mod reports;
mod screen;
mod sites;
