//! Each rule with a race that it is about, and with one that only looks so.

mod pairs;
mod updates;

use super::*;
use redhanded_model::{
    Analysed, Analysis, Bits, Call, Fact, History, Leaning, Leans, RaceStanding, ReplayTally, Step,
    Usage, Use,
};
use serde_json::{Value, json};
use std::path::Path;

/// A race of `count` sides on a variable, each of this kind.
fn race(name: &str, kinds: &[&str]) -> Race {
    let access = |kind: &str, function: &str| {
        json!({
            "thread": {"tid": 1, "name": ""}, "kind": kind, "size": 4, "pc": "0x0", "instruction": null,
            "atomic": false, "function": function, "file": null, "line": null, "system_call": null,
            "stack": [],
        })
    };
    let side = |kind: &str| {
        json!({
            "kind": kind, "extent": {"address": "0x1000", "size": 4},
            "facts": [{"fact": "natural", "natural": true, "from": "instruction", "certainty": "certain"}],
        })
    };
    let accesses: Vec<Value> = kinds
        .iter()
        .zip(["one", "two"])
        .map(|(kind, name)| access(kind, name))
        .collect();
    let sides: Vec<Value> = kinds.iter().map(|kind| side(kind)).collect();
    let document = json!({
        "fingerprint": format!("{name} {kinds:?}"), "class": "race", "instances": 3, "lines": [],
        "what": {"name": name, "type": "unsigned int", "field": null, "bit_fields": [], "address": "0x1000", "size": 4},
        "seen_by": "watch", "values": {"before": "", "after": ""}, "accesses": accesses,
        "evidence": {"sides": sides, "conflict": null, "bytes": []},
    });
    let mut race: Race = serde_json::from_value(document).expect("a race");
    race.usage = vec![Usage::default(); kinds.len()];
    race
}

fn judged(race: &Race) -> Verdict {
    judged_among(race, &[])
}

fn judged_among(race: &Race, others: &[Race]) -> Verdict {
    let mut report = Report {
        races: others.to_vec(),
        ..Report::default()
    };
    report.races.push(race.clone());
    judge(&mut report, &Annotations::default());
    let found = report
        .races
        .into_iter()
        .find(|it| it.fingerprint == race.fingerprint);
    found.and_then(|race| race.verdict).expect("a verdict")
}

#[track_caller]
fn check(race: &Race, call: Call, rule: &str) {
    let verdict = judged(race);
    assert_eq!(verdict.call, call, "{:?}", verdict.rules);
    if !rule.is_empty() {
        assert!(
            verdict.rules.iter().any(|it| it.rule == rule),
            "{:?}",
            verdict.rules
        );
    }
}

fn grows() -> Option<History> {
    Some(History {
        grew: 3,
        ..History::default()
    })
}

fn counter() -> Race {
    let mut race = race("hits", &["update", "update"]);
    for usage in &mut race.usage {
        usage.step = Some(Step::By(1));
        usage.elsewhere = vec![Step::By(1)];
    }
    race.history = grows();
    race
}

#[test]
fn a_counter_that_only_grows_is_benign() {
    check(&counter(), Call::LikelyBenign, "statistics-counter");
    let mut once = counter();
    once.history = None;
    check(&once, Call::Undecided, "statistics-counter");
    let mut falls = counter();
    falls.history.as_mut().expect("a history").fell_between = 1;
    check(&falls, Call::Undecided, "statistics-counter");
    // A few falls are updates that were lost, unless somebody sets it.
    let mut loses = counter();
    loses.history = Some(History {
        grew: 40,
        fell_between: 2,
        ..History::default()
    });
    check(&loses, Call::LikelyBenign, "statistics-counter");
    loses.usage[0].elsewhere = vec![Step::By(1), Step::Other];
    check(&loses, Call::Undecided, "statistics-counter");
    // The barrier may be a lock that the other side forgot.
    let mut forgotten = counter();
    forgotten.usage[0].barrier = Some("xchg byte ptr [0x10], al".to_owned());
    check(&forgotten, Call::Undecided, "statistics-counter");
    forgotten.usage[1].barrier = forgotten.usage[0].barrier.clone();
    check(&forgotten, Call::LikelyBenign, "statistics-counter");
    // Whoever counts and keeps the number takes a ticket.
    for used in [
        Use::Stored,
        Use::Returned,
        Use::Index,
        Use::Passed(None),
        Use::Lost,
    ] {
        let mut ticket = counter();
        ticket.usage[0].uses = vec![used.clone()];
        assert_ne!(judged(&ticket).call, Call::LikelyBenign, "{used:?}");
    }
}

