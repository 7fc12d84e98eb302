//! What is a race and what is not. These rules turn evidence into a class, and nothing else
//! does: who collects evidence does not judge it.
//!
//! *Race* is said only where something shows that a side is a plain access to these bytes.
//! Finding no sign of an atomic access shows nothing, because an atomic load or store can be
//! a plain move in the binary. `docs/evidence.md` says of each rule what it can get wrong.

use crate::{
    AccessKind, Declared, Doubt, Evidence, Excluded, Fact, Form, Known, Marking, SideEvidence,
};
use serde::{Deserialize, Serialize};

/// The class of a collision before any triage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A data race.
    Race,
    /// A collision of accesses that may be atomic in the source, which the binary cannot
    /// show. Ranked last, fails no run by default.
    PossiblyAtomic,
    /// A race on a variable that is accessed like this on purpose, with the reason.
    /// Fails no run.
    Special,
    /// No race: the bytes that meet are not those that the source accesses.
    WiderThanSource,
    /// No race: both sides synchronise.
    Synchronised,
}

impl Class {
    /// Whether a report lists it among the races. The others are set aside and counted.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        matches!(self, Self::Race | Self::PossiblyAtomic | Self::Special)
    }
}

/// The rule that gave a collision its class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// An allocator freed, moved or handed out the block that an access stood at, or the bytes
    /// were unmapped.
    FreedWhileItStood,
    /// What meets is outside the bytes that the source expression covers.
    WiderThanSource,
    /// The compiler may access here what the source does not.
    PerhapsNotInSource,
    /// Two updates, of which one is not locked: one of them can be lost.
    LostUpdate,
    /// Both accesses are atomic.
    BothAtomic,
    /// Both are volatile, or one is and the other is atomic.
    BothVolatile,
    /// Both are in sections of a sequence counter, or in restartable sequences.
    SequenceSections,
    /// One is in such a section, and whether the other is cannot be seen.
    PerhapsGuarded,
    /// The only side that is known synchronises.
    KnownSideSynchronises,
    /// No compiler makes an atomic access like this.
    NeverAtomic,
    /// The source shows a plain access.
    PlainInSource,
    /// The variable is accessed without synchronisation on purpose.
    Special,
    /// Nothing shows that a side is a plain access. Earlier versions took an update that GCC
    /// made for one.
    #[serde(alias = "plain-by-compiler")]
    NotShownPlain,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 13] = [
        Self::FreedWhileItStood,
        Self::WiderThanSource,
        Self::PerhapsNotInSource,
        Self::LostUpdate,
        Self::BothAtomic,
        Self::BothVolatile,
        Self::SequenceSections,
        Self::PerhapsGuarded,
        Self::KnownSideSynchronises,
        Self::NeverAtomic,
        Self::PlainInSource,
        Self::Special,
        Self::NotShownPlain,
    ];

    /// The name, as documents and `docs/evidence.md` write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreedWhileItStood => "freed-while-it-stood",
            Self::WiderThanSource => "wider-than-source",
            Self::PerhapsNotInSource => "perhaps-not-in-source",
            Self::LostUpdate => "lost-update",
            Self::BothAtomic => "both-atomic",
            Self::BothVolatile => "both-volatile",
            Self::SequenceSections => "sequence-sections",
            Self::PerhapsGuarded => "perhaps-guarded",
            Self::KnownSideSynchronises => "known-side-synchronises",
            Self::NeverAtomic => "never-atomic",
            Self::PlainInSource => "plain-in-source",
            Self::Special => "special",
            Self::NotShownPlain => "not-shown-plain",
        }
    }

    /// The reason in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FreedWhileItStood => {
                "an allocator freed, moved or handed out the block, or it was unmapped, while an access \
                 stood at it"
            }
            Self::WiderThanSource => {
                "the compiler accesses more bytes than the source, and only those meet"
            }
            Self::PerhapsNotInSource => {
                "the compiler may access here what the source does not access"
            }
            Self::LostUpdate => "both update the bytes and one is not locked, so one can be lost",
            Self::BothAtomic => "both accesses are atomic",
            Self::BothVolatile => "both accesses are volatile, or one is and the other is atomic",
            Self::SequenceSections => {
                "both accesses are in sections of a sequence counter, or in restartable sequences"
            }
            Self::PerhapsGuarded => {
                "the other side, too, may be in a section of a sequence counter"
            }
            Self::KnownSideSynchronises => "the only side that is known synchronises",
            Self::NeverAtomic => "no compiler makes an atomic access like one of these",
            Self::PlainInSource => "the source shows a plain access",
            Self::Special => "the variable is accessed without synchronisation on purpose",
            Self::NotShownPlain => "nothing shows that a side is a plain access",
        }
    }
}

