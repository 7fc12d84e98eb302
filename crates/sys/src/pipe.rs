//! Named pipes that are read, several at a time.

use super::check;
use nix::sys::stat::Mode;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How much a pipe holds, if the system allows it: whoever writes waits less often.
const CAPACITY: libc::c_int = 1 << 20;

/// A named pipe of ours. Reading it does not wait.
#[derive(Debug)]
pub struct Pipe(File);

impl Pipe {
    /// Makes it and opens it for reading.
    ///
    /// # Errors
    /// If it cannot be made or opened.
    pub fn make(path: &Path) -> io::Result<Self> {
        nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        // The default is less, and will do.
        // SAFETY: takes numbers only.
        let _ = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETPIPE_SZ, CAPACITY) };
        Ok(Self(file))
    }

    /// The file, for reading.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.0
    }
}

/// Waits until one of `files` can be read or has no writer left, no longer than `timeout`.
/// Which ones.
///
/// # Errors
/// If the system cannot wait.
pub fn wait_readable(files: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = files
        .iter()
        .map(|file| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = timeout.as_millis().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: the array outlives the call and has as many entries as it is told.
    let done = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    match check(done.into()) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(polled.iter().map(|polled| polled.revents != 0).collect()),
    }
}
