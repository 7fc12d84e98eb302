//! The end of whoever asks the namer.

use super::{Answer, Question};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A longer answer is a mistake, and would fill our memory.
const LONGEST: u64 = 1 << 30;

/// Why there is no answer, and will be none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The namer is gone.
    Ended,
    /// It takes too long.
    TooLong,
}

/// A connection to the namer.
#[derive(Debug)]
pub struct Asker {
    stream: BufReader<UnixStream>,
    patience: Duration,
    lost: Option<Lost>,
}

impl Asker {
    /// Waits no longer than `patience` for each answer, and does something else after each
    /// `tick`.
    ///
    /// # Errors
    /// When the stream takes no time limit.
    pub fn new(stream: UnixStream, patience: Duration, tick: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(tick))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self {
            stream: BufReader::new(stream),
            patience,
            lost: None,
        })
    }

    /// Why the namer was lost, if it was.
    #[must_use]
    pub const fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Tells something that has no answer.
    pub fn tell(&mut self, what: &Question) {
        if self.lost.is_none() {
            let mut line = serde_json::to_vec(what).unwrap_or_default();
            line.push(b'\n');
            self.lost = match self.stream.get_mut().write_all(&line) {
                Ok(()) => None,
                Err(error) if is_timeout(&error) => Some(Lost::TooLong),
                Err(_) => Some(Lost::Ended),
            };
        }
    }

    /// The answer to a question. While there is none, does something else now and then.
    pub fn ask(&mut self, question: &Question, mut meanwhile: impl FnMut()) -> Option<Answer> {
        self.tell(question);
        let until = Instant::now() + self.patience;
        let mut line = Vec::new();
        while self.lost.is_none() {
            let left = LONGEST.saturating_sub(line.len() as u64);
            match (&mut self.stream).take(left).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    if let Ok(answer) = serde_json::from_slice(&line) {
                        return Some(answer);
                    }
                    self.lost = Some(Lost::Ended);
                }
                Err(error) if is_timeout(&error) => {
                    meanwhile();
                    if Instant::now() > until {
                        self.lost = Some(Lost::TooLong);
                    }
                }
                Ok(_) | Err(_) => self.lost = Some(Lost::Ended),
            }
        }
        None
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
