//! Verdicts on what two writers do.

use super::*;

#[test]
fn an_exchange_that_fails_loses_no_update() {
    let mut writers = race("version", &["update", "update"]);
    writers.usage[0].step = Some(Step::Bits);
    check(&writers, Call::LikelyHarmful, "lost-update");
    for known in [true, false] {
        for side in 0..2 {
            let mut failed = writers.clone();
            let evidence = failed.evidence.as_mut().expect("evidence");
            for fact in [Fact::Locked, Fact::ChangesNothing { known }] {
                evidence.sides[side].facts.push(fact.into());
            }
            let rules = judged(&failed).rules;
            assert!(rules.iter().all(|it| it.rule != "lost-update"), "{rules:?}");
        }
    }
}

#[test]
fn a_counter_says_of_how_many_instances_it_grew() {
    let mut hits = counter();
    let told = |race: &Race| {
        let rules = judged(race).rules;
        rules[0].facts.last().expect("facts").clone()
    };
    assert_eq!(
        told(&hits),
        "the value grew in 3 of 3 instances, and never fell"
    );
    hits.history = Some(History {
        grew: 160,
        unchanged: 4,
        rose_between: 53,
        fell_between: 2,
        ..History::default()
    });
    assert_eq!(
        told(&hits),
        "the value grew in 160 of 164 instances, 53 times between two, and fell 2 times by lost updates"
    );
}
