//! A client of the GDB remote protocol, for QEMU's gdbstub and its like.
//!
//! It drives all vCPUs of a machine together: all of them are stopped, or some run
//! while the others are held. While all are stopped, anything can be asked, many
//! things in one write ([`Gdb::ask`]). While any runs, nothing can: QEMU takes every
//! byte for a request to stop.
//!
//! Peculiarities of QEMU that are dealt with here:
//! - Acknowledgements are never sent. One that arrives late would stop the machine,
//!   on newer versions silently. QEMU's own are counted: they tell a stop from before
//!   a resumption from one after it.
//! - A stop that comes while the machine is known to be stopped is dropped. Version
//!   7.2 sends one to every client that connects.
//! - Detaching removes all breakpoints and lets the machine run; closing the
//!   connection does neither. So a [`Gdb`] that is dropped detaches, and for one
//!   whose process was killed there is [`rescue`].

mod address;
mod connection;
pub mod description;
mod error;
mod exchange;
mod greeting;
pub mod packet;
mod patience;
mod point;
mod rescue;
mod running;
mod shared;
mod stop;

pub use address::{Address, BadAddress};
pub use error::GdbError;
pub use point::{Answer, Point, PointKind, Request};
pub use rescue::rescue;
pub use stop::StopReply;

use crate::VcpuRegisters;
use connection::Connection;
use description::Layout;
use exchange::Exchange;
use patience::{Patience, deadline};
use redhanded_sys as sys;
use redhanded_target::Signals;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request of many batches, or a greeting, may take this many times as long as one
/// answer.
const ANSWERS: u32 = 2;
/// The byte that stops a running machine.
const INTERRUPT: u8 = 3;
/// Detaches; to QEMU the machine is process 1.
const DETACH: &[u8] = b"D;1";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// All vCPUs are stopped.
    Stopped,
    /// Some run. A stop is valid once the stub has acknowledged this many packets.
    Running { acknowledged: u64 },
    /// An answer is missing or made no sense: later ones cannot be told apart.
    Lost,
    /// The machine is gone, or we have detached.
    Over,
}

/// A connection to a gdbstub.
#[derive(Debug)]
pub struct Gdb {
    connection: Connection,
    patience: Duration,
    state: State,
    vcpus: Vec<u32>,
    layout: Layout,
    /// How much memory is asked for in one packet.
    piece: usize,
    inserted: Vec<Point>,
    strays: u64,
    /// When it last stopped.
    stopped: Instant,
    /// The vCPU that requests are about, where that is known: the one that stopped the
    /// machine, or was selected since.
    selected: Option<u32>,
}

impl Gdb {
    /// Connects `socket`, made by [`Address::socket`], which stops the machine.
    /// `patience` is how long the stub may take to accept the connection, and to answer,
    /// here and later. Once one of `signals` tells this process to end there is hardly
    /// any.
    ///
    /// # Errors
    /// When there is no usable stub.
    pub fn connect(
        address: &Address,
        socket: OwnedFd,
        patience: Duration,
        signals: Option<Arc<Signals>>,
    ) -> Result<Self, GdbError> {
        let mut waits = Patience::new(signals);
        address.connect_over(&socket, &mut waits, patience)?;
        Self::greeted(Connection::new(socket, waits), patience)
    }

    /// As [`Gdb::connect`], over a stream socket that is connected already.
    ///
    /// # Errors
    /// When what answers is no usable stub.
    pub fn over(stream: impl Into<OwnedFd>, patience: Duration) -> Result<Self, GdbError> {
        let connection = Connection::new(stream.into(), Patience::default());
        Self::greeted(connection, patience)
    }

    fn greeted(mut connection: Connection, patience: Duration) -> Result<Self, GdbError> {
        let greeting = greeting::greet(&mut connection, patience);
        if greeting.is_err() && connection.acknowledged > 0 {
            // Connecting stopped the machine; closing would not resume it.
            let _ = rescue(&connection);
        }
        let greeting = greeting?;
        Ok(Self {
            connection,
            patience,
            state: State::Stopped,
            vcpus: greeting.vcpus,
            layout: greeting.layout,
            piece: greeting.piece,
            inserted: Vec::new(),
            strays: 0,
            stopped: Instant::now(),
            selected: None,
        })
    }

