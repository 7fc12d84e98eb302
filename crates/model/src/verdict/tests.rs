use super::*;
use proptest::prelude::*;

fn harmful(rule: &str) -> Leaning {
    Leaning::new(rule, Leans::Harmful, vec!["seen".to_owned()])
}

fn benign(rule: &str) -> Leaning {
    Leaning::new(rule, Leans::Benign, vec!["seen".to_owned()])
}

fn differing(raced: bool) -> Differing {
    Differing {
        what: "hits".to_owned(),
        raced,
        copy: false,
        in_use: None,
        this: "1".to_owned(),
        that: "2".to_owned(),
    }
}

fn same(count: u64) -> ReplayTally {
    ReplayTally {
        no_state_change: count,
        ..ReplayTally::default()
    }
}

fn changed(difference: Vec<Differing>) -> ReplayTally {
    ReplayTally {
        state_change: 1,
        difference,
        ..ReplayTally::default()
    }
}

fn failed() -> ReplayTally {
    ReplayTally {
        replay_failure: 1,
        ..ReplayTally::default()
    }
}

fn fault() -> ReplayTally {
    ReplayTally {
        faults: 1,
        ..ReplayTally::default()
    }
}

fn call(rules: &[Leaning], replay: Option<ReplayTally>) -> Call {
    combine(rules.to_vec(), replay, 1).call
}

#[test]
fn each_rank_outranks_those_below() {
    let (bad, good) = (harmful("reference-count"), benign("safe-flag"));
    let all = [bad.clone(), good.clone()];
    // Proof > harmful rules > replay > benign rules.
    assert_eq!(
        call(std::slice::from_ref(&good), Some(fault())),
        Call::ProvenHarmful
    );
    assert_eq!(call(&all, Some(fault())), Call::ProvenHarmful);
    assert_eq!(call(&all, Some(same(100))), Call::LikelyHarmful);
    assert_eq!(call(&all, None), Call::LikelyHarmful);
    let changed = changed(vec![differing(true)]);
    assert_eq!(
        call(std::slice::from_ref(&good), Some(changed)),
        Call::LikelyHarmful
    );
    assert_eq!(
        call(std::slice::from_ref(&good), Some(failed())),
        Call::Undecided
    );
    // A failure says little where most replays came to an end.
    let mut mostly = same(1);
    mostly.add(failed());
    let good_alone = std::slice::from_ref(&good);
    assert_eq!(call(good_alone, Some(mostly.clone())), Call::Undecided);
    mostly.add(same(1));
    assert_eq!(call(good_alone, Some(mostly)), Call::LikelyBenign);
    // The values that were met say little alone.
    assert_eq!(call(&[], Some(same(100))), Call::Undecided);
    let hint = [Leaning::hint("redundant-write", Leans::Benign, Vec::new())];
    assert_eq!(call(&hint, Some(same(ENOUGH_REPLAYS))), Call::LikelyBenign);
    let few = Some(same(ENOUGH_REPLAYS - 1));
    assert_eq!(call(&hint, few), Call::Undecided);
    let doubt = [Leaning::hint("one-sided", Leans::Harmful, Vec::new())];
    assert_eq!(call(&doubt, Some(same(100))), Call::Undecided);
    let both = [hint[0].clone(), doubt[0].clone()];
    assert_eq!(call(&both, Some(same(100))), Call::Undecided);
    // Every race without debug information may be one of marked accesses.
    let marked = [Leaning::hint(MARKED, Leans::Benign, Vec::new())];
    assert_eq!(call(&marked, Some(same(100))), Call::Undecided);
    let more = [hint[0].clone(), marked[0].clone()];
    assert_eq!(call(&more, Some(same(100))), Call::LikelyBenign);
    assert_eq!(call(&[good], None), Call::LikelyBenign);
    assert_eq!(call(&[], None), Call::Undecided);
}

