//! `detect` on the scripted machine: the laws of sampling, catching and folding.

use redhanded_detect::{Budget, Collision, Folded, Folder, Options, Random, Sink, watch};
use redhanded_image::Selected;
use redhanded_model::{AccessKind, Class, Counts, Delays, Loss, SeenBy, Strategy};
use redhanded_target::Module;
use redhanded_target::RotationLimits;
use redhanded_target::driver::Driver;
use redhanded_target::fake::{Fake, Step};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const X: u64 = 0x5_0000_0000;
const Y: u64 = 0x5_0000_1000;

#[derive(Default)]
struct Collected {
    folder: Folder,
    folded: Vec<Folded>,
    sampled: HashMap<u64, u64>,
    log: Vec<String>,
}

impl Sink for Collected {
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]) {
        *self
            .sampled
            .entry(collision.record.svma.0 / 16)
            .or_default() += 1;
        self.log.push(format!(
            "{:?} {} {:?}",
            collision.record.id, collision.record.svma, collision.record.held
        ));
        self.folded.push(self.folder.add(&collision, modules));
    }

    fn progress(&mut self, _counts: &Counts) {}
}

fn options() -> Options {
    Options {
        rate: 1000.0,
        delay: Delays::of_tasks(Duration::from_millis(1)),
        budget: Budget {
            overhead: 10.0,
            credit: redhanded_detect::CREDIT,
        },
        strategy: Strategy::Both,
        until: Some(Duration::from_secs(2)),
        max_windows: None,
        start: redhanded_detect::Start::AtOnce,
    }
}

fn run(fake: Fake, options: Options, seed: u64) -> (Collected, Counts) {
    let (sink, counts, _) = run_to_its_end(fake, options, seed);
    (sink, counts)
}

fn run_to_its_end(fake: Fake, options: Options, seed: u64) -> (Collected, Counts, Fake) {
    let selected = Arc::new(Selected {
        sites: Arc::new(fake.sampling_set()),
        ..Selected::default()
    });
    let sites = |_: &Module| Some(Arc::clone(&selected));
    let mut sink = Collected::default();
    let mut driver = Driver::new(fake);
    let (_, counts) = watch(&mut driver, &sites, options, Random::new(seed), &mut sink).unwrap();
    (sink, counts, driver.into_machine())
}

fn access(site: usize, at: u64) -> Step {
    Step::Access { site, at, value: 1 }
}

/// Two tasks that bump a counter, with or without a lock.
fn counters(guarded: bool) -> Fake {
    let mut fake = Fake::new();
    let bump = fake.site(AccessKind::Update, 8, false);
    let mut steps = vec![Step::Work(Duration::from_micros(20))];
    if guarded {
        steps.extend([Step::Lock(1), access(bump, X), Step::Unlock(1)]);
    } else {
        steps.push(access(bump, X));
    }
    fake.task(steps.clone(), u64::MAX);
    fake.task(steps, u64::MAX);
    fake
}

#[test]
fn an_unguarded_counter_is_caught_and_folded_into_one_race() {
    let (found, counts) = run(counters(false), options(), 1);
    let races = found.folder.into_races().0;
    assert_eq!(races.len(), 1, "{races:#?}");
    assert_eq!(races[0].class, Class::Race);
    assert_eq!(races[0].seen_by, SeenBy::Watch);
    assert!(races[0].instances > 10 && counts.windows > 10);
    let kinds: Vec<_> = races[0].accesses.iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [AccessKind::Update, AccessKind::Update]);
}

#[test]
fn a_guarded_counter_never_is_in_as_many_windows() {
    let (found, counts) = run(counters(true), options(), 1);
    assert!(found.folded.is_empty(), "{:?}", found.log);
    assert!(counts.windows > 100, "silence is not inactivity");
}

#[test]
fn each_strategy_sees_the_race_alone() {
    for (strategy, seen_by) in [
        (Strategy::Watch, SeenBy::Watch),
        (Strategy::Reread, SeenBy::Value),
    ] {
        let options = Options {
            strategy,
            ..options()
        };
        let (found, _) = run(counters(false), options, 3);
        let races = found.folder.into_races().0;
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].seen_by, seen_by);
    }
}

