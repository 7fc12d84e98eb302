//! What people decide, and when it no longer holds.

use crate::containers::in_container;
use crate::fixtures::{Place, race, reader_and_writer, report, side};
use crate::pointees::{behind, nameless, pointee, told};
use redhanded_model::{
    AccessKind, Analysed, Analysis, Class, Pointee, Race, RaceStanding, State, Triage,
};
use redhanded_store::{Day, Decision, Moment, SqliteStore, Store, StoreError};

const NOW: Moment = Moment(1_800_000_000_000);

fn run(store: &mut SqliteStore, races: Vec<Race>) {
    let run = store.begin(&[], NOW).unwrap();
    for race in &races {
        store.saw(run, race, NOW).unwrap();
    }
    store.finish(run, &report(races), true, NOW).unwrap();
}

fn decide(store: &mut SqliteStore, race: &Race, state: State, until: Option<Day>) {
    let decision = Decision {
        state,
        because: "so it is".to_owned(),
        owner: Some("me".to_owned()),
        until,
    };
    let races = [race.fingerprint.clone()];
    store.decide(&races, &decision, NOW).unwrap();
}

fn standing(store: &SqliteStore, today: Day) -> Triage {
    let stored = store.races(None, today).unwrap().pop().unwrap();
    stored.race.triage.unwrap()
}

#[test]
fn a_fixed_race_that_returns_is_a_regression() {
    let place = Place::new();
    let mut store = place.open();
    let race = reader_and_writer("device");
    run(&mut store, vec![race.clone()]);
    decide(&mut store, &race, State::Fixed, None);
    let triage = standing(&store, NOW.day());
    assert_eq!((triage.state, triage.new), (State::Fixed, false));
    run(&mut store, vec![race.clone()]);
    let triage = standing(&store, NOW.day());
    assert_eq!((triage.state, triage.new), (State::Regression, true));
    // Once is enough to say so.
    let history = store.history(&race.fingerprint).unwrap();
    let states: Vec<_> = history.iter().map(|(_, by, d)| (*by, d.state)).collect();
    assert_eq!(states, [(false, State::Fixed), (true, State::Regression)]);
}

/// Decides that `before` is no problem, and sees `after`; whether that reopened it.
fn reopened(before: &Race, after: Race) -> Option<String> {
    let place = Place::new();
    let mut store = place.open();
    run(&mut store, vec![before.clone()]);
    decide(&mut store, before, State::NotAProblem, None);
    run(&mut store, vec![after]);
    let triage = standing(&store, NOW.day());
    assert_eq!(triage.new, triage.state == State::New);
    (triage.state == State::New).then_some(triage.because.unwrap())
}

#[test]
fn what_was_no_problem_is_reopened_by_an_instance_that_is_worse() {
    let known = reader_and_writer("device");
    assert_eq!(reopened(&known, known.clone()), None);
    let sides = vec![
        side(AccessKind::Write, "poll", "poll.c", &[]),
        side(AccessKind::Update, "serve", "serve.c", &[]),
    ];
    let written = race("device", sides);
    let because = reopened(&known, written.clone()).unwrap();
    assert!(because.contains("both sides write now"), "{because}");
    assert!(because.contains("so it is"), "{because}");
    // What was worse already when it was decided about is not news.
    assert_eq!(reopened(&written, known.clone()), None);
    let doubtful = Race {
        class: Class::PossiblyAtomic,
        ..known.clone()
    };
    let because = reopened(&doubtful, known.clone()).unwrap();
    assert!(because.contains("a race for certain"), "{because}");
    assert_eq!(reopened(&known, doubtful), None);
    let found = |standing| Race {
        analysed: Some(Analysed {
            standing,
            by: vec![Analysis::Lockset],
        }),
        ..known.clone()
    };
    let suspected = found(RaceStanding::Suspect);
    for now in [RaceStanding::Unordered, RaceStanding::Caught] {
        let because = reopened(&suspected, found(now)).unwrap();
        assert!(because.contains("more than a suspicion"), "{because}");
    }
    assert_eq!(reopened(&suspected, suspected.clone()), None);
}

