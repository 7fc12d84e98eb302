//! What is known about a collision, as plain data: each fact with where it comes from. The
//! rules that turn facts into a class are in `class.rs`; nothing else decides.

use crate::notation;
use crate::{AccessKind, Bytes};
use serde::{Deserialize, Serialize};

/// What the source says about one access of one instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceEvidence {
    /// Whether the access is atomic, volatile or plain in the source.
    pub marking: Marking,
    /// The expression that is accessed, as the source writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<Expression>,
    /// The declared type of that expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// Which of the accessed bytes the expression covers, counted from the first one.
    /// Compilers read and write wider than the source. Missing if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Covered>,
}

/// The part of an access that its source expression covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Covered {
    /// The first covered byte, counted from the start of the access.
    pub start: u32,
    /// How many bytes are covered.
    pub len: u32,
}

/// An expression of the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Expression {
    /// Its text.
    pub text: String,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// Whether an access is atomic, volatile or plain in the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Marking {
    /// Atomic, by this word, type, function or pragma.
    Atomic {
        /// What says so.
        word: String,
    },
    /// Volatile, by this type or cast.
    Volatile {
        /// What says so.
        word: String,
    },
    /// Plain: the expression was found, its type is known and is neither, and every
    /// name in it is known.
    Plain,
    /// Not known.
    Unknown {
        /// What is missing.
        why: Doubt,
    },
}

/// Why the source does not tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "doubt", content = "about")]
pub enum Doubt {
    /// There is no debug information for this address.
    NoDebugInformation,
    /// The debug information gives no line: merged code, or made by the compiler.
    NoLine,
    /// The source is not at hand.
    NoSource,
    /// The source is not the one that was compiled.
    SourceChanged,
    /// The function is not where the debug information has it: the source was edited on the
    /// way, or it is not understood.
    Displaced,
    /// This name is not known: perhaps a macro.
    UnknownName(String),
    /// The debug information is in another file, which is not read.
    Split,
    /// Inline assembly.
    InlineAssembly,
    /// Several expressions at this place could be meant, and they differ.
    Ambiguous,
    /// No expression at this place fits the instruction.
    NoExpression,
    /// The type of the expression is not known.
    UnknownType,
    /// The access is wider than the expression, and which of its bytes the expression means
    /// is not known.
    Wider,
    /// The access takes in what the source reads beside the expression on a condition only.
    Conditional,
    /// The instruction reads whether or not the source does, as a conditional move.
    Speculative,
    /// The instruction reads a floating-point number, and the compiler may have folded an atomic
    /// load of another statement into it.
    Folded,
    /// The text of this language is not read.
    Language,
    /// Go's compiler makes plain moves of atomic loads, which leave no trace. Its atomic stores
    /// are locked instructions.
    Go,
}

/// What is known about a collision.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// What is known about each access: the sampled one, then the one that was caught. Only
    /// one if nobody was caught.
    pub sides: Vec<SideEvidence>,
    /// The bytes that both accesses touch; if nobody was caught, those that changed.
    pub conflict: Option<Extent>,
    /// What is known about the bytes.
    pub bytes: Vec<Known>,
}

/// What is known about one access.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SideEvidence {
    /// What it does.
    pub kind: AccessKind,
    /// The bytes that it touches.
    pub extent: Extent,
    /// The facts.
    pub facts: Vec<Known>,
}

/// Some bytes of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Where they begin.
    #[serde(with = "notation::address")]
    pub address: u64,
    /// How many they are.
    pub size: u64,
}

impl Extent {
    /// Whether the two have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.address < other.address.saturating_add(other.size)
            && other.address < self.address.saturating_add(self.size)
    }
}

impl From<Bytes> for Extent {
    fn from(bytes: Bytes) -> Self {
        Self {
            address: bytes.start.0,
            size: bytes.len,
        }
    }
}

/// A fact, where it comes from, and how certain it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Known {
    /// The fact.
    #[serde(flatten)]
    pub fact: Fact,
    /// Where it comes from.
    pub from: Provenance,
    /// How certain it is.
    pub certainty: Certainty,
}

/// A fact about an access or about the accessed bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fact")]
pub enum Fact {
    /// The instruction is locked.
    Locked,
    /// How the instruction accesses memory.
    Form {
        /// In this way.
        form: Form,
    },
    /// It is aligned and of 1, 2, 4 or 8 bytes, or else it is not: only the former can be
    /// atomic as a plain move.
    Natural {
        /// Whether it is.
        natural: bool,
    },
    /// It is an aligned vector move of 16 bytes, which this processor makes atomic.
    AtomicVector,
    /// It is a locked update that leaves the bytes that meet as they are, such as a
    /// compare-exchange that fails; or it may be one.
    ChangesNothing {
        /// Whether that is known.
        known: bool,
    },
    /// It is the load or the store of a read-modify-write of one operand.
    HalfOfUpdate,
    /// What the source says.
    Source {
        /// That.
        source: SourceEvidence,
    },
    /// A function of the C library that copies, fills or compares memory makes it.
    MemoryFunction {
        /// The function.
        name: String,
    },
    /// A nameless function of the program makes it that looks like a search. A string function
    /// reads past its data, and would be none of the source's business.
    MaySearch,
    /// The kernel makes it during this system call.
    SystemCall {
        /// The call.
        name: String,
    },
    /// Whether the source, too, accesses the bytes that meet, where the compiler accesses more
    /// than it: the condition of a conditional move holds, or the member that the source names
    /// is the one that they belong to.
    InSource {
        /// Whether it does.
        reached: bool,
    },
    /// It, or a call that led to it, is in a section of a sequence counter.
    SequenceSection,
    /// It is in a restartable sequence of the program.
    RestartableSequence,
    /// Its callers are not known, so that they may be in a section of a sequence counter.
    CallersUnknown,
    /// It is in a kernel without debug information, where the functions of a sequence counter
    /// do not show.
    KernelWithoutDebugInformation,
    /// An allocator makes it.
    Allocator {
        /// The function of the allocator that was called.
        name: String,
        /// Whether that function gives memory back.
        frees: bool,
        /// Whether it accesses the block that it is about to hand out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hands_out: bool,
    },
    /// The variable or member is declared so.
    Declared {
        /// Its name.
        part: String,
        /// How.
        as_what: Declared,
    },
    /// They were unmapped while the access stood at them.
    Unmapped,
    /// The variable is accessed without synchronisation on purpose.
    Special {
        /// Why.
        reason: String,
    },
    /// What another version collected and this one does not know.
    #[serde(other)]
    Other,
}

