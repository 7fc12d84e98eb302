//! The process that keeps a worker at hand, and replaces one that gives no answer.
//!
//! A worker is locked down, so it cannot make another one, and the tracer must not fork once
//! it traces. The keeper was forked before that. It holds nothing but a socket, and reads
//! nothing from it but requests for another worker.

use crate::worker::serve_on;
use redhanded_sys::{self as sys, ReadyTo, Tid};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How many workers are started in all. If so many gave no answer, the next one would not.
const MOST_WORKERS: u32 = 8;
/// How long a new worker may take to say that it is ready, on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// The keeper as its parent sees it.
pub struct Keeper {
    /// Its process.
    pub pid: Tid,
    /// The connection to it.
    pub workers: Workers,
}

impl Keeper {
    /// Starts it; below zero `nice` is for one whose next worker threads stand and wait for. Its
    /// workers have ordinary priority. This process must not have a second thread yet.
    pub fn start(nice: i32) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        if let Some(pid) = sys::fork()? {
            let workers = Workers { stream };
            return Ok(Self { pid, workers });
        }
        // Ctrl-Z stops whoever may wait; the tracer goes on and asks.
        sys::ignore_terminal_stops();
        if nice < 0 {
            sys::raise_priority(nice);
        }
        let kept = keep(theirs);
        std::process::exit(i32::from(kept.is_err()))
    }
}

/// Where workers come from.
pub struct Workers {
    stream: UnixStream,
}

impl Workers {
    /// The connection to the next worker, which is ready, if it comes within `limit`.
    ///
    /// # Errors
    /// If there will be none.
    pub fn next(&self, limit: Duration) -> io::Result<Option<UnixStream>> {
        if !sys::wait_ready(self.stream.as_fd(), ReadyTo::Read, limit)? {
            return Ok(None);
        }
        match sys::receive_file(self.stream.as_fd(), &mut [0])? {
            (1, Some(worker)) => Ok(Some(UnixStream::from(worker))),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Has the last worker ended and another one started.
    ///
    /// # Errors
    /// If the keeper is gone.
    pub fn replace(&self) -> io::Result<()> {
        (&self.stream).write_all(&[0])
    }
}

/// Hands out workers, one after the other, until the other end is closed or there were too
/// many.
fn keep(mut parent: UnixStream) -> io::Result<()> {
    sys::when_parent_dies(libc::SIGKILL)?;
    sys::no_new_privileges()?;
    // Whoever waits for the end of another file waits for all who have it.
    sys::close_all_but(&parent)?;
    for _ in 0..MOST_WORKERS {
        let (ours, theirs) = UnixStream::pair()?;
        let Some(worker) = sys::fork()? else {
            serve_on(theirs);
        };
        drop(theirs);
        // It says so itself when it is ready. Then nobody waits for it while threads stand.
        if sys::wait_ready(ours.as_fd(), ReadyTo::Read, STARTS_WITHIN)? {
            sys::send_file(parent.as_fd(), &[0], ours.as_fd())?;
        }
        drop(ours);
        let wanted = parent.read(&mut [0]);
        sys::kill(worker, libc::SIGKILL)?;
        sys::wait_for(worker)?;
        if wanted? == 0 {
            break;
        }
    }
    Ok(())
}
