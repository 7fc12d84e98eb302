//! A gdbstub that never comes to an end: the tool does, and its tracer with it.

use crate::place::{Outcome, Place, Running, members};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{Backlog, listen};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

/// More than it takes to end, and less than it takes to give up.
const SOON: Duration = Duration::from_secs(4);
/// More than it takes to give up.
const BY_ITSELF: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stub {
    /// Accepts nobody, and has no room for more who wait.
    Full,
    /// Accepts, and says nothing.
    Silent,
    /// Sends an answer byte by byte, without end.
    Drips,
    /// Lists its vCPUs without end, each in good time.
    Lists,
}

impl Stub {
    /// Does so until the client has gone.
    fn serve(self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut asked = [0; 4096];
        if self == Self::Drips {
            stream.write_all(b"$")?;
            loop {
                stream.write_all(b"a")?;
                thread::sleep(Duration::from_millis(20));
            }
        }
        loop {
            let len = stream.read(&mut asked)?;
            if len == 0 {
                return Ok(());
            }
            if self == Self::Lists {
                thread::sleep(Duration::from_millis(200));
                let asked = String::from_utf8_lossy(&asked[..len]);
                let answer = match asked.contains("vCont?") {
                    true => "vCont;c",
                    false if asked.contains("ThreadInfo") => "m01",
                    false => "",
                };
                let sum = answer.bytes().fold(0, u8::wrapping_add);
                write!(stream, "+${answer}#{sum:02x}")?;
            }
        }
    }

    /// The tool while it waits for this stub.
    fn met(self, place: &Place) -> Running {
        let listener = UnixListener::bind(place.path("stub")).unwrap();
        let program = env!("CARGO_BIN_EXE_redhanded");
        let options = ["--gdb", "unix:stub", "--vmlinux", program, "--for", "1s"];
        let command = || place.redhanded([&["kernel"], &options[..]].concat());
        if self == Self::Full {
            listen(&listener, Backlog::new(0).unwrap()).unwrap();
            let first = UnixStream::connect(place.path("stub")).unwrap();
            let running = place.start(command());
            thread::spawn(move || {
                thread::sleep(BY_ITSELF);
                drop((listener, first));
            });
            // It cannot be seen to connect, but that it holds signals, which comes before.
            let start = Instant::now();
            while !holds_signals(running.child.id()) {
                assert!(start.elapsed() < BY_ITSELF, "it does not begin");
                thread::sleep(Duration::from_millis(5));
            }
            thread::sleep(Duration::from_millis(500));
            return running;
        }
        let running = place.start(command());
        let (stream, _) = listener.accept().unwrap();
        thread::spawn(move || self.serve(stream));
        thread::sleep(Duration::from_millis(300));
        running
    }
}

/// Whether a process would learn of a SIGTERM without dying of it.
fn holds_signals(pid: u32) -> bool {
    let blocked = crate::interruption::status_field(pid, "SigBlk");
    let bit = 1 << (Signal::SIGTERM as u64 - 1);
    u64::from_str_radix(&blocked, 16).is_ok_and(|blocked| blocked & bit != 0)
}

/// Has `each` done with all stubs, and wants its `end` within `limit`.
fn with_each(limit: Duration, each: impl Fn(Running) -> Option<Outcome> + Sync, status: i32) {
    thread::scope(|scope| {
        for stub in [Stub::Full, Stub::Silent, Stub::Drips, Stub::Lists] {
            let each = &each;
            scope.spawn(move || {
                let place = Place::new();
                let running = stub.met(&place);
                let start = Instant::now();
                let outcome = each(running);
                let took = start.elapsed();
                assert!(took < limit, "{stub:?}: {took:?}");
                if let Some(outcome) = outcome {
                    outcome.refused(status, "");
                }
            });
        }
    });
}

fn signal(running: &Running, signal: Signal) {
    kill(Pid::from_raw(running.child.id().cast_signed()), signal).unwrap();
}

#[test]
fn it_is_told_to_end() {
    for (sent, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let told = |running| {
            signal(&running, sent);
            Some(running.end())
        };
        // The status alone tells that it did not give up.
        with_each(BY_ITSELF, told, status);
    }
}

#[test]
fn its_front_is_killed() {
    let killed = |mut running: Running| {
        signal(&running, Signal::SIGKILL);
        let _ = running.child.wait();
        let start = Instant::now();
        while !members(running.child.id()).is_empty() {
            assert!(start.elapsed() < BY_ITSELF, "the tracer lives on");
            thread::sleep(Duration::from_millis(10));
        }
        None
    };
    with_each(SOON, killed, 0);
}

#[test]
fn it_gives_up() {
    with_each(BY_ITSELF, |running| Some(running.end()), 125);
}

#[test]
fn a_cache_that_others_may_change_is_not_used() {
    let place = Place::with("end");
    let kernels = place.path("kernels");
    fs::create_dir(&kernels).unwrap();
    let old = kernels.join("linked/4194305/precious");
    fs::create_dir_all(&old).unwrap();
    fs::set_permissions(&kernels, Permissions::from_mode(0o777)).unwrap();
    let mut command = place.redhanded("kernel --gdb unix:none --vmlinux ./end".split(' '));
    command.env("REDHANDED_KERNELS", &kernels);
    let outcome = place.finish(command);
    outcome.refused(125, "other users may write to");
    assert!(old.exists(), "nothing of it is removed");
    assert!(
        !kernels.join("unpacked").exists(),
        "and nothing is put there"
    );
}
