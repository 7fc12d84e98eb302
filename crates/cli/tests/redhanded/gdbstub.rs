//! A gdbstub that never comes to an end: the tool does, when it is told to and by
//! itself, and its tracer with it.

use crate::place::{Place, Running, members};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than it takes, and less than a stub that answers in time can draw it out.
const SOON: Duration = Duration::from_secs(8);

/// Says something now and then, but never all of an answer.
fn drip(mut stream: UnixStream) {
    let _ = stream.write_all(b"+$");
    while stream.write_all(b"a").is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Answers everything, just in time and without end.
fn dawdle(mut stream: UnixStream) {
    let mut first = true;
    let mut asked = [0; 4096];
    while let Ok(1..) = stream.read(&mut asked) {
        thread::sleep(Duration::from_secs(1));
        let known = String::from_utf8_lossy(&asked);
        let answer: &[u8] = match () {
            () if known.contains("ThreadInfo") => b"+$m01#ce",
            () if known.contains("vCont?") => b"+$vCont;c#15",
            () => b"+$#00",
        };
        first &= stream.write_all(answer).is_ok();
    }
}

/// Nobody is accepted, and no more can wait.
fn crowd(listener: &UnixListener) -> Vec<UnixStream> {
    nix::sys::socket::listen(listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    vec![UnixStream::connect_addr(&address).unwrap()]
}

fn observe(place: &Place, options: &[&str]) -> Running {
    let program = env!("CARGO_BIN_EXE_redhanded");
    let arguments = ["kernel", "--gdb", "unix:stub", "--vmlinux", program];
    place.start(place.redhanded([&arguments[..], options].concat()))
}

/// The tool while it waits for each of the stubs.
fn waiting(each: impl Fn(&Place, Running) + Sync) {
    thread::scope(|scope| {
        for stub in [None, Some(drop as fn(UnixStream)), Some(drip), Some(dawdle)] {
            let each = &each;
            scope.spawn(move || {
                let place = Place::new();
                let listener = UnixListener::bind(place.path("stub")).unwrap();
                let crowd = stub.is_none().then(|| crowd(&listener));
                let running = observe(&place, &["--for", "1s"]);
                if crowd.is_some() {
                    // Time to get as far as connecting.
                    thread::sleep(Duration::from_secs(1));
                } else {
                    let (stream, _) = listener.accept().unwrap();
                    thread::spawn(move || match stub {
                        Some(stub) if stub as usize != drop::<UnixStream> as usize => stub(stream),
                        _ => thread::sleep(Duration::from_secs(60)),
                    });
                    thread::sleep(Duration::from_millis(200));
                }
                each(&place, running);
            });
        }
    });
}