#[test]
fn a_counter_stays_benign_while_only_it_changes() {
    let counter = [benign(STATISTICS_COUNTER)];
    let itself = changed(vec![differing(true)]);
    assert_eq!(call(&counter, Some(itself.clone())), Call::LikelyBenign);
    let more = changed(vec![differing(true), differing(false)]);
    assert_eq!(call(&counter, Some(more)), Call::LikelyHarmful);
    // What changed is not known at all.
    assert_eq!(
        call(&counter, Some(changed(Vec::new()))),
        Call::LikelyHarmful
    );
    let mut partly = itself.clone();
    partly.add(failed());
    assert_eq!(call(&counter, Some(partly.clone())), Call::LikelyHarmful);
    // Another thread often counts in between. What most replays show holds.
    partly.add(itself.clone());
    assert_eq!(call(&counter, Some(partly)), Call::LikelyBenign);
    // A list that is cut short keeps what matters.
    let mut many = ReplayTally::default();
    for n in 0..2 * MOST_DIFFERENCES {
        many.add(changed(vec![Differing {
            this: n.to_string(),
            ..differing(true)
        }]));
    }
    assert_eq!(many.difference.len(), MOST_DIFFERENCES);
    assert_eq!(call(&counter, Some(many.clone())), Call::LikelyBenign);
    let mut beside_a_failure = ReplayTally {
        difference: many.difference[1..].to_vec(),
        ..many.clone()
    };
    many.add(changed(vec![differing(false)]));
    assert_eq!(many.difference.len(), MOST_DIFFERENCES);
    assert_eq!(call(&counter, Some(many)), Call::LikelyHarmful);
    // That a replay failed is nothing that differs.
    let failure = Differing {
        what: FAILED_REPLAY.to_owned(),
        ..differing(false)
    };
    beside_a_failure.add(ReplayTally {
        difference: vec![failure],
        ..failed()
    });
    assert_eq!(
        call(&counter, Some(beside_a_failure.clone())),
        Call::LikelyBenign
    );
    beside_a_failure.add(changed(vec![differing(false)]));
    assert_eq!(call(&counter, Some(beside_a_failure)), Call::LikelyHarmful);
    // One instance alone is cut, too.
    let mut one = ReplayTally::default();
    let values = (0..2 * MOST_DIFFERENCES).map(|n| Differing {
        this: n.to_string(),
        ..differing(true)
    });
    one.add(changed(values.chain([differing(false)]).collect()));
    assert_eq!(one.difference.len(), MOST_DIFFERENCES);
    assert_eq!(call(&counter, Some(one)), Call::LikelyHarmful);
    // Whoever shows it shows the one value or the other.
    let copy = changed(vec![Differing {
        copy: true,
        ..differing(false)
    }]);
    for rule in [STATISTICS_COUNTER, GAUGE] {
        let decided = [benign(rule)];
        assert_eq!(call(&decided, Some(copy.clone())), Call::LikelyBenign);
        let hinted = [Leaning::hint(rule, Leans::Benign, Vec::new())];
        assert_eq!(call(&hinted, Some(copy.clone())), Call::Undecided);
        assert_eq!(call(&hinted, Some(itself.clone())), Call::LikelyHarmful);
        let mut more = copy.clone();
        more.add(changed(vec![differing(false)]));
        assert_eq!(call(&decided, Some(more.clone())), Call::LikelyHarmful);
        assert_eq!(call(&hinted, Some(more)), Call::LikelyHarmful);
    }
    assert_eq!(call(&[], Some(copy)), Call::LikelyHarmful);
    // What is done with a gauge may matter although no replay shows it.
    let hinted = [Leaning::hint(GAUGE, Leans::Benign, Vec::new())];
    assert_eq!(call(&hinted, Some(same(ENOUGH_REPLAYS))), Call::Undecided);
    let redundant = Leaning::hint("redundant-write", Leans::Benign, Vec::new());
    let both = [hinted[0].clone(), redundant];
    assert_eq!(call(&both, Some(same(ENOUGH_REPLAYS))), Call::Undecided);
    assert_eq!(
        call(&both[1..], Some(same(ENOUGH_REPLAYS))),
        Call::LikelyBenign
    );
    let both = [counter[0].clone(), harmful("reference-count")];
    assert_eq!(call(&both, Some(itself)), Call::LikelyHarmful);
}

#[test]
fn other_races_of_a_region_may_make_a_difference() {
    let flag = [benign(SAFE_FLAG)];
    let mut seldom = same(2);
    assert_eq!(call(&flag, Some(seldom.clone())), Call::LikelyBenign);
    seldom.add(changed(vec![differing(false)]));
    assert_eq!(call(&flag, Some(seldom.clone())), Call::Undecided);
    assert_eq!(call(&[], Some(seldom.clone())), Call::LikelyHarmful);
    let both = [flag[0].clone(), harmful("pointer")];
    assert_eq!(call(&both, Some(seldom.clone())), Call::LikelyHarmful);
    seldom.add(changed(vec![differing(false)]));
    seldom.add(changed(vec![differing(false)]));
    assert_eq!(call(&flag, Some(seldom)), Call::LikelyHarmful);
}

#[test]
fn the_difference_of_the_worst_outcome_comes_first() {
    let named = |what: &str| Differing {
        what: what.to_owned(),
        ..differing(false)
    };
    let with = |tally: ReplayTally, what: &str| ReplayTally {
        difference: vec![named(what)],
        ..tally
    };
    let mut all = with(failed(), "the replay");
    all.add(changed(vec![named("hits")]));
    assert_eq!(all.difference, [named("hits"), named("the replay")]);
    all.add(with(fault(), "A"));
    assert_eq!(all.difference[0], named("A"));
    all.add(changed(vec![named("misses")]));
    assert_eq!(all.difference[0], named("A"));
    assert_eq!(all.difference.len(), 4);
}

