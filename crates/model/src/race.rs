//! Races: collisions that share a fingerprint, told in names.
//!
//! These types are the `races` of a report's document, which `docs/json.md`
//! describes key by key. Where some keys are made from others, or a value is
//! there both as data and in words, the object is written by hand; what is read
//! is the data alone.

use crate::notation::{self, object};
use crate::{
    AccessKind, AccessValue, Block, Class, Context, ContextKind, Evidence, Fingerprint, History,
    Pair, Rule, Svma, Triage, Typed, Usage, Verdict,
};
use serde::{Deserialize, Serialize, Serializer};
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
    #[serde(with = "notation::address")]
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

/// `thread 4711 (worker)`, or in a kernel `task 4711 (worker) on CPU 0`.
impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, kind: &str| match self.name.as_str() {
            "" => write!(f, "{kind} {}", self.tid),
            name => write!(f, "{kind} {} ({name})", self.tid),
        };
        let Some(context) = self.context else {
            return named(f, "thread");
        };
        let off = if context.interrupts_off {
            ", interrupts off"
        } else {
            ""
        };
        let cpu = context.cpu;
        if context.kind == ContextKind::Task {
            named(f, "task")?;
            return write!(f, " on CPU {cpu}{off}");
        }
        // The interrupted task has nothing to do with it, but may be known.
        write!(f, "{} on CPU {cpu}{off}, over ", context.kind.name())?;
        named(f, "task")
    }
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
    #[serde(with = "notation::address")]
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
    /// The allocator's function that made it while it gave the block back. The function,
    /// file and line are then those of its caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_by: Option<String>,
    /// What this side calls the bytes, if it reaches them through a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointee: Option<Pointee>,
    /// What it read or wrote, as far as that is known for certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<AccessValue>,
    /// Who created the thread, and where, if that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Creation>,
    /// The whole stack, innermost first.
    pub stack: Vec<Frame>,
}

/// The creation of a thread, or the allocation of a block.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Creation {
    /// The thread that did it.
    pub thread: ThreadName,
    /// That thread's stack then, innermost first.
    pub stack: Vec<Frame>,
}

/// Where in the target the bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
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
        /// The thread.
        thread: ThreadName,
    },
    /// One CPU's copy of a per-CPU variable of a kernel.
    PerCpu {
        /// The kernel's file name.
        module: String,
        /// The CPU.
        cpu: u32,
        /// Where the variable is in the file.
        #[serde(rename = "address", with = "notation::address")]
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
    #[default]
    Unknown,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { module } => write!(f, "global of {module}"),
            Self::Heap => f.write_str("heap"),
            Self::Stack { thread } => write!(f, "stack of {thread}"),
            Self::PerCpu { cpu, .. } => write!(f, "per-CPU data of CPU {cpu}"),
            Self::Mapping { name, shared } => {
                let sharing = if *shared { ", shared" } else { "" };
                match name.as_str() {
                    "anonymous" => write!(f, "anonymous mapping{sharing}"),
                    name => write!(f, "mapping {name}{sharing}"),
                }
            }
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Who may have changed bytes that nobody was caught changing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Suspect {
    /// A system call of another thread, under way, that writes these bytes.
    SystemCall {
        /// The thread.
        thread: ThreadName,
        /// The call.
        call: String,
    },
    /// Another process that maps these bytes.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SystemCall { thread, call } => {
                write!(f, "{thread} is in {call}(2), which writes these bytes")
            }
            Self::Process { pid, name } => write!(f, "process {pid} ({name}) maps them too"),
        }
    }
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

/// What is behind a pointer: an object that has no name of its own, and a part of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pointee {
    /// How the source writes it, or would write it: `it->it_flags`. Missing if only the type
    /// is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The type of the object.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The path from the object to the part: `.it_flags`, `[3].next`.
    pub path: String,
    /// The member that is touched with the type that has it, `struct item.it_flags`, which is
    /// the same whichever pointer leads there; of bit-fields that share their bytes, the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The type of the part.
    pub part_type: String,
    /// How it is known.
    pub from: PointeeSource,
    /// Whether it may be something else.
    pub doubtful: bool,
    /// Whether the bytes are those of another variable: an index leads out of the array.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

/// How it is known what is behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointeeSource {
    /// The debug information says that a variable is in the register.
    Variable,
    /// The instructions were followed from the start of the function.
    Followed,
}

