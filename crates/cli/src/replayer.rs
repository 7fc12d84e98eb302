//! The process in which collisions are replayed.

use crate::exit::Failure;
use redhanded_detect::{Captured, Collision, replay};
use redhanded_replay::{Keeper, Limits, Worker, WorkerError, Workers, serve_on};
use redhanded_sys as sys;
use redhanded_target::{Module, Target, TargetError, module_at};
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a replay may take before it is given up, because two threads stand for it. It
/// usually takes a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long the first worker may take to start.
pub const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// How often a pair of instructions is replayed; more instances hardly tell more.
const MOST_INSTANCES: u32 = 8;
/// What the first replay is taken to cost, in the time of both threads.
const FIRST_COST: Duration = Duration::from_millis(4);

/// Starts a worker, which ends with this process, and gives the connection to it. This process
/// must not have a second thread yet.
pub fn start_worker() -> Result<UnixStream, Failure> {
    let (stream, theirs) = UnixStream::pair().map_err(refused)?;
    if sys::fork().map_err(refused)?.is_some() {
        return Ok(stream);
    }
    // Ctrl-Z stops whoever may wait.
    sys::ignore_terminal_stops();
    serve_on(theirs)
}

/// The priority of whoever the tracer asks, which is its own: threads stand until a worker
/// answers.
pub const URGENT: i32 = -15;
/// The priority of whoever is asked at leisure.
pub const AT_LEISURE: i32 = 0;

/// Starts a process that keeps workers. This process must not have a second thread yet.
pub fn start_keeper(nice: i32) -> Result<Keeper, Failure> {
    Keeper::start(nice).map_err(refused)
}

fn refused(source: io::Error) -> Failure {
    TargetError::System {
        action: "cannot make a process that replays".to_owned(),
        source,
    }
    .into()
}

/// The tracer's end: decides which collisions are replayed, and what that may cost.
#[derive(Default)]
pub struct Replaying {
    /// Where workers come from, as long as any come.
    workers: Option<Workers>,
    worker: Option<Worker>,
    /// How often each pair of instructions was replayed.
    done: HashMap<Pair, u32>,
    /// How long threads stood for replays in this run.
    held: Duration,
    /// What a replay costs on average, in the time of both threads.
    cost: Option<Duration>,
    /// Whether replays were given up.
    lost: bool,
}

type Pair = [(String, u64); 2];

impl Replaying {
    /// Replays with workers from there, if there are any.
    pub fn new(workers: Option<Workers>) -> Self {
        let mut replaying = Self {
            workers,
            ..Self::default()
        };
        replaying.find_worker(STARTS_WITHIN);
        replaying
    }

    /// Whether there are no workers any more.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Takes the next worker if there is none, waiting for up to `limit`.
    fn find_worker(&mut self, limit: Duration) {
        let (None, Some(workers)) = (&self.worker, &self.workers) else {
            return;
        };
        match workers.next(limit) {
            Ok(Some(stream)) => match Worker::over(stream, PATIENCE) {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => self.replace(&error),
            },
            Ok(None) => {}
            Err(_) => self.give_up(),
        }
    }

    /// A worker gave no answer: asks for another one, which the next replay will have.
    fn replace(&mut self, error: &WorkerError) {
        log::info!("{error}; starting another one");
        self.worker = None;
        if self.workers.as_ref().is_none_or(|w| w.replace().is_err()) {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.workers = None;
        self.lost = true;
    }

    /// Another run begins, with an allowance of its own.
    pub const fn started(&mut self) {
        self.held = Duration::ZERO;
    }

    /// Replays a collision whose threads stand, if it is worth what it costs.
    pub fn consider(
        &mut self,
        collision: &mut Collision,
        modules: &[Arc<Module>],
        target: &mut dyn Target,
    ) -> Option<Captured> {
        self.find_worker(Duration::ZERO);
        let worker = self.worker.as_mut()?;
        let pair = pair(collision, modules)?;
        let done = self.done.get(&pair).copied().unwrap_or(0);
        let cost = self.cost.unwrap_or(FIRST_COST);
        // Windows have the better part of what may be held, and most of the rest is for pairs
        // that were never replayed.
        let share = if done == 0 { 2 } else { 4 };
        let allowance = target.allowance();
        let affordable = target.held() + cost <= allowance && self.held + cost <= allowance / share;
        if done >= MOST_INSTANCES {
            return None;
        }
        if !affordable {
            // One that took long on a busy machine must not be the last.
            self.cost = Some(cost.mul_f64(0.9).max(FIRST_COST));
            return None;
        }
        let start = Instant::now();
        let replayed = replay(worker, collision, target.inspect(), Limits::default());
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(error) => {
                // What hung once is not tried for ever.
                *self.done.entry(pair).or_default() += MOST_INSTANCES / 2;
                self.held += start.elapsed() * 2;
                self.replace(&error);
                return None;
            }
        };
        let (replay, captured) = replayed?;
        log::debug!("replayed in {:?}", replay.took);
        // Both threads stood.
        let cost = replay.took * 2;
        self.held += cost;
        self.cost = Some(self.cost.map_or(cost, |before| (before + cost) / 2));
        *self.done.entry(pair).or_default() += 1;
        collision.replay = Some(replay);
        Some(captured)
    }
}

/// The two instructions, whichever was sampled.
fn pair(collision: &Collision, modules: &[Arc<Module>]) -> Option<Pair> {
    let (confirmed, ..) = collision.other.as_ref()?;
    let place = |at| match module_at(modules, at) {
        Some(module) => (module.name.clone(), module.svma(at).0),
        None => (String::new(), at.0),
    };
    let mut pair = [place(collision.record.pc), place(confirmed.pc)];
    pair.sort();
    Some(pair)
}
