//! A stream socket with a timeout on every wait.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What a socket is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadyTo {
    /// Something to read, or its end.
    Read,
    /// Room to write.
    Write,
}

/// Waits until a socket is ready. Returns whether it was within `limit`, which is kept
/// to the microsecond as far as the system's timers allow.
///
/// # Errors
/// If the system refuses, or a signal handler ran.
pub fn wait_ready(socket: BorrowedFd<'_>, to: ReadyTo, limit: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: match to {
            ReadyTo::Read => libc::POLLIN,
            ReadyTo::Write => libc::POLLOUT,
        },
        revents: 0,
    };
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: one live element, a live time, and no mask.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const limit, std::ptr::null()) };
    check(ready.into()).map(|ready| ready > 0)
}

/// Reads what is there without waiting. Zero bytes are the end of the stream.
///
/// # Errors
/// If nothing is there, or the connection is broken.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is live and as long as said.
    let read = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    check(read as _).map(|read| read as usize)
}

/// Writes as much as fits, without waiting and without a SIGPIPE.
///
/// # Errors
/// If nothing fits, or the connection is broken.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are live and as many as said.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    check(sent as _).map(|sent| sent as usize)
}

/// Ends the sending side. What was written is still delivered.
///
/// # Errors
/// If the connection is already broken.
pub fn finish_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }.into()).map(drop)
}
