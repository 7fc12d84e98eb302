//! The virtual processor against hand-written races, hostile input and the real processor.

mod alone;
mod assemble;
mod hostile;
mod oracle;
mod random;
mod scenarios;
mod steady;
mod tracee;
mod undo;

use redhanded_replay::Worker;
use std::process::Command;
use std::time::Duration;

fn worker() -> Worker {
    let command = Command::new(env!("CARGO_BIN_EXE_redhanded-replay-worker"));
    Worker::start(command, Duration::from_secs(120)).expect("worker starts")
}
