//! A stream socket with a timeout on every wait, which can carry open files.

use super::check;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What a socket is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadyTo {
    /// Something to read, or its end.
    Read,
    /// Room to write.
    Write,
}

/// The user at the other end of a UNIX socket.
///
/// # Errors
/// If the system refuses.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer_credentials(socket)?.uid)
}

/// Who is at the other end of a UNIX socket.
pub(super) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a live structure, and its size.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    check(got.into())?;
    Ok(credentials)
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

/// The room that one open file takes beside a message.
#[repr(C, align(8))]
struct Beside([u8; 24]);

/// Calls `done` with a message of these bytes and room for one open file.
fn with_message<T>(
    bytes: &mut [u8],
    beside: &mut Beside,
    done: impl FnOnce(&mut libc::msghdr) -> T,
) -> T {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zeros are a msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = beside.0.len() as _;
    done(&mut message)
}

/// Sends bytes and an open file with them, without waiting and without a SIGPIPE. The
/// receiver gets the file as it was opened, whether or not it could open it itself.
///
/// # Errors
/// If nothing fits, or the connection is broken.
pub fn send_file(socket: BorrowedFd<'_>, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let mut beside = Beside([0; 24]);
    let mut bytes = bytes.to_vec();
    let sent = with_message(&mut bytes, &mut beside, |message| {
        // SAFETY: the room beside the message is aligned, and large enough for a header
        // and one descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(header)
                .cast::<c_int>()
                .write_unaligned(file.as_raw_fd());
            libc::sendmsg(
                socket.as_raw_fd(),
                message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        }
    });
    check(sent as _).map(|sent| sent as usize)
}

/// Reads what is there without waiting, and the open file that came with it if there is
/// room for it. Zero bytes are the end of the stream.
///
/// # Errors
/// If nothing is there, or the connection is broken.
pub fn receive_file(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut beside = Beside([0; 24]);
    let (read, file) = with_message(buffer, &mut beside, |message| {
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the kernel has written the header, if there is one, and the descriptor
        // after it, which is ours alone.
        unsafe {
            let read = libc::recvmsg(socket.as_raw_fd(), message, flags);
            let header = libc::CMSG_FIRSTHDR(message);
            let has_file = read >= 0
                && !header.is_null()
                && (*header).cmsg_type == libc::SCM_RIGHTS
                && (*header).cmsg_len as usize
                    >= libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            let file = has_file.then(|| {
                let file = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
                OwnedFd::from_raw_fd(file)
            });
            (read, file)
        }
    });
    check(read as _).map(|read| (read as usize, file))
}

/// Ends the sending side. What was written is still delivered.
///
/// # Errors
/// If the connection is already broken.
pub fn finish_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }.into()).map(drop)
}
