//! The child process in which everything runs.

use crate::alone::alone;
use crate::bytes::Bytes;
use crate::digest::digest;
use crate::follow::follow;
use crate::judge::judge;
use crate::machine::{Machine, Mode, Space, Stubs};
use crate::memory::{Fetched, Memory};
use crate::native::Native;
use crate::state::State;
use crate::wire::{Ran, Reply, Request, receive, send};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// What a worker may use, whatever it is asked.
const MEMORY: u64 = 1 << 30;

/// Serves the parent, which is at the other end of standard input, until that is closed.
/// Never comes back. To be called at the start of a process that does nothing else.
pub fn serve() -> ! {
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    match stdin {
        Ok(stream) => serve_on(UnixStream::from(stream)),
        Err(_) => std::process::exit(1),
    }
}

/// Serves whoever is at the other end, until that is closed. Never comes back. To be called in
/// a process of one thread that does nothing else; it loses all its files but this one.
pub fn serve_on(parent: UnixStream) -> ! {
    let status = i32::from(serve_until_closed(parent).is_err());
    std::process::exit(status)
}

fn serve_until_closed(mut parent: UnixStream) -> io::Result<()> {
    let mut native = Native::install()?;
    let mut stubs = Stubs::new();
    redhanded_sys::lock_down(&parent, MEMORY)?;
    send(&mut parent, &Reply::Ready)?;
    loop {
        let reply = match receive(&mut parent)? {
            Request::Judge(scene, limits) => {
                let mut memory = Parent::new(&parent);
                let space = Space::new(&mut memory);
                let mut machine = Machine::new(space, &mut native, &mut stubs, scene.mode);
                let judgement = judge(&mut machine, &scene, limits);
                memory.finish()?;
                Reply::Judged(judgement)
            }
            Request::Follow {
                scene,
                order,
                limits,
                steps,
                listed,
            } => {
                let mut memory = Parent::new(&parent);
                let space = Space::new(&mut memory);
                let mut machine = Machine::new(space, &mut native, &mut stubs, scene.mode);
                let followed = follow(&mut machine, &scene, order, limits, steps, listed);
                memory.finish()?;
                Reply::Followed(followed.map(Box::new))
            }
            Request::Run {
                mode,
                start,
                steps,
                digests,
            } => {
                let mut memory = Parent::new(&parent);
                let ran = run(
                    &mut native,
                    &mut stubs,
                    &mut memory,
                    mode,
                    start,
                    steps,
                    digests,
                );
                memory.finish()?;
                Reply::Ran(Box::new(ran))
            }
            Request::Alone => {
                run_alone(&mut parent, &mut native, &mut stubs)?;
                Reply::Left
            }
            Request::Stretch(_) | Request::Page(_) => {
                return Err(io::Error::other("nobody asked for this"));
            }
        };
        send(&mut parent, &reply)?;
    }
}

/// Runs the stretches of one thread that the parent tells, one after the other.
fn run_alone(parent: &mut UnixStream, native: &mut Native, stubs: &mut Stubs) -> io::Result<()> {
    let stream = &*parent;
    let mut memory = Parent::new(stream);
    let mut failed = None;
    alone(native, stubs, &mut memory, |ran| {
        let asked = match ran {
            Some(ran) => send(&mut &*stream, &Reply::Stretched(Box::new(ran))),
            None => Ok(()),
        };
        let asked = asked.and_then(|()| receive(&mut &*stream));
        match asked {
            Ok(Request::Stretch(stretch)) => stretch.map(|stretch| *stretch),
            Ok(_) => {
                failed = Some(io::Error::other("expected a stretch"));
                None
            }
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    memory.finish()?;
    failed.map_or(Ok(()), Err)
}

/// Pages come from the parent.
struct Parent<'a> {
    stream: &'a UnixStream,
    error: Option<io::Error>,
}

impl<'a> Parent<'a> {
    const fn new(stream: &'a UnixStream) -> Self {
        Self {
            stream,
            error: None,
        }
    }

    fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn ask(&mut self, page: u64) -> io::Result<Fetched> {
        send(&mut self.stream, &Reply::Fetch(page))?;
        match receive(&mut self.stream)? {
            Request::Page(fetched) => Ok(fetched),
            _ => Err(io::Error::other("expected a page")),
        }
    }
}

impl Memory for Parent<'_> {
    fn fetch(&mut self, page: u64) -> Fetched {
        if self.error.is_some() {
            return Fetched::Unknown;
        }
        self.ask(page).unwrap_or_else(|error| {
            self.error = Some(error);
            Fetched::Unknown
        })
    }
}

/// Runs one thread for so many instructions.
fn run(
    native: &mut Native,
    stubs: &mut Stubs,
    memory: &mut dyn Memory,
    mode: Mode,
    start: State,
    steps: u64,
    digests: bool,
) -> Ran {
    let mut machine = Machine::new(Space::new(memory), native, stubs, mode);
    machine.load(&start);
    let mut ran = Ran {
        state: start,
        end: None,
        steps: 0,
        written: Vec::new(),
        digests: Vec::new(),
    };
    while ran.steps < steps {
        machine.space.log.clear();
        // The first instruction may synchronise: whoever asks starts there on purpose.
        if let Err(end) = machine.step(ran.steps == 0) {
            ran.end = Some(end);
            break;
        }
        ran.steps += 1;
        if digests {
            machine.store(&mut ran.state);
            ran.digests.push(digest(&ran.state));
        }
    }
    machine.store(&mut ran.state);
    let written = machine.space.take_written();
    ran.written = written
        .into_iter()
        .map(|(page, b)| (page, Bytes(b.0)))
        .collect();
    ran
}
