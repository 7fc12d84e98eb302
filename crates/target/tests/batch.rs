//! The order of calls that [`redhanded_target::Batch`] promises to backends.

use redhanded_model::{AccessKind, Delays, ModuleId, Strategy, Svma, WindowPlan};
use redhanded_target::driver::Driver;
use redhanded_target::fake::{Fake, Step};
use redhanded_target::{Arm, Event, Hint, Target};
use std::time::Duration;

/// The calls for one window at a store, while the other task does `steps`. A call that
/// is repeated, with others or without, is listed where it came first.
fn calls(steps: Vec<Step>) -> Vec<&'static str> {
    let mut fake = Fake::new();
    fake.site(AccessKind::Write, 8, false);
    fake.site(AccessKind::Read, 8, false);
    fake.task(vec![access(0)], 1);
    fake.task(steps, 1_000);
    fake.record_calls();
    let mut driver = Driver::new(fake);
    driver.allow(Duration::from_secs(1));
    driver.arm(&[Arm {
        module: ModuleId(0),
        svma: Svma(0),
        plan: WindowPlan {
            delay: Delays::of_tasks(Duration::from_millis(1)),
            strategy: Strategy::Both,
            end_early: true,
        },
    }]);
    match driver.wait(Duration::from_secs(1)).unwrap() {
        Event::Window(_) => {}
        Event::Collision(record) => {
            driver.release(record.id);
            driver.batch().hint(Hint::Idle);
        }
        other => panic!("{other:?}"),
    }
    let mut calls = Vec::new();
    for call in driver.machine().take_calls() {
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
    calls
}

const fn access(site: usize) -> Step {
    let (at, value) = (0x5_0000_0000, 1);
    Step::Access { site, at, value }
}

const WORK: Step = Step::Work(Duration::from_micros(10));
const OPENING: [&str; 4] = ["read_code", "other_tasks", "watch", "read_last"];

#[test]
fn a_window_without_a_hit() {
    let rest = ["read", "is_stalled", "elapsed", "unwatch", "resume"];
    assert_eq!(calls(vec![WORK]), [&OPENING[..], &rest].concat());
}

#[test]
fn a_window_with_a_hit() {
    let rest = ["read", "unwatch", "resume", "idle"];
    assert_eq!(calls(vec![WORK, access(1)]), [&OPENING[..], &rest].concat());
}
