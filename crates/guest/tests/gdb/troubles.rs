//! A scripted stub that ends, refuses, stays silent, or is none.

use super::script::{PATIENCE, SHORT, Stub, connect, met, with};
use redhanded_guest::gdb::{Address, Gdb, GdbError, StopReply, rescue};
use std::fmt::Write as _;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::thread;

#[test]
fn an_exit_is_told() {
    met(
        |stub| {
            stub.answer("vCont;c", "W03");
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert_eq!(gdb.wait(PATIENCE).unwrap(), Some(StopReply::Exited(3)));
            assert!(matches!(gdb.wait(PATIENCE), Err(GdbError::GoneAway)));
            assert!(matches!(gdb.resume(None), Err(GdbError::GoneAway)));
            gdb.detach().unwrap();
        },
    );
}

#[test]
fn an_end_in_the_middle_is_told() {
    for said in [&b""[..], b"$0a0b", b"$0a0b#", b"$0a0b#d"] {
        met(
            |stub| {
                stub.expect("m10,2");
                stub.raw(said);
            },
            |mut gdb| {
                assert!(matches!(
                    gdb.read(0x10, &mut [0; 2]),
                    Err(GdbError::GoneAway)
                ));
                assert!(matches!(gdb.registers(1), Err(GdbError::GoneAway)), "still");
            },
        );
    }
}

#[test]
fn a_missing_answer_ends_the_conversation() {
    with(
        |stub| {
            stub.greet();
            stub.expect("m10,2");
            // The late answer must not be taken for that to a later question. The
            // client gives up, and lets the machine go.
            stub.expect("interrupt");
            stub.say("0a0b");
            stub.part();
        },
        |stream| {
            let mut gdb = Gdb::over(stream, SHORT).unwrap();
            assert!(matches!(gdb.read(0x10, &mut [0; 2]), Err(GdbError::Silent)));
            assert!(matches!(gdb.read(0x10, &mut [0; 2]), Err(GdbError::Silent)));
            assert!(matches!(gdb.wait(SHORT), Err(GdbError::Silent)));
        },
    );
}

#[test]
fn a_refused_resumption_is_told() {
    met(
        |stub| {
            stub.answer("vCont;c:9", "E22");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(Some(&[9])).unwrap();
            assert!(matches!(gdb.wait(PATIENCE), Err(GdbError::Nonsense(_))));
            gdb.resume(Some(&[])).unwrap();
            assert!(!gdb.is_running());
        },
    );
}

#[test]
fn what_is_no_stub_is_told_apart() {
    let outcome = |script: fn(&mut Stub)| {
        with(script, |stream| {
            Gdb::over(stream, SHORT).map(drop).unwrap_err()
        })
    };
    let silent = outcome(|stub| drop(stub.hear()));
    assert!(matches!(silent, GdbError::GoneAway), "it hung up: {silent}");
    let silent = outcome(|stub| while stub.hear().is_some() {});
    assert!(matches!(silent, GdbError::Silent), "{silent}");
    let console = outcome(|stub| {
        stub.acknowledges = false;
        stub.raw(b"login: ");
        while stub.hear().is_some() {}
    });
    assert!(matches!(console, GdbError::Nonsense(_)), "{console}");
    let echo = outcome(|stub| {
        let first = stub.hear().unwrap();
        stub.say(&first);
    });
    assert!(matches!(echo, GdbError::Nonsense(_)), "{echo}");
    let other = outcome(|stub| {
        stub.hear().unwrap();
        stub.say("PacketSize=1000;qXfer:features:read+");
        stub.greet_further();
        stub.answer(
            "qXfer:features:read:target.xml:0,ffb",
            "l<target><architecture>aarch64</architecture></target>",
        );
        // Connecting has stopped it: it is let go.
        stub.expect("interrupt");
        stub.part();
    });
    assert_eq!(
        other.to_string(),
        "the virtual machine is not an x86-64 but aarch64; only those are supported"
    );
    let no_holding = outcome(|stub| {
        stub.hear().unwrap();
        stub.say("");
        stub.answer("vCont?", "");
    });
    assert!(matches!(no_holding, GdbError::Nonsense(_)), "{no_holding}");
}