    /// Reserves a CPU of the host for the calling thread, by moving the main thread of
    /// the machine's process to the others, so that it can wait for answers without
    /// sleeping. For a machine that we started, on a UNIX socket.
    pub fn reserve_host_cpu(&mut self) {
        // If that fails it only takes longer.
        self.connection.spins = sys::reserve_cpu(self.connection.as_fd()).unwrap_or(false);
    }

    /// The vCPUs, as the stub numbers them: from 1.
    #[must_use]
    pub fn vcpus(&self) -> &[u32] {
        &self.vcpus
    }

    /// Whether any vCPU runs, as far as is known.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// When it last stopped.
    #[must_use]
    pub const fn stopped_at(&self) -> Instant {
        self.stopped
    }

    /// Sets when it is to be over: nothing is waited for after that, whatever the
    /// patience.
    pub const fn end_at(&mut self, until: Option<Instant>) {
        self.connection.patience.until = until;
    }

    /// The breakpoints and watches that are inserted.
    #[must_use]
    pub fn inserted(&self) -> &[Point] {
        &self.inserted
    }

    /// How many unexpected stops were dropped.
    #[must_use]
    pub const fn stray_stops(&self) -> u64 {
        self.strays
    }

    /// A duplicate of the connection, for [`rescue`] by another process.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn try_clone_stream(&self) -> io::Result<OwnedFd> {
        self.connection.as_fd().try_clone_to_owned()
    }

    /// Sends many requests at once, and gives the answers in their order. If they are
    /// few and small that is one write and one wait.
    ///
    /// # Errors
    /// When the machine runs or is gone, or the stub does not answer; then nothing can
    /// be asked any more.
    pub fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, GdbError> {
        self.must_be_stopped()?;
        let mut exchange = Exchange::new(requests, self.piece, &mut self.selected);
        let end = self.end_of_request();
        while exchange.push(&mut self.connection) {
            let deadline = self.flush(end)?;
            self.take(&mut exchange, deadline)?;
            self.connection.settle();
        }
        Ok(self.finish(exchange))
    }

    /// The registers of a vCPU.
    ///
    /// # Errors
    /// As of [`Gdb::ask`], and when there is no such vCPU.
    pub fn registers(&mut self, vcpu: u32) -> Result<VcpuRegisters, GdbError> {
        let mut registers = self.registers_of(&[vcpu])?;
        registers.pop().ok_or(GdbError::GoneAway)
    }

    /// The registers of several vCPUs, in the order given.
    ///
    /// # Errors
    /// As of [`Gdb::ask`], and when there is no such vCPU.
    pub fn registers_of(&mut self, vcpus: &[u32]) -> Result<Vec<VcpuRegisters>, GdbError> {
        let requests: Vec<_> = vcpus.iter().copied().map(Request::Registers).collect();
        let answers = self.ask(&requests)?.into_iter().zip(vcpus);
        answers
            .map(|(answer, vcpu)| {
                answer.registers().ok_or_else(|| {
                    GdbError::Nonsense(format!("it does not tell the registers of vCPU {vcpu}"))
                })
            })
            .collect()
    }

    /// Reads memory through the page tables of the selected vCPU: the one that stopped
    /// the machine, or whose registers were read last. `false` if any of it cannot be
    /// read.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<bool, GdbError> {
        let len = buffer.len();
        let answer = self.ask(&[Request::Read { address, len }])?.pop();
        let memory = answer.and_then(Answer::memory);
        if let Some(memory) = &memory {
            buffer.copy_from_slice(memory);
        }
        Ok(memory.is_some())
    }

    /// Inserts breakpoints and watches; whether each was inserted.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn insert(&mut self, points: &[Point]) -> Result<Vec<bool>, GdbError> {
        let requests: Vec<_> = points.iter().copied().map(Request::Insert).collect();
        Ok(self.ask(&requests)?.iter().map(Answer::done).collect())
    }

    /// Removes breakpoints and watches; whether each was there.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn remove(&mut self, points: &[Point]) -> Result<Vec<bool>, GdbError> {
        let requests: Vec<_> = points.iter().copied().map(Request::Remove).collect();
        Ok(self.ask(&requests)?.iter().map(Answer::done).collect())
    }

    /// Removes everything, lets the machine run, and closes the connection.
    ///
    /// # Errors
    /// When it is not certain that this was done.
    pub fn detach(mut self) -> Result<(), GdbError> {
        self.release()
    }

    fn release(&mut self) -> Result<(), GdbError> {
        if self.state == State::Over {
            return Ok(());
        }
        if self.try_detach().is_err() {
            self.state = State::Over;
            rescue(&self.connection).map_err(GdbError::System)?;
        }
        self.state = State::Over;
        Ok(())
    }

    fn try_detach(&mut self) -> Result<(), GdbError> {
        if self.is_running() {
            self.interrupt(self.patience)?;
        }
        if self.state == State::Over {
            return Ok(());
        }
        self.must_be_stopped()?;
        // QEMU does that by itself on detaching; other stubs may not.
        let inserted = std::mem::take(&mut self.inserted);
        self.remove(&inserted)?;
        self.connection.push(DETACH);
        let deadline = self.flush(self.end_of_request())?;
        self.answer(deadline)?;
        match self.connection.packet() {
            b"OK" => Ok(()),
            _ => Err(GdbError::Nonsense("it does not let us detach".into())),
        }
    }

    fn must_be_stopped(&self) -> Result<(), GdbError> {
        match self.state {
            State::Stopped => Ok(()),
            State::Running { .. } => Err(GdbError::Running),
            State::Lost => Err(GdbError::Silent),
            State::Over => Err(GdbError::GoneAway),
        }
    }

    /// Waits for the next packet that is an answer.
    fn answer(&mut self, deadline: Instant) -> Result<(), GdbError> {
        let before = self.strays;
        let answered = greeting::answer(&mut self.connection, deadline, &mut self.strays);
        if self.strays > before {
            // Another vCPU may be selected now.
            self.selected = None;
        }
        self.checked(answered)
    }

    /// When a request must be over that begins now, however many batches it takes.
    fn end_of_request(&self) -> Instant {
        deadline(self.patience.saturating_mul(ANSWERS))
    }

    /// Writes what was added; the deadline for the answers.
    fn flush(&mut self, end: Instant) -> Result<Instant, GdbError> {
        let deadline = deadline(self.patience).min(end);
        let flushed = self.connection.flush(deadline);
        self.checked(flushed)?;
        Ok(deadline)
    }

    /// Notes when the connection can no longer be used.
    fn checked<T>(&mut self, result: Result<T, GdbError>) -> Result<T, GdbError> {
        match &result {
            Ok(_) => {}
            Err(GdbError::GoneAway) => self.state = State::Over,
            Err(_) => self.state = State::Lost,
        }
        result
    }

    /// Waits for the answers to what was written last.
    fn take(&mut self, exchange: &mut Exchange<'_>, deadline: Instant) -> Result<(), GdbError> {
        while exchange.awaits() {
            self.answer(deadline)?;
            exchange.take(self.connection.packet(), &self.layout);
        }
        Ok(())
    }

    /// The answers; notes what they inserted and removed.
    fn finish(&mut self, exchange: Exchange<'_>) -> Vec<Answer> {
        if exchange.is_refused() {
            self.selected = None;
        }
        let (requests, answers) = exchange.finish();
        for (request, answer) in requests.iter().zip(&answers) {
            self.note(*request, answer);
        }
        answers
    }

    fn note(&mut self, request: Request, answer: &Answer) {
        match request {
            Request::Insert(point) if answer.done() => self.inserted.push(point),
            Request::Remove(point) => {
                if let Some(index) = self.inserted.iter().position(|other| *other == point) {
                    self.inserted.swap_remove(index);
                }
            }
            _ => {}
        }
    }
}

impl AsFd for Gdb {
    /// For polling together with other files. Only this client may read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // There is nobody to report an error to.
        let _ = self.release();
    }
}
