//! What an analysis found, together with what the hunt for it caught.

use redhanded_detect::absorb;
use redhanded_image::fit_of_race;
use redhanded_model::{Analysed, Candidate, Race, RaceStanding, Region, Report, Run};
use std::mem::discriminant;

/// Adds what a hunt caught to what an analysis found. A race that was found and is now caught is
/// told once, as caught.
pub fn combine(report: &mut Report, hunted: Report) {
    let mut all = Vec::new();
    let is_certain = |race: &Race| !race.unknown_origin() || race.is_unmapped();
    for mut caught in hunted.races.into_iter().filter(is_certain) {
        let mut by = Vec::new();
        let mut is_told = false;
        report.races.retain_mut(|found| {
            let is_named_alike = found.fingerprint == caught.fingerprint;
            if !is_named_alike && !is_at_same_lines(found, &caught) {
                return true;
            }
            // What is proven of some of its accesses stays, whatever was caught of others.
            if !found.is_suspect() && found.class < caught.class {
                if is_named_alike {
                    absorb(found, &caught);
                    is_told = true;
                }
                return true;
            }
            by.extend(found.analysed.iter().flat_map(|known| &known.by).copied());
            false
        });
        by.sort_unstable();
        by.dedup();
        caught.analysed = Some(Analysed {
            standing: RaceStanding::Caught,
            by,
        });
        if !is_told {
            all.push(caught);
        }
    }
    report.races.append(&mut all);
    report.quotes.extend(hunted.quotes);
    report.quotes.sort_unstable();
    report.quotes.dedup();
    let recorded = std::mem::take(&mut report.run);
    report.run = Run {
        program: recorded.program,
        ending: recorded.ending,
        recorded: recorded.recorded,
        cut_short: recorded.cut_short,
        unseen: [recorded.unseen, hunted.run.unseen].concat(),
        ..hunted.run
    };
}

/// Whether what was caught is on the lines of what was found, and on the same object. The live
/// execution may know more of the object, and by which function it was reached.
fn is_at_same_lines(found: &Race, caught: &Race) -> bool {
    let Some(Candidate { sides, .. }) = Candidate::of_race(found) else {
        return false;
    };
    let Some(fits) = fit_of_race(caught, &sides) else {
        return false;
    };
    let mut sides = sides.iter().zip(fits);
    sides.all(|(side, fit)| side.is_met_by(fit)) && may_be_same(found, caught)
}

