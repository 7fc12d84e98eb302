//! Changes of traced threads and children.
//!
//! Tracees belong to the thread that seized them, and only it asks for theirs, so
//! that several threads may each drive a process of their own; unless one of them
//! listens for all.

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

/// What the ear has heard and nobody has asked for yet. Whoever takes a change from
/// the kernel does so while he holds this: so the changes of a thread stay in order.
static HEARD: Mutex<VecDeque<(Tid, Change)>> = Mutex::new(VecDeque::new());
/// Whether there is an ear, and whether it listens at present.
static EAR: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(true);
/// How long an ear sleeps when nobody is traced, and one that waits for the ear.
const NOBODY_THERE: Duration = Duration::from_millis(5);
const EXEC: c_int = libc::PTRACE_EVENT_EXEC;
const SHORTLY: Duration = Duration::from_micros(50);

fn heard() -> MutexGuard<'static, VecDeque<(Tid, Change)>> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next change of any traced thread or child, without waiting.
pub fn poll_change() -> io::Result<Option<(Tid, Change)>> {
    let mut heard = heard();
    while let Some((tid, change)) = heard.pop_front() {
        // A leader that stood is gone when another thread has taken its number.
        let is_gone = heard
            .iter()
            .any(|(of, change)| *of == tid && matches!(change, Change::Stopped(_, EXEC)));
        if !is_gone || !matches!(change, Change::Stopped(_, 0)) {
            return Ok(Some((tid, change)));
        }
    }
    wait_change(-1, libc::WNOHANG | libc::__WNOTHREAD)
}

/// The next change of `tid`, without waiting.
pub fn poll_change_of(tid: Tid) -> io::Result<Option<Change>> {
    let mut heard = heard();
    let place = heard.iter().position(|(of, _)| *of == tid);
    if let Some((_, change)) = place.and_then(|place| heard.remove(place)) {
        return Ok(Some(change));
    }
    let change = wait_change(tid, libc::WNOHANG | libc::__WNOTHREAD)?;
    Ok(change.map(|(_, change)| change))
}

/// The next change of `tid`, waiting for it.
pub fn wait_for(tid: Tid) -> io::Result<Option<Change>> {
    loop {
        let change = if EAR.load(Ordering::Acquire) {
            poll_change_of(tid)
        } else {
            wait_change(tid, libc::__WNOTHREAD).map(|heard| heard.map(|(_, change)| change))
        };
        match change {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(None) => std::thread::sleep(SHORTLY),
            other => return other,
        }
    }
}

/// Says that there will be an ear.
pub fn expect_ear() {
    EAR.store(true, Ordering::Release);
}

/// Whether the ear takes changes. Not while everything is let go: the signal of a
/// stop that was taken and not answered is lost, and that of one that nobody has
/// taken is delivered.
pub fn let_ear_listen(listens: bool) {
    let _order = heard();
    LISTENS.store(listens, Ordering::Release);
}

/// Takes changes from the kernel the moment they happen, while the thread that
/// traces may be at something slow. For a thread of its own; it does not return.
///
/// A stop that nobody has taken is deadly if the tracer is killed just then: its
/// signal is delivered. Any thread of the tracer's process may take it.
pub fn take_changes() -> ! {
    loop {
        // SAFETY: all zeros are a siginfo_t.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: `about` outlives the call.
        match unsafe { libc::waitid(libc::P_ALL, 0, &raw mut about, flags) } {
            0 => {
                let mut heard = heard();
                if !LISTENS.load(Ordering::Acquire) {
                    drop(heard);
                    std::thread::sleep(NOBODY_THERE);
                    continue;
                }
                while let Ok(Some(change)) = wait_change(-1, libc::WNOHANG) {
                    heard.push_back(change);
                }
            }
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => std::thread::sleep(NOBODY_THERE),
        }
    }
}

/// The next change of any child of ours, its stops by signals included.
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
