//! Verdicts on races whose functions meet in several places.

use super::*;
use redhanded_model::{Differing, MOST_PAIRS, Pair, Pointee, PointeeSource};

/// Two other places of the same functions.
fn elsewhere(mut race: Race) -> Pair {
    for (access, line) in race.accesses.iter_mut().zip([6, 4]) {
        access.file = Some("dir/two.c".to_owned());
        access.line = Some(line);
        access.pc += 8;
    }
    race.pair()
}

#[test]
fn a_race_is_as_bad_as_the_worst_of_its_pairs() {
    let mut index = flag(0x10, 0x10);
    index.usage[0].uses = vec![Use::Index];
    let mut both = flag(1, 0x10);
    both.add_pair(elsewhere(index.clone()));
    check(&both, Call::LikelyHarmful, "steering");
    check(&both, Call::LikelyHarmful, "safe-flag");
    let rules = judged(&both).rules;
    let steering = rules.iter().find(|it| it.rule == "steering");
    let fact = &steering.expect("the rule").facts[0];
    assert!(fact.ends_with(", at two.c:6 and two.c:4"), "{fact}");
    // What nothing is known of is not benign; what is as safe takes nothing back.
    let mut open = flag(1, 0x10);
    open.add_pair(elsewhere(flag(0x11, 0x10)));
    assert_eq!(judged(&open).call, Call::Undecided);
    let mut safe = flag(1, 0x10);
    safe.add_pair(elsewhere(flag(2, 0x10)));
    check(&safe, Call::LikelyBenign, "safe-flag");
    // Two writers of another pair are two writers.
    let mut writers = race("flags", &["update", "update"]);
    writers.usage[0].step = Some(Step::Bits);
    let mut two = flag(1, 0x10);
    two.add_pair(elsewhere(writers));
    assert!(judged(&two).rules.iter().all(|it| it.rule != "safe-flag"));
    // Of an access without its partner only harm is known.
    let half = |race: &Race| {
        let mut pair = elsewhere(race.clone());
        pair.accesses.truncate(1);
        pair.usage.truncate(1);
        pair
    };
    let mut alone = flag(1, 0x10);
    alone.add_pair(half(&flag(3, 0x10)));
    check(&alone, Call::LikelyBenign, "safe-flag");
    let mut changed = counter();
    changed.verdict = Some(Verdict {
        replay: Some(ReplayTally {
            state_change: 1,
            difference: vec![Differing {
                what: "hits".to_owned(),
                raced: true,
                copy: false,
                in_use: None,
                this: "1".to_owned(),
                that: "2".to_owned(),
            }],
            ..ReplayTally::default()
        }),
        ..judged(&changed)
    });
    changed.add_pair(half(&race("hits", &["read", "update"])));
    assert_eq!(changed.pairs.len(), 1);
    check(&changed, Call::LikelyBenign, "statistics-counter");
    alone.add_pair(half(&index));
    check(&alone, Call::LikelyHarmful, "steering");
}

#[test]
fn a_race_with_more_pairs_than_are_kept_is_benign_only_if_somebody_says_so() {
    let mut many = flag(1, 0x10);
    for at in 0..2 * MOST_PAIRS as u64 {
        let mut pair = elsewhere(flag(2, 0x10));
        pair.accesses[0].pc = 0x100 + at;
        many.add_pair(pair);
    }
    assert_eq!(many.pairs.len(), MOST_PAIRS);
    assert_eq!(judged(&many).call, Call::Undecided);
    let text = "[[annotation]]\nvariable = \"flags\"\nignore = true";
    let annotations = Annotations::parse(text, Path::new("notes")).expect("annotations");
    let mut report = Report {
        races: vec![many],
        ..Report::default()
    };
    judge(&mut report, &annotations);
    let verdict = report.races[0].verdict.as_ref().expect("a verdict");
    assert_eq!(verdict.call, Call::LikelyBenign);
    let text = serde_json::to_string(&report.races[0]).expect("JSON");
    let again: Race = serde_json::from_str(&text).expect("a race");
    assert_eq!(again, report.races[0]);
}

