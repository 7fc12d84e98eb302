//! The parent's side: starts a worker and asks it.

use crate::alone::{Stretch, Stretched};
use crate::follow::Followed;
use crate::machine::Mode;
use crate::memory::Memory;
use crate::outcome::{Failure, Judgement, Order};
use crate::scene::{Limits, Scene};
use crate::state::State;
use crate::wire::{Ran, Reply, Request, receive, send};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why a worker gave no answer. It is gone then; start another one.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not be started.
    #[error("cannot start the replay worker: {0}")]
    Start(#[source] io::Error),
    /// It did not answer in time.
    #[error("the replay worker gave no answer within {0:?}")]
    Timeout(Duration),
    /// It died, or sent what makes no sense.
    #[error("the replay worker failed: {0}")]
    Failed(#[source] io::Error),
}

/// A locked-down process that replays. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    /// Its process, if it was started here.
    child: Option<Child>,
    stream: UnixStream,
    limit: Duration,
}

impl Worker {
    /// Starts a worker: a program that calls [`crate::serve`] first of all. Each question has
    /// to be answered within `limit`.
    pub fn start(mut command: Command, limit: Duration) -> Result<Self, WorkerError> {
        let (ours, theirs) = UnixStream::pair().map_err(WorkerError::Start)?;
        let child = command
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(WorkerError::Start)?;
        // Otherwise it would hold the other end too, and closing would go unnoticed.
        drop(command);
        Self {
            child: Some(child),
            stream: ours,
            limit,
        }
        .greeted()
    }

    /// A worker that somebody else started, with [`crate::serve_on`] at the other end of
    /// `stream`. Whoever started it ends it.
    pub fn over(stream: UnixStream, limit: Duration) -> Result<Self, WorkerError> {
        Self {
            child: None,
            stream,
            limit,
        }
        .greeted()
    }

    fn greeted(mut self) -> Result<Self, WorkerError> {
        match self.hear(Instant::now() + self.limit.max(Duration::from_secs(10)))? {
            Reply::Ready => Ok(self),
            _ => Err(nonsense()),
        }
    }

    /// The worker's process, if it was started here, for measuring it.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Replays a scene in all orders that matter.
    pub fn judge(
        &mut self,
        scene: &Scene,
        memory: &mut dyn Memory,
        limits: Limits,
    ) -> Result<Judgement, WorkerError> {
        self.judge_until(self.deadline(), scene, memory, limits)
    }

    /// The same, with an answer before this moment.
    pub(crate) fn judge_until(
        &mut self,
        deadline: Instant,
        scene: &Scene,
        memory: &mut dyn Memory,
        limits: Limits,
    ) -> Result<Judgement, WorkerError> {
        let request = Request::Judge(Box::new(scene.clone()), limits);
        match self.ask_until(deadline, &request, memory)? {
            Reply::Judged(judgement) => Ok(judgement),
            _ => Err(nonsense()),
        }
    }

    /// When a question that is asked now has to be answered.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Runs one order of a scene for so many steps, or to its end. With `listed`, says what each
    /// of them did.
    pub fn follow(
        &mut self,
        scene: &Scene,
        memory: &mut dyn Memory,
        order: Order,
        limits: Limits,
        steps: u64,
        listed: bool,
    ) -> Result<Result<Followed, Failure>, WorkerError> {
        let request = Request::Follow {
            scene: Box::new(scene.clone()),
            order,
            limits,
            steps,
            listed,
        };
        match self.ask(&request, memory)? {
            Reply::Followed(followed) => Ok(followed.map(|f| *f)),
            _ => Err(nonsense()),
        }
    }

    /// Runs one thread alone for so many instructions, or to the end of its region. The first
    /// one may be what ends regions, if it is a locked one. With `digests`, says of each instruction what the registers were afterwards.
    pub fn run(
        &mut self,
        mode: Mode,
        start: &State,
        memory: &mut dyn Memory,
        steps: u64,
        digests: bool,
    ) -> Result<Ran, WorkerError> {
        let request = Request::Run {
            mode,
            start: start.clone(),
            steps,
            digests,
        };
        match self.ask(&request, memory)? {
            Reply::Ran(ran) => Ok(*ran),
            _ => Err(nonsense()),
        }
    }

    /// Begins with one thread that runs alone, stretch by stretch. `memory` is what it finds where
    /// nothing was logged: its code.
    pub fn alone<'w>(&'w mut self, memory: &'w mut dyn Memory) -> Result<Alone<'w>, WorkerError> {
        self.say(&Request::Alone, self.deadline())?;
        Ok(Alone {
            worker: self,
            memory,
        })
    }

    fn ask(&mut self, request: &Request, memory: &mut dyn Memory) -> Result<Reply, WorkerError> {
        self.ask_until(self.deadline(), request, memory)
    }

    fn ask_until(
        &mut self,
        deadline: Instant,
        request: &Request,
        memory: &mut dyn Memory,
    ) -> Result<Reply, WorkerError> {
        self.say(request, deadline)?;
        loop {
            match self.hear(deadline)? {
                Reply::Fetch(page) => {
                    let fetched = memory.fetch(crate::memory::page_of(page));
                    self.say(&Request::Page(fetched), deadline)?;
                }
                Reply::Ready => return Err(nonsense()),
                answer => return Ok(answer),
            }
        }
    }

    fn say(&mut self, request: &Request, deadline: Instant) -> Result<(), WorkerError> {
        let mut timed = Timed {
            stream: &self.stream,
            deadline,
        };
        let said = send(&mut timed, request);
        said.map_err(|error| self.failed(error))
    }

    fn hear(&mut self, deadline: Instant) -> Result<Reply, WorkerError> {
        let mut timed = Timed {
            stream: &self.stream,
            deadline,
        };
        let heard = receive(&mut timed);
        heard.map_err(|error| self.failed(error))
    }

    fn failed(&mut self, error: io::Error) -> WorkerError {
        self.end();
        if error.kind() == io::ErrorKind::TimedOut || error.kind() == io::ErrorKind::WouldBlock {
            WorkerError::Timeout(self.limit)
        } else {
            WorkerError::Failed(error)
        }
    }

    fn end(&mut self) {
        // It may be gone already.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A worker that is not ours hears of it when it next says something.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A thread that runs alone in a worker.
pub struct Alone<'w> {
    worker: &'w mut Worker,
    memory: &'w mut dyn Memory,
}

impl Alone<'_> {
    /// Runs its next stretch.
    pub fn run(&mut self, stretch: Stretch) -> Result<Stretched, WorkerError> {
        let request = Request::Stretch(Some(Box::new(stretch)));
        match self.worker.ask(&request, self.memory)? {
            Reply::Stretched(ran) => Ok(*ran),
            _ => Err(nonsense()),
        }
    }

    /// There is nothing more. The worker can be asked other things then.
    pub fn leave(self) -> Result<(), WorkerError> {
        match self.worker.ask(&Request::Stretch(None), self.memory)? {
            Reply::Left => Ok(()),
            _ => Err(nonsense()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn nonsense() -> WorkerError {
    WorkerError::Failed(io::Error::other("an answer that was not asked for"))
}

/// A stream on which everything has to be over at a certain time, however small the pieces
/// that come.
struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
