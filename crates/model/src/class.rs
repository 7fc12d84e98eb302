//! What is a race and what is not: two accesses that both synchronise are not one.
//!
//! A locked instruction shows by itself that it synchronises. A plain move that is an
//! atomic access in the source shows it only through debug information and source
//! text; without them a binary cannot show it at all. The rules here weigh that. They
//! are pure, and all in this one file, so that they can be audited.

use crate::AccessKind;
use serde::{Deserialize, Serialize};

/// What is known about whether an access synchronises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Synchronisation {
    /// It does: a locked instruction.
    Locked,
    /// It does: an atomic or volatile access in the source.
    Marked,
    /// It is plain, but in a section guarded by a sequence counter: a reader notices a
    /// writer and retries.
    Guarded,
    /// It does not: the source is known and shows a plain access, or no
    /// compiler uses such an instruction for an atomic access.
    Plain,
    /// The binary and the available source do not tell.
    Unknown,
}

impl Synchronisation {
    /// Whether the access is known to synchronise, by itself or by its section.
    #[must_use]
    pub const fn synchronises(self) -> bool {
        self.is_atomic() || matches!(self, Self::Guarded)
    }

    /// Whether the access itself is atomic.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Locked | Self::Marked)
    }

    /// Whether it synchronises although its instruction does not show it.
    const fn by_source(self) -> bool {
        matches!(self, Self::Marked | Self::Guarded)
    }
}

/// One side of a collision, as far as its class depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessEvidence {
    /// What the instruction does.
    pub kind: AccessKind,
    /// Whether the access is aligned and of 1, 2, 4 or 8 bytes: only such a plain move
    /// can be atomic.
    pub natural: bool,
    /// Whether it synchronises.
    pub synchronisation: Synchronisation,
    /// Whether the instruction is the load or the store of a read-modify-write of one
    /// operand.
    pub half_of_update: bool,
}

impl AccessEvidence {
    /// Whether it is a plain read-modify-write: what another thread writes in between is
    /// lost.
    const fn plain_update(&self) -> bool {
        !self.synchronisation.synchronises()
            && (matches!(self.kind, AccessKind::Update) || self.half_of_update)
    }

    /// Whether the access may be atomic, as far as is known.
    const fn maybe_atomic(&self) -> bool {
        match self.synchronisation {
            Synchronisation::Locked | Synchronisation::Marked | Synchronisation::Guarded => true,
            Synchronisation::Plain => false,
            Synchronisation::Unknown => self.natural && !matches!(self.kind, AccessKind::Update),
        }
    }
}

/// What else is known about the bytes of a collision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// The variable or field is declared atomic or volatile, or is a guard made by the
    /// compiler (C++ function statics).
    pub declared_synchronising: bool,
}

/// The class of a race before any triage.
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
}

