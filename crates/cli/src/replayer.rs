//! The process in which collisions are replayed.

use crate::exit::Failure;
use redhanded_detect::{Captured, Collision, replay};
use redhanded_replay::{Limits, Worker, serve_on};
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Module, Target, TargetError, module_at};
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How long a replay may take before it is given up. It usually takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// As the tracer's.
const NICE: i32 = -15;
/// How often a pair of instructions is replayed; more instances hardly tell more.
const MOST_INSTANCES: u32 = 8;
/// What the first replay is taken to cost, in the time of both threads.
const FIRST_COST: Duration = Duration::from_millis(4);

/// The worker as its parent sees it.
pub struct Replayer {
    /// Its process.
    pub pid: Tid,
    /// The connection to it.
    pub stream: UnixStream,
}

impl Replayer {
    /// Starts it. This process must not have a second thread yet. If it is `urgent`, because
    /// threads stand until it answers, it runs before other processes if it may.
    pub fn start(urgent: bool) -> Result<Self, Failure> {
        let refused = |source| TargetError::System {
            action: "cannot make a process that replays".to_owned(),
            source,
        };
        Ok(Self::fork(urgent).map_err(refused)?)
    }

    fn fork(urgent: bool) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        if let Some(pid) = sys::fork()? {
            return Ok(Self { pid, stream });
        }
        // Ctrl-Z stops whoever may wait; the tracer goes on and asks.
        sys::ignore_terminal_stops();
        if urgent {
            sys::raise_priority(NICE);
        }
        serve_on(theirs)
    }
}

/// The tracer's end: decides which collisions are replayed, and what that may cost.
#[derive(Default)]
pub struct Replaying {
    worker: Option<Worker>,
    /// How often each pair of instructions was replayed.
    done: HashMap<Pair, u32>,
    /// How long threads stood for replays in this run.
    held: Duration,
    /// What a replay costs on average, in the time of both threads.
    cost: Option<Duration>,
    lost: bool,
}

type Pair = [(String, u64); 2];

impl Replaying {
    /// Replays with the worker at the other end, if there is one.
    pub fn new(stream: Option<UnixStream>) -> Self {
        let worker = stream.map(|stream| Worker::over(stream, PATIENCE));
        Self {
            lost: matches!(worker, Some(Err(_))),
            worker: worker.and_then(Result::ok),
            ..Self::default()
        }
    }

    /// Whether the worker is gone.
    pub const fn is_lost(&self) -> bool {
        self.lost
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
        let replayed = replay(worker, collision, target.inspect(), Limits::default());
        let Ok(replayed) = replayed else {
            self.worker = None;
            self.lost = true;
            return None;
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