/// System calls by which the kernel accesses the words that programs synchronise with, and
/// nothing else. It does so atomically.
const ATOMIC_CALLS: [&str; 6] = [
    "futex",
    "futex_wait",
    "futex_wake",
    "futex_waitv",
    "futex_requeue",
    "exit",
];

/// The largest element of a gather, in bytes.
const LARGEST_ELEMENT: u64 = 8;

/// What an access is, as far as the evidence tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    /// A locked instruction.
    Locked,
    /// Atomic by its source.
    Atomic,
    /// Volatile by its source.
    Volatile,
    /// Plain, in a section of a sequence counter or in a restartable sequence: who is overtaken
    /// notices it and retries.
    Guarded,
    /// Plain, as this rule says.
    Plain(Rule),
    /// Not known.
    Unknown,
}

/// What one access is, for an analysis that asks before anything collided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Certainly no atomic access.
    Plain,
    /// Certainly atomic, or volatile.
    Atomic,
    /// It may be either.
    Doubtful,
}

impl Nature {
    const fn is_atomic(self) -> bool {
        matches!(self, Self::Locked | Self::Atomic)
    }

    /// Whether a write that comes between the load and the store of such an update is lost
    /// and nobody wanted that.
    const fn loses_updates(self) -> bool {
        matches!(self, Self::Plain(_) | Self::Volatile | Self::Unknown)
    }
}

impl SideEvidence {
    /// Whether the compiler may access here more than the source does. Loops that were vectorised
    /// read over gaps, and elements that a mask then drops: a vector that is read shows nothing
    /// if its source is not known. Nor does what a nameless function reads that looks like a string
    /// function. The elements of a gather, which are smaller, are read one by
    /// one, and none that its mask drops.
    fn may_exceed_source(&self) -> bool {
        let marking = self.source().map(|source| &source.marking);
        let by_others = |fact: &Fact| {
            matches!(fact, Fact::MemoryFunction { .. } | Fact::SystemCall { .. }).then_some(())
        };
        match marking {
            Some(Marking::Unknown {
                why: Doubt::Wider | Doubt::Conditional | Doubt::Speculative,
            }) => true,
            // LLVM takes the line from a load that it moves ahead of its condition. One whose result
            // is stored back is in the source if its store is.
            Some(Marking::Unknown { why: Doubt::NoLine }) => {
                self.kind == AccessKind::Read && !self.has(&Fact::HalfOfUpdate)
            }
            Some(Marking::Unknown { .. }) | None if self.has(&Fact::MaySearch) => true,
            Some(Marking::Unknown { .. }) | None => {
                self.kind == AccessKind::Read
                    && matches!(self.form(), Form::Vector | Form::Wide)
                    && self.extent.size > LARGEST_ELEMENT
                    && self.find(by_others).is_none()
            }
            Some(_) => false,
        }
    }

    /// Whether the program has debug information, and its source may as well show an atomic
    /// load and an atomic store: whatever the reason is why it does not tell. Only a function that
    /// seems to be elsewhere is as good as none: mostly that is a text which is not understood, and
    /// lambdas and templates would hide their lost updates.
    fn may_be_marked(&self) -> bool {
        self.source().is_some_and(|source| match &source.marking {
            Marking::Atomic { .. } | Marking::Volatile { .. } | Marking::Plain => false,
            Marking::Unknown { why } => !matches!(
                why,
                Doubt::NoDebugInformation | Doubt::Displaced | Doubt::Go
            ),
        })
    }

    /// Whether it updates the bytes, or is the load or the store of an update. A locked update
    /// that changes nothing is no more than a load: nothing of it can be lost, and it loses
    /// nothing.
    fn updates(&self) -> bool {
        let nothing = |fact: &Fact| matches!(fact, Fact::ChangesNothing { .. }).then_some(());
        self.is_update() && self.find(nothing).is_none()
    }

    /// Whether the access is certainly atomic or certainly plain, by the same rules as those that
    /// classify a collision.
    #[must_use]
    pub fn sort(&self, bytes: &[Known]) -> Sort {
        if self.may_exceed_source() && !self.has(&Fact::InSource { reached: true }) {
            return Sort::Doubtful;
        }
        match nature(self, bytes) {
            Nature::Locked | Nature::Atomic | Nature::Volatile => Sort::Atomic,
            Nature::Plain(_) => Sort::Plain,
            Nature::Guarded | Nature::Unknown => Sort::Doubtful,
        }
    }

    /// Whether the access itself is atomic: reports say so.
    #[must_use]
    pub fn is_atomic(&self, bytes: &[Known]) -> bool {
        matches!(
            nature(self, bytes),
            Nature::Locked | Nature::Atomic | Nature::Volatile
        )
    }
}

