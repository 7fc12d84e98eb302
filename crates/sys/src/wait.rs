//! Waits for changes of traced threads and children.
//!
//! Tracees belong to the thread that seized them, and only it waits for them, so that
//! several threads can each drive a process of their own. The exception is a waiter: a
//! thread that takes all changes for the others.

use super::Tid;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One change of a traced thread, as `waitpid` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It exited with this status.
    Exited(c_int),
    /// A signal killed it; whether it dumped core.
    Killed(c_int, bool),
    /// It stopped: the signal, and the ptrace event or 0.
    Stopped(c_int, c_int),
}

/// What the waiter has taken and nobody has asked for yet. Whoever takes a change from
/// the kernel holds this lock, so that the changes of a thread stay in order.
static TAKEN: Mutex<VecDeque<(Tid, Change)>> = Mutex::new(VecDeque::new());
/// Whether there is a waiter, and whether it takes changes at present.
static HAS_WAITER: AtomicBool = AtomicBool::new(false);
static WAITER_RUNS: AtomicBool = AtomicBool::new(true);
/// How long the waiter sleeps if nothing is traced, and others if they wait for it.
const NOBODY_THERE: Duration = Duration::from_millis(5);
const EXEC: c_int = libc::PTRACE_EVENT_EXEC;
const SHORTLY: Duration = Duration::from_micros(50);

fn taken() -> MutexGuard<'static, VecDeque<(Tid, Change)>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next change of any traced thread or child, if there is one.
pub fn poll_change() -> io::Result<Option<(Tid, Change)>> {
    let mut taken = taken();
    while let Some((tid, change)) = taken.pop_front() {
        // The stop of a leader is void when another thread has taken its number by
        // exec.
        let is_gone = taken
            .iter()
            .any(|(of, change)| *of == tid && matches!(change, Change::Stopped(_, EXEC)));
        if !is_gone || !matches!(change, Change::Stopped(_, 0)) {
            return Ok(Some((tid, change)));
        }
    }
    wait_change(-1, libc::WNOHANG | libc::__WNOTHREAD)
}

/// The next change of `tid`, if there is one.
pub fn poll_change_of(tid: Tid) -> io::Result<Option<Change>> {
    let mut taken = taken();
    let place = taken.iter().position(|(of, _)| *of == tid);
    if let Some((_, change)) = place.and_then(|place| taken.remove(place)) {
        return Ok(Some(change));
    }
    let change = wait_change(tid, libc::WNOHANG | libc::__WNOTHREAD)?;
    Ok(change.map(|(_, change)| change))
}

/// Waits for the next change of `tid`.
pub fn wait_for(tid: Tid) -> io::Result<Option<Change>> {
    loop {
        let change = if HAS_WAITER.load(Ordering::Acquire) {
            poll_change_of(tid)
        } else {
            wait_change(tid, libc::__WNOTHREAD).map(|taken| taken.map(|(_, change)| change))
        };
        match change {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(None) => std::thread::sleep(SHORTLY),
            other => return other,
        }
    }
}

/// Announces a waiter.
pub fn expect_waiter() {
    HAS_WAITER.store(true, Ordering::Release);
}

/// Sets whether the waiter takes changes. It must not while all threads are let go: the
/// signal of a stop that was taken but not answered is lost, but that of a stop that
/// nobody has taken is delivered.
pub fn let_waiter_run(runs: bool) {
    let _order = taken();
    WAITER_RUNS.store(runs, Ordering::Release);
}

/// The waiter: takes changes from the kernel as they happen, while the tracing thread
/// may be busy. It never returns.
///
/// A stop that nobody has taken is deadly if the tracer is killed just then, because
/// its signal is delivered. Any thread of the tracer may take it.
pub fn run_waiter() -> ! {
    loop {
        // SAFETY: all zeros are a siginfo_t.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: `about` outlives the call.
        match unsafe { libc::waitid(libc::P_ALL, 0, &raw mut about, flags) } {
            0 => {
                let mut taken = taken();
                if !WAITER_RUNS.load(Ordering::Acquire) {
                    drop(taken);
                    std::thread::sleep(NOBODY_THERE);
                    continue;
                }
                while let Ok(Some(change)) = wait_change(-1, libc::WNOHANG) {
                    taken.push_back(change);
                }
            }
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => std::thread::sleep(NOBODY_THERE),
        }
    }
}

/// The next change of any child of ours, including stops by signals.
pub fn poll_child() -> io::Result<Option<(Tid, Change)>> {
    wait_change(-1, libc::WNOHANG | libc::WUNTRACED | libc::__WNOTHREAD)
}

fn wait_change(tid: Tid, flags: c_int) -> io::Result<Option<(Tid, Change)>> {
    let mut status = 0;
    let flags = flags | libc::__WALL;
    // SAFETY: `status` outlives the call.
    let tid = unsafe { libc::waitpid(tid, &raw mut status, flags) };
    match tid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        tid => Ok(Some((tid, decode_status(status)))),
    }
}

fn decode_status(status: c_int) -> Change {
    if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Change::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status))
    } else {
        Change::Stopped(libc::WSTOPSIG(status), status >> 16)
    }
}