#[test]
fn what_one_thread_tells_another_may_depend_on_the_order() {
    for name in TELLS {
        let tells = [benign(name)];
        let difference = changed(vec![differing(false)]);
        assert_eq!(call(&tells, Some(difference.clone())), Call::LikelyBenign);
        assert_eq!(call(&tells, Some(fault())), Call::ProvenHarmful);
        assert_eq!(call(&tells, Some(failed())), Call::Undecided);
        let doubted = [tells[0].clone(), harmful("pointer")];
        assert_eq!(
            call(&doubted, Some(difference.clone())),
            Call::LikelyHarmful
        );
        let hint = [Leaning::hint(name, Leans::Benign, Vec::new())];
        assert_eq!(call(&hint, Some(difference)), Call::LikelyHarmful);
    }
}

#[test]
fn what_a_user_declared_benign_stays_so_until_a_proof() {
    let declared = [benign(ANNOTATED_BENIGN)];
    let difference = changed(vec![differing(false)]);
    assert_eq!(call(&declared, Some(difference)), Call::LikelyBenign);
    assert_eq!(call(&declared, Some(failed())), Call::LikelyBenign);
    let doubted = [declared[0].clone(), harmful("pointer")];
    assert_eq!(call(&doubted, None), Call::LikelyBenign);
    let doubted = combine(doubted.to_vec(), None, 1).confidence;
    assert!(doubted < combine(declared.to_vec(), None, 1).confidence);
    assert_eq!(call(&declared, Some(fault())), Call::ProvenHarmful);
}

#[test]
fn a_hint_decides_nothing() {
    let hint = Leaning::hint("redundant-write", Leans::Benign, Vec::new());
    assert_eq!(call(std::slice::from_ref(&hint), None), Call::Undecided);
    let against = Leaning::hint(STATISTICS_COUNTER, Leans::Harmful, Vec::new());
    assert_eq!(call(std::slice::from_ref(&against), None), Call::Undecided);
    let alone = combine(vec![benign("safe-flag")], None, 4).confidence;
    let doubted = combine(vec![benign("safe-flag"), against], None, 4);
    assert_eq!(doubted.call, Call::LikelyBenign);
    assert!(doubted.confidence < alone);
}

#[test]
fn confidence_grows_with_instances_and_is_never_certain_by_rules() {
    let of = |instances| combine(vec![benign("safe-flag")], None, instances).confidence;
    assert!(of(1) > 0.5 && of(1) < of(4) && of(4) < of(64));
    assert!(of(u64::MAX) < 1.0);
    assert!((combine(Vec::new(), Some(fault()), 1).confidence - 1.0).abs() < 1e-9);
    assert!(combine(Vec::new(), None, 9).confidence.abs() < 1e-9);
}

#[test]
fn over_several_runs_it_is_benign_only_if_all_are() {
    for (at, one) in Call::ALL.into_iter().enumerate() {
        for two in &Call::ALL[at..] {
            let verdict = |call| Verdict {
                call,
                confidence: 0.8,
                rules: vec![benign("safe-flag")],
                replay: Some(same(1)),
            };
            for (a, b) in [(one, *two), (*two, one)] {
                let both = verdict(a).over(verdict(b));
                assert_eq!(both.call, one);
                assert_eq!(both.rules.len(), 1);
                assert_eq!(both.replay.map(|tally| tally.instances()), Some(2));
            }
        }
    }
}

