//! The pairs of accesses of a race. A fingerprint names two functions, which may meet at several
//! instructions and do something else with the value at each, or for each of their callers. One
//! pair stands for the race; a verdict has to look at all of them.

use crate::{AccessReport, Class, Evidence, Race, Rule, Usage, What};
use serde::{Deserialize, Serialize};

/// Two accesses of a race, other than those that stand for it, and what is known about them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// What it is, before any triage.
    pub class: Class,
    /// The rule that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// What is raced on, as these two name it.
    pub what: What,
    /// Why the variable is accessed like this on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special: Option<String>,
    /// What the code around each access does with the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Usage>,
    /// What is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The accesses.
    pub accesses: Vec<AccessReport>,
}

/// How many other pairs are kept for a race. Of one that has as many, some may be missing.
pub const MOST_PAIRS: usize = 32;

/// All that rules see of one access, where its code is among it.
type Told<'a> = (
    Option<&'a str>,
    u64,
    Option<&'a str>,
    Option<u32>,
    Option<&'a Usage>,
);

impl Race {
    /// The race once for each of its pairs of accesses, the one that stands for it first.
    pub fn faces(&self) -> impl Iterator<Item = Self> {
        // Foreign documents may have any number of pairs: none is copied but where it is needed.
        let own = self.without_pairs();
        let base = own.clone();
        let others = self.pairs.iter().take(MOST_PAIRS).map(move |pair| {
            let pair = pair.clone();
            Self {
                class: pair.class,
                rule: pair.rule,
                what: pair.what,
                special: pair.special,
                usage: pair.usage,
                evidence: pair.evidence,
                accesses: pair.accesses,
                ..base.clone()
            }
        });
        std::iter::once(own).chain(others)
    }

    /// The race with the pair that stands for it alone.
    fn without_pairs(&self) -> Self {
        Self {
            fingerprint: self.fingerprint.clone(),
            class: self.class,
            rule: self.rule,
            evidence: self.evidence.clone(),
            what: self.what.clone(),
            seen_by: self.seen_by,
            analysed: self.analysed.clone(),
            values: self.values.clone(),
            instances: self.instances,
            lines: self.lines.clone(),
            suspects: self.suspects.clone(),
            special: self.special.clone(),
            usage: self.usage.clone(),
            history: self.history.clone(),
            pairs: Vec::new(),
            verdict: self.verdict.clone(),
            triage: self.triage.clone(),
            accesses: self.accesses.clone(),
        }
    }

    /// The pair of accesses that stands for the race.
    #[must_use]
    pub fn pair(&self) -> Pair {
        Pair {
            class: self.class,
            rule: self.rule,
            what: self.what.clone(),
            special: self.special.clone(),
            usage: self.usage.clone(),
            evidence: self.evidence.clone(),
            accesses: self.accesses.clone(),
        }
    }

    /// Keeps another pair of accesses, if it is not there yet and there is room.
    pub fn add_pair(&mut self, pair: Pair) {
        let known = |known: &Pair| known.is_like(&pair) || known.has_half(&pair);
        let is_new = !self.pairs.iter().any(known) && !known(&self.pair());
        if is_new && self.pairs.len() < MOST_PAIRS {
            self.pairs.push(pair);
        }
    }

    /// Whether pairs may be missing.
    #[must_use]
    pub const fn misses_pairs(&self) -> bool {
        self.pairs.len() >= MOST_PAIRS
    }
}

impl Pair {
    /// Whether it is the same code, whichever side was sampled, that does the same with the value.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.told(), other.told());
        self.rule == other.rule && (one == two || one.iter().eq(two.iter().rev()))
    }

    /// Whether the other one is an access of this pair that was seen without its partner.
    fn has_half(&self, other: &Self) -> bool {
        let half = other.told();
        half.len() == 1 && self.is_freed() == other.is_freed() && self.told().contains(&half[0])
    }

    /// Whether the bytes went away while the access stood, which no other access does.
    fn is_freed(&self) -> bool {
        self.rule == Some(Rule::FreedWhileItStood)
    }

    fn told(&self) -> Vec<Told<'_>> {
        let accesses = self.accesses.iter().enumerate();
        accesses
            .map(|(at, access)| {
                let innermost = access.stack.first();
                (
                    innermost.and_then(|frame| frame.module.as_deref()),
                    innermost.map_or(access.pc, |frame| frame.address),
                    access.function.as_deref(),
                    access.line,
                    self.usage.get(at),
                )
            })
            .collect()
    }
}
