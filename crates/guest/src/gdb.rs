//! A client of the GDB remote protocol, for QEMU's gdbstub and its like.
//!
//! It drives all vCPUs of a machine at once: they all stand or they run, though
//! some of them may be held while the others run. While the machine stands,
//! anything can be asked, many things in one write ([`Gdb::ask`]). While it runs,
//! nothing can: QEMU takes any byte for the wish to stop it.
//!
//! What is peculiar about QEMU and decided here:
//! - Acknowledgements are never sent. One that arrives late would stop the machine,
//!   and on newer versions silently. QEMU's own are counted: they tell a stop from
//!   before a resumption from one after it.
//! - A stop that comes while the machine stands by all we know is dropped. Version
//!   7.2 sends one to whoever connects.
//! - Detaching removes all breakpoints and lets the machine run; merely closing the
//!   connection does neither. So a [`Gdb`] that is dropped detaches, and for one
//!   whose process was killed there is [`rescue`].

mod address;
mod connection;
pub mod description;
mod error;
mod exchange;
mod greeting;
pub mod packet;
mod point;
mod rescue;
mod running;
mod shared;
mod stop;

pub use address::{Address, BadAddress};
pub use description::VcpuRegisters;
pub use error::GdbError;
pub use point::{Answer, Point, PointKind, Request};
pub use rescue::rescue;
pub use stop::StopReply;

use connection::{Connection, deadline};
use description::Layout;
use exchange::Exchange;
use packet::{decode_hex, encode_hex};
use redhanded_sys as sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The byte that stops a running machine.
const INTERRUPT: u8 = 3;
/// The farewell to the first and only process that a machine is to QEMU.
const DETACH: &[u8] = b"D;1";

/// The most that a monitor command may print.
const MAX_OUTPUT: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// All vCPUs stand.
    Standing,
    /// Some run. A stop counts when the stub has acknowledged so many packets.
    Running { acknowledged: u64 },
    /// An answer is missing or made no sense: what comes next cannot be told apart.
    Lost,
    /// The machine is gone, or we have let it go.
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
    standing: Vec<Point>,
    strays: u64,
    /// When it stopped last.
    stopped: Instant,
    /// The vCPU that what is asked is about, where that is sure: whoever stopped the
    /// machine, or was selected since.
    selected: Option<u32>,
}

impl Gdb {
    /// Connects, which stops the machine. `patience` is how long the stub may take
    /// for an answer, here and later.
    ///
    /// # Errors
    /// When there is no usable stub.
    pub fn connect(address: &Address, patience: Duration) -> Result<Self, GdbError> {
        Self::over(address.connect(patience)?, patience)
    }

    /// As [`Gdb::connect`], over a stream socket that is connected already.
    ///
    /// # Errors
    /// When what answers is no usable stub.
    pub fn over(stream: impl Into<OwnedFd>, patience: Duration) -> Result<Self, GdbError> {
        let mut connection = Connection::new(stream.into());
        let greeting = greeting::greet(&mut connection, patience);
        if greeting.is_err() && connection.acknowledged > 0 {
            // Connecting to a stub has stopped its machine; closing does not let it go.
            let _ = rescue(&connection);
        }
        let greeting = greeting?;
        Ok(Self {
            connection,
            patience,
            state: State::Standing,
            vcpus: greeting.vcpus,
            layout: greeting.layout,
            piece: greeting.piece,
            standing: Vec::new(),
            strays: 0,
            stopped: Instant::now(),
            selected: None,
        })
    }

    /// Takes a CPU of this host for the calling thread, off which the first thread of
    /// the machine's process stays from now on, so that answers can be waited for
    /// without sleeping. To be called for a machine of one's own, on a UNIX socket.
    pub fn keep_apart(&mut self) {
        // Without, it takes longer.
        self.connection.spins = sys::reserve_cpu(self.connection.as_fd()).unwrap_or(false);
    }

    /// The vCPUs, as the stub numbers them: from 1.
    #[must_use]
    pub fn vcpus(&self) -> &[u32] {
        &self.vcpus
    }

    /// Whether any vCPU runs, by all we know.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Since when it is known to stand, if it does.
    #[must_use]
    pub const fn stopped_at(&self) -> Instant {
        self.stopped
    }

    /// The breakpoints and watches that stand.
    #[must_use]
    pub fn standing(&self) -> &[Point] {
        &self.standing
    }

    /// How many stops came that nobody waited for, and were dropped.
    #[must_use]
    pub const fn stray_stops(&self) -> u64 {
        self.strays
    }

