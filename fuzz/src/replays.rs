//! Scenarios, as they are replayed for people: in a process that was locked down before.

use redhanded_replay::{Limits, Order, Scenario, Side, Worker, serve_on};
use redhanded_sys::fork;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The machine may be busy. The engine ends an input before.
const PATIENCE: Duration = Duration::from_secs(120);
/// More would make every input slow.
const LIMITS: Limits = Limits {
    steps: 300,
    splits: 3,
    delays: 2,
};

static WORKER: OnceLock<Mutex<Worker>> = OnceLock::new();

/// Starts the process. The engine must not have a second thread yet.
pub fn prepare() {
    let started = UnixStream::pair().and_then(|(ours, theirs)| Ok((ours, theirs, fork()?)));
    let Ok((ours, theirs, child)) = started else {
        panic!("no process for replays");
    };
    if child.is_none() {
        serve_on(theirs);
    }
    drop(theirs);
    let worker = Worker::over(ours, PATIENCE);
    let worker = worker.unwrap_or_else(|why| panic!("a process for replays: {why}"));
    let _ = WORKER.set(Mutex::new(worker));
}

/// Plays a scenario in all orders, and the most telling one step by step. Whatever is in it, the
/// process lives and answers.
pub fn play(scenario: Scenario) {
    let Scenario {
        scene,
        mut memory,
        limits,
        ..
    } = scenario;
    let limits = Limits {
        steps: limits.steps.min(LIMITS.steps),
        splits: limits.splits.min(LIMITS.splits),
        delays: limits.delays.min(LIMITS.delays),
    };
    let worker = WORKER.get().unwrap_or_else(|| panic!("not prepared"));
    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
    let judged = worker.judge(&scene, &mut memory, limits);
    let judged = judged.unwrap_or_else(|why| panic!("a judgement: {why}"));
    let order = judged.call.telling().first().copied();
    let order = order.unwrap_or(Order::First(Side::B));
    let mut follow = |steps, listed| {
        let followed = worker.follow(&scene, &mut memory, order, limits, steps, listed);
        followed.unwrap_or_else(|why| panic!("an order step by step: {why}"))
    };
    let Ok(whole) = follow(u64::MAX, true) else {
        return;
    };
    assert_eq!(whole.steps.len() as u64, whole.at, "a step is not listed");
    // As a debugger goes back and forth.
    let half = whole.at / 2;
    match follow(half, false) {
        Ok(part) => assert_eq!(part.at, half, "it ended somewhere else"),
        Err(failure) => panic!("it fails the second time: {failure}"),
    }
}
