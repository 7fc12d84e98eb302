use super::*;
use redhanded_model::{AccessKind, Site};
use std::collections::HashSet;

fn sites(count: u64, weight: impl Fn(u64) -> f64) -> Arc<Selected> {
    let sites = (0..count)
        .map(|at| Site {
            svma: Svma(at),
            function: at as u32,
            size: 4,
            kind: AccessKind::Read,
        })
        .collect();
    Arc::new(Selected {
        sites: Arc::new(sites),
        weights: (0..count).map(|at| weight(at) as f32).collect(),
        ..Selected::default()
    })
}

fn rotation(at_once: usize) -> RotationLimits {
    RotationLimits {
        at_once,
        longest: Duration::from_millis(20),
        stops_all: false,
    }
}

const M: ModuleId = ModuleId(0);
const S: SpaceId = SpaceId(1);

#[test]
fn a_small_program_is_armed_whole() {
    let mut sampler = Sampler::new(Random::new(1), 100.0, None, Start::AtOnce);
    let armed = sampler.add_module(M, S, &sites(500, |_| 1.0));
    let distinct: HashSet<_> = armed.into_iter().collect();
    assert_eq!(distinct.len(), 500);
    assert!(sampler.tick(1.0, 1e9).is_empty(), "nothing is left to draw");
}

#[test]
fn a_large_one_is_not() {
    let mut sampler = Sampler::new(Random::new(1), 100.0, None, Start::AtOnce);
    let armed = sampler.add_module(M, S, &sites(100_000, |_| 1.0));
    assert_eq!(armed.len(), FIRST_DRAW);
}

#[test]
fn a_weight_biases_the_draw() {
    let mut sampler = Sampler::new(Random::new(7), 1e9, None, Start::AtOnce);
    let drawn = sampler.add_module(
        M,
        S,
        &sites(80_000, |at| if at < 40_000 { 10.0 } else { 1.0 }),
    );
    let heavy = drawn.iter().filter(|(_, svma)| svma.0 < 40_000).count();
    let light = drawn.len() - heavy;
    assert!(heavy > 6 * light, "{heavy} heavy against {light} light");
    assert!(light > 0, "light sites keep their share");
}

#[test]
fn what_fired_alone_comes_back_with_company() {
    let mut sampler = Sampler::new(Random::new(1), 100.0, None, Start::AtOnce);
    sampler.add_module(M, S, &sites(3, |_| 1.0));
    sampler.alone(M, Svma(1));
    sampler.sampled(M, Svma(2));
    assert_eq!(sampler.second_task(|_| true), [(M, Svma(1))]);
    assert_eq!(sampler.counts(), (3, 3, 2));
}

#[test]
fn a_module_that_goes_takes_its_sites_along() {
    let mut sampler = Sampler::new(Random::new(1), 1e6, None, Start::AtOnce);
    sampler.add_module(M, S, &sites(5, |_| 1.0));
    sampler.sampled(M, Svma(2));
    sampler.retain_modules(|_| false);
    assert!(sampler.tick(1.0, 1e9).is_empty());
    sampler.sampled(M, Svma(3));
    assert!(sampler.tick(1.0, 1e9).is_empty());
}

#[test]
fn where_few_can_be_armed_they_take_turns() {
    let mut sampler = Sampler::new(Random::new(3), 1e6, Some(rotation(2)), Start::AtOnce);
    assert_eq!(sampler.add_module(M, S, &sites(100, |_| 1.0)).len(), 2);
    assert!(sampler.is_full());
    assert!(sampler.tick(1.0, 1e9).is_empty(), "there is no room");
    let other = ModuleId(1);
    let elsewhere = sampler.add_module(other, SpaceId(2), &sites(100, |_| 1.0));
    assert_eq!(elsewhere.len(), 2, "each space has its own");
    assert!(elsewhere.iter().all(|(module, _)| *module == other));
    let mut seen = HashSet::new();
    for _ in 0..2_000 {
        sampler.disarmed();
        seen.extend(sampler.tick(1.0, 1e9));
    }
    assert_eq!(seen.len(), 200, "all of them in the end");
}

#[test]
fn a_file_mapped_twice_counts_once() {
    let mut sampler = Sampler::new(Random::new(1), 100.0, None, Start::AtOnce);
    let file = sites(5, |_| 1.0);
    sampler.add_module(M, S, &file);
    sampler.add_module(ModuleId(1), SpaceId(2), &file);
    sampler.sampled(M, Svma(1));
    sampler.sampled(ModuleId(1), Svma(1));
    assert_eq!(sampler.counts(), (5, 5, 1));
    sampler.retain_modules(|module| module == M);
    assert_eq!(sampler.counts(), (5, 5, 1));
    assert_eq!(sampler.second_task(|_| true), []);
}

#[test]
fn a_gentle_start_arms_few() {
    let mut sampler = Sampler::new(Random::new(1), 100.0, None, Start::Gently);
    assert!(sampler.add_module(M, S, &sites(500, |_| 1.0)).len() <= 1);
    let drawn: usize = (0..100).map(|_| sampler.tick(0.01, 1e9).len()).sum();
    assert!(drawn > 50, "but more and more: {drawn}");
}

#[test]
fn code_that_runs_is_drawn_more_often_and_the_rest_still_is() {
    let mut sampler = Sampler::new(Random::new(5), 1e6, Some(rotation(4)), Start::AtOnce);
    sampler.add_module(M, S, &sites(10_000, |_| 1.0));
    sampler.note_running(M, Svma(100)..Svma(200));
    sampler.note_running(M, Svma(100)..Svma(200));
    let (mut running, mut others) = (0, 0);
    for _ in 0..1_000 {
        sampler.disarmed();
        for (_, svma) in sampler.tick(1.0, 1e9) {
            if (100..200).contains(&svma.0) {
                running += 1;
            } else {
                others += 1;
            }
        }
    }
    assert!(running > 2 * others, "{running} against {others}");
    assert!(others > running / 6, "{running} against {others}");
}
