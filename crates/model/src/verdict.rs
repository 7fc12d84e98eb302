//! Whether a race matters: what each rule leans to, what the replays came to, and how the two
//! are weighed. The rules themselves are in the crate `verdict`, the replays in `replay`; only
//! [`combine`] turns them into a call, so that which outranks which is written in one place.

use serde::{Deserialize, Serialize};

/// What triage says of a race.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Benign or harmful.
    pub call: Call,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// The rules that had something to say, for and against.
    pub rules: Vec<Leaning>,
    /// What re-executing both threads came to, if that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayTally>,
}

/// What a race is called. The worst comes first, which is the order of a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// One order of the two accesses ends in a fault, an abort or an endless loop.
    ProvenHarmful,
    /// A rule or a replay says that it does harm.
    LikelyHarmful,
    /// Nothing is known for or against it, or too little.
    Undecided,
    /// All that is known says that it does no harm.
    LikelyBenign,
}

impl Call {
    /// Every call, the worst first.
    pub const ALL: [Self; 4] = [
        Self::ProvenHarmful,
        Self::LikelyHarmful,
        Self::Undecided,
        Self::LikelyBenign,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProvenHarmful => "proven harmful",
            Self::LikelyHarmful => "likely harmful",
            Self::Undecided => "undecided",
            Self::LikelyBenign => "likely benign",
        }
    }

    /// Whether it is harmful, as far as is known.
    #[must_use]
    pub const fn is_harmful(self) -> bool {
        matches!(self, Self::ProvenHarmful | Self::LikelyHarmful)
    }
}

/// Which way a rule leans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leans {
    /// To harm.
    Harmful,
    /// To none.
    Benign,
}

/// A rule that had something to say about a race.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leaning {
    /// Its name, as `docs/verdicts.md` has it.
    pub rule: String,
    /// Which way it leans.
    pub leans: Leans,
    /// What it saw, in words.
    pub facts: Vec<String>,
    /// Whether it is a hint only, which decides nothing but counts for the confidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hint: bool,
}

impl Leaning {
    /// A rule that decides, if nothing outranks it.
    #[must_use]
    pub fn new(rule: &str, leans: Leans, facts: Vec<String>) -> Self {
        Self {
            rule: rule.to_owned(),
            leans,
            facts,
            hint: false,
        }
    }

    /// A rule that only hints.
    #[must_use]
    pub fn hint(rule: &str, leans: Leans, facts: Vec<String>) -> Self {
        Self {
            hint: true,
            ..Self::new(rule, leans, facts)
        }
    }
}

/// The name of the rule that recognises statistics counters. A replay always finds that the
/// order changes such a counter.
pub const STATISTICS_COUNTER: &str = "statistics-counter";

/// The name of the rule that recognises gauges: numbers that are counted up and down, and only
/// looked at. Whoever looks takes the one value or the other, which a replay finds as well.
pub const GAUGE: &str = "gauge";

/// The name of the rule that knows which bits of a word either side deals with.
pub const SAFE_FLAG: &str = "safe-flag";

/// What a failed replay has in the place of something that differs.
pub const FAILED_REPLAY: &str = "the replay";

/// The name of the rule by which a user says that a race is benign. Who says so knows that the
/// order makes a difference.
pub const ANNOTATED_BENIGN: &str = "annotated-benign";

/// The name of what is said if a user names a lock that protects the bytes, and two accesses met.
pub const ANNOTATED_PROTECTED: &str = "annotated-protected";

/// The name of the rule that knows what the source marks as volatile or atomic. That a race may be
/// one of marked accesses is so of every race without debug information.
pub const MARKED: &str = "marked";

/// How many replays must have come to the same state before a hint makes a race benign. Of few
/// instances chance decides: a race that does harm makes no difference to some of them.
const ENOUGH_REPLAYS: u64 = 4;

/// The names of rules that recognise how one thread tells another something. That the order
/// matters is the point of it, so only a proof or a harmful rule speaks against them.
pub const TELLS: [&str; 4] = ["double-check", "waiting", MARKED, "special-variable"];

/// What replaying the instances of a race came to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReplayTally {
    /// Instances in which every order left the same state.
    pub no_state_change: u64,
    /// Instances in which two orders left different states.
    pub state_change: u64,
    /// Instances of which nothing could be said.
    pub replay_failure: u64,
    /// Instances in which only some orders ended in a fault, an abort or an endless loop.
    pub faults: u64,
    /// How many orders were executed in all.
    pub orders: u64,
    /// In what the orders differed: the first of it, that of the worst outcome before the rest,
    /// and at least one difference elsewhere than in what is raced on, if there is one.
    pub difference: Vec<Differing>,
}

/// Something that two orders leave behind differently.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Differing {
    /// A variable by its name, bytes by their address, a register, or what a thread did next.
    pub what: String,
    /// Whether it is what the race is on.
    #[serde(default)]
    pub raced: bool,
    /// Whether it is a copy of what the race is on: the one value in the one order, and the
    /// other value in the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
    /// Of a register: where the thread goes on with it. Only programmers of that place know what
    /// it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// What it is after the first order, in words.
    pub this: String,
    /// What it is after the other one.
    pub that: String,
}