impl Pointee {
    /// The type and the path, `struct item.it_flags`; of a plain number the expression.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.path.starts_with('.'), &self.expression) {
            (true, _) => format!("{}{}", self.type_name, self.path),
            (false, Some(expression)) => expression.clone(),
            (false, None) => format!("{}{}", self.type_name, self.path),
        }
    }
}

impl What {
    /// The path from the variable to the accessed part, with all members.
    #[must_use]
    pub fn whole_field(&self) -> Option<&str> {
        self.field_in_full.as_deref().or(self.field.as_deref())
    }

    /// The member behind a pointer, if there is no doubt about it.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        let pointee = self.certain_pointee()?;
        pointee.member.as_deref()
    }

    /// What is behind a pointer, if it has no other name and there is no doubt about it.
    #[must_use]
    pub fn certain_pointee(&self) -> Option<&Pointee> {
        let pointee = self.pointee.as_ref();
        pointee.filter(|pointee| self.name.is_none() && !self.sides_differ && !pointee.doubtful)
    }
}

/// What is raced on.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct What {
    /// The variable, if it has a name.
    pub name: Option<String>,
    /// The type of the accessed part.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The path from the variable to the accessed part: `.flags`, `[3].next`.
    pub field: Option<String>,
    /// The same with the members of library types that nobody writes, if there are any.
    #[serde(default)]
    pub field_in_full: Option<String>,
    /// Bit-fields among the accessed bytes.
    pub bit_fields: Vec<BitField>,
    /// The live address.
    #[serde(with = "notation::address")]
    pub address: u64,
    /// The size of the sampled access.
    pub size: u64,
    /// Where it lies.
    #[serde(rename = "memory", default)]
    pub region: Region,
    /// What it is called by those who reach it through a pointer, if it has no name of its
    /// own.
    #[serde(default)]
    pub pointee: Option<Pointee>,
    /// Whether the two sides take the bytes for different things.
    #[serde(default)]
    pub sides_differ: bool,
    /// The allocated block that it lies in, if that is certain.
    #[serde(default)]
    pub block: Option<Block>,
    /// Who allocated the block, and where, if that was seen.
    #[serde(default)]
    pub allocated: Option<Creation>,
    /// The function in whose frame on the stack it lies, if that is certain.
    #[serde(default)]
    pub frame: Option<String>,
}

impl Serialize for What {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        object!(out, {
            "name": self.name,
            "type": self.type_name,
            "field": self.field,
            some "field_in_full": self.field_in_full,
            "bit_fields": self.bit_fields,
            "address": format_args!("{:#x}", self.address),
            "size": self.size,
            "memory": self.region,
            "region": format_args!("{}", self.region),
            some "pointee": self.pointee,
            some "sides_differ": self.sides_differ.then_some(true),
            some "block": self.block,
            some "allocated": self.allocated,
            some "frame": self.frame,
        })
    }
}

/// How a collision was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeenBy {
    /// A debug register fired in the other thread.
    Watch,
    /// The bytes changed while the thread stood.
    Value,
    /// Nobody stood: an analysis found it in the recording of an execution.
    Analysis,
}

/// What an analysis of a recording says of a race.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Analysed {
    /// What is known about the order of the two accesses.
    pub standing: RaceStanding,
    /// The analyses that found it.
    #[serde(rename = "found_by")]
    pub by: Vec<Analysis>,
}

/// How sure it is that a race is one, from the surest on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RaceStanding {
    /// Both threads were stopped at their accesses in a live execution.
    Caught,
    /// Nothing in the recorded execution ordered them.
    Unordered,
    /// Something is missing for that.
    Suspect,
}

impl RaceStanding {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Unordered => "unordered",
            Self::Suspect => "suspect",
        }
    }
}

/// An analysis of a recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Analysis {
    /// By the order that synchronisation makes.
    HappensBefore,
    /// By the overlap of what ran between sequencers.
    Sequencers,
    /// By the locks that were held.
    Lockset,
}

impl Analysis {
    /// As documents write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HappensBefore => "happens-before",
            Self::Sequencers => "sequencers",
            Self::Lockset => "lockset",
        }
    }
}

impl Analysed {
    /// Takes in what another analysis, or the same of another instance, says.
    pub fn join(&mut self, other: &Self) {
        self.standing = self.standing.min(other.standing);
        self.by.extend(&other.by);
        self.by.sort_unstable();
        self.by.dedup();
    }
}

