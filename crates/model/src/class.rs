//! What is a race and what is not: two accesses that both synchronise are none.
//!
//! A locked instruction shows by itself that it synchronises. A plain move that
//! is an atomic access in the source shows it only through debug information
//! and source text, and a binary without them cannot show it at all. The rules
//! here weigh that; they are pure, and all in this one file so that they can be
//! audited.

use crate::AccessKind;
use serde::{Deserialize, Serialize};

/// What is known about whether an access synchronises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Synchronisation {
    /// It does: a locked instruction.
    Locked,
    /// It does: an atomic or volatile access in the source.
    Marked,
    /// It is plain, but in a section that a sequence counter guards: who reads there
    /// notices a writer and reads again.
    Guarded,
    /// It does not: the source is known and shows a plain access, or no
    /// compiler uses such an instruction for an atomic access.
    Plain,
    /// The binary and what is at hand of its source cannot tell.
    Unknown,
}

impl Synchronisation {
    /// Whether the access is known to synchronise, by itself or by where it is.
    #[must_use]
    pub const fn synchronises(self) -> bool {
        self.is_atomic() || matches!(self, Self::Guarded)
    }

    /// Whether the access itself is atomic.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Locked | Self::Marked)
    }

    /// Whether it synchronises though its instruction does not show it.
    const fn by_source(self) -> bool {
        matches!(self, Self::Marked | Self::Guarded)
    }
}

/// One side of a collision, as far as its class depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// What the instruction does.
    pub kind: AccessKind,
    /// Whether the access is a power of two up to eight bytes, aligned: only
    /// such a plain move can be an atomic access.
    pub natural: bool,
    /// What is known of its meaning.
    pub synchronisation: Synchronisation,
    /// Whether the instruction is one half of a load, change and store back of
    /// the same operand.
    pub half_of_update: bool,
}

impl Side {
    /// A plain access whose effect depends on the old value: whatever another
    /// thread writes in between is lost.
    const fn plain_update(&self) -> bool {
        !self.synchronisation.synchronises()
            && (matches!(self.kind, AccessKind::Update) || self.half_of_update)
    }

    /// Whether the access may be atomic for all that is known.
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
    /// The variable or field is declared atomic or volatile, or is a guard the
    /// compiler made (C++ function statics).
    pub declared_synchronising: bool,
}

/// The class of a race before any triage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A data race.
    Race,
    /// A collision of accesses that may be atomic in the source; the binary
    /// cannot show it. Ranked last, fails no run by default.
    PossiblyAtomic,
    /// A race on a variable that is known to be meant so, with the reason. Fails no
    /// run.
    Special,
}

/// The class of a collision, or `None` when it is no race at all.
///
/// `other` is missing when the bytes changed and nobody was seen to do it: an
/// unknown origin is judged by the known side alone.
#[must_use]
pub fn classify(sampled: Side, other: Option<Side>, evidence: Evidence) -> Option<Class> {
    let Some(other) = other else {
        return match sampled.synchronisation {
            Synchronisation::Locked | Synchronisation::Marked | Synchronisation::Guarded => None,
            _ if evidence.declared_synchronising => None,
            // Somebody wrote between its load and its store: lost either way.
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
        // Every access through the declared type synchronises; what the
        // instruction looks like adds nothing.
        return None;
    }
    // An update is lost when the other side writes, locked or not. It comes
    // before any doubt about atomicity: an atomic update is a locked one.
    let lost_update = (sampled.kind == AccessKind::Update && sampled.plain_update())
        || (other.kind == AccessKind::Update && other.plain_update())
        || (sampled.plain_update() && other.kind.writes());
    if lost_update && !sampled.synchronisation.by_source() && !other.synchronisation.by_source() {
        return Some(Class::Race);
    }
    // A plain store against a locked instruction is how hand-made locks are
    // released.
    let release = |store: &Side, lock: &Side| {
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

    fn side(kind: AccessKind, synchronisation: Synchronisation) -> Side {
        Side {
            kind,
            natural: true,
            synchronisation,
            half_of_update: false,
        }
    }

    fn check(a: Side, b: Side, expect: Option<Class>) {
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
        let wide = Side {
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
        let half = Side {
            half_of_update: true,
            ..side(Read, Unknown)
        };
        check(half, side(Write, Unknown), Some(Class::Race));
        let halved_store = Side {
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