#[test]
fn a_packet_that_a_dead_client_left_is_got_over() {
    with(
        |stub| {
            // The stub takes the first packet for the rest of another one.
            stub.acknowledges = false;
            stub.hear().unwrap();
            stub.raw(b"-");
            stub.acknowledges = true;
            stub.greet();
            stub.part();
        },
        |stream| assert_eq!(Gdb::over(stream, PATIENCE).unwrap().vcpus(), [1, 2]),
    );
}

#[test]
fn a_description_is_fetched_in_pieces() {
    let offset_of_rip = with(
        |stub| {
            stub.hear().unwrap();
            stub.say("PacketSize=40;qXfer:features:read+");
            stub.greet_further();
            stub.answer(
                "qXfer:features:read:target.xml:0,40",
                "l<xi:include href=\"a.xml\"/>",
            );
            // An eight-byte register before all others.
            let mut document = "<reg name='x' bitsize='64'/>".to_owned();
            for name in "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags"
                .split(' ')
            {
                write!(document, "<reg name='{name}' bitsize='64'/>").unwrap();
            }
            let mut at = 0;
            while at < document.len() {
                // Fewer bytes than were asked for.
                let end = (at + 50).min(document.len());
                let more = if end == document.len() { "l" } else { "m" };
                stub.answer(
                    &format!("qXfer:features:read:a.xml:{at:x},40"),
                    &format!("{more}{}", &document[at..end]),
                );
                at = end;
            }
            stub.expect("Hg1");
            stub.say("OK");
            stub.expect("g");
            let bytes: String = (0..19 * 8).map(|byte| format!("{byte:02x}")).collect();
            stub.say(&bytes);
            stub.part();
        },
        |stream| {
            let mut gdb = Gdb::over(stream, PATIENCE).unwrap();
            gdb.registers(1).unwrap().general.rip & 0xff
        },
    );
    assert_eq!(offset_of_rip, 17 * 8);
}

#[test]
fn rescue_gets_over_everything_that_may_be_left() {
    // Half a packet: the farewell is taken for its rest, and said again.
    with(
        |stub| {
            stub.acknowledges = false;
            stub.raw(b"$OK#9a$OK#9a"); // two answers that the owner did not live to hear
            let mut swallowed = Vec::new();
            while !swallowed.ends_with(b"#b0") {
                swallowed.push(stub.byte().unwrap());
            }
            assert_eq!(swallowed, b"$Z0,ff\x03$D;1#b0");
            stub.raw(b"-");
            stub.acknowledges = true;
            stub.part();
        },
        |mut stream| {
            stream.write_all(b"$Z0,ff").unwrap();
            rescue(&stream).unwrap();
        },
    );
    // The machine is gone.
    with(|_| {}, |stream| rescue(&stream).unwrap());
    // Nobody answers.
    with(
        |stub| while stub.byte().is_some() {},
        |stream| {
            rescue(&stream).unwrap_err();
            drop(stream);
        },
    );
}

#[test]
fn a_port_will_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stub = thread::spawn(move || {
        let mut stub = Stub {
            stream: OwnedFd::from(listener.accept().unwrap().0).into(),
            acknowledges: true,
        };
        stub.greet();
        stub.part();
    });
    let gdb = connect(&address.parse().unwrap(), PATIENCE).unwrap();
    gdb.detach().unwrap();
    stub.join().unwrap();
}

#[test]
fn nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.sock");
    let address: Address = format!("unix:{}", path.display()).parse().unwrap();
    let error = connect(&address, SHORT).unwrap_err().to_string();
    assert!(
        error.contains("none.sock") && error.contains("server=on"),
        "{error}"
    );
    // A listener that never answers: a second client of QEMU sees that.
    let _listener = UnixListener::bind(&path).unwrap();
    let error = connect(&address, SHORT).unwrap_err();
    assert!(matches!(error, GdbError::Silent), "{error}");
    let closed = connect(&"127.0.0.1:1".parse().unwrap(), SHORT).unwrap_err();
    assert!(matches!(closed, GdbError::Refused { .. }), "{closed}");
}
