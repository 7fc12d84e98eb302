//! Runs the tracer as a process of its own.
//!
//! A traced program depends on its tracer, so the tracer does as little as possible,
//! and each of the two processes looks after what the other leaves behind. If the front
//! is killed, the tracer lets the program go in the ordinary way. If the tracer is
//! killed, the front restores the breakpoint bytes; if it hangs, it is killed. When tracing is over the tracer
//! ends, because only that frees threads without waking them.

use super::guard::{self, Guard, Lifelines};
use super::vigil::{Looker, Vigil};
use super::{Process, orphans, tasks};
use crate::events::ending;
use redhanded_sys::{self as sys, Change, Ledger, Tid};
use redhanded_target::{Control, Ending, FRONT_DIED, Signals};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The priority of the tracer where it may not have a real-time one.
pub(super) const NICE: i32 = -15;

/// Flag of the ledger: the front has seen enough.
pub(super) const ENOUGH: u64 = 1;
/// Flag of the ledger: the program is being left stopped at a race.
pub(super) const FROZEN: u64 = 2;
/// Flag of the ledger: it was rewritten, which did not make enough room.
pub(super) const FULL: u64 = 4;
/// Flag of the ledger: the tracer was asked to end.
pub(super) const ENDING: u64 = 8;
/// Flag of the ledger: the tracer hung, and was ended for it.
pub(super) const HUNG: u64 = 16;
/// Flag of the ledger: the program need not be run again.
const LAST_RUN: u64 = 32;

/// Which of the two processes this one is.
pub enum Role {
    /// The process that the user started.
    Front(Front),
    /// The process that traces.
    Tracer(Box<Tracer>),
}

/// What a killed tracer would leave behind.
pub enum Guarded {
    /// Breakpoint bytes in processes.
    Processes,
    /// Something else, and how to clean it up; tells whether there was anything.
    Other(Box<dyn FnOnce() -> bool + Send>),
}

/// Splits this process in two. It must not have a second thread yet.
///
/// # Errors
/// If there is no room for another process.
pub fn split(signals: Arc<Signals>, guarded: Guarded) -> io::Result<(Role, UnixStream)> {
    let ledger = Ledger::new()?;
    let (front, tracer) = UnixStream::pair()?;
    let (watched, lifeline) = UnixStream::pair()?;
    let second = match guarded {
        Guarded::Processes => {
            let (watched_too, second) = UnixStream::pair()?;
            let parent = std::process::id();
            let Some(rescuer) = sys::fork()? else {
                drop((front, tracer, watched, lifeline, second));
                orphans::watch_over(watched_too, ledger, parent);
                std::process::exit(0);
            };
            Some((second, rescuer))
        }
        Guarded::Other(_) => None,
    };
    let (second, rescuer) = second.unzip();
    let parent = std::process::id();
    if let Some(pid) = sys::fork()? {
        drop((tracer, lifeline, second));
        let not_ours = front.as_raw_fd();
        let guard = move || match guarded {
            Guarded::Processes => {
                // The memories that the tracer sends are no files of the front, which may
                // have few.
                let _ = sys::unshare_files(&[not_ours]);
                watch_over(Guard::new(watched, ledger))
            }
            Guarded::Other(rescue) => {
                let is_left = !hears_farewell(&mut Guard::new(watched, ledger));
                usize::from(is_left && rescue())
            }
        };
        let guard = sys::thread_builder()?.spawn(guard)?;
        let front_role = Front {
            tracer: pid,
            rescuer,
            ledger,
            guard: Some(guard),
            signals,
            endings: HashMap::new(),
            mirrors: None,
            passed_on: Vec::new(),
        };
        return Ok((Role::Front(front_role), front));
    }
    drop((front, watched));
    sys::when_parent_dies(FRONT_DIED)?;
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(1);
    }
    // A stop that the tracer has not heard of is lost if the tracer is killed just
    // then, and until it is heard of its thread is held for nothing. So the tracer runs
    // before other processes if it may.
    sys::raise_priority(NICE);
    // Ctrl-Z stops the program and the front, and `fg` continues both. The tracer must
    // not stop with them.
    sys::ignore_terminal_stops();
    ledger.begin();
    let sockets = std::iter::once(lifeline).chain(second).collect();
    let side = Tracer {
        lifelines: Arc::new(Lifelines::new(ledger, sockets)),
        ready: mpsc::channel(),
    };
    Ok((Role::Tracer(Box::new(side)), tracer))
}