#[test]
fn the_annotations_of_the_latest_run_outrank_rules_of_all_runs_and_no_proof() {
    let over = |runs: &[&Verdict]| {
        let runs = runs.iter().map(|run| ((*run).clone(), 2)).collect();
        Verdict::over_runs(runs).expect("a verdict")
    };
    let bad = combine(vec![harmful("pointer")], Some(same(1)), 2);
    let good = combine(vec![benign("safe-flag")], Some(same(1)), 2);
    let proof = combine(Vec::new(), Some(fault()), 2);
    let declared = combine(
        vec![harmful("pointer"), benign(ANNOTATED_BENIGN)],
        Some(same(1)),
        2,
    );
    assert_eq!(over(&[&bad, &good]).call, Call::LikelyHarmful);
    let late = over(&[&bad, &good, &declared]);
    assert_eq!(late.call, Call::LikelyBenign);
    assert_eq!(late.replay.map(|tally| tally.instances()), Some(3));
    assert!((late.confidence - declared.confidence).abs() < 1e-9);
    for runs in [[&proof, &declared], [&declared, &proof]] {
        assert_eq!(over(&runs).call, Call::ProvenHarmful);
    }
    // It was taken back: then what the rules said counts.
    assert_eq!(over(&[&declared, &good]).call, Call::LikelyHarmful);
    let quiet = combine(vec![benign(ANNOTATED_BENIGN)], None, 2);
    assert_eq!(over(&[&quiet, &good]).call, Call::Undecided);
    assert!(!over(&[&quiet, &good]).is_declared_benign());
    // What else is benign about it may be so of one pair of accesses only.
    let one_pair = combine(
        vec![benign("safe-flag"), benign(ANNOTATED_BENIGN)],
        Some(same(1)),
        2,
    );
    assert_eq!(over(&[&one_pair, &good]).call, Call::Undecided);
    assert_eq!(over(&[&good, &one_pair]).call, Call::LikelyBenign);
    assert_eq!(over(&[&good, &good]).call, Call::LikelyBenign);
    let kept = combine(vec![harmful(ANNOTATED_PROTECTED)], None, 2);
    assert_eq!(over(&[&kept]).call, Call::LikelyHarmful);
    assert_eq!(over(&[&kept, &declared]).call, Call::LikelyBenign);
    assert_eq!(Verdict::over_runs(Vec::new()), None);
}

#[test]
fn a_document_has_the_keys_that_are_promised() {
    let verdict = combine(
        vec![harmful("reference-count")],
        Some(changed(vec![differing(true)])),
        3,
    );
    let document = serde_json::to_value(&verdict).expect("JSON");
    assert_eq!(document["call"], "likely-harmful");
    assert_eq!(
        document["rules"][0],
        serde_json::json!({"rule": "reference-count", "leans": "harmful", "facts": ["seen"]})
    );
    assert_eq!(
        document["replay"],
        serde_json::json!({
            "no_state_change": 0, "state_change": 1, "replay_failure": 0, "faults": 0, "orders": 0,
            "difference": [{"what": "hits", "raced": true, "this": "1", "that": "2"}],
        })
    );
    assert_eq!(
        serde_json::from_value::<Verdict>(document).expect("a verdict"),
        verdict
    );
}

/// Any number of rules and hints that lean either way, without an annotation.
fn any_rules() -> impl Strategy<Value = Vec<Leaning>> {
    let names = ["pointer", "redundant-write", SAFE_FLAG, MARKED, GAUGE];
    let leans = prop_oneof![Just(Leans::Harmful), Just(Leans::Benign)];
    let rule = (prop::sample::select(names.to_vec()), leans, any::<bool>());
    let rule = rule.prop_map(|(name, leans, hint)| Leaning {
        hint,
        ..Leaning::new(name, leans, Vec::new())
    });
    prop::collection::vec(rule, 0..6)
}

fn any_tally() -> impl Strategy<Value = ReplayTally> {
    (0..12_u64, 0..4_u64, 0..4_u64).prop_map(|(same, changes, failures)| ReplayTally {
        no_state_change: same,
        state_change: changes,
        replay_failure: failures,
        difference: vec![differing(false); usize::from(changes > 0)],
        ..ReplayTally::default()
    })
}

proptest! {
    #[test]
    fn confidence_grows_with_the_instances_and_decides_nothing(
        rules in any_rules(),
        tally in any_tally(),
        instances in 1..10_000_u64,
        more in 0..10_000_u64,
    ) {
        let few = combine(rules.clone(), Some(tally.clone()), instances);
        let many = combine(rules, Some(tally), instances + more);
        prop_assert_eq!(few.call, many.call);
        prop_assert!(few.confidence <= many.confidence);
        match few.call {
            Call::Undecided => prop_assert!(many.confidence == 0.0),
            _ => prop_assert!((0.5..=1.0).contains(&few.confidence)),
        }
    }

    #[test]
    fn what_speaks_for_harm_never_makes_a_race_benign(
        rules in any_rules(),
        tally in any_tally(),
        hint in any::<bool>(),
    ) {
        let before = combine(rules.clone(), Some(tally.clone()), 3);
        let mut more = rules;
        more.push(Leaning { hint, ..harmful("pointer") });
        let after = combine(more, Some(tally), 3);
        prop_assert!(after.call <= before.call);
        if after.call == Call::LikelyBenign {
            prop_assert!(hint && after.confidence <= before.confidence);
        }
    }

    #[test]
    fn few_replays_and_hints_make_no_race_benign(
        rules in any_rules(),
        tally in any_tally(),
    ) {
        let hints: Vec<_> = rules.into_iter().map(|rule| Leaning { hint: true, ..rule }).collect();
        let few = ReplayTally { no_state_change: tally.no_state_change % ENOUGH_REPLAYS, ..tally };
        prop_assert!(combine(hints, Some(few), 100).call < Call::LikelyBenign);
    }
}
