//! What the worker and its parent say to each other: a length and a message.

use crate::alone::{Stretch, Stretched};
use crate::follow::Followed;
use crate::machine::Mode;
use crate::memory::Fetched;
use crate::outcome::{End, Failure, Judgement, Order};
use crate::scene::{Limits, Scene};
use crate::state::State;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// To the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Judge(Box<Scene>, Limits),
    Follow {
        scene: Box<Scene>,
        order: Order,
        limits: Limits,
        steps: u64,
        listed: bool,
    },
    Run {
        mode: Mode,
        start: State,
        steps: u64,
        digests: bool,
    },
    /// One thread alone, from a recording. [`Request::Stretch`] follows, and more of them.
    Alone,
    /// What the thread that runs alone does next; none: nothing more.
    Stretch(Option<Box<Stretch>>),
    /// The answer to [`Reply::Fetch`].
    Page(Fetched),
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It is locked down and waits.
    Ready,
    /// It needs a page.
    Fetch(u64),
    Judged(Judgement),
    Followed(Result<Box<Followed>, Failure>),
    Ran(Box<Ran>),
    Stretched(Box<Stretched>),
    /// The thread that ran alone is over.
    Left,
}

/// What a single thread did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// Its registers at the end.
    pub state: State,
    /// Why it did not go on; none after as many instructions as were asked for.
    pub end: Option<End>,
    /// How many instructions it ran.
    pub steps: u64,
    /// The pages that it wrote to.
    pub written: Vec<(u64, crate::bytes::Bytes<4096>)>,
    /// A number for the registers after each instruction, if asked for.
    pub digests: Vec<u64>,
}

/// No message is longer. The longest are judgements with many ranges of memory used.
const LONGEST: usize = 256 << 20;

pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let mut bytes = bytes;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)
}

pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other("message too long"));
    }
    // Grows with what really comes.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}