#[test]
fn a_branch_on_a_counter_makes_it_less_certain() {
    let mut branch = counter();
    branch.usage[0].uses = vec![Use::Branch];
    check(&branch, Call::LikelyBenign, "statistics-counter");
    check(&branch, Call::LikelyBenign, "counter-branch");
    let (doubted, certain) = (judged(&branch), judged(&counter()));
    assert!(
        doubted.confidence < certain.confidence,
        "{} and {}",
        doubted.confidence,
        certain.confidence
    );
    // On what is no counter it says nothing.
    let mut flag = flag(1, 2);
    flag.usage[0].uses = vec![Use::Branch];
    let rules = judged(&flag).rules;
    assert!(rules.iter().all(|it| it.rule != "counter-branch"));
}

#[test]
fn a_number_that_goes_down_is_a_reference_count() {
    let mut count = counter();
    count.usage[1].step = Some(Step::By(-1));
    check(&count, Call::LikelyHarmful, "reference-count");
    let mut elsewhere = counter();
    elsewhere.usage[0].elsewhere = vec![Step::By(1), Step::By(-1)];
    check(&elsewhere, Call::LikelyHarmful, "reference-count");
    // Known from another race on the same variable.
    let mut other = race("hits", &["update", "read"]);
    other.usage[0].step = Some(Step::By(-1));
    assert_eq!(judged_among(&counter(), &[other]).call, Call::LikelyHarmful);
}

/// A number that is counted up and down under a lock, and looked at without.
fn gauge() -> Race {
    let mut race = race("connections", &["read", "update"]);
    race.usage[0].uses = vec![Use::Branch];
    race.usage[0].threshold = true;
    race.usage[0].only_looks = true;
    race.usage[1].step = Some(Step::By(1));
    race.usage[1].lock = Some("pthread_mutex_lock".to_owned());
    for usage in &mut race.usage {
        usage.elsewhere = vec![Step::By(1), Step::By(-1)];
        usage.guarded = true;
    }
    race
}

#[test]
fn a_gauge_under_a_lock_is_benign() {
    check(&gauge(), Call::LikelyBenign, "gauge");
    let mut shown = gauge();
    for name in ["printf", "__printf_chk"] {
        shown.usage[0].uses = vec![Use::Passed(Some(name.to_owned()))];
        check(&shown, Call::LikelyBenign, "gauge");
    }
    // Each of these leaves it open.
    let changes: [fn(&mut Race); 8] = [
        |race| {
            race.usage[0]
                .uses
                .push(Use::Passed(Some("login_allowed".to_owned())))
        },
        |race| {
            race.usage[0]
                .uses
                .push(Use::Passed(Some("fingerprint_insert".to_owned())))
        },
        |race| {
            race.usage[0]
                .uses
                .push(Use::Passed(Some("reserve".to_owned())))
        },
        |race| race.usage[0].only_looks = false,
        |race| {
            race.usage
                .iter_mut()
                .for_each(|usage| usage.guarded = false)
        },
        |race| race.usage[0].uses.push(Use::Returned),
        |race| race.usage[1].uses.push(Use::Stored),
        |race| race.usage[0].elsewhere.push(Step::Other),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut open = gauge();
        change(&mut open);
        assert_eq!(judged(&open).call, Call::Undecided, "{at}");
    }
}