/// Whether both are on the same object as far as anybody can tell: a name that only one of them
/// has for memory that belongs to no module tells nothing.
fn may_be_same(found: &Race, caught: &Race) -> bool {
    let is_named = |race: &Race| race.what.name.is_some() || race.what.member().is_some();
    let [one, other] = [&found.what.region, &caught.what.region];
    let is_global = matches!(one, Region::Global { .. });
    let is_same_memory = !is_global && discriminant(one) == discriminant(other);
    found.fingerprint.object() == caught.fingerprint.object()
        || is_same_memory && !(is_named(found) && is_named(caught))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use RaceStanding::{Caught, Suspect, Unordered};
    use redhanded_model::{Analysis, Class, Fingerprint};
    use serde_json::json;

    /// A race of `put` with `get` on a variable, on these lines.
    pub fn race(variable: &str, lines: [u32; 2]) -> Race {
        let access = |(function, line): (&str, u32)| {
            json!({
                "thread": {"tid": 1, "name": ""}, "kind": "update", "size": 8, "pc": "0x1000",
                "atomic": false, "function": function, "file": "/src/words.c", "line": line,
                "stack": [],
            })
        };
        let accesses = ["put", "get"].into_iter().zip(lines).map(access);
        let race = json!({
            "fingerprint": format!("app!get | app!put @ {variable}"), "class": "race",
            "instances": 1, "lines": [], "seen_by": "watch",
            "what": {"name": variable, "bit_fields": [], "address": "0x1000", "size": 8,
                     "memory": {"kind": "global", "module": "app"}},
            "values": {"before": "", "after": ""}, "accesses": accesses.collect::<Vec<_>>(),
        });
        serde_json::from_value(race).expect("a race")
    }

    fn found(race: Race, standing: RaceStanding) -> Race {
        let by = vec![Analysis::HappensBefore];
        Race {
            analysed: Some(Analysed { standing, by }),
            ..race
        }
    }

    /// What is told in the end: the variables, the classes, and what is known of them.
    fn told(found: &[Race], caught: &[Race]) -> Vec<(String, Class, RaceStanding)> {
        let report = |races: &[Race]| Report {
            races: races.to_vec(),
            ..Report::default()
        };
        let mut all = report(found);
        combine(&mut all, report(caught));
        let told = all.races.into_iter().map(|race| {
            let standing = race.analysed.expect("a standing").standing;
            let name = race.what.name.unwrap_or_else(|| "heap".to_owned());
            (name, race.class, standing)
        });
        told.collect()
    }

    fn expected(told: &[(&str, Class, RaceStanding)]) -> Vec<(String, Class, RaceStanding)> {
        told.iter()
            .map(|(name, class, standing)| ((*name).to_owned(), *class, *standing))
            .collect()
    }

    #[test]
    fn a_catch_leaves_other_races_of_its_functions() {
        let [first, second] = [race("first", [8, 16]), race("second", [10, 18])];
        let found = [
            found(first.clone(), Unordered),
            found(second.clone(), Unordered),
        ];
        assert_eq!(
            told(&found, std::slice::from_ref(&first)),
            expected(&[
                ("second", Class::Race, Unordered),
                ("first", Class::Race, Caught)
            ])
        );
        // On one line, too: `a.x = b.y`.
        let beside = race("second", [8, 16]);
        assert_eq!(told(&found[1..], &[first, beside]).len(), 2);
    }

    #[test]
    fn what_was_caught_is_told_once() {
        let first = race("first", [8, 16]);
        let caught = expected(&[("first", Class::Race, Caught)]);
        for standing in [Unordered, Suspect] {
            let found = [found(first.clone(), standing)];
            assert_eq!(told(&found, std::slice::from_ref(&first)), caught);
            // Reached by another function, on the same lines.
            let fingerprint = Fingerprint("app!get | memcpy from app!put @ first".to_owned());
            let reached = Race {
                fingerprint,
                ..first.clone()
            };
            assert_eq!(told(&found, &[reached]), caught);
        }
    }

    #[test]
    fn a_name_that_only_one_of_them_has_makes_no_second_race_of_the_heap() {
        let on_heap = |name: Option<&str>, object: &str| {
            let mut race = race("first", [8, 16]);
            race.what.name = name.map(str::to_owned);
            race.what.region = Region::Heap;
            race.fingerprint = race.fingerprint.on(object);
            race
        };
        let nameless = found(on_heap(None, "heap"), Unordered);
        assert_eq!(told(&[nameless], &[on_heap(Some("it"), "it")]).len(), 1);
        let other = found(on_heap(Some("that"), "that"), Unordered);
        assert_eq!(told(&[other], &[on_heap(Some("it"), "it")]).len(), 2);
    }

    /// Else the status of the program would stand where a race was proven.
    #[test]
    fn what_is_proven_is_not_weakened_by_a_catch_that_may_be_atomic() {
        let first = race("first", [8, 16]);
        let doubtful = Race {
            class: Class::PossiblyAtomic,
            ..first.clone()
        };
        let proven = [found(first.clone(), Unordered)];
        let caught = std::slice::from_ref(&doubtful);
        assert_eq!(
            told(&proven, caught),
            expected(&[("first", Class::Race, Unordered)])
        );
        // A suspicion is none.
        assert_eq!(
            told(&[found(first, Suspect)], caught),
            expected(&[("first", Class::PossiblyAtomic, Caught)])
        );
    }
}
