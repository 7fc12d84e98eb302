//! The `redhanded` binary from the outside: what a user, a shell script or a CI
//! job sees of it. Everything runs through [`place::Place`], which also holds
//! every run to what is always promised: no panic, and nothing left behind.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write into folders of their own"
)]

mod alloc;
mod analyze;
mod annotated;
mod attach;
mod bad_input;
mod ci;
mod confined;
mod debuginfod;
mod demo;
mod evidence;
mod exit_status;
mod fidelity;
mod full_disk;
mod gdbstub;
mod given_back;
mod hunt;
mod interruption;
mod listing;
mod log;
mod lost_tracer;
mod page;
mod permissions;
mod place;
mod record;
mod remembered;
mod replay;
mod reports;
mod screen;
mod sites;
mod store;
