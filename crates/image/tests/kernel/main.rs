//! Linux and its modules as images: linking, unwinding, what is not sampled,
//! what synchronises. Needs gcc and ld; what needs a real kernel reads it from
//! the folder that the environment variable REDHANDED_KERNELS names.

mod build;
mod damaged;
mod exclusions;
#[path = "../installed/mod.rs"]
mod installed;
mod linking;
mod live_text;
mod real;
mod synchronisation;
mod unwinding;