#[test]
fn a_decision_holds_until_the_end_of_its_last_day() {
    let place = Place::new();
    let mut store = place.open();
    let race = reader_and_writer("device");
    run(&mut store, vec![race.clone()]);
    let last: Day = "2027-03-31".parse().unwrap();
    decide(&mut store, &race, State::Deferred, Some(last));
    assert_eq!(standing(&store, last).state, State::Deferred);
    let after = standing(&store, last.plus(1));
    assert_eq!((after.state, after.new), (State::New, true));
    assert!(after.because.unwrap().contains("expired"));
}

/// Whether a race is new to a store whose first run saw `before`, as it was decided.
fn is_new(before: &Race, decided: Option<State>, race: &Race) -> bool {
    let place = Place::new();
    let mut store = place.open();
    run(&mut store, vec![before.clone()]);
    if let Some(state) = decided {
        decide(&mut store, before, state, None);
    }
    run(&mut store, vec![race.clone()]);
    let latest = store.runs().unwrap().pop().unwrap().id;
    let of = |run| {
        let races = store.races(run, NOW.day()).unwrap();
        let found = races
            .iter()
            .find(|it| it.race.fingerprint == race.fingerprint);
        found.unwrap().race.is_new()
    };
    assert_eq!(of(Some(latest)), of(None));
    of(None)
}

#[test]
fn chance_decides_how_much_of_a_race_is_seen_and_not_whether_it_is_new() {
    let whole = reader_and_writer("device");
    let half = race("device", vec![whole.accesses[0].clone()]);
    assert!(half.unknown_origin());
    for decided in [None, Some(State::NotAProblem), Some(State::Confirmed)] {
        assert!(!is_new(&whole, decided, &half), "{decided:?}");
        assert!(!is_new(&half, decided, &whole), "{decided:?}");
    }
    // It returns after all.
    assert!(is_new(&whole, Some(State::Fixed), &half));
    // Another variable, another place, and what was only possible before.
    let other = race("other", vec![whole.accesses[0].clone()]);
    assert!(is_new(&whole, None, &other));
    let elsewhere = side(AccessKind::Read, "elsewhere", "a.c", &[]);
    assert!(is_new(&whole, None, &race("device", vec![elsewhere])));
    let doubtful = Race {
        class: Class::PossiblyAtomic,
        ..whole.clone()
    };
    assert!(is_new(&doubtful, None, &half));
    // Two races that share a side are two.
    let third = side(AccessKind::Write, "third", "a.c", &[]);
    let third = race("device", vec![whole.accesses[0].clone(), third]);
    assert!(is_new(&whole, None, &third));
}

#[test]
fn another_member_behind_a_pointer_is_another_race() {
    let both = || reader_and_writer("");
    let half = || race("", vec![both().accesses[0].clone()]);
    for known in [behind(both(), "a"), behind(half(), "a")] {
        for decided in [None, Some(State::NotAProblem)] {
            assert!(
                !is_new(&known, decided, &behind(both(), "a")),
                "{decided:?}"
            );
            assert!(
                !is_new(&known, decided, &behind(half(), "a")),
                "{decided:?}"
            );
            assert!(is_new(&known, decided, &behind(both(), "b")), "{decided:?}");
            assert!(is_new(&known, decided, &behind(half(), "b")), "{decided:?}");
        }
    }
    let fixed = Some(State::Fixed);
    assert!(is_new(&behind(both(), "a"), fixed, &behind(both(), "b")));
}

#[test]
fn whether_a_member_was_named_does_not_make_a_race_new() {
    let both = || reader_and_writer("");
    let half = || race("", vec![both().accesses[0].clone()]);
    for (one, other) in [(both(), both()), (both(), half()), (half(), both())] {
        let (named, other) = (behind(one, "a"), nameless(other));
        assert!(!is_new(&named, None, &other));
        assert!(!is_new(&other, None, &named));
        assert!(is_new(&named, Some(State::Fixed), &other));
        assert!(is_new(&other, Some(State::Fixed), &named));
    }
    let third = side(AccessKind::Write, "third", "a.c", &[]);
    let third = race("", vec![both().accesses[0].clone(), third]);
    assert!(is_new(&nameless(both()), None, &behind(third.clone(), "a")));
    assert!(is_new(&behind(both(), "a"), None, &nameless(third)));
}

