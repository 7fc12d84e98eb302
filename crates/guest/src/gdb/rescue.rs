//! Letting a machine run free when nobody else can.

use super::connection::{Connection, Waited, deadline};
use super::packet::Item;
use super::{DETACH, GdbError, INTERRUPT};
use redhanded_sys as sys;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A stub that has said nothing for this long has nothing more to say.
const QUIET: Duration = Duration::from_millis(60);
/// The longest time that leftovers may keep coming.
const LEFTOVERS: Duration = Duration::from_secs(2);
/// How long a stub may take for one answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How often it is asked.
const ATTEMPTS: usize = 4;

/// Makes the machine behind `stream` run with no breakpoint and no watch left, and
/// closes the connection for writing. To be called when its owner is gone, killed
/// at any moment: the machine may run or stand, answers may wait, and the owner's
/// last packet may have been written in part.
///
/// That the machine has ended is no error: then there is nothing to rescue.
///
/// # Errors
/// When the stub does not answer, or the connection cannot be used.
pub fn rescue(stream: impl AsFd) -> io::Result<()> {
    let stream = stream.as_fd().try_clone_to_owned()?;
    match free(Connection::new(stream)) {
        Ok(()) | Err(GdbError::GoneAway) => Ok(()),
        Err(GdbError::System(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn free(mut connection: Connection) -> Result<(), GdbError> {
    // Stops a machine that runs. One that stands takes it for part of the
    // half-written packet, or drops it.
    connection.push_raw(INTERRUPT);
    connection.flush(deadline(ANSWER))?;
    // An answer to the dead owner must not be taken for one to us.
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
    // Closing while something waits to be read would tell the stub of an error
    // before it has read everything.
    sys::finish_sending(connection.as_fd()).map_err(GdbError::System)?;
    drain(&mut connection, ANSWER, ANSWER)
}

/// Sends the farewell; whether the stub understood it. A half-written packet
/// swallows the first one, which then has a wrong checksum: the stub says so, and
/// is ready for the next. A machine that ran after all is stopped by its first
/// byte, and the rest is lost: then nothing is said at all.
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
            // An error, because what was swallowed had the right sum by chance.
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

/// Drops what comes until nothing does for a while, or the stream ends.
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
