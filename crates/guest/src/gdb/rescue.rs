//! Freeing a machine whose debugger was killed.

use super::connection::{Connection, Waited};
use super::packet::Item;
use super::patience::{Patience, deadline};
use super::{DETACH, GdbError, INTERRUPT};
use redhanded_sys as sys;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A stub that has said nothing for this long has nothing more to say.
const QUIET: Duration = Duration::from_millis(60);
/// The longest time that leftovers may keep coming.
const LEFTOVERS: Duration = Duration::from_secs(2);
/// How long a stub may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How often detaching is tried.
const ATTEMPTS: usize = 4;

/// Removes all breakpoints and watches from the machine behind `stream`, lets it run,
/// and closes the connection for writing. For use when the process that drove it was
/// killed, at any moment: the machine may run or be stopped, answers may be waiting,
/// and the last packet may have been written in part.
///
/// It is no error if the machine has ended: then there is nothing to do.
///
/// # Errors
/// When the stub does not answer, or the connection cannot be used.
pub fn rescue(stream: impl AsFd) -> io::Result<()> {
    let stream = stream.as_fd().try_clone_to_owned()?;
    match free(Connection::new(stream, Patience::default())) {
        Ok(()) | Err(GdbError::GoneAway) => Ok(()),
        Err(GdbError::System(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn free(mut connection: Connection) -> Result<(), GdbError> {
    // Stops a running machine. A stopped one takes it for part of the half-written
    // packet, or drops it.
    connection.push_raw(INTERRUPT);
    connection.flush(deadline(ANSWER))?;
    // An answer to the dead process must not be taken for one to us.
    drain(&mut connection, QUIET, LEFTOVERS)?;
    let mut freed = false;
    for _ in 0..ATTEMPTS {
        if detach(&mut connection)? {
            freed = true;
            break;
        }
    }
    if !freed {
        return Err(GdbError::Silent);
    }
    // Closing while something is unread would give the stub an error before it has
    // read everything.
    sys::finish_sending(connection.as_fd()).map_err(GdbError::System)?;
    drain(&mut connection, ANSWER, ANSWER)
}

/// Detaches; whether the stub confirmed it. A half-written packet swallows the first
/// attempt, which then has a wrong checksum: the stub says so, and is ready for the
/// next. If the machine ran after all, the first byte stops it and the rest is lost:
/// then there is no answer at all.
fn detach(connection: &mut Connection) -> Result<bool, GdbError> {
    let before = connection.acknowledged;
    connection.push(DETACH);
    connection.flush(deadline(ANSWER))?;
    let deadline = deadline(ANSWER);
    loop {
        match connection.next(deadline)? {
            Waited::For(Item::Packet)
                if connection.acknowledged > before && connection.packet() == b"OK" =>
            {
                return Ok(true);
            }
            Waited::For(Item::Nack) | Waited::InVain => return Ok(false),
            // An error: the swallowed packet happened to have the right checksum.
            Waited::For(Item::Packet)
                if connection.acknowledged > before
                    && (connection.packet().is_empty() || connection.packet()[0] == b'E') =>
            {
                return Ok(false);
            }
            Waited::For(_) | Waited::Interrupted => {}
        }
    }
}

/// Drops what comes until the stub is silent for a while, or the stream ends.
fn drain(connection: &mut Connection, quiet: Duration, limit: Duration) -> Result<(), GdbError> {
    let end = deadline(limit);
    while Instant::now() < end {
        match connection.next(deadline(quiet).min(end)) {
            Ok(Waited::InVain) => break,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