/// Earlier versions told the member, and left it out of the fingerprint.
#[test]
fn what_an_earlier_version_remembered_is_not_new() {
    let both = || reader_and_writer("");
    let old = told(both(), ".a");
    assert!(!is_new(&old, None, &behind(both(), "a")));
    let half = race("", vec![both().accesses[0].clone()]);
    assert!(!is_new(&old, None, &behind(half, "a")));
    assert!(is_new(&old, None, &behind(both(), "b")), "nobody saw it");
    // Which type has the member of a member was not told.
    let deep = told(both(), ".inner.a");
    assert!(!is_new(&deep, None, &behind(both(), "a")));
    let mut doubtful = old;
    doubtful.what.pointee = Some(Pointee {
        doubtful: true,
        ..pointee(".a")
    });
    assert!(!is_new(&doubtful, None, &behind(both(), "b")));
}

/// They told the type that the pointer was declared with; today it is the one that has the member.
#[test]
fn what_an_earlier_version_called_by_another_name_of_its_type_is_not_new() {
    let both = || reader_and_writer("");
    let half = || race("", vec![both().accesses[0].clone()]);
    let by = |mut race: Race, type_name: &str| {
        let pointee = race.what.pointee.as_mut().unwrap();
        type_name.clone_into(&mut pointee.type_name);
        race
    };
    for (old, new) in [(both(), both()), (both(), half()), (half(), both())] {
        let old = by(told(old, ".a"), "item_t");
        let new = |member| behind(new.clone(), member);
        assert!(!is_new(&old, None, &by(new("a"), "item_t")));
        assert!(is_new(&old, Some(State::Fixed), &by(new("a"), "item_t")));
        assert!(is_new(&old, None, &by(new("a"), "other_t")));
        assert!(is_new(&old, None, &by(new("b"), "item_t")));
    }
}

/// They took a container's function for the program's own, whoever called it.
#[test]
fn what_an_earlier_version_called_by_a_container_is_not_new_where_it_was_seen() {
    let by = |function: &str| {
        let side = |kind| in_container(kind, function, "cont.cc");
        vec![side(AccessKind::Read), side(AccessKind::Write)]
    };
    let today = |function: &str| {
        let race = race("requests", by(function));
        Race {
            fingerprint: race.placed_today(),
            ..race
        }
    };
    let mut old = race("requests", by("add_request"));
    assert_ne!(old.fingerprint, today("add_request").fingerprint);
    assert!(!is_new(&old, None, &today("add_request")));
    assert!(is_new(&old, None, &today("add_reply")), "nobody saw it");
    assert!(is_new(&old, Some(State::Fixed), &today("add_request")));
    // Among others it saw that pair, too.
    old.pairs.push(race("requests", by("add_reply")).pair());
    assert!(!is_new(&old, None, &today("add_reply")));
    // Half a race is no sign of others with that half.
    let mut halved = race("requests", by("add_request"));
    let half = race("requests", by("add_reply")[..1].to_vec());
    halved.pairs.push(half.pair());
    assert!(is_new(&halved, None, &today("add_reply")));
}

#[test]
fn races_are_decided_about_together_or_not_at_all() {
    let place = Place::new();
    let mut store = place.open();
    let (race, unknown) = (reader_and_writer("device"), reader_and_writer("unknown"));
    run(&mut store, vec![race.clone()]);
    let decision = Decision {
        state: State::Confirmed,
        because: "yes".to_owned(),
        owner: None,
        until: None,
    };
    let both = [race.fingerprint.clone(), unknown.fingerprint];
    let refused = store.decide(&both, &decision, NOW);
    assert!(
        matches!(refused, Err(StoreError::NoRace { .. })),
        "{refused:?}"
    );
    assert_eq!(standing(&store, NOW.day()).state, State::New);
    store.note(&both[..1], "looked at it", NOW).unwrap();
    let notes = store.notes(&race.fingerprint).unwrap();
    assert_eq!(notes, [(NOW, "looked at it".to_owned())]);
}