fn nature(side: &SideEvidence, bytes: &[Known]) -> Nature {
    if side.has(&Fact::Locked) {
        return Nature::Locked;
    }
    let synchronises = |fact: &Fact| match fact {
        Fact::SystemCall { name } => ATOMIC_CALLS.contains(&name.as_str()).then_some(()),
        _ => None,
    };
    if side.find(synchronises).is_some() {
        return Nature::Atomic;
    }
    let by_others = |fact: &Fact| {
        matches!(fact, Fact::MemoryFunction { .. } | Fact::SystemCall { .. }).then_some(())
    };
    if side.may_exceed_source() && side.has(&Fact::InSource { reached: true }) {
        return Nature::Plain(Rule::PlainInSource);
    }
    let vector = side.has(&Fact::AtomicVector);
    let never = match side.form() {
        Form::Wide | Form::Repeated => true,
        Form::Vector => !vector,
        Form::Move | Form::Operation | Form::Unknown => false,
    };
    if never || side.find(by_others).is_some() {
        return Nature::Plain(Rule::NeverAtomic);
    }
    let source = side.source();
    match source.map(|source| &source.marking) {
        Some(Marking::Atomic { .. }) => return Nature::Atomic,
        Some(Marking::Volatile { .. }) => return Nature::Volatile,
        _ if side.has(&Fact::SequenceSection) || side.has(&Fact::RestartableSequence) => {
            return Nature::Guarded;
        }
        Some(Marking::Plain) => {
            return match declared(bytes) {
                Some(Declared::Guard) => Nature::Atomic,
                // An atomic variable, accessed by another type: C11 calls that a race. If that
                // type is not known, the two contradict each other.
                Some(_) if source.is_some_and(|source| source.declared.is_none()) => {
                    Nature::Unknown
                }
                _ => Nature::Plain(Rule::PlainInSource),
            };
        }
        Some(Marking::Unknown { .. }) | None => {}
    }
    match declared(bytes) {
        Some(Declared::Atomic | Declared::Guard) => return Nature::Atomic,
        Some(Declared::Volatile) => return Nature::Volatile,
        None => {}
    }
    if side.has(&Fact::Natural { natural: false }) && !vector {
        return Nature::Plain(Rule::NeverAtomic);
    }
    Nature::Unknown
}

/// How the variable at the bytes is declared.
fn declared(bytes: &[Known]) -> Option<Declared> {
    bytes.iter().find_map(|known| match &known.fact {
        Fact::Declared { as_what, .. } => Some(*as_what),
        _ => None,
    })
}

/// The class of a collision, and the rule that gives it.
///
/// With one side only, because the bytes changed and nobody was caught, that side alone
/// decides. Without any nothing is claimed.
#[must_use]
pub fn classify(evidence: &Evidence) -> (Class, Rule) {
    let (class, rule) = match evidence.sides.as_slice() {
        [] => (Class::PossiblyAtomic, Rule::NotShownPlain),
        _ if is_wider(evidence) => (Class::WiderThanSource, Rule::WiderThanSource),
        [known] => one_side(known, &evidence.bytes),
        [sampled, other, ..] => two_sides(sampled, other, &evidence.bytes),
    };
    let in_doubt = |side: &SideEvidence| {
        side.may_exceed_source() && !side.has(&Fact::InSource { reached: true })
    };
    if class == Class::Race
        && rule != Rule::FreedWhileItStood
        && evidence.sides.iter().any(in_doubt)
    {
        return (Class::PossiblyAtomic, Rule::PerhapsNotInSource);
    }
    let on_purpose = |known: &Known| matches!(known.fact, Fact::Special { .. });
    if class.is_listed() && rule != Rule::FreedWhileItStood && evidence.bytes.iter().any(on_purpose)
    {
        return (Class::Special, Rule::Special);
    }
    (class, rule)
}

fn one_side(known: &SideEvidence, bytes: &[Known]) -> (Class, Rule) {
    let unmapped = |known: &Known| known.fact == Fact::Unmapped;
    // A restartable sequence that was interrupted does not go on to its access.
    if bytes.iter().any(unmapped) && !known.has(&Fact::RestartableSequence) {
        return (Class::Race, Rule::FreedWhileItStood);
    }
    match nature(known, bytes) {
        Nature::Locked | Nature::Atomic | Nature::Volatile | Nature::Guarded => {
            (Class::Synchronised, Rule::KnownSideSynchronises)
        }
        Nature::Plain(rule) => (Class::Race, rule),
        Nature::Unknown => (Class::PossiblyAtomic, Rule::NotShownPlain),
    }
}

