//! The hunt on the scripted machine: what is seconds apart is caught, what is guarded is not,
//! and every candidate has its turn.

use redhanded_detect::{Budget, Collision, Hunt, Options, Random, Sink, Start, hunt, watch};
use redhanded_image::{Selected, Suspected};
use redhanded_model::{AccessKind, Candidate, Counts, Delays, Fit, Spot, Strategy, Svma};
use redhanded_target::Module;
use redhanded_target::driver::Driver;
use redhanded_target::fake::{Fake, Step};
use std::sync::Arc;
use std::time::Duration;

const X: u64 = 0x5_0000_0000;
const Y: u64 = 0x5_0000_1000;
const DELAY: Duration = Duration::from_secs(2);

/// The held and the caught site of each collision.
#[derive(Default)]
struct Caught(Vec<(u64, u64)>);

impl Sink for Caught {
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]) {
        let other = collision.other.as_ref().map(|(confirmed, ..)| confirmed.pc);
        let other = other.map_or(u64::MAX, |pc| modules[0].svma(pc).0 / 16);
        self.0.push((collision.record.svma.0 / 16, other));
    }

    fn progress(&mut self, _counts: &Counts) {}
}

fn options(delay: Duration) -> Options {
    Options {
        rate: 1000.0,
        delay: Delays::of_tasks(delay),
        budget: Budget {
            overhead: 1.0,
            credit: Duration::from_secs(30),
        },
        strategy: Strategy::Both,
        until: Some(Duration::from_secs(20)),
        max_windows: None,
        start: Start::AtOnce,
    }
}

/// The sites of a machine, suspected in these pairs.
fn suspected(fake: &Fake, pairs: &[(usize, usize)]) -> Arc<Selected> {
    let mut suspected: Vec<Suspected> = (0..)
        .zip(pairs)
        .flat_map(|(candidate, (first, second))| {
            [(0, *first), (1, *second)].map(|(side, site)| Suspected {
                svma: Svma(site as u64 * 16),
                candidate,
                side,
                fit: Fit::Both,
            })
        })
        .collect();
    suspected.sort_unstable();
    let mut sites = fake.sampling_set();
    sites.retain(|site| suspected.iter().any(|one| one.svma == site.svma));
    Arc::new(Selected {
        sites: Arc::new(sites),
        suspected,
        ..Selected::default()
    })
}

fn start(pairs: usize) -> Hunt {
    let candidate = Candidate::new([Spot::default(), Spot::default()]);
    Hunt::new(&vec![candidate; pairs], DELAY)
}

/// One run of a hunt.
fn once(hunting: &mut Hunt, fake: Fake, selected: &Arc<Selected>) -> Vec<(u64, u64)> {
    let sites = |_: &Module| Some(Arc::clone(selected));
    let mut caught = Caught::default();
    let mut driver = Driver::new(fake);
    let plan = (options(DELAY), hunting);
    hunt(&mut driver, &sites, plan, Random::new(1), &mut caught).unwrap();
    caught.0
}

fn access(site: usize, at: u64) -> Step {
    Step::Access { site, at, value: 1 }
}

const fn work(milliseconds: u64) -> Step {
    Step::Work(Duration::from_millis(milliseconds))
}

/// A write at once and a read a second later, each once, with or without a lock.
fn apart(guarded: bool) -> Fake {
    let mut fake = Fake::new();
    let write = fake.site(AccessKind::Write, 8, false);
    let read = fake.site(AccessKind::Read, 8, false);
    let with_lock = |step: Step| {
        if guarded {
            vec![Step::Lock(1), step, Step::Unlock(1)]
        } else {
            vec![step]
        }
    };
    // A task is gone when it begins with its last step.
    let end = vec![work(3000), work(1)];
    let first = [vec![work(1)], with_lock(access(write, X)), end.clone()];
    let second = [vec![work(1000)], with_lock(access(read, X)), end];
    fake.task(first.concat(), 1);
    fake.task(second.concat(), 1);
    fake
}

