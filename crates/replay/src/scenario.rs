//! A race in a file: both threads, the memory they touch, and names for people.
//!
//! The file is a line that names the format, and the rest compressed. What is in it may come
//! from anybody: lengths are bounded, and nothing of it is executed outside a worker.

use crate::memory::Snapshot;
use crate::scene::{Limits, Scene};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// How a file begins.
const FORMAT: &[u8] = b"redhanded-scenario/1\n";
/// The longest file that is read, and what it may unpack to.
const LONGEST: u64 = 64 << 20;
const LONGEST_UNPACKED: u64 = 256 << 20;

/// Why a file is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It is something else.
    #[error("it is no scenario of Redhanded")]
    Other,
    /// Another version of Redhanded wrote it.
    #[error("it has another version of the format than redhanded-scenario/1")]
    Version,
    /// It is cut short, changed, or was never one.
    #[error("it is damaged")]
    Damaged,
}

/// A race that can be replayed anywhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// The race's number in reports.
    pub id: String,
    /// What is raced on, in words.
    pub what: String,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The threads in words, A and B.
    pub names: [String; 2],
    /// Both threads.
    pub scene: Scene,
    /// How far a replay goes.
    pub limits: Limits,
    /// What they touch.
    pub memory: Snapshot,
    /// The files that were mapped.
    pub files: Vec<MappedFile>,
    /// Where instructions are in the source, by their addresses.
    pub places: BTreeMap<u64, SourceLine>,
    /// The names of data, by their addresses, with the number of bytes.
    pub data: BTreeMap<u64, (u64, String)>,
}

/// A file that was mapped. A debugger finds its symbols by these.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedFile {
    /// Its path.
    pub path: String,
    /// The linker's identification of this build, in hexadecimal.
    pub build_id: Option<String>,
    /// What an address in the file needs added to be one in the program, wrapping.
    pub bias: u64,
}

/// A place in the source.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SourceLine {
    /// The function.
    pub function: Option<String>,
    /// The file and the line in it.
    pub line: Option<(String, u32)>,
    /// The text of the line.
    pub text: Option<String>,
}

impl Scenario {
    /// The file's contents.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = FORMAT.to_vec();
        bytes.extend(pack(self));
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is no scenario.
    pub fn read(from: impl Read) -> Result<Self, ScenarioError> {
        let mut bytes = Vec::new();
        let read = from.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(ScenarioError::Read)?;
        let Some(packed) = bytes.strip_prefix(FORMAT) else {
            let is_ours = bytes.starts_with(b"redhanded-scenario/");
            return Err(if is_ours {
                ScenarioError::Version
            } else {
                ScenarioError::Other
            });
        };
        let scenario: Option<Self> = unpack(packed);
        scenario.map(Self::bounded).ok_or(ScenarioError::Damaged)
    }

    /// The scenario in bytes that are not compressed. For tests, which change them.
    #[must_use]
    pub fn to_unpacked(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The scenario of bytes that are not compressed. For tests, which change them.
    #[must_use]
    pub fn of_unpacked(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().map(Self::bounded)
    }

    fn bounded(mut self) -> Self {
        // A file does not say how long this machine computes.
        let most = Limits::default();
        self.limits.steps = self.limits.steps.min(most.steps * 10);
        self.limits.splits = self.limits.splits.min(most.splits * 10);
        let delays = most.with_weak_memory().delays;
        self.limits.delays = self.limits.delays.min(delays * 10);
        self
    }
}

/// Something in few bytes.
#[must_use]
pub fn pack(what: &impl Serialize) -> Vec<u8> {
    let plain = postcard::to_allocvec(what).unwrap_or_default();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    // Memory takes everything.
    let _ = packed.write_all(&plain);
    packed.finish().unwrap_or_default()
}

/// The same again; `None` if the bytes are damaged.
#[must_use]
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Option<T> {
    let mut plain = Vec::new();
    let unpacked = ZlibDecoder::new(packed);
    unpacked
        .take(LONGEST_UNPACKED)
        .read_to_end(&mut plain)
        .ok()?;
    let (value, rest) = postcard::take_from_bytes(&plain).ok()?;
    rest.is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Mode;
    use crate::scene::Start;
    use crate::state::State;

    fn scenario() -> Scenario {
        let mut memory = Snapshot::new(false);
        memory.write(0x1ff0, &[7; 100]);
        Scenario {
            id: "ab12cd34".into(),
            what: "counter".into(),
            program: vec!["./app".into()],
            names: ["thread 1".into(), "thread 2".into()],
            scene: Scene {
                mode: Mode::User,
                threads: [0, 1].map(|_| Start::Before(State::default())),
                race: vec![(0x1ff0, 0x1ff4)],
                handled: 0,
            },
            limits: Limits::default(),
            memory,
            files: Vec::new(),
            places: BTreeMap::new(),
            data: BTreeMap::from([(0x1ff0, (4, "counter".into()))]),
        }
    }

    #[test]
    fn a_scenario_is_read_as_it_was_written_and_is_small() {
        let written = scenario().to_bytes();
        assert_eq!(Scenario::read(&written[..]).expect("read"), scenario());
        assert!(written.len() < 2000, "{} bytes", written.len());
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let written = scenario().to_bytes();
        for at in 0..written.len() {
            assert!(Scenario::read(&written[..at]).is_err(), "cut at {at}");
            let mut changed = written.clone();
            changed[at] ^= 0x10;
            if let Ok(read) = Scenario::read(&changed[..]) {
                // The two bytes of a zlib header that say how it was packed.
                assert_eq!(read, scenario(), "changed at {at}");
            }
        }
    }

    #[test]
    fn a_file_does_not_say_how_long_to_compute() {
        let mut endless = scenario();
        endless.limits.steps = u64::MAX;
        endless.limits.splits = u32::MAX;
        endless.limits.delays = u32::MAX;
        let read = Scenario::read(&endless.to_bytes()[..]).expect("read");
        assert!(read.limits.steps <= 100_000 && read.limits.splits <= 80);
        assert!(read.limits.delays <= 40);
        let modest = Limits::default().with_weak_memory();
        endless.limits = modest;
        let read = Scenario::of_unpacked(&endless.to_unpacked()).expect("read");
        assert_eq!(read.limits, modest);
    }
}
