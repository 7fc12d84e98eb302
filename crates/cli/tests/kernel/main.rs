//! `redhanded kernel` with real kernels in real virtual machines. They need the
//! folder with QEMU and a kernel that REDHANDED_KERNELS names; without it every
//! test says so and does nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write into folders of their own"
)]

mod attach;
mod bad_input;
mod demo;
mod killed;
mod launched;
mod machine;
mod modules;

#[path = "../redhanded/place.rs"]
#[expect(dead_code, reason = "the other tests need more of it")]
mod place;