fn two_sides(sampled: &SideEvidence, other: &SideEvidence, bytes: &[Known]) -> (Class, Rule) {
    if is_freed(sampled, other) || is_freed(other, sampled) {
        return (Class::Race, Rule::FreedWhileItStood);
    }
    let (a, b) = (nature(sampled, bytes), nature(other, bytes));
    let updates = sampled.updates() && other.updates();
    // An update by an atomic load and an atomic store loses counts as well, but on purpose.
    let hidden = |side: &SideEvidence, nature| nature == Nature::Unknown && side.may_be_marked();
    let hidden = hidden(sampled, a) || hidden(other, b);
    let loses = |one: Nature, two: Nature| {
        one.loses_updates() && (two.loses_updates() || two == Nature::Locked)
    };
    let (class, rule) = match (a, b) {
        _ if updates && !hidden && (loses(a, b) || loses(b, a)) => (Class::Race, Rule::LostUpdate),
        (a, b) if a.is_atomic() && b.is_atomic() => (Class::Synchronised, Rule::BothAtomic),
        (Nature::Guarded, b) if b == Nature::Guarded || b.is_atomic() || b == Nature::Volatile => {
            (Class::Synchronised, Rule::SequenceSections)
        }
        (a, Nature::Guarded) if a.is_atomic() || a == Nature::Volatile => {
            (Class::Synchronised, Rule::SequenceSections)
        }
        (Nature::Volatile, b) if b.is_atomic() || b == Nature::Volatile => {
            (Class::Synchronised, Rule::BothVolatile)
        }
        (a, Nature::Volatile) if a.is_atomic() => (Class::Synchronised, Rule::BothVolatile),
        (Nature::Plain(rule), _) | (_, Nature::Plain(rule)) => (Class::Race, rule),
        _ => (Class::PossiblyAtomic, Rule::NotShownPlain),
    };
    if class == Class::Race && may_be_guarded((sampled, a), (other, b)) {
        return (Class::PossiblyAtomic, Rule::PerhapsGuarded);
    }
    (class, rule)
}

/// Whether one side is an allocator that gives the block back, or hands it out again, which the
/// other, no allocator, accesses. An allocator writes into a block only when nobody has it.
fn is_freed(allocator: &SideEvidence, other: &SideEvidence) -> bool {
    let takes = |fact: &Fact| match fact {
        Fact::Allocator {
            frees, hands_out, ..
        } => (*frees || *hands_out).then_some(()),
        _ => None,
    };
    let allocates = |fact: &Fact| matches!(fact, Fact::Allocator { .. }).then_some(());
    // A string function may read past its data, into the next block; and so may one without a
    // name, which only looks like one.
    let strays =
        |fact: &Fact| matches!(fact, Fact::MemoryFunction { .. } | Fact::MaySearch).then_some(());
    allocator.find(takes).is_some()
        && other.find(allocates).is_none()
        && other.find(strays).is_none()
}

/// Whether the bytes that meet are outside of what the source covers, on one side or between
/// the two.
fn is_wider(evidence: &Evidence) -> bool {
    let covered: Vec<_> = evidence.sides.iter().map(SideEvidence::covered).collect();
    let apart = |covered: &Option<_>| match (covered, evidence.conflict) {
        (Some(covered), Some(conflict)) => !conflict.overlaps(*covered),
        _ => false,
    };
    let disjoint = match covered.as_slice() {
        [Some(a), Some(b)] => !a.overlaps(*b),
        _ => false,
    };
    let unreached = |side: &SideEvidence| side.has(&Fact::InSource { reached: false });
    disjoint || covered.iter().any(apart) || evidence.sides.iter().any(unreached)
}

/// Whether a sequence counter may guard what looks like a race: the section may be in a
/// caller that is not known, or its functions do not show.
fn may_be_guarded((one, a): (&SideEvidence, Nature), (two, b): (&SideEvidence, Nature)) -> bool {
    let hidden = |side: &SideEvidence| side.has(&Fact::KernelWithoutDebugInformation);
    let reads = one.kind == AccessKind::Read || two.kind == AccessKind::Read;
    (a == Nature::Guarded && two.has(&Fact::CallersUnknown))
        || (b == Nature::Guarded && one.has(&Fact::CallersUnknown))
        || (reads && (hidden(one) || hidden(two)))
}

/// Why an access is not worth sampling because of its source, if it is not. An update that is
/// only volatile is: it can be lost. So is an atomic access to bytes that a call of `memset` or
/// the like may be about: that call is plain, and code of the C library is not sampled.
#[must_use]
pub const fn excluded(marking: &Marking, is_update: bool, may_be_copied: bool) -> Option<Excluded> {
    match marking {
        Marking::Atomic { .. } if !may_be_copied => Some(Excluded::Atomic),
        Marking::Volatile { .. } if !is_update => Some(Excluded::Volatile),
        Marking::Atomic { .. }
        | Marking::Volatile { .. }
        | Marking::Plain
        | Marking::Unknown { .. } => None,
    }
}

#[cfg(test)]
mod tests;
