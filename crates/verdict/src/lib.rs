//! Benign or harmful: the rules by which a race gets its verdict.
//!
//! The crate takes a finished report and gives each race a verdict; it drops none. All that the
//! rules go by is kept with the race (evidence, usage, values, names), so a report that is made
//! again from a log gets the same verdicts. Each rule is a file in `rules/`, which says what it
//! goes by, what speaks against it and what it can get wrong. How rules and replays are weighed
//! is `redhanded_model::combine`.
//!
//! A harmful race that is called benign is the worst error. Where a rule is not sure, it keeps
//! silent or gives a hint, and a race without a deciding rule is *undecided*.

mod annotations;
mod rules;
mod subject;

pub use annotations::{AnnotationError, Annotations};
pub use rules::{RULES, RuleEntry};

use redhanded_model::{Race, Report, Verdict, combine};
use std::cmp::Reverse;
use subject::Subject;

/// Gives each race of a report its verdict, and puts first what is likely harmful.
pub fn judge(report: &mut Report, annotations: &Annotations) {
    let verdicts: Vec<Verdict> = report
        .races
        .iter()
        .map(|race| verdict(race, &report.races, annotations))
        .collect();
    for (race, verdict) in report.races.iter_mut().zip(verdicts) {
        race.verdict = Some(verdict);
    }
    report.races.sort_by_cached_key(|race| {
        (
            // What is only suspected comes after all that is certain.
            race.analysed.as_ref().map(|analysed| analysed.standing),
            race.verdict.as_ref().map(|verdict| verdict.call),
            race.class,
            race.seen_by,
            Reverse(race.instances),
            race.fingerprint.clone(),
        )
    });
}

/// The verdict on a race of the report that has all of these.
fn verdict(race: &Race, all: &[Race], annotations: &Annotations) -> Verdict {
    let subject = Subject::new(race, all, annotations);
    let leanings = RULES.iter().filter_map(|entry| (entry.rule)(&subject));
    let replay = race
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.replay.clone());
    combine(leanings.collect(), replay, race.instances)
}

#[cfg(test)]
mod tests;
