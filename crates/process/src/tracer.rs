//! The tracer as a process of its own.
//!
//! A traced program depends on its tracer; so the tracer is small, does nothing
//! that may fail for other reasons, and each of the two processes looks after
//! what the other leaves behind. If the one in front is killed, the tracer lets
//! the program go in the ordinary way. If the tracer is killed, the one in front
//! puts the breakpoint bytes back. And when tracing is over the tracer ends,
//! which frees threads in their sleep as no request to the kernel can.

use super::{Process, calm, guard, tasks};
use crate::events::ending;
use redhanded_sys::{self as sys, Change, Ledger, SignalSet, Tid};
use redhanded_target::{Ending, FRONT_DIED, Machine, Signals};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Before everything that is not a matter of life and death.
pub(super) const RUN_FIRST: i32 = -15;

/// Flag of the ledger: the front has seen enough.
const ENOUGH: u64 = 1;
/// Flag of the ledger: the program is being left stopped at a race.
pub(super) const FROZEN: u64 = 2;

/// Which of the two processes this one is now.
pub enum Side {
    /// The one that the user started and sees.
    Front(Front),
    /// The one that traces.
    Tracer(Tracer),
}

/// What would be left behind by a tracer that is killed.
pub enum Guarded {
    /// Breakpoint bytes in processes.
    Processes,
    /// Something else, which this puts right; whether there was something to do.
    Other(Box<dyn FnOnce() -> bool + Send>),
}

/// Splits this process, which has no second thread yet.
///
/// # Errors
/// When there is no room for another process.
pub fn split(signals: Arc<Signals>, guarded: Guarded) -> io::Result<(Side, UnixStream)> {
    let ledger = Ledger::new()?;
    let (front, tracer) = UnixStream::pair()?;
    let (watched, lifeline) = UnixStream::pair()?;
    let second = match guarded {
        Guarded::Processes => {
            let (watched_too, second) = UnixStream::pair()?;
            let Some(calmer) = sys::fork()? else {
                drop((front, tracer, watched, lifeline, second));
                calm::watch_over(watched_too, ledger);
                std::process::exit(0);
            };
            Some((second, calmer))
        }
        Guarded::Other(_) => None,
    };
    let (second, calmer) = second.unzip();
    let parent = std::process::id();
    if let Some(pid) = sys::fork()? {
        drop((tracer, lifeline, second));
        let guard = std::thread::spawn(move || watch_over(watched, ledger, guarded));
        let front_side = Front {
            tracer: pid,
            calmer,
            ledger,
            guard: Some(guard),
            signals,
            endings: HashMap::new(),
            mirrors: None,
        };
        return Ok((Side::Front(front_side), front));
    }
    drop((front, watched));
    sys::when_parent_dies(FRONT_DIED)?;
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(1);
    }
    // A thread that has stopped and that its tracer has not heard of yet is lost if
    // the tracer is killed just then, and is held in vain meanwhile: who traces
    // comes first, where that is allowed.
    sys::run_first(RUN_FIRST);
    // Ctrl-Z stops the program and the one in front, and `fg` continues both; who
    // traces the program must not stop with it.
    let kept = SignalSet::block(&[libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]);
    let side = Tracer {
        ledger,
        lifelines: std::iter::once(lifeline).chain(second).collect(),
        ready: Arc::default(),
        _signals: kept,
    };
    Ok((Side::Tracer(side), tracer))
}

/// Waits for the tracer to end. If it says no farewell, puts back everything that
/// it has left; in how many processes or machines there was something.
fn watch_over(mut lifeline: UnixStream, ledger: Ledger, guarded: Guarded) -> usize {
    match (lifeline.read(&mut [0]), guarded) {
        (Ok(1), _) => 0,
        (_, Guarded::Processes) => guard::restore_all(ledger),
        (_, Guarded::Other(rescue)) => usize::from(rescue()),
    }
}

/// The tracer's side.
pub struct Tracer {
    ledger: Ledger,
    /// Closed by the kernel when the tracing thread dies, before it lets go of its
    /// tracees.
    lifelines: Vec<UnixStream>,
    /// How many other threads keep no file of ours open.
    ready: Arc<AtomicUsize>,
    _signals: SignalSet,
}

impl Tracer {
    pub(super) fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// What every other thread of the tracer has to do first: a file that it keeps
    /// open would outlive the thread that traces, and a perf event that outlives
    /// its tracer kills.
    pub fn for_threads(&self) -> impl Fn() + Clone + Send + Sync + 'static {
        let lifelines: Vec<RawFd> = self.lifelines.iter().map(AsRawFd::as_raw_fd).collect();
        let ready = Arc::clone(&self.ready);
        move || {
            let _ = sys::own_files(&lifelines);
            ready.fetch_add(1, Ordering::Release);
        }
    }

    /// Starts a thread that hears of every stop the moment it happens. It is one
    /// more wake-up for each, which only pays where stops are few.
    pub fn listen(&self) {
        let first = self.for_threads();
        sys::expect_ear();
        std::thread::spawn(move || {
            first();
            sys::run_first(RUN_FIRST);
            sys::take_changes();
        });
    }

    /// Waits until so many threads have done that.
    pub fn wait_for_threads(&self, threads: usize) {
        while self.ready.load(Ordering::Acquire) < threads {
            std::thread::yield_now();
        }
    }

    /// Says that everything was put back.
    pub fn farewell(mut self) {
        for lifeline in &mut self.lifelines {
            let _ = lifeline.write_all(&[1]);
        }
    }

    /// Whether the one in front has seen enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.ledger.flags().load(Ordering::Relaxed) & ENOUGH != 0
    }
}

