//! A socket that two processes share before it is connected: if one is killed, the
//! other can still free the machine.

use super::patience::{Patience, deadline};
use super::{Address, GdbError};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr, connect, getsockopt, setsockopt,
    socket, sockopt,
};
use redhanded_sys as sys;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How often a UNIX socket is tried whose listener has no room for another client.
const TRY_EVERY: Duration = Duration::from_millis(20);

impl Address {
    /// A socket of the right kind, not connected to anything.
    ///
    /// # Errors
    /// When there is no such host, or no room for another file.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        let family = match self.first()? {
            None => AddressFamily::Unix,
            Some(SocketAddr::V4(_)) => AddressFamily::Inet,
            Some(SocketAddr::V6(_)) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        Ok(socket(family, SockType::Stream, flags, None)?)
    }

    /// Connects such a socket, in every process that has it open, within `limit`.
    pub(super) fn connect_over(
        &self,
        socket: &OwnedFd,
        patience: &mut Patience,
        limit: Duration,
    ) -> Result<(), GdbError> {
        let connected = match (self, self.first()) {
            (_, Err(error)) => Err(error),
            (Self::Unix(path), _) => reach_path(socket, path, patience, deadline(limit)),
            (_, Ok(Some(address))) => reach_host(socket, address, patience, deadline(limit)),
            (_, Ok(None)) => Err(io::Error::other("the host has no address")),
        };
        connected.map_err(|source| self.refused(source))
    }

    fn first(&self) -> io::Result<Option<SocketAddr>> {
        Ok(self.resolved()?.into_iter().next())
    }
}

/// A listener whose queue is full says so, and nothing tells when there is room.
fn reach_path(
    socket: &OwnedFd,
    path: &Path,
    patience: &mut Patience,
    deadline: Instant,
) -> io::Result<()> {
    let address = UnixAddr::new(path)?;
    loop {
        match connect(socket.as_raw_fd(), &address) {
            Err(Errno::EAGAIN) => {}
            connected => return Ok(connected?),
        }
        let left = patience.left(deadline).ok_or_else(out_of_time)?;
        thread::sleep(left.min(TRY_EVERY));
    }
}

fn reach_host(
    socket: &OwnedFd,
    address: SocketAddr,
    patience: &mut Patience,
    deadline: Instant,
) -> io::Result<()> {
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Err(Errno::EINPROGRESS) => {}
        connected => connected?,
    }
    loop {
        let left = patience.left(deadline).ok_or_else(out_of_time)?;
        match sys::wait_ready(socket.as_fd(), sys::ReadyTo::Write, left) {
            Ok(true) => break,
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Ok(false) | Err(_) => {}
        }
    }
    match getsockopt(socket, sockopt::SocketError)? {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // Packets are small, and each is waited for.
    Ok(setsockopt(socket, sockopt::TcpNoDelay, &true)?)
}

fn out_of_time() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it does not accept the connection")
}
