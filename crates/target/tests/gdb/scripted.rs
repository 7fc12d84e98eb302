//! A stub that says what its script tells it to, at the moment it is told.

use redhanded_model::Register;
use redhanded_target::vm::gdb::{
    Address, Answer, Gdb, GdbError, Point, PointKind, Request, StopReply, rescue,
};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

/// The stub's side of a connection.
struct Stub {
    stream: File,
    acknowledges: bool,
}

impl Stub {
    /// The content of the next packet; `None` at the end. An interrupt is a packet
    /// of its own.
    fn hear(&mut self) -> Option<String> {
        let mut content = Vec::new();
        loop {
            match self.byte()? {
                b'$' => content.clear(),
                3 if content.is_empty() => return Some("interrupt".into()),
                b'#' => break,
                byte => content.push(byte),
            }
        }
        let sum = [self.byte()?, self.byte()?];
        let expected = content
            .iter()
            .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        assert_eq!(sum.as_slice(), format!("{expected:02x}").as_bytes());
        if self.acknowledges {
            self.raw(b"+");
        }
        Some(String::from_utf8(content).unwrap())
    }

    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        let read = self.stream.read(&mut byte).unwrap_or(0);
        (read == 1).then_some(byte[0])
    }

    fn raw(&mut self, bytes: &[u8]) {
        // A client that has gone is for the test's own assertions to notice.
        let _ = self.stream.write_all(bytes);
    }

    fn say(&mut self, content: &str) {
        let sum = content.bytes().fold(0_u8, u8::wrapping_add);
        self.raw(format!("${content}#{sum:02x}").as_bytes());
    }

    /// Hears exactly this.
    fn expect(&mut self, content: &str) {
        assert_eq!(self.hear().as_deref(), Some(content));
    }

    /// Hears this and answers that.
    fn answer(&mut self, content: &str, answer: &str) {
        self.expect(content);
        self.say(answer);
    }

    /// Everything up to the point where the client has connected. Two vCPUs, no
    /// description of registers.
    fn greet(&mut self) {
        let first = self.hear().unwrap();
        assert!(first.starts_with("qSupported"), "{first}");
        self.say("PacketSize=1000;vContSupported+");
        self.greet_further();
    }

    fn greet_further(&mut self) {
        self.answer("vCont?", "vCont;c;C;s;S");
        self.answer("qfThreadInfo", "m01");
        self.answer("qsThreadInfo", "m02");
        self.answer("qsThreadInfo", "l");
    }

    /// The farewell of a client whose machine stands.
    fn part(&mut self) {
        self.answer("D;1", "OK");
        assert_eq!(
            self.hear(),
            None,
            "nothing may follow: it would stop the machine"
        );
    }
}

/// Runs `script` as the stub and `client` as its client.
fn with<T>(
    script: impl FnOnce(&mut Stub) + Send + 'static,
    client: impl FnOnce(UnixStream) -> T,
) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stub = thread::spawn(move || {
        script(&mut Stub {
            stream: OwnedFd::from(theirs).into(),
            acknowledges: true,
        });
    });
    let outcome = client(ours);
    stub.join().expect("the script runs through");
    outcome
}

/// As [`with`], after the greeting.
fn met<T>(script: impl FnOnce(&mut Stub) + Send + 'static, client: impl FnOnce(Gdb) -> T) -> T {
    with(
        |stub| {
            stub.greet();
            script(stub);
        },
        |stream| client(Gdb::over(stream, PATIENCE).unwrap()),
    )
}

fn stopped(vcpu: u32, signal: u8) -> StopReply {
    StopReply::Stopped {
        vcpu: Some(vcpu),
        signal,
        watch: None,
    }
}

/// A `g` packet with these values of rax and rip.
fn registers(rax: u64, rip: u64) -> String {
    let mut text = String::new();
    for value in [rax].into_iter().chain([0; 15]).chain([rip]) {
        for byte in value.to_le_bytes() {
            write!(text, "{byte:02x}").unwrap();
        }
    }
    text + &"02000000".repeat(7)
}

