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
mod greeting;
pub mod packet;
mod point;
mod rescue;
mod shared;
mod stop;

pub use address::{Address, BadAddress};
pub use description::VcpuRegisters;
pub use point::{Answer, Point, PointKind, Request};
pub use rescue::rescue;
pub use stop::StopReply;

use connection::{Connection, Waited, deadline};
use description::Layout;
use packet::{Item, decode_hex, encode_hex};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The byte that stops a running machine.
const INTERRUPT: u8 = 3;
/// The farewell to the first and only process that a machine is to QEMU.
const DETACH: &[u8] = b"D;1";

/// The most bytes written before their answers are awaited. QEMU reads this much
/// at once; and two sides that both write and do not read would wait for ever.
const MAX_BATCH: usize = 4000;
/// The most bytes of answers awaited at once, for the same reason.
const MAX_ANSWERS: usize = 96 << 10;
/// How often an interrupted machine is looked for, within the time it has.
const NUDGES: u32 = 3;
/// The most that a monitor command may print.
const MAX_OUTPUT: usize = 1 << 20;

/// Why a machine cannot be driven through its stub.
#[derive(Debug, Error)]
pub enum GdbError {
    /// Nobody listens there, or not to us.
    #[error(
        "cannot connect to a gdbstub at {address}: {source}; QEMU has one there when it is started with `-gdb {option}`"
    )]
    Refused {
        /// Where.
        address: String,
        /// What to start QEMU with.
        option: String,
        /// What the system said.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the virtual machine has gone away: it closed the connection to its gdbstub")]
    GoneAway,
    /// There is a connection, and no answer.
    #[error(
        "the gdbstub does not answer: another debugger may be connected to it, or the virtual machine's process hangs or is stopped"
    )]
    Silent,
    /// There are answers, and they make no sense.
    #[error(
        "what answers is no usable gdbstub: {0}; give the address of QEMU's `-gdb` option, not of its monitor or console"
    )]
    Nonsense(String),
    /// There is a machine, but not one that Redhanded knows.
    #[error("the virtual machine is not an x86-64 but {0}; only those are supported")]
    NotX86_64(String),
    /// Something was asked while the machine runs.
    #[error("the virtual machine runs and cannot be asked anything: stop it before")]
    Running,
    /// The system refused something.
    #[error("the connection to the gdbstub failed: {0}")]
    System(io::Error),
}

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
        let greeting = greeting::greet(&mut connection, patience)?;
        Ok(Self {
            connection,
            patience,
            state: State::Standing,
            vcpus: greeting.vcpus,
            layout: greeting.layout,
            piece: greeting.piece,
            standing: Vec::new(),
            strays: 0,
        })
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
        let mut answers: Vec<_> = requests.iter().copied().map(Answer::before).collect();
        let mut parts = Vec::with_capacity(requests.len() + 8);
        for (index, request) in requests.iter().enumerate() {
            point::parts(*request, self.piece, |part| parts.push((index, part)));
        }
        let mut rest = parts.as_slice();
        while !rest.is_empty() {
            let (mut count, mut expected) = (0, 0);
            for &(index, part) in rest {
                expected += part.answer_len();
                let full = self.connection.pending() > MAX_BATCH || expected > MAX_ANSWERS;
                if full && count > 0 {
                    break;
                }
                let content = part.content(requests[index]);
                self.connection.push(content.as_bytes());
                count += 1;
            }
            let (batch, after) = rest.split_at(count);
            rest = after;
            let deadline = self.flush()?;
            for &(index, part) in batch {
                self.answer(deadline)?;
                part.take(self.connection.packet(), &self.layout, &mut answers[index]);
            }
            self.connection.settle();
        }
        for (request, answer) in requests.iter().zip(&answers) {
            self.note(*request, answer);
        }
        Ok(answers)
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

    /// Lets all vCPUs run, or only these: the others are held where they stand.
    /// With an empty list all stay as they are.
    ///
    /// # Errors
    /// When the machine runs already or is gone.
    pub fn resume(&mut self, vcpus: Option<&[u32]>) -> Result<(), GdbError> {
        self.must_stand()?;
        let mut content = "vCont".to_owned();
        match vcpus {
            Some([]) => return Ok(()),
            Some(vcpus) => content.extend(vcpus.iter().map(|vcpu| format!(";c:{vcpu:x}"))),
            None => content += ";c",
        }
        // Everything before has been answered. So a stub that acknowledges at all
        // has acknowledged all of it, and a stop that comes before it does so for
        // this packet is an old one.
        let acknowledges = self.connection.acknowledged == self.connection.sent;
        self.connection.push(content.as_bytes());
        self.flush()?;
        let acknowledged = if acknowledges {
            self.connection.sent
        } else {
            0
        };
        self.state = State::Running { acknowledged };
        Ok(())
    }

    /// Waits for the machine to stop. `None` when the time is over, or a signal
    /// handler ran, or when it does not run at all.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<StopReply>, GdbError> {
        match self.state {
            State::Over => return Err(GdbError::GoneAway),
            State::Lost => return Err(GdbError::Silent),
            State::Standing | State::Running { .. } => {}
        }
        let deadline = deadline(patience);
        while let State::Running { acknowledged } = self.state {
            let waited = self.connection.next(deadline);
            match self.checked(waited)? {
                Waited::InVain | Waited::Interrupted => break,
                Waited::For(Item::Packet) => {
                    let packet = self.connection.packet();
                    let Some(stop) = StopReply::parse(packet) else {
                        if packet.is_empty() || packet[0] == b'E' {
                            self.state = State::Standing;
                            let why = "it refuses to let these vCPUs run";
                            return Err(GdbError::Nonsense(why.into()));
                        }
                        continue;
                    };
                    let ended = !matches!(stop, StopReply::Stopped { .. });
                    if self.connection.acknowledged < acknowledged && !ended {
                        self.strays += 1;
                        continue;
                    }
                    self.state = if ended { State::Over } else { State::Standing };
                    return Ok(Some(stop));
                }
                Waited::For(_) => {}
            }
        }
        Ok(None)
    }

    /// Stops the machine. If it stopped by itself just before, that stop is told,
    /// and told once.
    ///
    /// # Errors
    /// When it does not run, does not stop in time, or is gone.
    pub fn interrupt(&mut self, patience: Duration) -> Result<StopReply, GdbError> {
        if let Some(stop) = self.wait(Duration::ZERO)? {
            return Ok(stop);
        }
        if !self.is_running() {
            return Err(GdbError::Nonsense("the machine stands already".into()));
        }
        self.connection.push_raw(INTERRUPT);
        self.flush()?;
        let end = deadline(patience);
        for nudges in 0..NUDGES {
            let left = end.saturating_duration_since(Instant::now());
            if let Some(stop) = self.wait_through(left / (NUDGES - nudges))? {
                if nudges > 0 && !matches!(self.state, State::Over) {
                    // An answer after those to the nudges: none is left behind it.
                    self.ask(&[Request::Select(self.vcpus[0])])?;
                }
                return Ok(stop);
            }
            // A machine that somebody else has stopped says nothing to an
            // interrupt, but can be asked why it stands. If it ran after all, the
            // first byte of the question stops it, on some versions in silence;
            // then the next question is answered.
            self.connection.push(b"?");
            self.flush()?;
        }
        self.state = State::Lost;
        Err(GdbError::Silent)
    }

    /// As [`Gdb::wait`], signal handlers notwithstanding.
    fn wait_through(&mut self, patience: Duration) -> Result<Option<StopReply>, GdbError> {
        let end = deadline(patience);
        loop {
            let stop = self.wait(end.saturating_duration_since(Instant::now()))?;
            if stop.is_some() || Instant::now() >= end {
                return Ok(stop);
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
        let answered = greeting::answer(&mut self.connection, deadline, &mut self.strays);
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