/// Waits for the tracer to end. If it does not say goodbye, restores what it has left. Returns
/// in how many processes.
fn watch_over(mut guard: Guard) -> usize {
    if hears_farewell(&mut guard) {
        return 0;
    }
    guard.restore_all(&guard::noted(guard.ledger()))
}

/// Waits for the tracer to end, and sees to it that it does if it hangs. Returns whether it
/// said goodbye.
fn hears_farewell(guard: &mut Guard) -> bool {
    let ledger = guard.ledger();
    let is_hurried = || ledger.flags().load(Ordering::Relaxed) & ENDING != 0;
    guard.watch_over(Vigil::new(ledger, Looker::First), is_hurried)
}

/// The tracing process.
pub struct Tracer {
    lifelines: Arc<Lifelines>,
    /// Each other thread reports here once it has closed these files.
    ready: (Sender<()>, Receiver<()>),
}

impl Tracer {
    pub(super) fn lifelines(&self) -> Arc<Lifelines> {
        Arc::clone(&self.lifelines)
    }

    /// What each other thread of the tracer must do first. A file that it keeps open
    /// would outlive the tracing thread, and a perf event that outlives its tracer
    /// kills.
    pub fn for_threads(&self) -> impl Fn() + Clone + Send + Sync + 'static {
        let lifelines = self.lifelines.descriptors();
        let ready = self.ready.0.clone();
        move || {
            let _ = sys::unshare_files(&lifelines);
            let _ = ready.send(());
        }
    }

    /// Starts a thread that takes each stop from the kernel at once. It costs another
    /// wake-up for each, which pays only if stops are few. It is wrong where there are
    /// breakpoints: if the tracer is killed, a thread whose stop was taken and not handled
    /// goes on in the middle of an instruction.
    ///
    /// # Errors
    /// If there is no room for another thread.
    pub fn start_waiter(&self) -> io::Result<()> {
        let first = self.for_threads();
        let waiter = move || {
            first();
            sys::raise_priority(NICE);
            sys::run_waiter();
        };
        sys::expect_waiter();
        sys::thread_builder()?.spawn(waiter).map(drop)
    }

    /// Sleeps until so many threads have done that. The tracer must not spin here:
    /// it has the highest priority, and on a busy machine it would keep the very
    /// threads it waits for off the CPU.
    pub fn wait_for_threads(&self, threads: usize) {
        for _ in 0..threads {
            let _ = self.ready.1.recv();
        }
    }

    /// Says that everything was restored.
    pub fn farewell(self) {
        self.lifelines.farewell();
    }

    /// Whether the front has seen enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.lifelines.ledger().flags().load(Ordering::Relaxed) & ENOUGH != 0
    }

    /// Whether the front wants no run after this one.
    #[must_use]
    pub fn is_last_run(&self) -> bool {
        self.lifelines.ledger().flags().load(Ordering::Relaxed) & LAST_RUN != 0
    }
}

/// How long after the program was continued the front is checked.
const FRONT_WAKES_WITHIN: Duration = Duration::from_secs(1);

impl Process {
    /// Notes that the stopped program was continued.
    pub(super) fn continued(&mut self, tid: Tid) {
        if tid == self.pid {
            self.continued = Some(self.now());
        }
    }