    /// The connection once more, for [`rescue`] by another process.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn try_clone_stream(&self) -> io::Result<OwnedFd> {
        self.connection.as_fd().try_clone_to_owned()
    }

    /// Asks many things at once, and gives the answers in their order. As long as
    /// they are few and small it is one write and one wait.
    ///
    /// # Errors
    /// When the machine runs or is gone, or the stub does not answer; after which
    /// nothing can be asked any more.
    pub fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, GdbError> {
        self.must_stand()?;
        let mut exchange = Exchange::new(requests, self.piece, &mut self.selected);
        while exchange.push(&mut self.connection) {
            let deadline = self.flush()?;
            self.take(&mut exchange, deadline)?;
            self.connection.settle();
        }
        Ok(self.noted(exchange))
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

    /// Reads memory as the selected vCPU sees it: the one that stopped last, or
    /// was asked for its registers last. `false` if any of it cannot be read.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<bool, GdbError> {
        let mut memory = self.read_many(&[(address, buffer.len())])?;
        let memory = memory.pop().flatten();
        if let Some(memory) = &memory {
            buffer.copy_from_slice(memory);
        }
        Ok(memory.is_some())
    }

    /// Reads several pieces of memory, of these addresses and lengths. `None` for
    /// what cannot be read.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn read_many(&mut self, pieces: &[(u64, usize)]) -> Result<Vec<Option<Vec<u8>>>, GdbError> {
        let requests: Vec<_> = pieces
            .iter()
            .map(|&(address, len)| Request::Read { address, len })
            .collect();
        let answers = self.ask(&requests)?;
        Ok(answers.into_iter().map(Answer::memory).collect())
    }

    /// Sets breakpoints and watches; tells of each whether that was done.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn insert(&mut self, points: &[Point]) -> Result<Vec<bool>, GdbError> {
        let requests: Vec<_> = points.iter().copied().map(Request::Insert).collect();
        Ok(self.ask(&requests)?.iter().map(Answer::done).collect())
    }

    /// Removes breakpoints and watches; tells of each whether it was there.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn remove(&mut self, points: &[Point]) -> Result<Vec<bool>, GdbError> {
        let requests: Vec<_> = points.iter().copied().map(Request::Remove).collect();
        Ok(self.ask(&requests)?.iter().map(Answer::done).collect())
    }

    /// Has QEMU's monitor carry out a command, and gives what it printed.
    ///
    /// # Errors
    /// As of [`Gdb::ask`], and when there is no monitor.
    pub fn monitor(&mut self, command: &str) -> Result<String, GdbError> {
        self.must_stand()?;
        let mut content = b"qRcmd,".to_vec();
        encode_hex(command.as_bytes(), &mut content);
        self.connection.push(&content);
        let deadline = self.flush()?;
        let mut printed = Vec::new();
        loop {
            self.answer(deadline)?;
            match self.connection.packet() {
                b"OK" => return Ok(String::from_utf8_lossy(&printed).into_owned()),
                [b'O', text @ ..] => {
                    let start = printed.len();
                    printed.resize((start + text.len() / 2).min(MAX_OUTPUT), 0);
                    let text = text.get(..2 * (printed.len() - start)).unwrap_or(text);
                    let _ = decode_hex(text, &mut printed[start..]);
                }
                _ => {
                    return Err(GdbError::Nonsense(format!(
                        "it refuses the monitor command `{command}`"
                    )));
                }
            }
        }
    }

    /// Removes everything, lets the machine run, and closes the connection.
    ///
    /// # Errors
    /// When that could not be made sure of.
    pub fn detach(mut self) -> Result<(), GdbError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), GdbError> {
        if self.state == State::Over {
            return Ok(());
        }
        if self.farewell().is_err() {
            self.state = State::Over;
            rescue(&self.connection).map_err(GdbError::System)?;
        }
        self.state = State::Over;
        Ok(())
    }

    fn farewell(&mut self) -> Result<(), GdbError> {
        if self.is_running() {
            self.interrupt(self.patience)?;
        }
        if self.state == State::Over {
            return Ok(());
        }
        self.must_stand()?;
        // QEMU would do that by itself when we detach; others may not.
        let standing = std::mem::take(&mut self.standing);
        self.remove(&standing)?;
        self.connection.push(DETACH);
        let deadline = self.flush()?;
        self.answer(deadline)?;
        match self.connection.packet() {
            b"OK" => Ok(()),
            _ => Err(GdbError::Nonsense("it does not let us detach".into())),
        }
    }

    fn must_stand(&self) -> Result<(), GdbError> {
        match self.state {
            State::Standing => Ok(()),
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
            // It may be about another vCPU now.
            self.selected = None;
        }
        self.checked(answered)
    }

    /// Writes what was added; until when answers are waited for.
    fn flush(&mut self) -> Result<Instant, GdbError> {
        let deadline = deadline(self.patience);
        let flushed = self.connection.flush(deadline);
        self.checked(flushed)?;
        Ok(deadline)
    }

    /// Remembers that a connection is of no more use.
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

    /// The answers, and what stands by them.
    fn noted(&mut self, exchange: Exchange<'_>) -> Vec<Answer> {
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
            Request::Insert(point) if answer.done() => self.standing.push(point),
            Request::Remove(point) => {
                if let Some(index) = self.standing.iter().position(|other| *other == point) {
                    self.standing.swap_remove(index);
                }
            }
            _ => {}
        }
    }
}

impl AsFd for Gdb {
    /// To be polled together with other things; what is read from it is ours.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // Nobody is there to hear of an error.
        let _ = self.let_go();
    }
}
