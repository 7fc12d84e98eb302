//! What a recording says in JSON: about itself, its processes and their modules.

use serde::{Deserialize, Serialize};

/// What a recording begins with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The version of the tool that made it.
    pub tool: String,
    /// The program.
    pub program: String,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
    /// Where it was started.
    pub folder: String,
    /// When, in seconds since 1970.
    pub started: u64,
    /// The program's own functions that the recorder was told to hook.
    pub functions: Vec<String>,
}

/// What a recording ends with, if it was not cut short.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The program's exit status, if it ended by itself.
    pub status: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Why the recording ended before the program did, in words, if it did.
    pub stopped: Option<String>,
    /// How long the program ran, in milliseconds.
    pub milliseconds: u64,
    /// What was recorded.
    pub counts: Counts,
}

/// What is in a recording, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Chunks.
    pub chunks: u64,
    /// Entries of threads, each with 16 bytes.
    pub entries: u64,
    /// The chunks' bytes before they were packed.
    pub unpacked: u64,
}

/// The contents of [`ChunkKind::Hello`](crate::wire::ChunkKind::Hello).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// The version of the recorder's entries.
    pub version: u32,
    /// The process.
    pub process: u32,
    /// Its parent.
    pub parent: u32,
    /// The program that it runs.
    pub program: String,
}

/// The contents of [`ChunkKind::Module`](crate::wire::ChunkKind::Module).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The file.
    pub path: String,
    /// The address of its first byte.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// The offset in the file of its first byte.
    pub offset: u64,
    /// Its parts, in ascending order. If there are none, it is one part.
    pub parts: Vec<Part>,
}

/// A part of a module that is mapped in one piece.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The address of its first byte.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// The offset in the file of its first byte.
    pub offset: u64,
    /// Whether it can be written to.
    pub writable: bool,
    /// Whether it is code.
    pub executable: bool,
}

/// The contents of [`ChunkKind::Unmapped`](crate::wire::ChunkKind::Unmapped).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unmapped {
    /// Where the module started.
    pub start: u64,
}
