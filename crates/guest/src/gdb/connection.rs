//! The stream to a stub: writes batches, reads packets one by one, and never waits
//! without a deadline, which holds for the whole packet and not for each byte.

use super::GdbError;
use super::packet::{Decoder, Item, encode};
use super::patience::Patience;
use redhanded_sys as sys;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Room for what is read at once: several answers of the usual 4 KiB.
const ROOM: usize = 64 << 10;

/// For this long after a request its answer is polled for, if the stub has another CPU
/// of the host to run on: waking up takes longer than the stub takes to answer, and the
/// machine is stopped meanwhile. Not after a request to stop, for which the machine's
/// CPUs may need this one.
const SPIN: Duration = Duration::from_micros(300);

/// The result of waiting for an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// This came.
    For(Item),
    /// The time is over.
    InVain,
    /// A signal handler ran.
    Interrupted,
}

/// A stream to a stub.
#[derive(Debug)]
pub struct Connection {
    stream: OwnedFd,
    pub patience: Patience,
    /// The last deadline after which was read.
    late: Option<Instant>,
    decoder: Decoder,
    /// What was read, and the part that is not decoded yet.
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    /// Whether answers are polled for, and until when.
    pub spins: bool,
    spin_until: Option<Instant>,
    /// Whether the next write stops the machine.
    interrupts: bool,
    /// Packets written so far, and those that the stub acknowledged.
    pub sent: u64,
    pub acknowledged: u64,
}

impl Connection {
    pub fn new(stream: OwnedFd, patience: Patience) -> Self {
        Self {
            stream,
            patience,
            late: None,
            decoder: Decoder::new(),
            input: vec![0; ROOM],
            start: 0,
            end: 0,
            output: Vec::with_capacity(4096),
            spins: false,
            spin_until: None,
            interrupts: false,
            sent: 0,
            acknowledged: 0,
        }
    }

    /// Adds a packet to what the next flush writes.
    pub fn push(&mut self, content: &[u8]) {
        encode(content, &mut self.output);
        self.sent += 1;
    }

    /// Adds a byte outside any packet.
    pub fn push_raw(&mut self, byte: u8) {
        self.interrupts = true;
        self.output.push(byte);
    }

    /// How many bytes are to be written.
    pub fn pending(&self) -> usize {
        self.output.len()
    }

    /// Writes all that was added, in one system call unless the stub is slow.
    pub fn flush(&mut self, deadline: Instant) -> Result<(), GdbError> {
        let mut written = 0;
        while let Some(rest @ [_, ..]) = self.output.get(written..) {
            match sys::send(self.stream.as_fd(), rest) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = self.patience.left(deadline).ok_or(GdbError::Silent)?;
                    self.ready(sys::ReadyTo::Write, left)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
        self.output.clear();
        let interrupts = std::mem::take(&mut self.interrupts);
        let spins = self.spins && !interrupts;
        self.spin_until = spins.then(|| Instant::now() + SPIN);
        Ok(())
    }

    /// Nothing is expected soon.
    pub const fn rest(&mut self) {
        self.spin_until = None;
    }

    /// Everything has been answered: acknowledgements that are missing now will not
    /// come.
    pub fn settle(&mut self) {
        if self.acknowledged > 0 {
            self.acknowledged = self.sent;
        }
    }

    /// Whether bytes came that belong to no packet.
    pub const fn heard_garbage(&self) -> bool {
        self.decoder.heard_garbage()
    }

    /// The content of the last packet.
    pub fn packet(&self) -> &[u8] {
        self.decoder.packet()
    }

    /// The next item of the stream. After the deadline, only if it is there already:
    /// then the stream is read once more and no further, because a stub may send
    /// without end.
    pub fn next(&mut self, deadline: Instant) -> Result<Waited, GdbError> {
        loop {
            let mut rest = &self.input[self.start..self.end];
            let item = self.decoder.step(&mut rest);
            self.start = self.end - rest.len();
            if let Some(item) = item {
                if item == Item::Ack {
                    self.acknowledged += 1;
                }
                return Ok(Waited::For(item));
            }
            let left = self.patience.left(deadline);
            if left.is_none() && self.late.replace(deadline) == Some(deadline) {
                return Ok(Waited::InVain);
            }
            match sys::receive(self.stream.as_fd(), &mut self.input) {
                Ok(0) => return Err(GdbError::GoneAway),
                Ok(count) => (self.start, self.end) = (0, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let Some(left) = left else {
                        return Ok(Waited::InVain);
                    };
                    if self.spin_until.is_some_and(|until| Instant::now() < until) {
                        std::hint::spin_loop();
                        continue;
                    }
                    if !self.ready(sys::ReadyTo::Read, left)? {
                        return Ok(Waited::Interrupted);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Waits; `false` if a signal handler ran.
    fn ready(&self, to: sys::ReadyTo, limit: Duration) -> Result<bool, GdbError> {
        match sys::wait_ready(self.stream.as_fd(), to, limit) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(broken(error)),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn broken(error: io::Error) -> GdbError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            GdbError::GoneAway
        }
        _ => GdbError::System(error),
    }
}