#[test]
fn a_number_that_somebody_asks_is_a_reference_count() {
    // What is left is tested where it is counted down, which nobody was caught at.
    let mut elsewhere = gauge();
    elsewhere.usage[0].uses = vec![Use::Stored];
    elsewhere.usage[0].threshold = false;
    elsewhere.usage[0].left_tested = true;
    check(&elsewhere, Call::LikelyHarmful, "reference-count");
    // A threshold says nothing of the last one.
    let mut threshold = gauge();
    threshold.usage[0].left_tested = true;
    check(&threshold, Call::Undecided, "reference-count");
    threshold.usage[1].lock = None;
    check(&threshold, Call::LikelyHarmful, "reference-count");
    // Is anybody there?
    let mut zero = gauge();
    zero.usage[0].threshold = false;
    check(&zero, Call::LikelyHarmful, "reference-count");
    // The decrement was caught, in another race, and its result tested.
    let mut other = race("connections", &["read", "update"]);
    other.fingerprint = Fingerprint("other".to_owned());
    other.usage[1].step = Some(Step::By(-1));
    other.usage[1].uses = vec![Use::Branch];
    let mut shown = gauge();
    shown.usage[0].uses = vec![Use::Stored];
    shown.usage[0].threshold = false;
    assert_eq!(judged_among(&shown, &[other]).call, Call::LikelyHarmful);
    // Two writers: what one counted is lost.
    let mut writers = race("connections", &["update", "update"]);
    writers.usage[0].step = Some(Step::By(-1));
    writers.usage[1].step = Some(Step::By(1));
    assert_eq!(judged_among(&gauge(), &[writers]).call, Call::Undecided);
    let mut unlocked = gauge();
    unlocked.usage[1].lock = None;
    check(&unlocked, Call::Undecided, "");
    assert!(judged(&unlocked).rules.is_empty());
}

fn flag(tests: u64, changes: u64) -> Race {
    let mut race = race("flags", &["read", "update"]);
    race.usage[0].uses = vec![Use::Branch];
    race.usage[0].tests = Some(Bits(tests));
    race.usage[1].step = Some(Step::Bits);
    race.usage[1].changes = Some(Bits(changes));
    race
}

#[test]
fn bits_that_are_apart_are_safe() {
    check(&flag(1, 0x40), Call::LikelyBenign, "safe-flag");
    // Bits above the bytes are none.
    check(
        &flag(1, 0xffff_ffff_0000_0040),
        Call::LikelyBenign,
        "safe-flag",
    );
    check(&flag(0x41, 0x40), Call::Undecided, "");
    // Two writers are never safe.
    let mut two = flag(1, 0x40);
    two.accesses[0].kind = redhanded_model::AccessKind::Update;
    two.usage[0].step = Some(Step::Bits);
    check(&two, Call::LikelyHarmful, "lost-update");
    // Both threads run the function that writes: two writers again.
    let mut own = flag(1, 0x40);
    own.accesses[0].function = own.accesses[1].function.clone();
    check(&own, Call::Undecided, "");
    let mut writers = race("flags", &["update", "write"]);
    writers.usage[0].step = Some(Step::Bits);
    assert_eq!(
        judged_among(&flag(1, 0x40), &[writers]).call,
        Call::Undecided
    );
}

#[test]
fn a_pointer_that_is_followed_does_harm() {
    let mut pointer = race("config", &["read", "write"]);
    pointer.usage[0].uses = vec![Use::Branch, Use::Address];
    check(&pointer, Call::LikelyHarmful, "pointer");
    // An address of which only a bit is taken that the writer leaves alone.
    for used in [Use::Address, Use::Index] {
        let mut part = flag(2, 0x10);
        part.usage[0].uses.push(used.clone());
        check(&part, Call::LikelyBenign, "safe-flag");
        let mut own = flag(0x12, 0x10);
        own.usage[0].uses.push(used.clone());
        assert_eq!(judged(&own).call, Call::LikelyHarmful, "{used:?}");
        // Which bits a store changes is not known.
        let mut stored = flag(2, 0x10);
        stored.usage[0].uses.push(used.clone());
        stored.usage[1].changes = None;
        assert_eq!(judged(&stored).call, Call::LikelyHarmful, "{used:?}");
    }
    let mut compared = race("config", &["read", "write"]);
    compared.what.type_name = Some("struct config *".to_owned());
    compared.usage[0].uses = vec![Use::Branch];
    check(&compared, Call::Undecided, "");
    compared.usage[0].uses.push(Use::Stored);
    check(&compared, Call::LikelyHarmful, "pointer");
}