#[test]
fn what_is_declared_benign_stays_so_whatever_a_pair_tells_less_of() {
    let judged_with = |race: &Race, text: &str| {
        let annotations = Annotations::parse(text, Path::new("notes")).expect("annotations");
        let mut report = Report {
            races: vec![race.clone()],
            ..Report::default()
        };
        judge(&mut report, &annotations);
        report.races.remove(0).verdict.expect("a verdict").call
    };
    let field = "[[annotation]]\nfield = \"state\"\nbenign = \"a hint\"";
    let function = "[[annotation]]\nfunction = \"two\"\nbenign = \"a hint\"";
    let indexes = |path: Option<&str>| {
        let mut race = of_heap(path.unwrap_or_default());
        race.usage[0].uses = vec![Use::Index];
        race.what.pointee = race.what.pointee.filter(|_| path.is_some());
        race
    };
    let with = |pair: Pair| {
        let mut race = of_heap(".state");
        race.add_pair(pair);
        race
    };
    let nameless = with(elsewhere(indexes(None)));
    assert_eq!(judged(&nameless).call, Call::LikelyHarmful);
    assert_eq!(judged_with(&nameless, field), Call::LikelyBenign);
    let mut half = elsewhere(indexes(Some(".state")));
    half.accesses.truncate(1);
    half.usage.truncate(1);
    let half = with(half);
    assert_eq!(judged(&half).call, Call::LikelyHarmful);
    assert_eq!(judged_with(&half, function), Call::LikelyBenign);
    // Another member, and sides that differ, are more than was declared.
    let other = with(elsewhere(indexes(Some(".other"))));
    assert_eq!(judged_with(&other, field), Call::LikelyHarmful);
    let mut differ = indexes(None);
    differ.what.sides_differ = true;
    let differ = with(elsewhere(differ));
    assert_eq!(judged_with(&differ, field), Call::LikelyHarmful);
    // A proof is one of the whole race.
    let mut proven = nameless;
    proven.verdict = Some(combine(
        Vec::new(),
        Some(ReplayTally {
            faults: 1,
            ..ReplayTally::default()
        }),
        1,
    ));
    assert_eq!(judged_with(&proven, field), Call::ProvenHarmful);
}

#[test]
fn a_foreign_report_may_have_any_number_of_pairs() {
    let mut race = flag(1, 0x10);
    race.pairs = vec![elsewhere(flag(2, 0x10)); 20_000];
    let faces: Vec<Race> = race.faces().collect();
    assert_eq!(faces.len(), 1 + MOST_PAIRS);
    assert!(faces.iter().all(|face| face.pairs.is_empty()));
    assert_eq!(faces[1].pair(), race.pairs[0]);
    assert_eq!(judged(&race).call, Call::Undecided);
}

/// An object on the heap, of which only the type is known.
fn of_heap(path: &str) -> Race {
    let mut race = race("window", &["read", "write"]);
    race.what.name = None;
    race.what.pointee = Some(Pointee {
        expression: None,
        type_name: "struct window".to_owned(),
        path: path.to_owned(),
        member: None,
        part_type: "int".to_owned(),
        from: PointeeSource::Variable,
        doubtful: false,
        outside: false,
    });
    race
}

#[test]
fn members_of_an_object_without_a_name_that_race_together_do_harm() {
    // All of them are one race, because nothing but the functions tells them apart.
    let with = |other: Race| {
        let mut race = of_heap(".width");
        race.add_pair(elsewhere(other));
        race
    };
    check(
        &with(of_heap(".height")),
        Call::LikelyHarmful,
        "several-members",
    );
    let silent = |other: Race| {
        let rules = judged(&with(other)).rules;
        assert!(rules.iter().all(|it| it.rule != "several-members"));
    };
    silent(of_heap(".width"));
    silent(of_heap(".width.low"));
    let mut doubtful = of_heap(".height");
    doubtful.what.pointee.as_mut().expect("it").doubtful = true;
    silent(doubtful);
    let mut other = of_heap(".height");
    other.what.pointee.as_mut().expect("it").type_name = "struct door".to_owned();
    silent(other);
    let mut counted = of_heap(".drawn");
    counted.usage[1].step = Some(Step::By(1));
    silent(counted);
}
