//! Changes of traced threads and children.

use super::Tid;
use std::ffi::c_int;
use std::io;

/// One change of a traced thread, as `waitpid` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It exited with this status.
    Exited(c_int),
    /// A signal killed it; whether it dumped core.
    Killed(c_int, bool),
    /// It stopped: the signal, and the ptrace event or 0.
    Stopped(c_int, c_int),
}

/// The next change of any traced thread or child, without waiting.
pub fn poll_change() -> io::Result<Option<(Tid, Change)>> {
    wait_change(-1, libc::WNOHANG)
}

/// The next change of `tid`, without waiting.
pub fn poll_change_of(tid: Tid) -> io::Result<Option<Change>> {
    Ok(wait_change(tid, libc::WNOHANG)?.map(|(_, change)| change))
}

/// The next change of `tid`, waiting for it.
pub fn wait_for(tid: Tid) -> io::Result<Option<Change>> {
    loop {
        match wait_change(tid, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Ok(other?.map(|(_, change)| change)),
        }
    }
}

/// The next change of any child of ours, its stops by signals included.
pub fn poll_child() -> io::Result<Option<(Tid, Change)>> {
    wait_change(-1, libc::WNOHANG | libc::WUNTRACED)
}

fn wait_change(tid: Tid, flags: c_int) -> io::Result<Option<(Tid, Change)>> {
    let mut status = 0;
    // Tracees belong to the thread that seized them, so several threads may each
    // drive a process of their own.
    let flags = flags | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `status` outlives the call.
    let tid = unsafe { libc::waitpid(tid, &raw mut status, flags) };
    match tid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        tid => Ok(Some((tid, decode_status(status)))),
    }
}

fn decode_status(status: c_int) -> Change {
    if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Change::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status))
    } else {
        Change::Stopped(libc::WSTOPSIG(status), status >> 16)
    }
}
