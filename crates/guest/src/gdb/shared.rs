//! A socket that two processes share before it is connected: if one is killed, the
//! other can still free the machine.

use super::patience::{Patience, deadline};
use super::{Address, GdbError};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, connect,
    getsockname, getsockopt, setsockopt, socket, sockopt,
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
        let make = |family| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(family, SockType::Stream, flags, None)
        };
        let addresses = self.resolved()?;
        if addresses.is_empty() {
            return Ok(make(AddressFamily::Unix)?);
        }
        // A host may have addresses of both kinds, and a socket for the newer one reaches
        // both. A machine may have it turned off.
        if addresses.iter().any(SocketAddr::is_ipv6)
            && let Ok(both) = make(AddressFamily::Inet6)
        {
            setsockopt(&both, sockopt::Ipv6V6Only, &false)?;
            return Ok(both);
        }
        Ok(make(AddressFamily::Inet)?)
    }

    /// Connects such a socket, in every process that has it open, within `limit`.
    pub(super) fn connect_over(
        &self,
        socket: &OwnedFd,
        patience: &mut Patience,
        limit: Duration,
    ) -> Result<(), GdbError> {
        let until = deadline(limit);
        let connected = match self {
            Self::Unix(path) => reach_path(socket, path, patience, until),
            Self::Tcp { .. } => self
                .resolved()
                .and_then(|addresses| reach_any(socket, &addresses, patience, until)),
        };
        connected.map_err(|source| self.refused(source))
    }
}

/// Tries the addresses of a host one after the other.
fn reach_any(
    socket: &OwnedFd,
    addresses: &[SocketAddr],
    patience: &mut Patience,
    deadline: Instant,
) -> io::Result<()> {
    let both =
        getsockname::<SockaddrStorage>(socket.as_raw_fd())?.family() == Some(AddressFamily::Inet6);
    let mut refused = io::Error::other("the host has no address that can be reached");
    for address in addresses {
        let address = match address {
            SocketAddr::V4(old) if both => {
                SocketAddr::new(old.ip().to_ipv6_mapped().into(), old.port())
            }
            SocketAddr::V6(_) if !both => continue,
            address => *address,
        };
        match reach_host(socket, address, patience, deadline) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
            Err(error) => refused = error,
        }
    }
    Err(refused)
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
    let connect = || connect(socket.as_raw_fd(), &SockaddrStorage::from(address));
    match connect() {
        // The end of an earlier attempt, which has to be heard first.
        Err(Errno::ECONNABORTED) => connect(),
        connected => connected,
    }
    .or_else(|error| match error {
        Errno::EINPROGRESS => Ok(()),
        other => Err(other),
    })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_host_is_reached_at_any_of_its_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        // Nobody is given this port without asking for it.
        let unused: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let Ok(newer) = "[::1]:1".parse::<Address>().unwrap().socket() else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let older: Address = unused.to_string().parse().unwrap();
        for socket in [newer, older.socket().unwrap()] {
            let addresses = [
                SocketAddr::new("::1".parse().unwrap(), unused.port()),
                unused,
                unused,
                there,
            ];
            let until = deadline(Duration::from_secs(20));
            reach_any(&socket, &addresses, &mut Patience::new(None), until).unwrap();
            let (_, client) = listener.accept().unwrap();
            assert!(client.ip().is_loopback());
        }
        let socket = older.socket().unwrap();
        let until = deadline(Duration::from_secs(20));
        let refused = reach_any(&socket, &[unused], &mut Patience::new(None), until);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
