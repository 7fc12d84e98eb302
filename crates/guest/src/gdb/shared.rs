//! A socket that two processes share before it is connected: if one is killed, the
//! other can still free the machine.

use super::{Address, GdbError};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr, connect, setsockopt, socket,
    sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

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
        let flags = SockFlag::SOCK_CLOEXEC;
        Ok(socket(family, SockType::Stream, flags, None)?)
    }

    /// Connects such a socket, in every process that has it open.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect_over(&self, socket: &OwnedFd) -> Result<(), GdbError> {
        let connected = || -> io::Result<()> {
            match (self, self.first()?) {
                (Self::Unix(path), _) => {
                    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
                }
                (_, Some(address)) => {
                    connect(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
                    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
                }
                (Self::Tcp { .. }, None) => {
                    return Err(io::Error::other("the host has no address"));
                }
            }
            Ok(())
        };
        connected().map_err(|source| self.refused(source))
    }

    fn first(&self) -> io::Result<Option<SocketAddr>> {
        Ok(self.resolved()?.into_iter().next())
    }
}