#[test]
fn what_is_a_second_apart_is_caught_by_a_hunt_only() {
    let selected = suspected(&apart(false), &[(0, 1)]);
    let sites = |_: &Module| Some(Arc::clone(&selected));
    for seed in 0..20 {
        let mut caught = Caught::default();
        let mut driver = Driver::new(apart(false));
        let ordinary = options(Duration::from_millis(2));
        watch(
            &mut driver,
            &sites,
            ordinary,
            Random::new(seed),
            &mut caught,
        )
        .unwrap();
        assert_eq!(caught.0, [], "seed {seed}");
    }
    let mut hunting = start(1);
    assert_eq!(once(&mut hunting, apart(false), &selected), [(0, 1)]);
    let pursuit = hunting.pursuits()[0];
    assert_eq!(pursuit.sites, [1, 1]);
    assert_eq!(pursuit.holds, [1, 0]);
    assert!(pursuit.held >= Duration::from_millis(900), "{pursuit:?}");
}

#[test]
fn what_was_caught_is_not_held_again() {
    let selected = suspected(&apart(false), &[(0, 1)]);
    let mut hunting = start(1);
    assert_eq!(once(&mut hunting, apart(false), &selected).len(), 1);
    let before = hunting.pursuits();
    assert_eq!(once(&mut hunting, apart(false), &selected), []);
    assert_eq!(hunting.pursuits(), before);
}

#[test]
fn a_guarded_pair_is_never_caught_however_often_it_is_held() {
    let selected = suspected(&apart(true), &[(0, 1)]);
    let mut hunting = start(1);
    for _ in 0..6 {
        assert_eq!(once(&mut hunting, apart(true), &selected), []);
    }
    let pursuit = hunting.pursuits()[0];
    assert!(pursuit.holds[0] > 0 && pursuit.holds[1] > 0, "{pursuit:?}");
}

/// The writer owns a lock that the reader needs before it reads.
fn owner() -> Fake {
    let mut fake = Fake::new();
    let write = fake.site(AccessKind::Write, 8, false);
    let read = fake.site(AccessKind::Read, 8, false);
    let writer = vec![Step::Lock(1), access(write, X), Step::Unlock(1), work(100)];
    let reader = vec![work(100), Step::Lock(1), Step::Unlock(1), access(read, X)];
    fake.task(writer, 20);
    fake.task(reader, 20);
    fake
}

#[test]
fn the_side_that_does_not_own_the_lock_gets_its_turn() {
    let selected = suspected(&owner(), &[(0, 1)]);
    let mut hunting = start(1);
    assert_eq!(once(&mut hunting, owner(), &selected), [(1, 0)]);
}

/// Site 0 is busy with bytes of its own; sites 2 and 3 meet on others, a second apart.
fn two_pairs() -> Fake {
    let mut fake = Fake::new();
    let busy = fake.site(AccessKind::Write, 8, false);
    let _never = fake.site(AccessKind::Read, 8, false);
    let write = fake.site(AccessKind::Write, 8, false);
    let read = fake.site(AccessKind::Read, 8, false);
    fake.task(vec![access(busy, X), work(4000)], 1);
    fake.task(vec![work(10), access(write, Y), work(4000)], 1);
    fake.task(vec![work(1000), access(read, Y), work(10)], 1);
    fake
}

#[test]
fn time_is_shared_among_candidates() {
    let selected = suspected(&two_pairs(), &[(0, 1), (2, 3)]);
    let mut hunting = start(2);
    // In the first run the busy one is held while both sides of the other pass.
    let first = once(&mut hunting, two_pairs(), &selected);
    assert_eq!(first, []);
    assert_eq!(hunting.pursuits()[0].holds, [1, 0]);
    // Then it is the turn of the other.
    let caught: Vec<_> = (0..3)
        .flat_map(|_| once(&mut hunting, two_pairs(), &selected))
        .collect();
    assert_eq!(caught, [(2, 3)]);
}
