//! Ten thousand races and a million instances: how long it takes to write, read and filter
//! them. `cargo bench -p redhanded-store`.

#[path = "../tests/store/fixtures.rs"]
mod fixtures;

use fixtures::{Place, reader_and_writer, report};
use redhanded_model::Race;
use redhanded_store::{Access, Moment, Pattern, SqliteStore, Store};
use std::time::Instant;

const RACES: usize = 10_000;
const ROUNDS: i64 = 100;

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = act();
    println!("{what:<40} {:>8.2} s", start.elapsed().as_secs_f64());
    done
}

fn main() {
    let place = Place::new();
    let races: Vec<Race> = (0..RACES)
        .map(|number| reader_and_writer(&format!("object{number}")))
        .collect();
    let again: Vec<_> = races
        .iter()
        .map(|race| (race.fingerprint.clone(), 1))
        .collect();
    timed("write 10,000 races, 1,000,000 instances", || {
        let mut store = place.open();
        let run = store.begin(&[], Moment(0)).unwrap();
        store.finish(run, &report(races), true, Moment(0)).unwrap();
        for round in 0..ROUNDS {
            store.saw_again(run, &again, Moment(round * 1000)).unwrap();
        }
    });
    let size = std::fs::metadata(place.path()).map_or(0, |about| about.len());
    println!("{:<40} {:>8.1} MB", "size of the store", size as f64 / 1e6);
    timed("open for writing, with its check", || drop(place.open()));
    let store = SqliteStore::open(&place.path(), Access::Read).unwrap();
    let stored = timed("read all races", || {
        store.races(None, Moment(0).day()).unwrap()
    });
    assert_eq!(stored.len(), RACES);
    assert!(stored.iter().all(|stored| stored.race.instances == 101));
    let pattern = Pattern::default().field("object*7.flags*").unwrap();
    let matched = timed("filter by a glob", || {
        stored
            .iter()
            .filter(|stored| pattern.matches(&stored.race))
            .count()
    });
    assert_eq!(matched, RACES / 10);
}
