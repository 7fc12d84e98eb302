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

/// An inode's count of links, as two functions change it that are called with 1 and with -1: what
/// they add is in a register, and the inode is reached by a pointer.
fn links() -> Race {
    let mut links = race("inodes[1].i_nlink", &["update", "update"]);
    for usage in &mut links.usage {
        usage.step = Some(Step::Up);
    }
    links
}

fn grew(times: u64) -> Option<History> {
    Some(History {
        grew: times,
        ..History::default()
    })
}

#[test]
fn of_few_instances_chance_decides_whether_a_number_only_grows() {
    let mut count = links();
    for times in 1..8 {
        count.history = grew(times);
        check(&count, Call::Undecided, "statistics-counter");
    }
    // Bytes that were sent are added from a register, too.
    count.history = grew(8);
    check(&count, Call::LikelyBenign, "statistics-counter");
    count.history.as_mut().expect("a history").fell_between = 1;
    check(&count, Call::Undecided, "statistics-counter");
}

#[test]
fn what_is_reached_by_a_pointer_may_be_counted_down_elsewhere() {
    let mut count = links();
    for usage in &mut count.usage {
        usage.step = Some(Step::By(1));
    }
    count.history = grew(7);
    check(&count, Call::Undecided, "statistics-counter");
    for usage in &mut count.usage {
        usage.elsewhere = vec![Step::By(1)];
    }
    count.history = grew(2);
    check(&count, Call::LikelyBenign, "statistics-counter");
    // Some code adds what may be negative.
    count.usage[0].elsewhere.push(Step::Up);
    count.usage[1].elsewhere.push(Step::Up);
    check(&count, Call::Undecided, "statistics-counter");
}

#[test]
fn a_link_count_is_not_benign_because_few_replays_made_no_difference() {
    let mut count = links();
    count.history = grew(2);
    let replayed = |no_state_change| ReplayTally {
        no_state_change,
        ..ReplayTally::default()
    };
    let with = |race: &Race, replay: ReplayTally| {
        let mut race = race.clone();
        race.verdict = Some(combine(Vec::new(), Some(replay), 2));
        judged(&race).call
    };
    for few in 1..4 {
        assert_eq!(with(&count, replayed(few)), Call::Undecided);
    }
    // Whoever asks what is left speaks against it, however many replays agree.
    count.usage[0].uses = vec![Use::Branch];
    assert_eq!(with(&count, replayed(100)), Call::Undecided);
}
