//! What holds for all traces.

use crate::naive::{self, Pairs};
use crate::random::{access, events, merged, steps};
use crate::trace::{happens_before, sequencers};
use proptest::prelude::*;
use redhanded_analysis::{
    Event, Finding, Lockset, Mode, Object, ObjectKind, Place, Refine, Standing, What,
};
use redhanded_model::TaskId;
use std::collections::BTreeSet;

fn pairs(findings: &[Finding]) -> Pairs {
    findings
        .iter()
        .map(|finding| (finding.places, finding.standing()))
        .collect()
}

fn suspects(events: &[Event], refine: Refine) -> BTreeSet<[Place; 2]> {
    let mut analysis = Lockset::new(refine);
    for event in events {
        analysis.push(event);
    }
    analysis
        .finish()
        .into_iter()
        .map(|found| found.places)
        .collect()
}

/// A trace in which one thread after the other does its accesses, each after what `begin` gives
/// and before what `end` gives.
fn turns(
    parts: &[(u32, Vec<redhanded_analysis::Access>)],
    begin: impl Fn(usize) -> What,
    end: impl Fn(usize) -> What,
) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut number = 0;
    let mut add = |thread: u32, place: usize, what: What| {
        let is_access = matches!(what, What::Access(_));
        number += 1;
        events.push(Event {
            thread: TaskId(thread),
            place: Place(place as u64),
            number: (!is_access).then_some(number),
            what,
        });
    };
    for thread in 1..=3 {
        add(
            0,
            0,
            What::Create {
                child: TaskId(thread),
            },
        );
    }
    for thread in 1..=3 {
        add(thread, 0, What::Start);
    }
    for (turn, (thread, accesses)) in parts.iter().enumerate() {
        add(*thread, 0, begin(turn));
        for (at, access) in accesses.iter().enumerate() {
            add(*thread, 10 * turn + at, What::Access(*access));
        }
        add(*thread, 0, end(turn));
    }
    events
}

fn parts() -> impl Strategy<Value = Vec<(u32, Vec<redhanded_analysis::Access>)>> {
    let accesses = proptest::collection::vec(access().prop_map(|(access, _)| access), 0..4);
    proptest::collection::vec((1..=3_u32, accesses), 0..20)
}

/// More cases than usual, because most of what two threads do has no effect on a third.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases * 4,
        ..usual
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn happens_before_is_the_transitive_closure(steps in steps()) {
        let events = merged(&events(&steps));
        let (found, right) = (pairs(&happens_before(&events)), naive::happens_before(&events));
        prop_assert_eq!(
            found.keys().collect::<Vec<_>>(),
            right.keys().collect::<Vec<_>>()
        );
        for (places, standing) in found {
            // Only the latest access by each site is kept, so a claim may be missed, never made.
            prop_assert!(standing >= right[&places], "{places:?}");
        }
    }

    #[test]
    fn what_is_unordered_is_exact_where_no_site_is_used_twice(steps in steps()) {
        let mut events = events(&steps);
        for (event, place) in events.iter_mut().zip(0..) {
            event.place = Place(place);
        }
        let events = merged(&events);
        prop_assert_eq!(pairs(&happens_before(&events)), naive::happens_before(&events));
    }

    #[test]
    fn sequencers_find_what_overlaps(steps in steps()) {
        let events = merged(&events(&steps));
        prop_assert_eq!(pairs(&sequencers(&events)), naive::sequencers(&events));
    }

    #[test]
    fn what_sequencers_find_happens_before_finds_as_well(steps in steps()) {
        let events = merged(&events(&steps));
        let wider = pairs(&happens_before(&events));
        for places in pairs(&sequencers(&events)).keys() {
            prop_assert!(wider.contains_key(places));
        }
    }

    #[test]
    fn lockset_is_a_set_for_each_byte(steps in steps()) {
        for events in [events(&steps), merged(&events(&steps))] {
            for refine in [Refine::SecondThread, Refine::FirstAccess] {
                prop_assert_eq!(suspects(&events, refine), naive::lockset(&events, refine));
            }
        }
    }

    #[test]
    fn accesses_under_one_lock_are_neither_races_nor_suspects(parts in parts()) {
        let object = Object { kind: ObjectKind::Lock, id: 1 };
        let lock = What::Acquire { object, mode: Mode::Exclusive };
        let events = merged(&turns(&parts, |_| lock, |_| What::Release { object }));
        prop_assert_eq!(happens_before(&events), []);
        prop_assert_eq!(sequencers(&events), []);
        prop_assert!(suspects(&events, Refine::FirstAccess).is_empty());
    }

    #[test]
    fn an_execution_that_is_ordered_whole_has_no_race(parts in parts()) {
        // Each turn passes a message of its own to the next.
        let message = |id: usize| Object { kind: ObjectKind::Channel, id: id as u64 };
        let events = merged(&turns(
            &parts,
            |turn| What::Acquire { object: message(turn), mode: Mode::Exclusive },
            |turn| What::Release { object: message(turn + 1) },
        ));
        prop_assert_eq!(happens_before(&events), []);
    }

    #[test]
    fn no_stream_makes_an_analysis_panic_or_claim_without_grounds(steps in steps()) {
        // In the order of the steps, regions are torn apart.
        let events = events(&steps);
        let torn = events.windows(2).any(|two| {
            two[1].number.is_none() && two[0].thread != two[1].thread && two[0].number.is_some()
        });
        let mut claims: Vec<Finding> = happens_before(&events);
        claims.extend(sequencers(&events));
        let mut reversed = events.clone();
        reversed.reverse();
        happens_before(&reversed);
        sequencers(&reversed);
        suspects(&reversed, Refine::SecondThread);
        if !torn {
            return Ok(());
        }
        let right = naive::happens_before(&merged(&events));
        for claim in claims.iter().filter(|claim| claim.standing() == Standing::Unordered) {
            prop_assert!(right.contains_key(&claim.places));
        }
    }
}
