//! Where a stub listens.

use super::GdbError;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;
use thiserror::Error;

/// How long finding the addresses of a host may take.
const RESOLVES_WITHIN: Duration = Duration::from_secs(10);

/// Where a stub listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A UNIX socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// Not an address.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{0}` is no address of a gdbstub: write unix:PATH, HOST:PORT or :PORT")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(bad());
            }
            return Ok(Self::Unix(path.into()));
        }
        // QEMU writes it with a prefix.
        let plain = text.strip_prefix("tcp:").unwrap_or(text);
        let (host, port) = plain.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(bad)?,
            None if host.contains([':', '/', ' ']) => return Err(bad()),
            None if host.is_empty() => "localhost",
            None => host,
        };
        Ok(Self::Tcp {
            host: host.to_owned(),
            port: port.ok_or_else(bad)?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Whether it can only be reached on this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let Ok(addresses) = self.resolved() else {
            return false;
        };
        addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// The addresses of a host; none for a UNIX socket.
    pub(super) fn resolved(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Unix(_) => Ok(Vec::new()),
            Self::Tcp { host, port } => {
                if let Ok(number) = host.parse::<IpAddr>() {
                    return Ok(vec![SocketAddr::new(number, *port)]);
                }
                let (host, port) = (host.clone(), *port);
                let resolve = move || Ok((host.as_str(), port).to_socket_addrs()?.collect());
                let found: Vec<SocketAddr> = within(RESOLVES_WITHIN, resolve)?;
                if found.is_empty() {
                    return Err(io::Error::other("the host has no address"));
                }
                Ok(found)
            }
        }
    }

    pub(super) fn refused(&self, source: io::Error) -> GdbError {
        GdbError::Refused {
            address: self.to_string(),
            option: match self {
                Self::Unix(_) => format!("{self},server=on,wait=off"),
                Self::Tcp { .. } => format!("tcp:{self}"),
            },
            source,
        }
    }
}

/// Does something that cannot be interrupted, but no longer than `limit`.
fn within<T: Send + 'static>(
    limit: Duration,
    what: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, result) = mpsc::channel();
    let doing = redhanded_sys::thread_builder()?.spawn(move || {
        let _ = sender.send(what());
    })?;
    let done = result.recv_timeout(limit).map_err(|_| {
        let why = format!("its name was not resolved within {} s", limit.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, why)
    })?;
    // Whoever asks may fork next, and must not have a second thread then.
    let _ = doing.join();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_name_for_ever() {
        let limit = Duration::from_millis(20);
        let slow = within(limit, || {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        });
        assert_eq!(slow.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(within(Duration::from_secs(60), || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn reads_what_people_and_qemu_write() {
        for (text, shown) in [
            ("unix:/run/vm.sock", "unix:/run/vm.sock"),
            ("unix:a b:1", "unix:a b:1"),
            (":1234", "localhost:1234"),
            ("tcp::1234", "localhost:1234"),
            ("tcp:vm.example:1", "vm.example:1"),
            ("127.0.0.1:65535", "127.0.0.1:65535"),
            ("[::1]:1234", "[::1]:1234"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address), "shown as it can be written");
        }
        for bad in [
            "",
            "1234",
            "unix:",
            "host:",
            "host:0",
            "host:65536",
            "::1:1234",
            "[::1:1",
            "/run/x:1",
            "/run/vm.sock",
            "a b:1",
        ] {
            assert_eq!(bad.parse::<Address>(), Err(BadAddress(bad.to_owned())));
        }
    }

    #[test]
    fn knows_what_is_local() {
        for (text, local) in [
            ("unix:/run/vm.sock", true),
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("192.0.2.1:1", false),
            ("[2001:db8::1]:1", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.is_local(), local, "{text}");
        }
    }
}