/// How an instruction accesses memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// It moves a value between memory and a register, or an immediate to memory.
    Move,
    /// It computes with the value in memory: `cmp [m], 3`, `add rax, [m]`, `inc [m]`.
    Operation,
    /// It moves a vector of 16 bytes.
    Vector,
    /// It accesses more than 16 bytes, a number that is no power of two, or several places
    /// at once.
    Wide,
    /// It is a repeated string instruction.
    Repeated,
    /// Not known.
    #[default]
    Unknown,
}

/// What a locked update does to the bytes that meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It changes them. Every update that is not locked counts as one that does, because it
    /// writes them in any case.
    #[default]
    Made,
    /// It leaves them as they are.
    None,
    /// That is not known.
    Unknown,
}

/// How a variable or member is declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declared {
    /// Atomic.
    Atomic,
    /// Volatile.
    Volatile,
    /// A guard that the compiler made for a static of a C++ function.
    Guard,
}

/// Where a fact comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The instruction and the registers.
    Instruction,
    /// The instructions around it.
    #[serde(alias = "compiler")]
    Code,
    /// The debug information, and the source text where it is at hand.
    Source,
    /// The stack of the thread.
    Stack,
    /// The names of functions or variables.
    Names,
    /// What is mapped in the target.
    Mappings,
}

/// How certain a fact is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The state of the machine shows it.
    Certain,
    /// It follows by a heuristic. docs/evidence.md says what each can get wrong.
    Likely,
    /// It may be so, and nothing shows the contrary.
    Possible,
}

impl From<Fact> for Known {
    fn from(fact: Fact) -> Self {
        use Certainty::{Certain, Likely, Possible};
        use Provenance::{Code, Instruction, Mappings, Names, Source, Stack};
        let (from, certainty) = match &fact {
            Fact::Locked | Fact::Form { .. } | Fact::Natural { .. } | Fact::AtomicVector => {
                (Instruction, Certain)
            }
            Fact::SystemCall { .. }
            | Fact::InSource { .. }
            | Fact::ChangesNothing { known: true } => (Instruction, Likely),
            Fact::ChangesNothing { known: false } => (Instruction, Possible),
            Fact::HalfOfUpdate | Fact::RestartableSequence => (Code, Likely),
            Fact::MaySearch | Fact::Other => (Code, Possible),
            Fact::Unmapped => (Mappings, Certain),
            Fact::Source { source } => match source.marking {
                Marking::Unknown { .. } => (Source, Possible),
                _ => (Source, Likely),
            },
            Fact::Declared { .. } => (Source, Likely),
            Fact::MemoryFunction { .. } | Fact::Special { .. } => (Names, Likely),
            Fact::SequenceSection | Fact::Allocator { .. } => (Stack, Likely),
            Fact::CallersUnknown | Fact::KernelWithoutDebugInformation => (Stack, Possible),
        };
        Self {
            fact,
            from,
            certainty,
        }
    }
}

impl SideEvidence {
    /// Whether one of the facts is `fact`.
    #[must_use]
    pub fn has(&self, fact: &Fact) -> bool {
        self.facts.iter().any(|known| known.fact == *fact)
    }

    /// The first thing that `pick` finds among the facts.
    pub fn find<'a, T>(&'a self, pick: impl Fn(&'a Fact) -> Option<T>) -> Option<T> {
        self.facts.iter().find_map(|known| pick(&known.fact))
    }

    /// How the instruction accesses memory.
    #[must_use]
    pub fn form(&self) -> Form {
        let form = self.find(|fact| match fact {
            Fact::Form { form } => Some(*form),
            _ => None,
        });
        form.unwrap_or_default()
    }

    /// What the source says.
    #[must_use]
    pub fn source(&self) -> Option<&SourceEvidence> {
        self.find(|fact| match fact {
            Fact::Source { source } => Some(source),
            _ => None,
        })
    }

    /// Whether the access is an update, or the load or the store of one.
    #[must_use]
    pub fn is_update(&self) -> bool {
        self.kind == AccessKind::Update || self.has(&Fact::HalfOfUpdate)
    }

    /// The bytes that the source expression covers, if they are known.
    #[must_use]
    pub fn covered(&self) -> Option<Extent> {
        let covers = self.source()?.covers?;
        Some(Extent {
            address: self.extent.address.checked_add(covers.start.into())?,
            size: covers.len.into(),
        })
    }
}
