//! A scripted stub that never comes to an end: each wait for it does all the same.

use super::script::{PATIENCE, SHORT, Stub, connect, with};
use nix::sys::signal::{Signal, raise};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect as knock, listen, socket,
};
use redhanded_guest::gdb::{Address, Gdb, GdbError};
use redhanded_target::Signals;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Far more than it takes, and far less than without a deadline.
const SOON: Duration = Duration::from_secs(20);
/// Just in time for a single answer.
const SLOW: Duration = Duration::from_millis(200);

/// What `attempt` fails with, soon.
#[track_caller]
fn fails<T>(attempt: impl FnOnce() -> Result<T, GdbError>) -> GdbError {
    let start = Instant::now();
    let error = attempt().map(drop).unwrap_err();
    let took = start.elapsed();
    assert!(took < SOON, "it took {took:?}");
    error
}

/// Greets, and says `bytes` without end once it is asked for memory.
fn floods(bytes: &'static [u8]) -> impl FnOnce(&mut Stub) + Send {
    move |stub| {
        stub.greet();
        stub.expect("m10,2");
        while stub.raw(bytes) {}
    }
}

#[test]
fn an_answer_without_end() {
    const STOP: &[u8] = b"$T05thread:01;#07";
    thread::scope(|scope| {
        for bytes in [
            &[b'a'; 4096][..],
            b"$aaaaaaaa",
            b"$",
            b"+",
            STOP.repeat(99).leak(),
        ] {
            scope.spawn(|| {
                with(floods(bytes), |stream| {
                    let mut gdb = Gdb::over(stream, SHORT).unwrap();
                    let error = fails(|| gdb.read(0x10, &mut [0; 2]));
                    assert!(
                        matches!(error, GdbError::Silent | GdbError::Nonsense(_)),
                        "{error}"
                    );
                    fails(|| gdb.detach());
                })
            });
        }
    });
}

#[test]
fn a_greeting_without_end() {
    let error = with(
        |stub| {
            stub.hear().unwrap();
            stub.say("PacketSize=1000;vContSupported+");
            stub.answer("vCont?", "vCont;c;C;s;S");
            while stub
                .hear()
                .is_some_and(|asked| asked.ends_with("ThreadInfo"))
            {
                thread::sleep(SLOW);
                stub.say("m01");
            }
            while stub.hear().is_some() {}
        },
        |stream| fails(|| Gdb::over(stream, SHORT)),
    );
    assert!(matches!(error, GdbError::Silent), "{error}");
}

#[test]
fn a_request_of_many_batches() {
    with(
        |stub| {
            stub.greet();
            while let Some(asked) = stub.hear() {
                if asked.starts_with('m') {
                    thread::sleep(Duration::from_millis(2));
                    stub.say(&"00".repeat(0x7c0));
                }
            }
        },
        |stream| {
            let mut gdb = Gdb::over(stream, SHORT).unwrap();
            let error = fails(|| gdb.read(0, &mut vec![0; 32 << 20]));
            assert!(matches!(error, GdbError::Silent), "{error}");
        },
    );
}

/// A listener that accepts nobody, and has no room for another one.
fn full(path: &Path) -> Vec<OwnedFd> {
    let address = UnixAddr::new(path).unwrap();
    let open = || {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap()
    };
    let listener = open();
    bind(listener.as_raw_fd(), &address).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let mut all = vec![listener];
    loop {
        let client = open();
        if knock(client.as_raw_fd(), &address).is_err() {
            return all;
        }
        all.push(client);
    }
}

#[test]
fn a_stub_without_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    let mut queue = full(&path);
    let address = Address::Unix(path.clone());
    let error = fails(|| connect(&address, SHORT));
    assert!(matches!(error, GdbError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("full.sock"), "{error}");
    // Once there is room it is used.
    let listener = UnixListener::from(queue.swap_remove(0));
    listener.set_nonblocking(false).unwrap();
    let stub = thread::spawn(move || {
        thread::sleep(SLOW);
        while let Ok((stream, _)) = listener.accept() {
            let mut stub = Stub {
                stream: OwnedFd::from(stream).into(),
                acknowledges: true,
            };
            // The others in the queue have gone.
            if let Some(first) = stub.hear() {
                assert!(first.starts_with("qSupported"), "{first}");
                stub.say("PacketSize=1000;vContSupported+");
                stub.greet_further();
                return stub.part();
            }
        }
    });
    drop(queue);
    connect(&address, PATIENCE).unwrap().detach().unwrap();
    stub.join().unwrap();
}

#[test]
fn whoever_is_told_to_end_has_no_patience() {
    let folder = tempfile::tempdir().unwrap();
    let (silent, crowded) = (folder.path().join("silent"), folder.path().join("full"));
    let _listener = UnixListener::bind(&silent).unwrap();
    let _queue = full(&crowded);
    let signals = Signals::hold();
    raise(Signal::SIGTERM).unwrap();
    for path in [silent, crowded] {
        let address = Address::Unix(path);
        let heeded = Some(signals.clone());
        let socket = address.socket().unwrap();
        fails(|| Gdb::connect(&address, socket, Duration::MAX, heeded));
    }
    let taken = signals.asked_to_end();
    assert_eq!(
        taken,
        Some(Signal::SIGTERM as i32),
        "it is left to be taken"
    );
}