#[test]
fn a_value_that_steers_does_harm() {
    for used in [
        Use::Index,
        Use::Loop,
        Use::Passed(Some("malloc".to_owned())),
        Use::Passed(Some("pthread_mutex_lock".to_owned())),
        Use::Passed(Some("spin_unlock".to_owned())),
    ] {
        let mut steers = race("length", &["read", "write"]);
        steers.usage[0].uses = vec![used];
        check(&steers, Call::LikelyHarmful, "steering");
    }
    let mut printed = race("length", &["read", "write"]);
    for name in ["printf", "clock_gettime", "put_block"] {
        printed.usage[0].uses = vec![Use::Passed(Some(name.to_owned()))];
        check(&printed, Call::Undecided, "");
    }
    // Which lock depends on a bit that the writer leaves alone.
    let mut apart = flag(1, 2);
    let used = Use::Passed(Some("pthread_mutex_lock".to_owned()));
    apart.usage[0].uses.push(used);
    check(&apart, Call::LikelyBenign, "safe-flag");
}

#[test]
fn check_then_act_does_harm_unless_it_waits_or_checks_again() {
    let mut acts = race("owner", &["read", "write"]);
    acts.usage[0].uses = vec![Use::Branch, Use::Overwritten];
    check(&acts, Call::LikelyHarmful, "check-then-act");
    let mut again = acts.clone();
    again.usage[0].checked_again = Some("lock".to_owned());
    again.usage[1].lock = Some("lock".to_owned());
    check(&again, Call::LikelyBenign, "double-check");
    // Whoever has the lock acts alone, if the other side only reads.
    let mut reads = race("owner", &["read", "update"]);
    reads.usage[1].uses = acts.usage[0].uses.clone();
    check(&reads, Call::LikelyHarmful, "check-then-act");
    reads.usage[1].lock = Some("lock".to_owned());
    assert_eq!(judged(&reads).call, Call::Undecided);
    let mut writes = reads.clone();
    writes.accesses[0].kind = redhanded_model::AccessKind::Write;
    check(&writes, Call::LikelyHarmful, "check-then-act");
    let mut waits = acts.clone();
    waits.usage[0].uses.push(Use::Wait);
    check(&waits, Call::LikelyBenign, "waiting");
}

#[test]
fn a_double_check_needs_a_writer_with_the_lock() {
    let mut check_only = race("ready", &["read", "write"]);
    check_only.usage[0].uses = vec![Use::Branch];
    check_only.usage[0].checked_again = Some("lock".to_owned());
    check(&check_only, Call::Undecided, "");
}

#[test]
fn a_lock_on_one_side_only() {
    let mut writes = race("limit", &["write", "write"]);
    writes.usage[0].lock = Some("pthread_mutex_lock".to_owned());
    check(&writes, Call::LikelyHarmful, "one-sided");
    let mut reads = race("limit", &["read", "write"]);
    reads.usage[1].lock = Some("pthread_mutex_lock".to_owned());
    check(&reads, Call::Undecided, "one-sided");
}

#[test]
fn what_is_not_made_in_one_piece_is_torn() {
    let mut wide = race("position", &["read", "write"]);
    let facts = &mut wide.evidence.as_mut().expect("evidence").sides[0].facts;
    facts.clear();
    facts.push(Fact::Natural { natural: false }.into());
    check(&wide, Call::LikelyHarmful, "torn");
    check(&race("position", &["read", "write"]), Call::Undecided, "");
}

#[test]
fn links_and_freed_memory() {
    let mut link = race("list", &["read", "write"]);
    link.what.field = Some(".next".to_owned());
    link.what.type_name = Some("struct node *".to_owned());
    link.what.size = 8;
    link.usage[0].uses = vec![Use::Branch];
    check(&link, Call::LikelyHarmful, "link");
    let mut freed = race("list", &["read", "write"]);
    freed.rule = Some(redhanded_model::Rule::FreedWhileItStood);
    check(&freed, Call::LikelyHarmful, "freed-while-it-stood");
}