impl Differing {
    /// Whether it is nothing but the value that the race is on.
    #[must_use]
    pub const fn is_the_value(&self) -> bool {
        self.raced || self.copy
    }

    /// Whether it is known to be something else than that value.
    fn is_something_else(&self) -> bool {
        !self.is_the_value() && self.what != FAILED_REPLAY
    }
}

/// How many differences are kept.
const MOST_DIFFERENCES: usize = 16;

impl ReplayTally {
    /// Adds what other instances came to.
    pub fn add(&mut self, mut other: Self) {
        if other.worst() > self.worst() {
            std::mem::swap(&mut self.difference, &mut other.difference);
        }
        self.no_state_change = self.no_state_change.saturating_add(other.no_state_change);
        self.state_change = self.state_change.saturating_add(other.state_change);
        self.replay_failure = self.replay_failure.saturating_add(other.replay_failure);
        self.faults = self.faults.saturating_add(other.faults);
        self.orders = self.orders.saturating_add(other.orders);
        let known = std::mem::take(&mut self.difference);
        for difference in known.into_iter().chain(other.difference) {
            self.keep(difference);
        }
    }

    /// Keeps a difference, if there is room for it or it tells more than what is kept.
    fn keep(&mut self, difference: Differing) {
        if self.difference.contains(&difference) {
            return;
        }
        let tells_more = || {
            difference.is_something_else()
                && !self.difference.iter().any(Differing::is_something_else)
        };
        if self.difference.len() < MOST_DIFFERENCES {
            self.difference.push(difference);
        } else if tells_more() {
            self.difference.pop();
            self.difference.push(difference);
        }
    }

    /// How bad the worst outcome is.
    const fn worst(&self) -> u8 {
        match self {
            Self { faults: 1.., .. } => 3,
            Self {
                state_change: 1.., ..
            } => 2,
            Self {
                replay_failure: 1..,
                ..
            } => 1,
            _ => 0,
        }
    }

    /// How many instances were replayed.
    #[must_use]
    pub const fn instances(&self) -> u64 {
        self.no_state_change
            .saturating_add(self.state_change)
            .saturating_add(self.replay_failure)
            .saturating_add(self.faults)
    }

    /// Whether what is raced on, and copies of it, are all that the order changes. Nothing is
    /// known of what a failed replay would have changed, so most replays must have told.
    #[must_use]
    pub fn changes_only_what_is_raced_on(&self) -> bool {
        self.changes_only(Differing::is_the_value)
    }

    /// Whether copies of what is raced on are all that the order changes.
    #[must_use]
    pub fn changes_only_copies(&self) -> bool {
        self.changes_only(|difference| difference.copy)
    }

    fn changes_only(&self, those: impl Fn(&Differing) -> bool) -> bool {
        let told = self.difference.iter().filter(|it| it.what != FAILED_REPLAY);
        let told: Vec<&Differing> = told.collect();
        let only = !told.is_empty() && told.iter().all(|difference| those(difference));
        only && self.replay_failure < self.state_change
    }
}

/// Weighs what the rules and the replays say of a race that was seen `instances` times.
///
/// A proof outranks every rule, a harmful rule outranks the replays, and these outrank benign
/// rules. A statistics counter or a gauge stays benign as long as the order changes nothing but
/// itself and copies of it; if the rule only hints at one, that copies change decides nothing. Nor
/// does a difference in few of the replays, if the sides are known to deal with other bits. What
/// one thread tells another stays benign whatever the order changes. What a user declared benign
/// stays so until a replay proves otherwise. Hints decide nothing alone.
///
/// That the order made no difference is called benign only if a rule or a hint agrees, because a
/// replay knows just the values that it met; with a hint alone it must have made none in several
/// instances, and that the accesses may be marked is no such hint. Nothing is called benign if as many replays failed
/// as came to an end: other threads change memory meanwhile, so that now and then one fails.
#[must_use]
pub fn combine(rules: Vec<Leaning>, replay: Option<ReplayTally>, instances: u64) -> Verdict {
    let weight = |leans: Leans, hint: bool| {
        let those = rules
            .iter()
            .filter(|it| it.leans == leans && it.hint == hint);
        those.count()
    };
    let (harmful, benign) = (weight(Leans::Harmful, false), weight(Leans::Benign, false));
    let hints = |leans| weight(leans, true);
    let told = |name: &str, hint: bool| {
        let mut those = rules.iter().filter(|it| it.leans == Leans::Benign);
        those.any(|it| it.rule == name && it.hint == hint)
    };
    let says = |name: &str| told(name, false);
    let is_number = |hint| told(STATISTICS_COUNTER, hint) || told(GAUGE, hint);
    // Comparing a gauge with a threshold hardly ever makes a difference to a replay, but acting
    // on it may: no other hint helps it then. Nor does one hint decide against another.
    let hinted = hints(Leans::Benign) > usize::from(told(MARKED, true))
        && hints(Leans::Harmful) == 0
        && !told(GAUGE, true);
    let none = ReplayTally::default();
    let tally = replay.as_ref().unwrap_or(&none);
    let declared = says(ANNOTATED_BENIGN);
    let counts = is_number(false) && tally.changes_only_what_is_raced_on();
    // If no side depends on what the other one does, other accesses of the same regions make
    // the difference now and then.
    let apart = says(SAFE_FLAG) && tally.state_change <= tally.no_state_change;
    let perhaps = apart || is_number(true) && tally.changes_only_copies();
    let expected = declared || counts || TELLS.iter().any(|name| says(name));
    // Replays that came to what is expected of something benign.
    let agreeing = match expected {
        true => tally.no_state_change.saturating_add(tally.state_change),
        false => tally.no_state_change,
    };
    let (call, confidence) = if tally.faults > 0 {
        (Call::ProvenHarmful, 1.0)
    } else if harmful > 0 && !declared {
        let against = benign + hints(Leans::Benign);
        (Call::LikelyHarmful, support(harmful, against, 1))
    } else if tally.state_change > 0 && !expected && perhaps {
        (Call::Undecided, 0.0)
    } else if tally.state_change > 0 && !expected {
        let against = benign + hints(Leans::Benign);
        (Call::LikelyHarmful, support(1, against, tally.state_change))
    } else if tally.replay_failure > 0 && tally.replay_failure >= agreeing && !declared {
        (Call::Undecided, 0.0)
    } else if benign > 0 || (tally.no_state_change >= ENOUGH_REPLAYS && hinted) {
        let agreeing = benign + usize::from(tally.no_state_change > 0);
        let against = harmful + hints(Leans::Harmful);
        let seen = instances.max(tally.no_state_change);
        (Call::LikelyBenign, support(agreeing, against, seen))
    } else {
        (Call::Undecided, 0.0)
    };
    Verdict {
        call,
        confidence,
        rules,
        replay,
    }
}