/// The class of a collision, or `None` when it is not a race.
///
/// `other` is missing when the bytes changed and the access was not seen: then the
/// known side alone decides.
#[must_use]
pub fn classify(
    sampled: AccessEvidence,
    other: Option<AccessEvidence>,
    evidence: Evidence,
) -> Option<Class> {
    let Some(other) = other else {
        return match sampled.synchronisation {
            Synchronisation::Locked | Synchronisation::Marked | Synchronisation::Guarded => None,
            _ if evidence.declared_synchronising => None,
            // A write between its load and its store is lost, of whatever kind.
            _ if sampled.plain_update() => Some(Class::Race),
            Synchronisation::Plain => Some(Class::Race),
            Synchronisation::Unknown if sampled.maybe_atomic() => Some(Class::PossiblyAtomic),
            Synchronisation::Unknown => Some(Class::Race),
        };
    };
    if sampled.synchronisation.synchronises() && other.synchronisation.synchronises() {
        return None;
    }
    if evidence.declared_synchronising {
        // Every access through the declared type synchronises, whatever its instruction
        // looks like.
        return None;
    }
    // An update is lost when the other side writes, locked or not. This comes before
    // any doubt about atomicity: an atomic update would be locked.
    let lost_update = (sampled.kind == AccessKind::Update && sampled.plain_update())
        || (other.kind == AccessKind::Update && other.plain_update())
        || (sampled.plain_update() && other.kind.writes());
    if lost_update && !sampled.synchronisation.by_source() && !other.synchronisation.by_source() {
        return Some(Class::Race);
    }
    // Hand-made locks are released by a plain store, which meets a locked instruction.
    let release = |store: &AccessEvidence, lock: &AccessEvidence| {
        store.kind == AccessKind::Write
            && store.natural
            && lock.synchronisation == Synchronisation::Locked
    };
    if release(&sampled, &other) || release(&other, &sampled) {
        return Some(Class::PossiblyAtomic);
    }
    if sampled.maybe_atomic() && other.maybe_atomic() {
        return Some(Class::PossiblyAtomic);
    }
    Some(Class::Race)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Synchronisation::{Guarded, Locked, Marked, Plain, Unknown};

    fn side(kind: AccessKind, synchronisation: Synchronisation) -> AccessEvidence {
        AccessEvidence {
            kind,
            natural: true,
            synchronisation,
            half_of_update: false,
        }
    }

    fn check(a: AccessEvidence, b: AccessEvidence, expect: Option<Class>) {
        let none = Evidence::default();
        assert_eq!(classify(a, Some(b), none), expect, "{a:?} against {b:?}");
        if !a.half_of_update && !b.half_of_update {
            assert_eq!(classify(b, Some(a), none), expect, "{b:?} against {a:?}");
        }
    }

    #[test]
    fn both_synchronise_is_no_race() {
        use AccessKind::{Read, Update, Write};
        check(side(Update, Locked), side(Update, Locked), None);
        check(side(Read, Marked), side(Write, Marked), None);
        check(side(Read, Marked), side(Update, Locked), None);
    }

    #[test]
    fn plain_accesses_in_known_source_race() {
        use AccessKind::{Read, Write};
        check(side(Read, Plain), side(Write, Plain), Some(Class::Race));
        check(side(Read, Plain), side(Write, Marked), Some(Class::Race));
        check(side(Read, Plain), side(Write, Unknown), Some(Class::Race));
    }

    #[test]
    fn plain_moves_without_source_may_be_atomic() {
        use AccessKind::{Read, Write};
        let possibly = Some(Class::PossiblyAtomic);
        check(side(Read, Unknown), side(Write, Unknown), possibly);
        check(side(Write, Unknown), side(Read, Marked), possibly);
        let wide = AccessEvidence {
            natural: false,
            ..side(Write, Unknown)
        };
        check(side(Read, Unknown), wide, Some(Class::Race));
    }

    #[test]
    fn a_plain_update_is_lost_also_against_a_locked_one() {
        use AccessKind::{Read, Update, Write};
        check(
            side(Update, Unknown),
            side(Update, Locked),
            Some(Class::Race),
        );
        check(
            side(Update, Unknown),
            side(Write, Unknown),
            Some(Class::Race),
        );
        let half = AccessEvidence {
            half_of_update: true,
            ..side(Read, Unknown)
        };
        check(half, side(Write, Unknown), Some(Class::Race));
        let halved_store = AccessEvidence {
            half_of_update: true,
            ..side(Write, Unknown)
        };
        // A single writer's counter and its reader: nothing is lost.
        check(
            halved_store,
            side(Read, Unknown),
            Some(Class::PossiblyAtomic),
        );
    }

    #[test]
    fn what_a_sequence_counter_guards_meets_its_like_only() {
        use AccessKind::{Read, Update};
        let possibly = Some(Class::PossiblyAtomic);
        check(side(Read, Guarded), side(Update, Guarded), None);
        check(side(Read, Unknown), side(Update, Guarded), possibly);
        check(side(Read, Plain), side(Update, Guarded), Some(Class::Race));
        assert!(!Guarded.is_atomic(), "it is not told as an atomic access");
    }

    #[test]
    fn a_store_releases_a_hand_made_lock() {
        use AccessKind::{Update, Write};
        let possibly = Some(Class::PossiblyAtomic);
        check(side(Write, Plain), side(Update, Locked), possibly);
    }

    #[test]
    fn a_declared_atomic_settles_it() {
        use AccessKind::{Read, Write};
        let declared = Evidence {
            declared_synchronising: true,
        };
        let (a, b) = (side(Read, Unknown), side(Write, Unknown));
        assert_eq!(classify(a, Some(b), declared), None);
        assert_eq!(classify(a, None, declared), None);
    }
}
