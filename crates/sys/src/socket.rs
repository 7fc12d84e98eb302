//! A stream socket whose every wait has an end.

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

/// Waits until a socket is ready; whether it was before `limit` was over. The
/// limit is kept to the microsecond, as far as the system's timers go.
///
/// # Errors
/// When the system refuses, or a signal handler ran.
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

/// Reads what is there without waiting; 0 is the end of the stream.
///
/// # Errors
/// When nothing is there, or the connection is broken.
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

/// Writes as much as there is room for, without waiting and without a SIGPIPE.
///
/// # Errors
/// When there is no room, or the connection is broken.
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

/// Says that nothing more will be written. What was is still delivered.
///
/// # Errors
/// When the connection is broken already.
pub fn finish_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }.into()).map(drop)
}