#[test]
fn a_batch_is_written_before_its_first_answer() {
    let watch = Point {
        kind: PointKind::Access,
        address: 0xffff_8000_0000_0010,
        len: 8,
    };
    let requests = [
        Request::Remove(Point {
            kind: PointKind::Software,
            address: 0x10,
            len: 1,
        }),
        Request::Insert(watch),
        Request::Read {
            address: 0x20,
            len: 4,
        },
        Request::Read {
            address: 0x30,
            len: 2,
        },
        Request::Registers(2),
        Request::Registers(3),
        Request::Select(1),
    ];
    let (answers, standing) = met(
        |stub| {
            // All of it is heard before anything is said.
            for packet in [
                "z0,10,1",
                "Z4,ffff800000000010,8",
                "m20,4",
                "m30,2",
                "Hg2",
                "g",
                "Hg3",
                "g",
                "Hg1",
            ] {
                stub.expect(packet);
            }
            for answer in ["E22", "OK", "0a0b0cff", "E14", "OK"] {
                stub.say(answer);
            }
            stub.say(&registers(0x1122_3344_5566_7788, 0xffff_ffff_8100_0000));
            stub.say("E22");
            stub.say(&registers(1, 2));
            stub.say("OK");
            stub.answer("z4,ffff800000000010,8", "OK");
            stub.part();
        },
        |mut gdb| {
            assert_eq!(gdb.vcpus(), [1, 2]);
            let answers = gdb.ask(&requests).unwrap();
            let standing = gdb.standing().to_vec();
            gdb.detach().unwrap();
            (answers, standing)
        },
    );
    assert_eq!(standing, [watch], "what was refused does not stand");
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap();
    assert!(!next().done());
    assert!(next().done());
    assert_eq!(next().memory(), Some(vec![0x0a, 0x0b, 0x0c, 0xff]));
    assert_eq!(next().memory(), None);
    let told = next().registers().unwrap().general;
    assert_eq!(told.get(Register::Rax), 0x1122_3344_5566_7788);
    assert_eq!((told.rip, told.rflags), (0xffff_ffff_8100_0000, 2));
    let of_nobody = next().registers();
    assert_eq!(of_nobody, None, "what came then was another vCPU's");
    assert!(next().done());
}

#[test]
fn much_memory_comes_in_bounded_batches() {
    const LEN: usize = 300_000;
    let memory = met(
        |stub| {
            let mut offset = 0;
            while offset < LEN {
                let packet = stub.hear().unwrap();
                let (address, len) = packet.strip_prefix('m').unwrap().split_once(',').unwrap();
                let address = usize::from_str_radix(address, 16).unwrap();
                let len = usize::from_str_radix(len, 16).unwrap();
                assert_eq!(address, 0x1000 + offset, "in order, without gaps");
                assert!(2 * len + 4 <= 0x1000, "fits into the stub's packets");
                let bytes: String = (0..len)
                    .map(|i| format!("{:02x}", (offset + i) % 251))
                    .collect();
                stub.say(&bytes);
                offset += len;
            }
            stub.part();
        },
        |mut gdb| {
            let mut memory = vec![0; LEN];
            assert!(gdb.read(0x1000, &mut memory).unwrap());
            memory
        },
    );
    assert!(
        memory
            .iter()
            .enumerate()
            .all(|(at, byte)| usize::from(*byte) == at % 251)
    );
}