/// How long after a continuation the one in front is looked after.
const FRONT_WAKES_WITHIN: Duration = Duration::from_secs(1);

impl Process {
    /// A stopped program was continued.
    pub(super) fn continued(&mut self, tid: Tid) {
        if tid == self.pid {
            self.continued = Some(self.now());
        }
    }

    /// Continues the one in front, which has stopped with the program, or may be
    /// about to when it hears of a stop that is over.
    pub(super) fn wake_front(&mut self) {
        let Some(at) = self.continued.filter(|_| self.ledger.is_some()) else {
            return;
        };
        if self.now() > at + FRONT_WAKES_WITHIN {
            self.continued = None;
        }
        let front = std::os::unix::process::parent_id().cast_signed();
        if tasks::is_stopped(front) && !tasks::is_stopped(self.pid) {
            let _ = sys::kill(front, libc::SIGCONT);
        }
    }
}

/// The side that the user sees.
pub struct Front {
    tracer: Tid,
    /// Looks after threads of the target when the tracer dies, and ends then.
    calmer: Option<Tid>,
    ledger: Ledger,
    signals: Arc<Signals>,
    /// Looks after the target when the tracer dies.
    guard: Option<JoinHandle<usize>>,
    /// How children of ours ended.
    endings: HashMap<Tid, Ending>,
    /// The program whose stops we share.
    mirrors: Option<Tid>,
}

impl Front {
    /// From here on this process stops when program `pid` does: a shell that
    /// started us as its job knows of us only.
    pub fn mirror(&mut self, pid: u32) {
        self.mirrors = Some(pid.cast_signed());
    }

    /// Tells the tracer that enough was seen.
    pub fn enough(&self) {
        self.ledger.flags().fetch_or(ENOUGH, Ordering::Relaxed);
    }

    /// In how many processes breakpoints had to be put back, because the tracer
    /// died.
    pub fn rescued(&mut self) -> usize {
        self.guard
            .take()
            .map_or(0, |guard| guard.join().unwrap_or(0))
    }

    /// Looks after signals and children: to be called some times a second.
    pub fn tend(&mut self) {
        while let Some(taken) = self.signals.wait(Duration::ZERO) {
            // The terminal has told the tracer as well.
            if taken.signal != libc::SIGCHLD && taken.by_process {
                let _ = sys::kill(self.tracer, taken.signal);
            }
        }
        self.reap();
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, change))) = sys::poll_child() {
            // Since it stopped, somebody may have continued it. A program that is left
            // stopped at a race is not to stop us: there is something to say about it.
            if let Change::Stopped(signal, _) = change
                && self.mirrors == Some(pid)
                && !self.is_frozen()
                && tasks::is_stopped(pid)
            {
                sys::stop_self(signal);
            }
            self.endings.extend(ending(change).map(|e| (pid, e)));
        }
    }

    fn is_frozen(&self) -> bool {
        self.ledger.flags().load(Ordering::Acquire) & FROZEN != 0
    }

    /// Waits for the tracer to end, which it does when it has said its last word.
    pub fn wait_for_tracer(&mut self) {
        self.wait_for(self.tracer.cast_unsigned(), Duration::MAX);
        if let Some(calmer) = self.calmer {
            self.wait_for(calmer.cast_unsigned(), Duration::MAX);
        }
    }

    /// How the tracer ended, once it has.
    #[must_use]
    pub fn tracer_ending(&self) -> Option<Ending> {
        self.endings.get(&self.tracer).copied()
    }

    /// Waits for program `pid`, which nobody traces any more, until `limit`.
    /// Signals that a process sends us meanwhile are passed on to it. A program that
    /// was left stopped at a race is continued to receive them, as shells do with jobs.
    pub fn wait_for(&mut self, pid: u32, limit: Duration) -> Ending {
        let pid = pid.cast_signed();
        let until = std::time::Instant::now().checked_add(limit);
        loop {
            self.reap();
            if let Some(ending) = self.endings.get(&pid) {
                return *ending;
            }
            let left = until.map_or(Duration::from_secs(1), |until| {
                until.saturating_duration_since(std::time::Instant::now())
            });
            if left.is_zero() {
                return Ending::LeftRunning;
            }
            if let Some(taken) = self.signals.wait(left.min(Duration::from_secs(1)))
                && taken.signal != libc::SIGCHLD
            {
                if taken.by_process {
                    let _ = sys::kill(pid, taken.signal);
                }
                if self.is_frozen() {
                    let _ = sys::kill(pid, libc::SIGCONT);
                }
            }
        }
    }

    /// Ends program `pid`.
    pub fn kill(&self, pid: u32) {
        let _ = sys::kill(pid.cast_signed(), libc::SIGKILL);
    }

    /// Sends program `pid` a signal.
    pub fn signal(&self, pid: u32, signal: i32) {
        let _ = sys::kill(pid.cast_signed(), signal);
    }
}