/// The bytes around a collision.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Values {
    /// Before the other access: when the window opened, or as its instruction tells.
    #[serde(deserialize_with = "notation::bytes")]
    pub before: Vec<u8>,
    /// After the other access.
    #[serde(deserialize_with = "notation::bytes")]
    pub after: Vec<u8>,
    /// What they mean in the type of what is raced on, if that is known: of the bytes that
    /// both sides touch.
    #[serde(default)]
    pub typed: Option<Typed>,
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        object!(out, {
            "before": notation::hexadecimal(&self.before),
            "after": notation::hexadecimal(&self.after),
            "changed": notation::hexadecimal(&self.changed()),
            some "typed": self.typed,
        })
    }
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
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Race {
    /// What makes it this race.
    pub fingerprint: Fingerprint,
    /// What it is, before any triage.
    pub class: Class,
    /// The rule that says so.
    #[serde(default)]
    pub rule: Option<Rule>,
    /// What is known about it, from which the rule says so.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// What is raced on.
    pub what: What,
    /// How it was seen.
    pub seen_by: SeenBy,
    /// What analyses of a recording say of it, if there was one.
    #[serde(flatten)]
    pub analysed: Option<Analysed>,
    /// The bytes before and after.
    pub values: Values,
    /// How many collisions.
    pub instances: u64,
    /// The distinct pairs of lines that were seen, each in order, since a pair
    /// of functions may race at several.
    pub lines: Vec<Vec<Line>>,
    /// Of unknown origin: who may have done it, as far as could be seen.
    #[serde(rename = "suspected", default)]
    pub suspects: Vec<Suspect>,
    /// Why the variable is accessed like this on purpose, if its class says so.
    #[serde(default)]
    pub special: Option<String>,
    /// What the code around each access does with the value, in the order of the accesses.
    #[serde(default)]
    pub usage: Vec<Usage>,
    /// The values over all instances.
    #[serde(default)]
    pub history: Option<History>,
    /// Other pairs of accesses of these functions, at other instructions or with other callers.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// Whether it matters, once it was judged.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// What was known and decided about it before, where anything is remembered.
    #[serde(default)]
    pub triage: Option<Triage>,
    /// The sampled access first, then the one that was caught, if known.
    pub accesses: Vec<AccessReport>,
}

impl Race {
    /// The short name, made from the fingerprint.
    #[must_use]
    pub fn id(&self) -> String {
        self.fingerprint.id()
    }

    /// The problem that it is a part of: one bug may race in several places.
    #[must_use]
    pub fn problem(&self) -> Fingerprint {
        self.fingerprint.problem(self.what.name.as_deref())
    }

    /// Whether an allocator gave the block back while the other access stood, or it was unmapped.
    #[must_use]
    pub fn is_freed(&self) -> bool {
        self.rule == Some(Rule::FreedWhileItStood)
    }

    /// Whether the bytes were unmapped while the access stood, which nobody is caught at.
    #[must_use]
    pub fn is_unmapped(&self) -> bool {
        self.is_freed() && self.unknown_origin()
    }

    /// Whether an analysis suspects it, and no more than that is known.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        let standing = self.analysed.as_ref().map(|analysed| analysed.standing);
        standing == Some(RaceStanding::Suspect)
    }

    /// Whether only the locks that were held speak against it.
    #[must_use]
    pub fn is_by_locks_alone(&self) -> bool {
        let by = self
            .analysed
            .as_ref()
            .map(|analysed| analysed.by.as_slice());
        self.is_suspect() && by == Some(&[Analysis::Lockset])
    }

    /// Whether the other side is unknown.
    #[must_use]
    pub fn unknown_origin(&self) -> bool {
        self.accesses.len() < 2
    }
}

impl Serialize for Race {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let words: Vec<String> = self.suspects.iter().map(Suspect::to_string).collect();
        object!(out, {
            "id": self.id(),
            "hash": self.fingerprint.hash(),
            "fingerprint": self.fingerprint,
            "class": self.class,
            some "rule": self.rule,
            "what": self.what,
            "seen_by": self.seen_by,
            some "standing": self.analysed.as_ref().map(|analysed| analysed.standing),
            some "found_by": self.analysed.as_ref().map(|analysed| &analysed.by),
            "values": self.values,
            "instances": self.instances,
            "lines": self.lines,
            "suspects": words,
            "suspected": self.suspects,
            some "special": self.special,
            some "verdict": self.verdict,
            some "triage": self.triage,
            "problem": self.problem().id(),
            some "usage": (!self.usage.is_empty()).then_some(&self.usage),
            some "history": self.history,
            some "pairs": (!self.pairs.is_empty()).then_some(&self.pairs),
            some "evidence": self.evidence,
            "accesses": self.accesses,
        })
    }
}
