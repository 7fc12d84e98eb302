//! Resuming and stopping the machine.

use super::connection::Waited;
use super::exchange::Exchange;
use super::packet::Item;
use super::patience::deadline;
use super::{Answer, Gdb, GdbError, INTERRUPT, Request, State, StopReply};
use std::time::{Duration, Instant};

/// How often an interrupted machine is asked whether it stopped, within its time.
const NUDGES: u32 = 3;

impl Gdb {
    /// Resumes all vCPUs, or only these: the others are held. With an empty list all
    /// stay stopped.
    ///
    /// # Errors
    /// When the machine runs already or is gone.
    pub fn resume(&mut self, vcpus: Option<&[u32]>) -> Result<(), GdbError> {
        self.ask_then_resume(&[], vcpus).map(drop)
    }

    /// Sends requests and resumes vCPUs as [`Gdb::resume`] does, in the same write:
    /// they do not wait for the answers to be read.
    ///
    /// # Errors
    /// As of [`Gdb::ask`].
    pub fn ask_then_resume(
        &mut self,
        requests: &[Request],
        vcpus: Option<&[u32]>,
    ) -> Result<Vec<Answer>, GdbError> {
        let mut resumption = "vCont".to_owned();
        match vcpus {
            Some([]) => return self.ask(requests),
            Some(vcpus) => resumption.extend(vcpus.iter().map(|vcpu| format!(";c:{vcpu:x}"))),
            None => resumption += ";c",
        }
        self.must_be_stopped()?;
        let mut exchange = Exchange::new(requests, self.piece, &mut self.selected);
        let end = self.end_of_request();
        loop {
            // Everything before has been answered. So a stub that acknowledges at all has
            // acknowledged all of it, and a stop that comes before the acknowledgement of
            // the resumption is an old one.
            let acknowledges = self.connection.acknowledged == self.connection.sent;
            exchange.push(&mut self.connection);
            let last = exchange.all_pushed();
            if last {
                self.connection.push(resumption.as_bytes());
            }
            let deadline = self.flush(end)?;
            let sent = self.connection.sent;
            self.take(&mut exchange, deadline)?;
            if last {
                self.connection.rest();
                let acknowledged = if acknowledges { sent } else { 0 };
                self.state = State::Running { acknowledged };
                return Ok(self.finish(exchange));
            }
            self.connection.settle();
        }
    }

