//! Races: collisions that share a fingerprint, told in names.

use crate::{AccessKind, Class, Context, Svma};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One frame of a stack, innermost first. Inlined functions have frames of
/// their own, with the address of the function they were inlined into.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Frame {
    /// The function's demangled name, if it has one.
    pub function: Option<String>,
    /// Its source file, as the debug information names it.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// The file name of the module it is in.
    pub module: Option<String>,
    /// The address in the module's file, or the live one outside any module.
    pub address: u64,
    /// Whether this function was inlined into the next frame's.
    pub inlined: bool,
}

/// A thread as people know it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadName {
    /// Its number in the system.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// What its CPU was doing, in a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

/// One side of a race.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccessReport {
    /// Who made it.
    pub thread: ThreadName,
    /// What it did.
    pub kind: AccessKind,
    /// To how many bytes.
    pub size: u64,
    /// The instruction's address in the target.
    pub pc: u64,
    /// The instruction as text, where it is known.
    pub instruction: Option<String>,
    /// Whether the instruction is locked or marked atomic in the source.
    pub atomic: bool,
    /// The innermost function.
    pub function: Option<String>,
    /// Its file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The system call that made the access on the thread's behalf.
    pub system_call: Option<String>,
    /// The whole stack, innermost first.
    pub stack: Vec<Frame>,
}

/// Where in the target the bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Region {
    /// A variable of a module.
    Global {
        /// The module's file name.
        module: String,
    },
    /// The heap.
    Heap,
    /// A thread's stack.
    Stack {
        /// Whose.
        thread: ThreadName,
    },
    /// A CPU's own copy of a variable of a kernel.
    PerCpu {
        /// The kernel's file name.
        module: String,
        /// Whose.
        cpu: u32,
        /// Where the variable is in the file.
        svma: Svma,
    },
    /// Another mapping.
    Mapping {
        /// Its name, or "anonymous".
        name: String,
        /// Whether other processes may share it.
        shared: bool,
    },
    /// It could not be told.
    Unknown,
}

/// A bit-field that lies in the accessed bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BitField {
    /// Its name.
    pub name: String,
    /// Its first bit, counted from the lowest bit of the first accessed byte.
    pub first_bit: u32,
    /// How many bits it has.
    pub bits: u32,
}

/// What is raced on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct What {
    /// The variable, if it has a name.
    pub name: Option<String>,
    /// The type of the accessed part.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The path from the variable to the accessed part: `.flags`, `[3].next`.
    pub field: Option<String>,
    /// Bit-fields among the accessed bytes.
    pub bit_fields: Vec<BitField>,
    /// The live address.
    pub address: u64,
    /// The size of the sampled access.
    pub size: u64,
    /// Where it lies.
    pub region: Region,
}

/// How a collision was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeenBy {
    /// A debug register fired in the other thread.
    Watch,
    /// The bytes changed while the thread stood.
    Value,
}

/// The bytes around a collision.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Values {
    /// When the window opened.
    pub before: Vec<u8>,
    /// After the other access.
    pub after: Vec<u8>,
}

impl Values {
    /// The bits that differ, byte by byte.
    #[must_use]
    pub fn changed(&self) -> Vec<u8> {
        self.before
            .iter()
            .zip(&self.after)
            .map(|(before, after)| before ^ after)
            .collect()
    }
}

/// What makes two collisions the same race: the unordered pair of code places
/// plus what they touch. It has no addresses and no lines, so it survives a
/// rebuild and an edit elsewhere in the file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// The fingerprint of accesses at `places` to `what`. A place is a function
    /// with the kind of its access; `what` a variable and field, or a region.
    #[must_use]
    pub fn new(mut places: Vec<String>, what: &str) -> Self {
        places.sort();
        Self(format!("{} @ {what}", places.join(" | ")))
    }

    /// A short stable name made from it (FNV-1a, so that no dependency or
    /// toolchain can change it).
    #[must_use]
    pub fn id(&self) -> String {
        let hash = self.0.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where in the source one side of a race was seen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The function.
    pub function: Option<String>,
    /// Its file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// What the access did.
    pub kind: AccessKind,
}

impl From<&AccessReport> for Line {
    fn from(access: &AccessReport) -> Self {
        Self {
            function: access.function.clone(),
            file: access.file.clone(),
            line: access.line,
            kind: access.kind,
        }
    }
}

/// All collisions of one fingerprint. The sides and values are those of the
/// first instance that is told best.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Race {
    /// Short name, made from the fingerprint.
    pub id: String,
    /// What makes it this race.
    pub fingerprint: Fingerprint,
    /// What it is, before any triage.
    pub class: Class,
    /// What is raced on.
    pub what: What,
    /// How it was seen.
    pub seen_by: SeenBy,
    /// The bytes before and after.
    pub values: Values,
    /// How many collisions.
    pub instances: u64,
    /// The sampled access first, then the one that was caught, if known.
    pub accesses: Vec<AccessReport>,
    /// The distinct pairs of lines that were seen, each in order, since a pair
    /// of functions may race at several.
    pub lines: Vec<Vec<Line>>,
    /// Of unknown origin: who may have done it, as far as could be seen.
    pub suspects: Vec<String>,
    /// Why what is raced on is meant to be, if its class says so.
    pub special: Option<String>,
}

impl Race {
    /// Whether the other side is unknown.
    #[must_use]
    pub fn unknown_origin(&self) -> bool {
        self.accesses.len() < 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_is_unordered() {
        let a = Fingerprint::new(vec!["f read".into(), "g write".into()], "x");
        let b = Fingerprint::new(vec!["g write".into(), "f read".into()], "x");
        assert_eq!(a, b);
        assert_eq!(a.id(), b.id());
        let c = Fingerprint::new(vec!["g write".into(), "f read".into()], "y");
        assert_ne!(a.id(), c.id());
    }
}