#[test]
fn the_same_seed_gives_the_same_windows() {
    let log = |seed| run(counters(false), options(), seed).0.log;
    assert_eq!(log(5), log(5));
    assert_ne!(log(5), log(6));
}

#[test]
fn two_readers_do_not_collide() {
    let mut fake = Fake::new();
    let read = fake.site(AccessKind::Read, 4, false);
    fake.task(vec![access(read, X)], u64::MAX);
    fake.task(vec![access(read, X)], u64::MAX);
    let (found, counts) = run(fake, options(), 1);
    assert!(found.folded.is_empty());
    assert!(counts.windows > 100);
}

#[test]
fn locked_instructions_that_meet_are_no_race() {
    let mut fake = Fake::new();
    let bump = fake.site(AccessKind::Update, 4, true);
    fake.task(vec![access(bump, X)], u64::MAX);
    fake.task(vec![access(bump, X)], u64::MAX);
    let (found, _) = run(fake, options(), 1);
    assert!(found.folded.iter().all(|f| *f == Folded::SetAside));
    assert!(!found.folded.is_empty());
}

#[test]
fn a_hit_of_an_earlier_window_is_a_loss() {
    // The second task only ever touches Y, but reports a hit of the window on X
    // with that window's own number and address.
    let mut fake = Fake::new();
    let on_x = fake.site(AccessKind::Write, 4, false);
    let on_y = fake.site(AccessKind::Write, 4, false);
    fake.task(
        vec![access(on_x, X), Step::Work(Duration::from_micros(50))],
        u64::MAX,
    );
    let other = fake.task(vec![Step::Work(Duration::from_micros(50))], u64::MAX);
    for number in 1..200 {
        fake.inject_hit(other, on_y, Y, number, redhanded_model::Avma(X));
    }
    let (found, counts) = run(fake, options(), 1);
    assert!(found.folded.is_empty(), "{:?}", found.log);
    assert!(counts.losses.get(Loss::StaleTrap) + counts.losses.get(Loss::NotOverlapping) > 0);
}

#[test]
fn neighbouring_bytes_do_not_collide() {
    // Three bytes are watched by a superset; the neighbour is in it.
    let mut fake = Fake::new();
    let left = fake.site(AccessKind::Write, 1, false);
    let right = fake.site(AccessKind::Write, 1, false);
    fake.task(vec![access(left, X)], u64::MAX);
    fake.task(vec![access(right, X + 1)], u64::MAX);
    let (found, counts) = run(fake, options(), 1);
    assert!(found.folded.is_empty());
    assert!(counts.windows > 100);
}

/// Tasks that run through many sites, the first of them a hundred times as often.
fn uneven(sites: usize) -> Fake {
    let mut fake = Fake::new();
    let numbers: Vec<usize> = (0..sites)
        .map(|_| fake.site(AccessKind::Update, 8, false))
        .collect();
    let mut steps = Vec::new();
    for (index, site) in numbers.iter().enumerate() {
        let times = if index < sites / 2 { 20 } else { 1 };
        for _ in 0..times {
            steps.push(access(*site, X + index as u64 * 64));
        }
    }
    fake.task(steps.clone(), u64::MAX);
    fake.task(steps, u64::MAX);
    fake
}

#[test]
fn the_draw_is_uniform_over_sites_not_over_executions() {
    let sites = 40;
    let long = Options {
        until: Some(Duration::from_secs(6)),
        delay: Delays::of_tasks(Duration::from_micros(200)),
        ..options()
    };
    let (found, counts) = run(uneven(sites), long, 11);
    assert!(counts.windows > 1000, "{}", counts.windows);
    let of = |range: std::ops::Range<usize>| -> u64 {
        range
            .map(|site| found.sampled.get(&(site as u64)).copied().unwrap_or(0))
            .sum()
    };
    let (hot, cold) = (of(0..sites / 2), of(sites / 2..sites));
    // Twenty times as many executions, but not twenty times as many samples:
    // within three standard deviations of half and half, and a margin for the
    // sites that collide more readily because they run more often.
    let ratio = hot as f64 / cold.max(1) as f64;
    assert!((0.5..3.0).contains(&ratio), "{hot} hot against {cold} cold");
}