#[test]
fn sides_that_name_different_objects_do_harm() {
    let pointee = |kind: &str, path: &str, part: &str| {
        serde_json::from_value(json!({
            "type": kind, "path": path, "part_type": part, "from": "variable", "doubtful": false
        }))
        .expect("a pointee")
    };
    let mut race = race("", &["read", "write"]);
    race.what.name = None;
    race.what.region = redhanded_model::Region::Heap;
    race.accesses[0].pointee = pointee("struct item", ".count", "unsigned int");
    race.accesses[1].pointee = pointee("struct node", ".next", "struct node *");
    check(&race, Call::Undecided, "");
    race.what.sides_differ = true;
    check(&race, Call::LikelyHarmful, "different-objects");
    race.accesses[1].pointee = pointee("struct node", ".size", "unsigned int");
    check(&race, Call::Undecided, "");
}

#[test]
fn an_index_that_leads_out_of_its_array() {
    let mut race = race("limit", &["write", "read"]);
    let beyond = json!({
        "expression": "samples[8]", "type": "int", "path": "", "part_type": "int",
        "from": "followed", "doubtful": false, "outside": true
    });
    race.accesses[0].pointee = serde_json::from_value(beyond).unwrap();
    check(&race, Call::Undecided, "");
    race.what.sides_differ = true;
    check(&race, Call::LikelyHarmful, "different-objects");
}

#[test]
fn members_that_race_together() {
    let member = |field: &str| {
        let mut race = race("window", &["read", "write"]);
        race.what.field = Some(field.to_owned());
        race.fingerprint = Fingerprint(field.to_owned());
        race
    };
    let both = judged_among(&member(".width"), &[member(".height")]);
    assert_eq!(both.call, Call::LikelyHarmful);
    check(&member(".width"), Call::Undecided, "");
}

#[test]
fn marks_and_hints() {
    let mut marked = race("stop", &["read", "write"]);
    let source = json!({"fact": "source", "source": {"marking": {"is": "volatile", "word": "volatile"}}, "from": "source", "certainty": "likely"});
    let known = serde_json::from_value(source).expect("a fact");
    marked.evidence.as_mut().expect("evidence").sides[0]
        .facts
        .push(known);
    check(&marked, Call::LikelyBenign, "marked");
    let mut possibly = race("stop", &["read", "write"]);
    possibly.class = redhanded_model::Class::PossiblyAtomic;
    check(&possibly, Call::Undecided, "marked");
    let mut redundant = race("pid", &["read", "write"]);
    redundant.history = Some(History {
        unchanged: 5,
        ..History::default()
    });
    check(&redundant, Call::Undecided, "redundant-write");
    let mut counted = redundant.clone();
    counted.usage[1].step = Some(Step::By(1));
    assert!(
        judged(&counted)
            .rules
            .iter()
            .all(|it| it.rule != "redundant-write")
    );
    // Held before the write, with the same value each time.
    let mut held = race("pid", &["write", "read"]);
    held.history = redundant.history.clone();
    check(&held, Call::Undecided, "redundant-write");
    held.history.as_mut().expect("a history").rose_between = 1;
    assert!(judged(&held).rules.is_empty());
}

