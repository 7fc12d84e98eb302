//! Keeps threads alive that were about to stop when their tracer was killed.
//!
//! A thread that runs into a breakpoint or a watch gets a SIGTRAP. If its tracer dies
//! before the thread stops for it, the signal kills the thread; on a busy machine that
//! can take a while. So a third process waits for the tracer's death. It then traces
//! the threads itself, discards these signals, and ends.

use super::guard::{self, Noted};
use super::tasks::{self, SignalField, bit};
use super::tracer::NICE;
use redhanded_sys::{self as sys, Change, Ledger, Tid};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the dead tracer may take to let go of a thread.
const LETS_GO_WITHIN: Duration = Duration::from_millis(500);
/// Nothing is pending any more when no report has come for this long.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// The longest time to wait for that.
const LONGEST: Duration = Duration::from_secs(3);
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(200);

/// Waits for the tracer to end. Looks after its threads if it does not say goodbye.
pub fn watch_over(mut lifeline: UnixStream, ledger: Ledger) {
    sys::raise_priority(NICE);
    if matches!(lifeline.read(&mut [0]), Ok(1)) {
        return;
    }
    let noted = guard::noted(ledger);
    let threads: BTreeSet<Tid> = noted
        .keys()
        .flat_map(|pid| tasks::threads(*pid))
        .filter(|tid| take_over(*tid))
        .collect();
    discard_traps(&noted, threads);
    // When this process ends, the kernel lets go of them all, even of those that sleep.
}

/// Traces a thread as soon as nobody else does.
fn take_over(tid: Tid) -> bool {
    let until = Instant::now() + LETS_GO_WITHIN;
    loop {
        match sys::seize(tid, 0) {
            Ok(()) => return true,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            Err(_) => return false,
        }
    }
}

fn discard_traps(noted: &Noted, threads: BTreeSet<Tid>) {
    let from = Instant::now();
    let mut last_report = from;
    while from.elapsed() < LONGEST {
        match sys::poll_change() {
            Ok(Some((tid, Change::Stopped(signal, event)))) => {
                last_report = Instant::now();
                stopped(noted, tid, signal, event);
            }
            Ok(Some(_)) => {}
            Err(_) => return,
            Ok(None) => {
                let waits = |tid: &Tid| {
                    let blocked = tasks::signals(*tid, SignalField::Blocked);
                    tasks::signals(*tid, SignalField::Pending) & !blocked & TRAP != 0
                };
                if last_report.elapsed() >= SETTLED_AFTER && !threads.iter().any(waits) {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

const TRAP: u64 = bit(libc::SIGTRAP);

fn stopped(noted: &Noted, tid: Tid, signal: i32, event: i32) {
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
        let ours = || noted.values().any(|text| text.contains_key(&back));
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
