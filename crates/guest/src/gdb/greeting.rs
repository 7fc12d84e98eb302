//! The handshake with a stub: what it supports, its vCPUs, and the layout of their
//! registers.

use super::connection::{Connection, Waited};
use super::description::{Description, Layout, Unusable};
use super::packet::{Item, number};
use super::patience::deadline;
use super::stop::{StopReply, thread};
use super::{ANSWERS, GdbError};
use std::time::{Duration, Instant};

/// The most vCPUs that are believed.
const MAX_VCPUS: usize = 4096;
/// The longest document of a description.
const MAX_DOCUMENT: usize = 1 << 20;
/// The most memory asked for in one packet, however long a stub's packets may be.
const MAX_PIECE: usize = 8 << 10;
/// The packet size of a stub that does not announce one.
const SMALL_PACKET: usize = 512;

/// The most characters of a stub's words that a message repeats.
const QUOTED: usize = 60;

/// What a stub announced.
pub struct Greeting {
    pub vcpus: Vec<u32>,
    pub layout: Layout,
    /// How many bytes of memory go into one answer.
    pub piece: usize,
}

/// Asks a stub for all that is needed. Connecting has stopped the machine.
pub fn greet(connection: &mut Connection, patience: Duration) -> Result<Greeting, GdbError> {
    let mut talk = Talk {
        connection,
        patience,
        end: deadline(patience.saturating_mul(ANSWERS)),
    };
    let features = talk.introduce()?;
    let feature = |name: &str| features.split(';').find_map(|f| f.strip_prefix(name));
    let packet_size = feature("PacketSize=")
        .and_then(|size| number(size.as_bytes()))
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(SMALL_PACKET);
    let actions = talk.ask("vCont?")?;
    if !actions.split(';').any(|action| action == "c") {
        return Err(GdbError::Nonsense(
            "it cannot let some vCPUs run while others are held (vCont)".into(),
        ));
    }
    let vcpus = talk.vcpus()?;
    let described = feature("qXfer:features:read") == Some("+");
    let layout = talk.layout(described, packet_size)?;
    Ok(Greeting {
        vcpus,
        layout,
        // Leaves room for the framing; whole cache lines.
        piece: ((packet_size.saturating_sub(4) / 2) & !63).clamp(64, MAX_PIECE),
    })
}

/// Waits for the next answer; drops stop replies, which are unexpected while the
/// machine is stopped.
pub fn answer(
    connection: &mut Connection,
    deadline: Instant,
    strays: &mut u64,
) -> Result<(), GdbError> {
    loop {
        match connection.next(deadline)? {
            Waited::For(Item::Packet) if StopReply::begins(connection.packet()) => {
                match StopReply::parse(connection.packet()) {
                    Some(StopReply::Exited(_) | StopReply::Killed(_)) => {
                        return Err(GdbError::GoneAway);
                    }
                    _ => *strays += 1,
                }
            }
            Waited::For(Item::Packet) => return Ok(()),
            Waited::For(Item::Ack) | Waited::Interrupted => {}
            Waited::For(Item::Nack) => {
                return Err(GdbError::Nonsense(
                    "it takes a packet for a damaged one".into(),
                ));
            }
            Waited::For(Item::Damaged) => {
                return Err(GdbError::Nonsense("its packet is damaged".into()));
            }
            Waited::InVain => return Err(GdbError::Silent),
        }
    }
}

/// Words of the stub as far as a message repeats them.
fn quoted(words: &str) -> String {
    words.chars().take(QUOTED).collect()
}

struct Talk<'a> {
    connection: &'a mut Connection,
    patience: Duration,
    /// The end of the greeting.
    end: Instant,
}

impl Talk<'_> {
    /// One question and its answer.
    fn ask_bytes(&mut self, content: &str) -> Result<&[u8], GdbError> {
        self.connection.push(content.as_bytes());
        let deadline = deadline(self.patience).min(self.end);
        self.connection.flush(deadline)?;
        answer(self.connection, deadline, &mut 0)?;
        Ok(self.connection.packet())
    }

    fn ask(&mut self, content: &str) -> Result<String, GdbError> {
        let answer = self.ask_bytes(content)?;
        Ok(String::from_utf8_lossy(answer).into_owned())
    }

    /// The first request. If the last client was killed in the middle of a packet, the
    /// stub takes this for the rest of it and finds the checksum wrong; then it is
    /// ready for another one.
    fn introduce(&mut self) -> Result<String, GdbError> {
        const QUESTION: &str = "qSupported:swbreak+;hwbreak+;vContSupported+";
        let mut answer = self.ask(QUESTION);
        for _ in 0..2 {
            if matches!(&answer, Err(GdbError::Nonsense(_))) {
                answer = self.ask(QUESTION);
            }
        }
        match answer {
            Ok(echo) if echo.contains("qSupported") => Err(GdbError::Nonsense(
                "it repeats what it is told, as a console does".into(),
            )),
            Err(GdbError::Silent) if self.connection.heard_garbage() => Err(GdbError::Nonsense(
                "it does not speak the GDB remote protocol".into(),
            )),
            other => other,
        }
    }

    fn vcpus(&mut self) -> Result<Vec<u32>, GdbError> {
        let mut vcpus = Vec::new();
        let mut question = "qfThreadInfo";
        while vcpus.len() <= MAX_VCPUS {
            let answer = self.ask_bytes(question)?;
            let Some(list) = answer.strip_prefix(b"m") else {
                break;
            };
            let before = vcpus.len();
            vcpus.extend(list.split(|&byte| byte == b',').filter_map(thread));
            if vcpus.len() == before {
                break;
            }
            question = "qsThreadInfo";
        }
        if vcpus.is_empty() || vcpus.len() > MAX_VCPUS {
            return Err(GdbError::Nonsense("it does not list its vCPUs".into()));
        }
        Ok(vcpus)
    }

    fn layout(&mut self, described: bool, packet_size: usize) -> Result<Layout, GdbError> {
        let unusable = |what| match what {
            Unusable::Architecture(name) => GdbError::NotX86_64(quoted(&name)),
            Unusable::Register(name) => {
                GdbError::NotX86_64(format!("a machine without a 64-bit {name}"))
            }
            Unusable::TooLong => {
                GdbError::Nonsense("its description of registers has no end".into())
            }
        };
        let mut description = Description::new();
        while described && let Some(name) = description.wanted() {
            let document = self.document(&name, packet_size)?;
            description.add(&document).map_err(unusable)?;
        }
        description.layout().map_err(unusable)
    }

    fn document(&mut self, name: &str, packet_size: usize) -> Result<String, GdbError> {
        let incomplete =
            || GdbError::Nonsense(format!("it does not tell all of `{}`", quoted(name)));
        let len = packet_size.saturating_sub(5).clamp(64, MAX_DOCUMENT);
        let mut document = Vec::new();
        while document.len() < MAX_DOCUMENT {
            let offset = document.len();
            let question = format!("qXfer:features:read:{name}:{offset:x},{len:x}");
            let answer = self.ask_bytes(&question)?;
            let (kind, text) = answer.split_first().ok_or_else(incomplete)?;
            document.extend_from_slice(text);
            match kind {
                b'l' => return Ok(String::from_utf8_lossy(&document).into_owned()),
                b'm' if !text.is_empty() => {}
                _ => break,
            }
        }
        Err(incomplete())
    }
}