#[test]
fn the_budget_is_kept() {
    let tight = Options {
        budget: Budget {
            overhead: 0.05,
            credit: redhanded_detect::CREDIT,
        },
        until: Some(Duration::from_secs(10)),
        ..options()
    };
    let (_, counts) = run(counters(true), tight, 2);
    let share = counts.held.as_secs_f64() / counts.thread_time.as_secs_f64();
    assert!(counts.windows > 50);
    assert!(share <= 0.051, "{share}");
}

#[test]
fn drawing_drifts_to_cold_code() {
    // A thousand sites that run once in a while and a few that always run: what
    // has fired goes back into the draw, what has not stays armed, so that in
    // the end nearly every site has been sampled once.
    let mut fake = Fake::new();
    let numbers: Vec<usize> = (0..300)
        .map(|_| fake.site(AccessKind::Update, 8, false))
        .collect();
    let mut steps = Vec::new();
    for (index, cold) in numbers.iter().enumerate().skip(5) {
        for hot in &numbers[..5] {
            for _ in 0..50 {
                steps.push(access(*hot, X + *hot as u64 * 64));
            }
        }
        steps.push(access(*cold, X + index as u64 * 64));
    }
    fake.task(steps.clone(), u64::MAX);
    fake.task(steps, u64::MAX);
    let long = Options {
        until: Some(Duration::from_secs(4)),
        delay: Delays::of_tasks(Duration::from_micros(100)),
        ..options()
    };
    let (_, counts) = run(fake, long, 4);
    assert!(counts.sites.sampled >= 295, "{:?}", counts.sites);
}

#[test]
fn what_takes_turns_gives_them_up_however_little_is_asked_for() {
    // A breakpoint that nobody reaches may cost much where it stands. So hot code
    // that gives all the samples that are wanted must not let it stay.
    let mut fake = uneven(20);
    for _ in 0..200 {
        fake.site(AccessKind::Update, 8, false);
    }
    let each = Duration::from_millis(20);
    fake.rotate(RotationLimits {
        at_once: 50,
        longest: each,
        stops_all: true,
    });
    let few = Options {
        rate: 5.0,
        ..options()
    };
    let (_, counts, fake) = run_to_its_end(fake, few, 3);
    assert!(counts.windows > 5, "{}", counts.windows);
    assert!(
        fake.longest_armed() <= each * 2,
        "{:?}",
        fake.longest_armed()
    );
}

#[test]
fn few_samples_a_second_are_few() {
    let few = Options {
        rate: 5.0,
        until: Some(Duration::from_secs(20)),
        start: redhanded_detect::Start::Gently,
        ..options()
    };
    let mut fake = uneven(40);
    fake.rotate(RotationLimits {
        at_once: 20,
        longest: Duration::from_millis(20),
        stops_all: true,
    });
    let (_, counts) = run(fake, few, 5);
    assert!((50..200).contains(&counts.samples), "{}", counts.samples);
}

/// A task reads a page that another one takes away after a while.
fn page_taken_away(keeps: bool, handled: u64) -> Fake {
    let mut fake = Fake::new();
    let reads = fake.site(AccessKind::Read, 8, false);
    let work = |micros| Step::Work(Duration::from_micros(micros));
    fake.task(vec![work(10), access(reads, X)], 1);
    let unmap = Step::Unmap { at: X, keeps };
    fake.task(vec![work(20), unmap, work(10_000)], 1);
    fake.handle_signals(handled);
    fake
}

#[test]
fn an_access_that_stands_while_its_bytes_are_unmapped_is_a_race() {
    let (found, counts) = run(page_taken_away(false, 0), options(), 1);
    let races = found.folder.into_races().0;
    let [race] = races.as_slice() else {
        panic!("one race: {races:#?}");
    };
    assert_eq!(race.class, Class::Race);
    assert!(race.is_unmapped() && race.instances == 1);
    assert_eq!(counts.losses.get(Loss::UnreadableOperand), 0);
}

#[test]
fn what_is_still_mapped_or_whose_fault_is_handled_is_no_race() {
    for (keeps, handled, losses) in [(true, 0, 0), (false, 1 << 10, 1)] {
        let (found, counts) = run(page_taken_away(keeps, handled), options(), 1);
        assert!(found.folded.is_empty(), "{:?}", found.log);
        assert!(counts.windows > 0);
        assert_eq!(counts.losses.get(Loss::UnreadableOperand), losses);
    }
}
