//! A stub that says what its script tells it to, at the moment it is told.

use redhanded_guest::gdb::{Address, Gdb, GdbError, StopReply};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(20);
/// Where the stub says nothing, so that it is waited for in vain. It is also all the time that a
/// greeting has, on a machine whose processors are busy with the tests of floods.
pub const SHORT: Duration = Duration::from_secs(2);

/// The stub's side of a connection.
pub struct Stub {
    pub stream: File,
    pub acknowledges: bool,
}

impl Stub {
    /// The content of the next packet; `None` at the end. An interrupt is a packet
    /// of its own.
    pub fn hear(&mut self) -> Option<String> {
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

    pub fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        let read = self.stream.read(&mut byte).unwrap_or(0);
        (read == 1).then_some(byte[0])
    }

    /// Whether the client is still there is for the test's own assertions to notice.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub fn say(&mut self, content: &str) {
        let sum = content.bytes().fold(0_u8, u8::wrapping_add);
        self.raw(format!("${content}#{sum:02x}").as_bytes());
    }

    /// Hears exactly this.
    pub fn expect(&mut self, content: &str) {
        assert_eq!(self.hear().as_deref(), Some(content));
    }

    /// Hears this and answers that.
    pub fn answer(&mut self, content: &str, answer: &str) {
        self.expect(content);
        self.say(answer);
    }

    /// Everything up to the point where the client has connected. Two vCPUs, no
    /// description of registers.
    pub fn greet(&mut self) {
        let first = self.hear().unwrap();
        assert!(first.starts_with("qSupported"), "{first}");
        self.say("PacketSize=1000;vContSupported+");
        self.greet_further();
    }

    pub fn greet_further(&mut self) {
        self.answer("vCont?", "vCont;c;C;s;S");
        self.answer("qfThreadInfo", "m01");
        self.answer("qsThreadInfo", "m02");
        self.answer("qsThreadInfo", "l");
    }

    /// The farewell of a client whose machine stands.
    pub fn part(&mut self) {
        self.answer("D;1", "OK");
        assert_eq!(
            self.hear(),
            None,
            "nothing may follow: it would stop the machine"
        );
    }
}

/// Runs `script` as the stub and `client` as its client.
pub fn with<T>(
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
pub fn met<T>(script: impl FnOnce(&mut Stub) + Send + 'static, client: impl FnOnce(Gdb) -> T) -> T {
    with(
        |stub| {
            stub.greet();
            script(stub);
        },
        |stream| client(Gdb::over(stream, PATIENCE).unwrap()),
    )
}

/// Connects to the stub at `address`.
pub fn connect(address: &Address, patience: Duration) -> Result<Gdb, GdbError> {
    Gdb::connect(address, address.socket().unwrap(), patience, None)
}

pub fn stopped(vcpu: u32, signal: u8) -> StopReply {
    StopReply::Stopped {
        vcpu: Some(vcpu),
        signal,
        watch: None,
    }
}

/// A `g` packet with these values of rax and rip.
pub fn registers(rax: u64, rip: u64) -> String {
    let mut text = String::new();
    for value in [rax].into_iter().chain([0; 15]).chain([rip]) {
        for byte in value.to_le_bytes() {
            write!(text, "{byte:02x}").unwrap();
        }
    }
    text + &"02000000".repeat(7)
}