/// How sure a call is that so many rules make and so many speak against: more than even, and
/// never quite certain. It grows with the instances that were seen.
fn support(agreeing: usize, against: usize, instances: u64) -> f64 {
    let bounded = |count: u64| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
    let agreeing = bounded(agreeing as u64);
    let against = bounded(against as u64);
    // The second instance of a race tells more than the hundredth.
    let seen = bounded(instances).max(1.0).log2().min(8.0) / 4.0;
    let odds = 2.0 * agreeing + seen;
    let share = odds / (odds + 1.0 + 2.0 * against);
    ((0.5 + share / 2.0) * 100.0).round() / 100.0
}

impl Verdict {
    /// The verdict on a race with a second set of instances, as from another run: benign only
    /// if both are.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        let same = self.call == other.call;
        let (mut worse, milder) = if other.call < self.call {
            (other, self)
        } else {
            (self, other)
        };
        for rule in milder.rules {
            let known = worse
                .rules
                .iter()
                .any(|it| it.rule == rule.rule && it.leans == rule.leans);
            if !known {
                worse.rules.push(rule);
            }
        }
        if let Some(tally) = milder.replay {
            worse.replay.get_or_insert_default().add(tally);
        }
        if same {
            worse.confidence = worse.confidence.max(milder.confidence);
        }
        worse
    }

    /// The verdict on a race over several runs, the earliest first, each with the instances that
    /// it saw. An annotation is a person's word about the race, and whoever takes it back removes
    /// it: so only those of the latest run count. They outrank what any run's rules and replays
    /// say, but no proof.
    #[must_use]
    pub fn over_runs(mut runs: Vec<(Self, u64)>) -> Option<Self> {
        let (mut verdict, _) = runs.pop()?;
        let declared = verdict.is_declared_benign();
        for (earlier, instances) in runs.into_iter().rev() {
            let mut earlier = earlier.without_annotations(instances);
            if declared && earlier.call != Call::ProvenHarmful && verdict.call == Call::LikelyBenign
            {
                earlier.call = Call::LikelyBenign;
                earlier.confidence = 0.0;
            }
            verdict = verdict.over(earlier);
        }
        Some(verdict)
    }

    /// Whether a user says that the race is benign.
    #[must_use]
    pub fn is_declared_benign(&self) -> bool {
        let says = |rule: &Leaning| rule.rule == ANNOTATED_BENIGN && rule.leans == Leans::Benign;
        self.rules.iter().any(says)
    }

    /// What would be said without any annotation. The rules are those of all pairs of accesses,
    /// and which said what of which pair is not known any more: so they can say that it does
    /// harm, and not that every pair is benign.
    fn without_annotations(self, instances: u64) -> Self {
        let says = |rule: &Leaning| [ANNOTATED_BENIGN, ANNOTATED_PROTECTED].contains(&&*rule.rule);
        if !self.rules.iter().any(says) {
            return self;
        }
        let rules = self.rules.into_iter().filter(|rule| !says(rule));
        let mut without = combine(rules.collect(), self.replay, instances);
        if without.call == Call::LikelyBenign {
            without.call = Call::Undecided;
            without.confidence = 0.0;
        }
        without
    }
}

#[cfg(test)]
mod tests;