    /// Continues the front, which stopped with the program or will when it hears of the
    /// stop.
    pub(super) fn wake_front(&mut self) {
        let Some(at) = self.continued.filter(|_| self.lifelines.is_some()) else {
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

/// The process that the user sees.
pub struct Front {
    tracer: Tid,
    /// The process that takes over the target's threads if the tracer dies.
    rescuer: Option<Tid>,
    ledger: Ledger,
    signals: Arc<Signals>,
    /// The thread that restores breakpoint bytes if the tracer dies.
    guard: Option<JoinHandle<usize>>,
    /// How our children ended.
    endings: HashMap<Tid, Ending>,
    /// The program whose stops we mirror.
    mirrors: Option<Tid>,
    /// Signals that were passed on to the tracer.
    passed_on: Vec<i32>,
}

impl Front {
    /// From now on this process stops when program `pid` does. A shell knows only us as
    /// its job.
    pub fn mirror(&mut self, pid: u32) {
        self.mirrors = Some(pid.cast_signed());
    }

    /// Tells the tracer that enough was seen.
    pub fn enough(&self) {
        self.ledger.flags().fetch_or(ENOUGH, Ordering::Relaxed);
    }

    /// Tells the tracer to let the program run to its end, and not to start it again.
    pub fn last_run(&self) {
        self.ledger.flags().fetch_or(LAST_RUN, Ordering::Relaxed);
    }

    /// In how many processes breakpoints were restored because the tracer died.
    pub fn rescued(&mut self) -> usize {
        self.guard
            .take()
            .map_or(0, |guard| guard.join().unwrap_or(0))
    }

    /// Handles signals and children. To be called several times a second.
    pub fn tend(&mut self) {
        while let Some(taken) = self.signals.wait(Duration::ZERO) {
            if taken.signal == libc::SIGCHLD {
                continue;
            }
            self.ledger.flags().fetch_or(ENDING, Ordering::Relaxed);
            // The terminal has signalled the tracer as well.
            if taken.by_process {
                let _ = sys::kill(self.tracer, taken.signal);
                self.passed_on.push(taken.signal);
            }
        }
        self.reap();
    }

    /// Whether the tracer hung, and was ended for it.
    #[must_use]
    pub fn tracer_hung(&self) -> bool {
        self.ledger.flags().load(Ordering::Acquire) & HUNG != 0
    }

    /// The signals that were passed on to a tracer which ended without answering them.
    pub fn take_unanswered(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.passed_on)
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, change))) = sys::poll_child() {
            // It may have been continued since. A program that is left stopped at a
            // race must not stop us, because there is something to print.
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

    /// Waits for the tracer to end, after its last message.
    pub fn wait_for_tracer(&mut self) {
        self.wait_for(self.tracer.cast_unsigned(), Duration::MAX);
        if let Some(rescuer) = self.rescuer {
            self.wait_for(rescuer.cast_unsigned(), Duration::MAX);
        }
    }

    /// How the tracer ended, if it has.
    #[must_use]
    pub fn tracer_ending(&self) -> Option<Ending> {
        self.endings.get(&self.tracer).copied()
    }

    /// Waits until program `pid`, which is no longer traced, ends, but no longer than
    /// `limit`. Passes on signals that a process sends us. A program that was left
    /// stopped at a race is continued then, as shells do with stopped jobs.
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
                self.ledger.flags().fetch_or(ENDING, Ordering::Relaxed);
                if taken.by_process {
                    let _ = sys::kill(pid, taken.signal);
                    self.passed_on.push(taken.signal);
                }
                if self.is_frozen() {
                    let _ = sys::kill(pid, libc::SIGCONT);
                }
            }
        }
    }

    /// Forgets the signals that have come. All that is left is to write the report, and
    /// who asks for the end now has it.
    pub fn forget_signals(&self) {
        while self.signals.wait(Duration::ZERO).is_some() {}
    }

    /// Kills program `pid`.
    pub fn kill(&self, pid: u32) {
        let _ = sys::kill(pid.cast_signed(), libc::SIGKILL);
    }

    /// Sends program `pid` a signal.
    pub fn signal(&self, pid: u32, signal: i32) {
        let _ = sys::kill(pid.cast_signed(), signal);
    }
}