    /// Waits for the machine to stop. `None` when the time is over, a signal handler
    /// ran, or the machine does not run.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<StopReply>, GdbError> {
        self.wait_through(patience, false)
    }

    /// As [`Gdb::wait`]; with `handlers` it goes on after signal handlers.
    fn wait_through(
        &mut self,
        patience: Duration,
        handlers: bool,
    ) -> Result<Option<StopReply>, GdbError> {
        match self.state {
            State::Over => return Err(GdbError::GoneAway),
            State::Lost => return Err(GdbError::Silent),
            State::Stopped | State::Running { .. } => {}
        }
        let deadline = deadline(patience);
        while let State::Running { acknowledged } = self.state {
            let waited = self.connection.next(deadline);
            match self.checked(waited)? {
                Waited::Interrupted if handlers => {}
                Waited::InVain | Waited::Interrupted => break,
                Waited::For(Item::Packet) => {
                    let packet = self.connection.packet();
                    let Some(stop) = StopReply::parse(packet) else {
                        if packet.is_empty() || packet[0] == b'E' {
                            self.state = State::Stopped;
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
                    self.state = if ended { State::Over } else { State::Stopped };
                    self.note_stop(&stop);
                    return Ok(Some(stop));
                }
                Waited::For(_) => {}
            }
        }
        Ok(None)
    }

    /// Stops the machine. If it stopped by itself just before, gives that stop, and
    /// gives it once.
    ///
    /// # Errors
    /// When it does not run, does not stop in time, or is gone.
    pub fn interrupt(&mut self, patience: Duration) -> Result<StopReply, GdbError> {
        if let Some(stop) = self.wait(Duration::ZERO)? {
            return Ok(stop);
        }
        if !self.is_running() {
            return Err(GdbError::Nonsense("the machine is stopped already".into()));
        }
        self.connection.push_raw(INTERRUPT);
        let end = deadline(patience);
        self.flush(end)?;
        for nudges in 0..NUDGES {
            let left = end.saturating_duration_since(Instant::now());
            if let Some(stop) = self.wait_through(left / (NUDGES - nudges), true)? {
                if nudges > 0 && !matches!(self.state, State::Over) {
                    // When this is answered no answer to a nudge is left.
                    self.selected = None;
                    self.ask(&[Request::Select(self.vcpus[0])])?;
                }
                return Ok(stop);
            }
            // A machine that somebody else has stopped does not react to an interrupt,
            // but can be asked why it stopped. If it runs after all, the first byte of
            // the question stops it, on some versions silently; then the next question
            // is answered.
            self.connection.push(b"?");
            self.flush(end)?;
        }
        self.state = State::Lost;
        Err(GdbError::Silent)
    }

    /// Stops the machine as [`Gdb::interrupt`] does, and sends requests in the same
    /// write.
    ///
    /// # Errors
    /// As of [`Gdb::interrupt`] and [`Gdb::ask`].
    pub fn interrupt_then_ask(
        &mut self,
        requests: &[Request],
        patience: Duration,
    ) -> Result<(StopReply, Vec<Answer>), GdbError> {
        if let Some(stop) = self.wait(Duration::ZERO)? {
            return Ok((stop, self.ask(requests)?));
        }
        let State::Running { acknowledged } = self.state else {
            return Err(GdbError::Nonsense("the machine is stopped already".into()));
        };
        // A vCPU that stops by itself at this moment becomes the selected one.
        self.selected = None;
        let mut exchange = Exchange::new(requests, self.piece, &mut self.selected);
        let selected = self.selected;
        if exchange.all_pushed() {
            return Ok((self.interrupt(patience)?, self.finish(exchange)));
        }
        self.connection.push_raw(INTERRUPT);
        exchange.push(&mut self.connection);
        let end = deadline(patience);
        self.flush(end)?;
        let stop = self.stop_or_answer(acknowledged, end)?;
        self.state = State::Stopped;
        // An answer proves that the machine stopped, even without a report.
        let stop = match stop {
            Some(stop) => stop,
            None => {
                exchange.take(self.connection.packet(), &self.layout);
                StopReply::Stopped {
                    vcpu: None,
                    signal: StopReply::INTERRUPT,
                    watch: None,
                }
            }
        };
        self.note_stop(&stop);
        self.selected = selected;
        if !matches!(stop, StopReply::Stopped { .. }) {
            self.state = State::Over;
            return Ok((stop, Vec::new()));
        }
        let end = self.end_of_request();
        let deadline = deadline(self.patience);
        self.take(&mut exchange, deadline)?;
        self.connection.settle();
        while exchange.push(&mut self.connection) {
            let deadline = self.flush(end)?;
            self.take(&mut exchange, deadline)?;
            self.connection.settle();
        }
        Ok((stop, self.finish(exchange)))
    }

    /// Notes a stop that was just reported.
    fn note_stop(&mut self, stop: &StopReply) {
        self.stopped = Instant::now();
        self.selected = match stop {
            StopReply::Stopped { vcpu, signal, .. } if *signal == StopReply::TRAP => *vcpu,
            _ => None,
        };
    }

    /// The stop after an interrupt, or `None` when something else comes.
    fn stop_or_answer(
        &mut self,
        acknowledged: u64,
        deadline: Instant,
    ) -> Result<Option<StopReply>, GdbError> {
        loop {
            let waited = self.connection.next(deadline);
            match self.checked(waited)? {
                Waited::For(Item::Packet) => {
                    let stop = StopReply::parse(self.connection.packet());
                    let old = self.connection.acknowledged < acknowledged;
                    if !old || !matches!(stop, Some(StopReply::Stopped { .. })) {
                        return Ok(stop);
                    }
                    self.strays += 1;
                }
                Waited::InVain => return self.checked(Err(GdbError::Silent)),
                Waited::For(_) | Waited::Interrupted => {}
            }
        }
    }
}
