//! What people decided about races, and when a decision no longer holds.

use crate::{AccessKind, Class, Race, Rule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How far people got with a race.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing was decided.
    #[default]
    New,
    /// It is a bug.
    Confirmed,
    /// The program was mended.
    Fixed,
    /// It may stay, for a reason.
    NotAProblem,
    /// It is left for later.
    Deferred,
    /// It came back after it was fixed. Only Redhanded sets this.
    Regression,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::New,
        Self::Confirmed,
        Self::Fixed,
        Self::NotAProblem,
        Self::Deferred,
        Self::Regression,
    ];

    /// The name, as documents and the command line write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Confirmed => "confirmed",
            Self::Fixed => "fixed",
            Self::NotAProblem => "not-a-problem",
            Self::Deferred => "deferred",
            Self::Regression => "regression",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Why a finding that is in the report needs no attention, from a suppression file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Suppressed {
    /// The reason.
    pub because: String,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The last day on which it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What was known about a race before this run, and what was decided about it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Triage {
    /// How far people got with it.
    pub state: State,
    /// Whether it is new: neither known before nor decided about, or back after it was fixed.
    pub new: bool,
    /// The reason for the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The last day on which the decision holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The entry of a suppression file that it matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<Suppressed>,
}

impl Race {
    /// Whether it is new, as far as anything is remembered: with no store and no baseline
    /// every race is.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.triage.as_ref().is_none_or(|triage| triage.new)
    }

    /// Whether a suppression file says that it needs no attention.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        let triage = self.triage.as_ref();
        triage.is_some_and(|triage| triage.suppressed.is_some())
    }

    /// Whether somebody decided that it may stay: a run does not fail for it.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        let accepted = |state| matches!(state, State::NotAProblem | State::Deferred);
        let triage = self.triage.as_ref();
        self.is_suppressed() || triage.is_some_and(|triage| accepted(triage.state))
    }
}

/// What a race looked like when it was called no problem. A later instance that looks worse
/// was not part of the decision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grounds {
    /// Its class.
    pub class: Class,
    /// Whether an analysis only suspected it.
    #[serde(default)]
    pub suspect: bool,
    /// Whether an allocator freed the block.
    pub freed: bool,
    /// Whether its verdict was that it does harm.
    pub harmful: bool,
    /// What the two sides did, in all the pairs of lines that were seen.
    pub kinds: BTreeSet<Vec<AccessKind>>,
}

impl Grounds {
    /// What a race looks like.
    #[must_use]
    pub fn of(race: &Race) -> Self {
        let pair = |kinds: &mut dyn Iterator<Item = AccessKind>| {
            // An update is a read and a write in one instruction; the source has no such
            // difference.
            let plain = kinds.map(|kind| match kind {
                AccessKind::Update => AccessKind::Write,
                plain => plain,
            });
            let mut pair: Vec<AccessKind> = plain.collect();
            pair.sort();
            pair
        };
        let lines = race.lines.iter();
        let mut kinds: BTreeSet<_> = lines
            .map(|sides| pair(&mut sides.iter().map(|side| side.kind)))
            .collect();
        kinds.insert(pair(&mut race.accesses.iter().map(|side| side.kind)));
        let verdict = race.verdict.as_ref();
        Self {
            class: race.class,
            suspect: race.is_suspect(),
            freed: race.rule == Some(Rule::FreedWhileItStood),
            harmful: verdict.is_some_and(|verdict| verdict.call.is_harmful()),
            kinds,
        }
    }

    /// Why an instance contradicts a decision that was made on these grounds.
    #[must_use]
    pub fn contradicted_by(&self, race: &Race) -> Option<&'static str> {
        let seen = Self::of(race);
        let writes = |grounds: &Self| {
            let both = |pair: &Vec<AccessKind>| {
                pair.len() > 1 && pair.iter().all(|kind| *kind != AccessKind::Read)
            };
            grounds.kinds.iter().any(both)
        };
        if seen.class == Class::Race && self.class != Class::Race {
            return Some("it is a race for certain now");
        }
        if self.suspect && !seen.suspect {
            return Some("it is more than a suspicion now");
        }
        if seen.freed && !self.freed {
            return Some("the memory was freed while the other access stood");
        }
        if seen.harmful && !self.harmful {
            return Some("its verdict is now that it does harm");
        }
        (writes(&seen) && !writes(self)).then_some("both sides write now")
    }
}
