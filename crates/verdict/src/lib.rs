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

pub use annotations::{AnnotationError, Annotations, Does, Of};
pub use rules::{RULES, RuleEntry};

use redhanded_model::{AccessReport, Call, Fingerprint, Race, Report, Verdict, combine};
use std::cmp::Reverse;
use std::collections::HashMap;
use subject::Subject;

/// Gives each race of a report its verdict, and puts first what is likely harmful.
pub fn judge(report: &mut Report, annotations: &Annotations) {
    let faces: Vec<Vec<Race>> = report
        .races
        .iter()
        .map(|race| race.faces().collect())
        .collect();
    let all: Vec<&Race> = faces.iter().flatten().collect();
    let verdicts: Vec<Verdict> = report
        .races
        .iter()
        .zip(&faces)
        .filter_map(|(race, faces)| verdict(race, faces, &all, annotations))
        .collect();
    for (race, verdict) in report.races.iter_mut().zip(verdicts) {
        race.verdict = Some(verdict);
    }
    sort(report);
}

/// Judges races once more that a store tells of, whose verdicts come from all runs: those stay,
/// but for what the annotations outrank.
pub fn judge_again(report: &mut Report, annotations: &Annotations) {
    let known: HashMap<Fingerprint, Option<Verdict>> = report
        .races
        .iter()
        .map(|race| (race.fingerprint.clone(), race.verdict.clone()))
        .collect();
    judge(report, annotations);
    for race in &mut report.races {
        let known = known.get(&race.fingerprint).cloned().flatten();
        let now = race.verdict.take().map(|verdict| Verdict {
            // It was judged with the replays of all runs.
            replay: verdict.replay.filter(|_| known.is_none()),
            ..verdict
        });
        let runs = known.into_iter().chain(now);
        let runs = runs.map(|verdict| (verdict, race.instances)).collect();
        race.verdict = Verdict::over_runs(runs);
    }
    sort(report);
}

/// Puts first what is likely harmful.
fn sort(report: &mut Report) {
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

/// The verdict on a race that has these pairs of accesses, among all pairs of the report: the
/// worst of those on each pair.
fn verdict(
    race: &Race,
    faces: &[Race],
    all: &[&Race],
    annotations: &Annotations,
) -> Option<Verdict> {
    let mut verdicts = faces.iter().map(|face| {
        let of_face = verdict_on_pair(face, all, annotations);
        (face, of_face)
    });
    let (_, mut worst) = verdicts.next()?;
    for (face, mut of_face) in verdicts {
        // Of an access without its partner only harm is known, and that by rules alone.
        if face.unknown_origin() && !race.unknown_origin() {
            of_face = combine(of_face.rules, None, face.instances);
            if !of_face.call.is_harmful() {
                continue;
            }
        }
        // Who declares a race benign names what stands for it. That a pair tells less of it by
        // chance takes nothing back.
        if worst.is_declared_benign()
            && tells_less(face, race)
            && of_face.call != Call::ProvenHarmful
        {
            of_face.call = Call::LikelyBenign;
            of_face.confidence = 0.0;
        }
        // The replays are those of the whole race.
        of_face.replay = None;
        let place = place(face);
        for rule in &mut of_face.rules {
            for fact in &mut rule.facts {
                fact.push_str(&place);
            }
        }
        worst = worst.over(of_face);
    }
    if race.misses_pairs() && worst.call == Call::LikelyBenign && !worst.is_declared_benign() {
        worst.call = Call::Undecided;
        worst.confidence = 0.0;
    }
    Some(worst)
}

/// Whether a pair lacks a name that the race has: that of the other function, or that of what is
/// behind the pointer.
fn tells_less(face: &Race, race: &Race) -> bool {
    let is_known = |race: &Race| race.what.name.is_some() || race.what.certain_pointee().is_some();
    let is_nameless = !is_known(face) && !face.what.sides_differ;
    (face.unknown_origin() && !race.unknown_origin()) || (is_nameless && is_known(race))
}

/// The verdict on one pair of accesses.
fn verdict_on_pair(face: &Race, all: &[&Race], annotations: &Annotations) -> Verdict {
    let subject = Subject::new(face, all, annotations);
    let leanings = RULES.iter().filter_map(|entry| (entry.rule)(&subject));
    let replay = face
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.replay.clone());
    combine(leanings.collect(), replay, face.instances)
}

/// Where a pair is that does not stand for its race.
fn place(face: &Race) -> String {
    let line = |access: &AccessReport| {
        let file = access.file.as_deref()?;
        Some(format!("{}:{}", file.rsplit('/').next()?, access.line?))
    };
    let lines: Option<Vec<String>> = face.accesses.iter().map(line).collect();
    match lines {
        Some(lines) => format!(", at {}", lines.join(" and ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