#[test]
fn stops_from_before_are_dropped() {
    met(
        |stub| {
            // Unsolicited, as QEMU 7.2 does; then in the middle of answers.
            stub.say("T02thread:01;");
            stub.expect("m10,1");
            stub.say("T05thread:02;");
            stub.say("2a");
            // And one that crosses the resumption: it is on its way before the stub
            // has acknowledged that.
            stub.acknowledges = false;
            stub.expect("vCont;c:2");
            stub.say("T02thread:01;");
            thread::sleep(Duration::from_millis(50));
            stub.raw(b"+");
            thread::sleep(Duration::from_millis(50));
            stub.say("T05thread:02;watch:1234;");
            stub.acknowledges = true;
            stub.part();
        },
        |mut gdb| {
            let mut byte = [0];
            assert!(gdb.read(0x10, &mut byte).unwrap());
            assert_eq!(byte, [0x2a]);
            gdb.resume(Some(&[2])).unwrap();
            assert!(gdb.is_running());
            let stop = gdb.wait(PATIENCE).unwrap();
            let hit = StopReply::Stopped {
                vcpu: Some(2),
                signal: StopReply::TRAP,
                watch: Some((PointKind::Write, 0x1234)),
            };
            assert_eq!(stop, Some(hit));
            assert!(!gdb.is_running());
            assert_eq!(gdb.stray_stops(), 3);
            assert_eq!(gdb.wait(Duration::ZERO).unwrap(), None, "it stands");
            gdb.detach().unwrap();
        },
    );
}

#[test]
fn a_stop_that_crosses_an_interrupt_is_told_once() {
    met(
        |stub| {
            stub.expect("vCont;c");
            stub.expect("interrupt");
            // It had stopped before it heard that, and answers the interrupt later,
            // which QEMU does not do.
            stub.say("T05thread:02;");
            stub.acknowledges = false;
            stub.expect("vCont;c");
            stub.say("T02thread:01;");
            stub.raw(b"+");
            stub.say("T05thread:01;");
            stub.acknowledges = true;
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.interrupt(PATIENCE).unwrap(),
                stopped(2, StopReply::TRAP)
            );
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(1, StopReply::TRAP))
            );
            assert_eq!(gdb.stray_stops(), 1);
        },
    );
}

#[test]
fn a_stop_that_has_come_already_needs_no_interrupt() {
    met(
        |stub| {
            stub.expect("vCont;c");
            stub.say("T05thread:02;");
            stub.answer("Hg1", "OK");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            // Nothing is read meanwhile.
            thread::sleep(Duration::from_millis(100));
            assert_eq!(
                gdb.interrupt(PATIENCE).unwrap(),
                stopped(2, StopReply::TRAP)
            );
            assert!(gdb.ask(&[Request::Select(1)]).unwrap()[0].done());
        },
    );
}

#[test]
fn a_machine_that_stands_in_silence_is_asked_why() {
    met(
        |stub| {
            stub.expect("vCont;c");
            // Somebody else stopped it, and it said nothing. The first question is
            // lost with its first byte, as when it ran after all.
            stub.expect("interrupt");
            stub.acknowledges = false;
            stub.expect("?");
            stub.acknowledges = true;
            stub.answer("?", "T05thread:01;");
            stub.answer("Hg1", "OK");
            // An acknowledgement is missing; a stop counts nevertheless.
            stub.answer("vCont;c", "T05thread:02;");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert_eq!(gdb.interrupt(SHORT).unwrap(), stopped(1, StopReply::TRAP));
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(2, StopReply::TRAP))
            );
        },
    );
}