#[test]
fn annotations_decide_what_code_cannot_tell() {
    let verdict = |text: &str, race: &Race| {
        let annotations = Annotations::parse(text, Path::new("notes")).expect("annotations");
        let mut report = Report {
            races: vec![race.clone()],
            ..Report::default()
        };
        judge(&mut report, &annotations);
        report.races[0].verdict.clone().expect("a verdict")
    };
    let of = |text: &str, race: &Race| verdict(text, race).call;
    let stamp = race("last_used", &["read", "write"]);
    let about = |condition: &str, says: &str| format!("[[annotation]]\n{condition}\n{says}");
    let benign = "benign = \"a time stamp\"";
    assert_eq!(
        of(&about("variable = \"last_*\"", benign), &stamp),
        Call::LikelyBenign
    );
    assert_eq!(
        of(&about("function = \"two\"", "ignore = true"), &stamp),
        Call::LikelyBenign
    );
    assert_eq!(
        of(&about("variable = \"other\"", benign), &stamp),
        Call::Undecided
    );
    let both = "variable = \"last_used\"\nfunction = \"three\"";
    assert_eq!(of(&about(both, benign), &stamp), Call::Undecided);
    let protected = about("variable = \"last_used\"", "protected-by = \"cache_lock\"");
    assert_eq!(of(&protected, &stamp), Call::LikelyHarmful);
    // Nothing met where only the lockset analysis suspects: that lock may explain why.
    let standing = |standing| {
        let mut race = stamp.clone();
        race.analysed = Some(Analysed {
            standing,
            by: vec![Analysis::Lockset],
        });
        race
    };
    let suspect = standing(RaceStanding::Suspect);
    assert_eq!(of(&protected, &suspect), Call::Undecided);
    let rules = verdict(&protected, &suspect).rules;
    assert!(rules.iter().any(|it| it.hint && it.leans == Leans::Benign));
    // Happens-before suspects for reasons that no lock explains.
    let mut unsure = suspect.clone();
    let by = vec![Analysis::HappensBefore, Analysis::Lockset];
    unsure.analysed.as_mut().unwrap().by = by;
    assert!(verdict(&protected, &unsure).rules.is_empty());
    // It may have been forgotten there.
    let mut pointer = suspect;
    pointer.usage[0].uses = vec![Use::Address];
    assert_eq!(of(&protected, &pointer), Call::LikelyHarmful);
    for known in [RaceStanding::Unordered, RaceStanding::Caught] {
        let call = of(&protected, &standing(known));
        assert_eq!(call, Call::LikelyHarmful, "{known:?}");
    }
}

#[test]
fn what_is_likely_harmful_comes_first_and_nothing_is_dropped() {
    let mut report = Report {
        races: vec![counter(), race("x", &["read", "write"]), flag(1, 2)],
        ..Report::default()
    };
    let mut pointer = race("config", &["read", "write"]);
    pointer.usage[0].uses = vec![Use::Address];
    report.races.push(pointer);
    judge(&mut report, &Annotations::default());
    let calls: Vec<_> = report
        .races
        .iter()
        .filter_map(|race| Some(race.verdict.as_ref()?.call))
        .collect();
    use Call::{LikelyBenign, LikelyHarmful, Undecided};
    assert_eq!(
        calls,
        [LikelyHarmful, Undecided, LikelyBenign, LikelyBenign]
    );
}

#[test]
fn a_report_that_is_read_again_gets_the_same_verdicts() {
    let mut report = Report {
        races: vec![counter(), flag(1, 2)],
        ..Report::default()
    };
    judge(&mut report, &Annotations::default());
    let text = serde_json::to_string(&report.races).expect("JSON");
    let mut again = Report {
        races: serde_json::from_str(&text).expect("races"),
        ..Report::default()
    };
    judge(&mut again, &Annotations::default());
    assert_eq!(again.races, report.races);
}

#[test]
fn what_a_store_tells_is_judged_again_by_annotations_alone() {
    let again = |text: &str, known: Verdict| {
        let annotations = Annotations::parse(text, Path::new("notes")).expect("annotations");
        let mut report = Report {
            races: vec![Race {
                verdict: Some(known),
                ..flag(1, 2)
            }],
            ..Report::default()
        };
        judge_again(&mut report, &annotations);
        report.races[0].verdict.clone().expect("a verdict")
    };
    // Of another run than the instance that is told.
    let earlier = Leaning::new("pointer", Leans::Harmful, Vec::new());
    let replay = ReplayTally {
        no_state_change: 3,
        ..ReplayTally::default()
    };
    let known = combine(vec![earlier], Some(replay.clone()), 2);
    let other = "[[annotation]]\nvariable = \"other\"\nignore = true";
    assert_eq!(again(other, known.clone()).call, Call::LikelyHarmful);
    let about = other.replace("other", "flags");
    let judged = again(&about, known);
    assert_eq!(judged.call, Call::LikelyBenign);
    assert_eq!(judged.replay, Some(replay));
}

#[test]
fn each_rule_is_described() {
    let text = include_str!("../../../docs/verdicts.md");
    for entry in &RULES {
        assert!(
            text.contains(&format!("`{}`", entry.name)),
            "{}",
            entry.name
        );
        let _: Leans = entry.leans;
    }
}
