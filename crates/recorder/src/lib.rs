//! Recording: runs a program under DynamoRIO with our client in it, takes what the client writes
//! and appends it to a recording.
//!
//! The client is in `recorder/` at the root of the repository, in C; `cargo xtask recorder`
//! builds it. It takes a [`Program`](redhanded_process::Program) and a
//! [`Writer`](redhanded_recording::Writer), and gives back how the program ended. What the client
//! writes is not trusted: the program can write to the same pipes.

#![forbid(unsafe_code)]

mod chunks;
mod engine;
mod launch;
mod streams;
mod watch;

pub use chunks::{Chunk, Next, next};
pub use engine::{Engine, NoEngine};
pub use watch::{Options, Outcome, Progress, RecordError, record};