#[test]
fn questions_go_with_a_resumption_and_with_an_interrupt() {
    met(
        |stub| {
            // An old stop comes before the answers, a new one right after them.
            for packet in ["m10,1", "m20,1", "vCont;c:2"] {
                stub.expect(packet);
            }
            stub.say("T02thread:01;");
            stub.say("2a");
            stub.say("E14");
            stub.say("T05thread:02;");
            stub.expect("vCont;c");
            for packet in ["interrupt", "m30,1", "z0,10,1"] {
                stub.expect(packet);
            }
            // The stop crossed the interrupt.
            stub.say("T05thread:01;");
            stub.say("2b");
            stub.say("OK");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.expect("m30,1");
            // The machine stood, and says nothing of it.
            stub.say("2c");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.say("T02thread:01;");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.expect("m30,1");
            stub.say("W00");
        },
        |mut gdb| {
            let read = |address| Request::Read { address, len: 1 };
            let breakpoint = Point {
                kind: PointKind::Software,
                address: 0x10,
                len: 1,
            };
            let answers = gdb.ask_then_resume(&[read(0x10), read(0x20)], Some(&[2]));
            let expected = [Answer::Memory(Some(vec![0x2a])), Answer::Memory(None)];
            assert_eq!(answers.unwrap(), expected);
            assert!(gdb.is_running());
            assert_eq!(gdb.stray_stops(), 1);
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(2, StopReply::TRAP))
            );
            gdb.resume(None).unwrap();
            let asked =
                gdb.interrupt_then_ask(&[read(0x30), Request::Remove(breakpoint)], PATIENCE);
            let expected = vec![Answer::Memory(Some(vec![0x2b])), Answer::Done(true)];
            assert_eq!(asked.unwrap(), (stopped(1, StopReply::TRAP), expected));
            gdb.resume(None).unwrap();
            let (stop, answers) = gdb.interrupt_then_ask(&[read(0x30)], PATIENCE).unwrap();
            assert!(
                matches!(stop, StopReply::Stopped { vcpu: None, .. }),
                "{stop:?}"
            );
            assert_eq!(answers, [Answer::Memory(Some(vec![0x2c]))]);
            gdb.resume(None).unwrap();
            let (stop, _) = gdb.interrupt_then_ask(&[], PATIENCE).unwrap();
            assert_eq!(stop, stopped(1, StopReply::INTERRUPT));
            gdb.resume(None).unwrap();
            let (stop, _) = gdb.interrupt_then_ask(&[read(0x30)], PATIENCE).unwrap();
            assert_eq!(stop, StopReply::Exited(0));
        },
    );
}

#[test]
fn nothing_is_written_while_the_machine_runs() {
    met(
        |stub| {
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.say("T02thread:01;");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert!(matches!(gdb.read(0, &mut [0]), Err(GdbError::Running)));
            assert!(matches!(gdb.resume(None), Err(GdbError::Running)));
            assert!(matches!(gdb.monitor("info"), Err(GdbError::Running)));
            let before = Instant::now();
            assert_eq!(gdb.wait(Duration::from_micros(50)).unwrap(), None);
            assert!(before.elapsed() >= Duration::from_micros(50));
            assert!(gdb.is_running(), "still");
            gdb.detach().unwrap();
        },
    );
}

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
fn a_monitor_prints() {
    met(
        |stub| {
            stub.expect("qRcmd,696e666f");
            stub.say("O48616c6c6f0a");
            stub.say("O5a7a");
            stub.say("OK");
            stub.answer("qRcmd,78", "E01");
            stub.part();
        },
        |mut gdb| {
            assert_eq!(gdb.monitor("info").unwrap(), "Hallo\nZz");
            assert!(gdb.monitor("x").is_err());
        },
    );
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
    let gdb = Gdb::connect(&address.parse().unwrap(), PATIENCE).unwrap();
    gdb.detach().unwrap();
    stub.join().unwrap();
}

#[test]
fn nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.sock");
    let address: Address = format!("unix:{}", path.display()).parse().unwrap();
    let error = Gdb::connect(&address, SHORT).unwrap_err().to_string();
    assert!(
        error.contains("none.sock") && error.contains("server=on"),
        "{error}"
    );
    // A listener that never answers: a second client of QEMU sees that.
    let _listener = UnixListener::bind(&path).unwrap();
    let error = Gdb::connect(&address, SHORT).unwrap_err();
    assert!(matches!(error, GdbError::Silent), "{error}");
    let closed = Gdb::connect(&"127.0.0.1:1".parse().unwrap(), SHORT).unwrap_err();
    assert!(matches!(closed, GdbError::Refused { .. }), "{closed}");
}
