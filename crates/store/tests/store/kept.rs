//! What is kept of a run, by one process and by several.

use crate::fixtures::{Place, reader_and_writer, report};
use redhanded_model::{ANNOTATED_BENIGN, Call, Leaning, Leans, Quote, Race, Report, combine};
use redhanded_store::{Access, Exposed, Moment, SqliteStore, Store};

const NOW: Moment = Moment(1_800_000_000_000);
const LATER: Moment = Moment(1_800_086_400_000);

fn program() -> Vec<String> {
    vec!["./app".to_owned()]
}

#[test]
fn a_run_is_read_back_as_it_was_told() {
    let place = Place::new();
    let mut store = place.open();
    let run = store.begin(&program(), NOW).unwrap();
    let mut race = reader_and_writer("device");
    store.saw(run, &race, NOW).unwrap();
    let more = [(race.fingerprint.clone(), 4)];
    store.saw_again(run, &more, LATER).unwrap();
    race.instances = 5;
    let quote = Quote {
        file: "a.c".to_owned(),
        line: 3,
        text: "x++;".to_owned(),
    };
    let told = Report {
        quotes: vec![quote.clone()],
        ..report(vec![race.clone()])
    };
    store.finish(run, &told, true, LATER).unwrap();
    drop(store);
    let store = SqliteStore::open(&place.path(), Access::Read).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].run.as_ref(), runs[0].races), (Some(&told.run), 1));
    let stored = store.races(None, NOW.day()).unwrap().pop().unwrap();
    assert_eq!((stored.first, stored.last, stored.runs), (NOW, LATER, 1));
    let kept = Race {
        triage: None,
        ..stored.race
    };
    assert_eq!(kept, race);
    assert_eq!(store.quotes(Some(run)).unwrap(), [quote]);
}

#[test]
fn samples_of_a_site_add_up_over_runs() {
    let place = Place::new();
    let mut store = place.open();
    let exposed = |site, samples| Exposed {
        module: "app".to_owned(),
        site,
        samples,
    };
    let first = store.begin(&program(), NOW).unwrap();
    store
        .exposed(first, &[exposed(1, 10), exposed(2, 1)])
        .unwrap();
    store.exposed(first, &[exposed(1, 5)]).unwrap();
    let second = store.begin(&program(), NOW).unwrap();
    store.exposed(second, &[exposed(1, 2)]).unwrap();
    assert_eq!(store.exposure().unwrap(), (2, 18));
}

#[test]
fn a_crash_in_the_middle_loses_nothing_that_was_reported() {
    let place = Place::new();
    let mut store = place.open();
    let run = store.begin(&program(), NOW).unwrap();
    store.saw(run, &reader_and_writer("device"), NOW).unwrap();
    // Nothing of the store is closed in order.
    std::mem::forget(store);
    let store = place.open();
    assert_eq!(store.races(None, NOW.day()).unwrap().len(), 1);
    assert!(store.runs().unwrap()[0].run.is_none());
}

#[test]
fn several_runs_may_make_the_store_at_once() {
    for _ in 0..20 {
        let place = Place::new();
        let path = place.path();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    SqliteStore::open(&path, Access::Write).unwrap();
                });
            }
        });
    }
}

#[test]
fn several_runs_at_once_lose_nothing() {
    let place = Place::new();
    let path = place.path();
    let runs = 4;
    std::thread::scope(|scope| {
        for number in 0..runs {
            let path = &path;
            scope.spawn(move || {
                let mut store = SqliteStore::open(path, Access::Write).unwrap();
                let run = store.begin(&program(), NOW).unwrap();
                let mut own = reader_and_writer(&format!("own{number}"));
                let shared = reader_and_writer("shared");
                store.saw(run, &shared, NOW).unwrap();
                store.saw(run, &own, NOW).unwrap();
                for _ in 0..5 {
                    let again = [(own.fingerprint.clone(), 1)];
                    store.saw_again(run, &again, LATER).unwrap();
                }
                own.instances = 6;
                store
                    .finish(run, &report(vec![own, shared]), true, LATER)
                    .unwrap();
            });
        }
    });
    let store = place.open();
    let races = store.races(None, NOW.day()).unwrap();
    let of = |name: &str| {
        let found = races
            .iter()
            .find(|stored| stored.race.what.name.as_deref() == Some(name));
        found.map(|stored| (stored.race.instances, stored.runs))
    };
    assert_eq!(of("shared"), Some((runs, runs)));
    for number in 0..runs {
        assert_eq!(of(&format!("own{number}")), Some((6, 1)));
    }
}

#[test]
fn half_a_race_that_turned_out_to_be_part_of_another_is_not_kept() {
    let place = Place::new();
    let mut store = place.open();
    let run = store.begin(&program(), NOW).unwrap();
    let (mut half, whole) = (reader_and_writer("half"), reader_and_writer("whole"));
    half.accesses.truncate(1);
    store.saw(run, &half, NOW).unwrap();
    store.saw(run, &whole, NOW).unwrap();
    store
        .finish(run, &report(vec![whole.clone()]), true, LATER)
        .unwrap();
    let races = store.races(None, NOW.day()).unwrap();
    assert_eq!(races.len(), 1);
    assert_eq!(races[0].race.fingerprint, whole.fingerprint);
}

#[test]
fn the_first_run_that_counts_makes_its_races_known() {
    let place = Place::new();
    let mut store = place.open();
    let (old, new) = (reader_and_writer("old"), reader_and_writer("new"));
    for (races, counts) in [
        (vec![], false),
        (vec![old.clone()], true),
        (vec![old, new], true),
    ] {
        let run = store.begin(&program(), NOW).unwrap();
        store.finish(run, &report(races), counts, NOW).unwrap();
    }
    for stored in store.races(None, NOW.day()).unwrap() {
        let is_new = stored.race.what.name.as_deref() == Some("new");
        assert_eq!(stored.race.is_new(), is_new);
    }
}

#[test]
fn what_a_store_tells_of_a_race_combines_the_verdicts_of_all_runs() {
    let place = Place::new();
    let mut store = place.open();
    let leaning = |rule: &str, leans| Leaning::new(rule, leans, vec!["seen".to_owned()]);
    let harmful = || vec![leaning("pointer", Leans::Harmful)];
    let benign = || vec![leaning("safe-flag", Leans::Benign)];
    let declared = || {
        vec![
            harmful().remove(0),
            leaning(ANNOTATED_BENIGN, Leans::Benign),
        ]
    };
    let mut told = |rules: Vec<Leaning>| {
        let mut race = reader_and_writer("device");
        race.verdict = Some(combine(rules, None, race.instances));
        let run = store.begin(&program(), NOW).unwrap();
        let report = report(vec![race]);
        store.finish(run, &report, true, NOW).unwrap();
        let calls = [Some(run), None].map(|run| {
            let race = store.races(run, NOW.day()).unwrap().pop().unwrap().race;
            race.verdict.unwrap().call
        });
        (calls[0], calls[1])
    };
    use Call::{LikelyBenign, LikelyHarmful};
    assert_eq!(told(harmful()), (LikelyHarmful, LikelyHarmful));
    assert_eq!(told(benign()), (LikelyBenign, LikelyHarmful));
    assert_eq!(told(declared()), (LikelyBenign, LikelyBenign));
    assert_eq!(told(benign()), (LikelyBenign, LikelyHarmful));
}
