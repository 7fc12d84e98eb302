//! Keeps threads alive that were about to stop when their tracer was killed.
//!
//! A thread that runs into a breakpoint or a watch gets a SIGTRAP. If its tracer dies
//! before the thread stops for it, the signal kills the thread; on a busy machine that
//! can take a while. So a third process waits for the tracer's death. It then restores
//! the breakpoint bytes, because the front may be dead too, traces the threads itself,
//! discards these signals, and ends.

use super::Process;
use super::detach::is_last_or_asked_for;
use super::guard::{self, Guard, Noted};
use super::tasks::{self, SignalField, bit};
use super::tracer::{ENDING, NICE};
use super::vigil::{Looker, Vigil};
use redhanded_sys::{self as sys, Change, Ledger, Tid};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the dead tracer may take to let go of all threads.
const LETS_GO_WITHIN: Duration = Duration::from_secs(3);
/// Nothing is pending any more when no report has come for this long.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// The longest time to wait for that, and for threads that have no processor.
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(200);

/// Waits for the tracer to end. Looks after its threads if it does not say goodbye.
/// `front` is the process in front.
pub fn watch_over(lifeline: UnixStream, ledger: Ledger, front: u32) {
    sys::raise_priority(NICE);
    let mut guard = Guard::new(lifeline, ledger);
    let is_hurried =
        || parent_id() != front || ledger.flags().load(Ordering::Relaxed) & ENDING != 0;
    if guard.watch_over(Vigil::new(ledger, Looker::Second), is_hurried) {
        return;
    }
    let noted = guard::noted(ledger);
    guard.restore_all(&noted);
    let until = Instant::now() + LETS_GO_WITHIN;
    let threads: BTreeSet<Tid> = noted
        .values()
        .flat_map(|space| tasks::threads(space.pid))
        .filter(|tid| take_over(*tid, until))
        .collect();
    discard_traps(&noted, threads);
    // When this process ends, the kernel lets go of them all, even of those that sleep.
}

/// Traces a thread as soon as nobody else does. That fails if the program has made
/// itself undumpable and we are not root.
fn take_over(tid: Tid, until: Instant) -> bool {
    let is_traced = |tid| sys::status_field(tid, "TracerPid:").is_some_and(|by| by != "0");
    // Who is refused a thread that nobody traces will be refused again.
    let mut was_free = false;
    loop {
        match sys::seize(tid, 0) {
            Ok(()) => return true,
            Err(error)
                if error.raw_os_error() == Some(libc::EPERM)
                    && Instant::now() < until
                    && (is_traced(tid) || !was_free) =>
            {
                was_free = !is_traced(tid);
                std::thread::sleep(PAUSE);
            }
            Err(_) => return false,
        }
    }
}

fn discard_traps(noted: &Noted, threads: BTreeSet<Tid>) {
    // Whoever has stopped once has no trap on its way.
    let mut to_stop = threads.clone();
    to_stop.retain(|tid| tasks::wants_to_run(*tid) && sys::interrupt(*tid).is_ok());
    let from = Instant::now();
    let mut last_report = from;
    while from.elapsed() < LONGEST {
        match sys::poll_change() {
            Ok(Some((tid, change))) => {
                last_report = Instant::now();
                if is_last_or_asked_for(change) {
                    to_stop.remove(&tid);
                }
                if let Change::Stopped(signal, event) = change {
                    stopped(noted, tid, signal, event);
                }
            }
            Err(_) => return,
            Ok(None) => {
                let waits = |tid: &Tid| {
                    let blocked = tasks::signals(*tid, SignalField::Blocked);
                    tasks::signals(*tid, SignalField::Pending) & !blocked & TRAP != 0
                };
                let settled = last_report.elapsed() >= SETTLED_AFTER && to_stop.is_empty();
                if settled && !threads.iter().any(waits) {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

const TRAP: u64 = bit(libc::SIGTRAP);

fn stopped(noted: &Noted, tid: Tid, signal: i32, event: i32) {
    if event == libc::PTRACE_EVENT_STOP && signal == libc::SIGTRAP {
        // We have interrupted it.
        Process::restart_system_call(tid);
        let _ = sys::resume(tid, 0);
        return;
    }
    if event != 0 {
        let _ = sys::listen(tid);
        return;
    }
    let mut deliver = signal;
    if signal == libc::SIGTRAP
        && let Ok(info) = sys::signal_info(tid)
        && let Ok(registers) = sys::registers(tid)
    {
        let back = registers.rip.wrapping_sub(1);
        let ours = || noted.values().any(|space| space.text.contains_key(&back));
        match info.code {
            // The front restores the byte; until then the thread traps again. A late
            // perf signal can hide that of a breakpoint.
            sys::SI_KERNEL | sys::TRAP_PERF
                if (info.code == sys::SI_KERNEL || info.late) && ours() =>
            {
                let _ = sys::move_to(tid, back);
                deliver = 0;
            }
            sys::TRAP_PERF | sys::TRAP_HWBKPT => deliver = 0,
            _ => {}
        }
    }
    let _ = sys::resume(tid, deliver);
}
