//! The namer's process, which reads debug information and sources.

use crate::exit::Failure;
use redhanded_image::{DebugSearch, Selected};
use redhanded_session::{Answer, Asker, Lost, Question, serve};
use redhanded_sys::{
    self as sys, Confinement, Rights, Tid, effective_user, open_regular, total_memory,
};
use redhanded_target::TargetError;
use redhanded_target::images::Images;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// How long the front waits for an answer. A kernel's debug information takes many seconds
/// to read on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the tracer does, because meanwhile its target waits.
const TRACERS_PATIENCE: Duration = Duration::from_secs(30);
/// How often whoever waits does something else.
const TICK: Duration = Duration::from_millis(20);
/// Less memory than this is not enough for large programs.
const LEAST_MEMORY: u64 = 1 << 30;
/// The exit status after a mistake of its own. A lack of memory gives another.
const MISTAKEN: i32 = 1;

/// The namer as its parent sees it.
pub struct Namer {
    /// Its process.
    pub pid: Tid,
    /// The front's connection to it.
    pub front: UnixStream,
    /// The tracer's.
    pub tracer: UnixStream,
}

/// What the namer is to work with.
#[derive(Default)]
pub struct Work {
    /// Where to search for debug information and sources.
    pub search: DebugSearch,
    /// Whose rights are enough for it, if not the caller's.
    pub rights: Option<Rights>,
    /// The session log to read.
    pub log: Option<File>,
}

impl Namer {
    /// Starts it. This process must not have a second thread yet.
    pub fn start(work: Work) -> Result<Self, Failure> {
        let refused = |source| TargetError::System {
            action: "cannot make a process that reads debug information".to_owned(),
            source,
        };
        Ok(Self::fork(work).map_err(refused)?)
    }

    fn fork(work: Work) -> io::Result<Self> {
        let (front, for_front) = UnixStream::pair()?;
        let (tracer, for_tracer) = UnixStream::pair()?;
        let parent = std::process::id().cast_signed();
        if let Some(pid) = sys::fork()? {
            log::debug!(
                "process {pid} reads debug information in {:?}",
                work.search.roots
            );
            return Ok(Self { pid, front, tracer });
        }
        let named = catch_unwind(AssertUnwindSafe(|| {
            live(work, for_front, for_tracer, parent)
        }));
        std::process::exit(if let Ok(Ok(())) = named { 0 } else { MISTAKEN })
    }

    /// For a command that needs no tracer.
    pub fn alone(self) -> io::Result<Hired> {
        Ok(Hired {
            asker: for_front(self.front)?,
            pid: self.pid,
        })
    }
}

/// A namer for one command, which waits for it.
pub struct Hired {
    /// The connection to it.
    pub asker: Asker,
    pid: Tid,
}

impl Hired {
    /// Ends it; why it gave no answer, if it did not.
    pub fn dismiss(self) -> Result<(), Failure> {
        let lost = self.asker.lost();
        // Nobody is left who could ask.
        drop(self.asker);
        if lost != Some(Lost::TooLong) {
            let _ = sys::wait_for(self.pid);
        }
        match lost {
            None => Ok(()),
            Some(Lost::Ended) => Err(Failure::Namer("ended unexpectedly".to_owned())),
            Some(Lost::TooLong) => {
                let limit = PATIENCE.as_secs();
                Err(Failure::Namer(format!("took longer than {limit} s")))
            }
        }
    }
}

/// The front's end.
pub fn for_front(stream: UnixStream) -> io::Result<Asker> {
    Asker::new(stream, PATIENCE, TICK)
}

/// The tracer's end.
pub fn for_tracer(stream: UnixStream) -> io::Result<Asker> {
    Asker::new(stream, TRACERS_PATIENCE, TICK)
}

/// The life of the namer, until nobody is left who could ask.
fn live(work: Work, front: UnixStream, tracer: UnixStream, parent: Tid) -> io::Result<()> {
    let mut files = vec![front.as_raw_fd(), tracer.as_raw_fd()];
    files.extend(work.log.as_ref().map(AsRawFd::as_raw_fd));
    Confinement {
        files: &files,
        rights: work.rights.as_ref(),
        memory: (total_memory() / 2).max(LEAST_MEMORY),
        parent,
    }
    .enter()?;
    // Its sites are chosen by others.
    let images = Images::new(work.search, |_| Selected::default());
    std::thread::scope(|scope| {
        redhanded_sys::thread_builder()?.spawn_scoped(scope, || serve(tracer, &images, None))?;
        serve(front, &images, work.log);
        Ok(())
    })
}

/// The rights of the user whom a process belongs to, if we have more and those are enough to
/// read its program.
pub fn enough_rights(pid: u32) -> Option<Rights> {
    let rights = Rights::of(pid.cast_signed());
    if effective_user() != 0 || rights.are_roots() {
        return None;
    }
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let readable = rights.with(|| open_regular(&program)).is_ok();
    readable.then_some(rights)
}

/// The report in a log.
pub fn ask_log(log: File, path: PathBuf) -> Result<Option<Answer>, Failure> {
    let work = Work {
        log: Some(log),
        ..Work::default()
    };
    let mut namer = Namer::start(work)?.alone()?;
    let answer = namer.asker.ask(&Question::Log(path), || {});
    namer.dismiss()?;
    Ok(answer)
}
