//! What keeps threads alive that were on their way to a tracer which is killed.
//!
//! A thread that has run into a breakpoint or a watch gets a SIGTRAP. If its tracer
//! dies before it stops for it, which on a busy machine may be a while later, the
//! signal is its end. So a third process, which does nothing else, waits for that
//! moment: it traces the threads in place of the dead one, takes these signals
//! away, and goes.

use super::guard::{self, Noted};
use super::tasks::{self, Signals, bit};
use super::tracer::RUN_FIRST;
use redhanded_sys::{self as sys, Change, Ledger, Tid};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the dead tracer may take to let go of a thread.
const LETS_GO_WITHIN: Duration = Duration::from_millis(500);
/// What was on its way has come when nothing has for so long.
const QUIET: Duration = Duration::from_millis(50);
/// And it is not waited for longer than this.
const LONGEST: Duration = Duration::from_secs(3);
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(200);

/// Waits for the tracer to end; looks after its threads if it says no farewell.
pub fn watch_over(mut lifeline: UnixStream, ledger: Ledger) {
    sys::run_first(RUN_FIRST);
    if matches!(lifeline.read(&mut [0]), Ok(1)) {
        return;
    }
    let noted = guard::noted(ledger);
    let threads: BTreeSet<Tid> = noted
        .keys()
        .flat_map(|pid| tasks::threads(*pid))
        .filter(|tid| take_over(*tid))
        .collect();
    calm(&noted, threads);
    // Our end lets go of them, also of those that sleep.
}

/// Traces a thread, as soon as nobody else does.
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

fn calm(noted: &Noted, threads: BTreeSet<Tid>) {
    let from = Instant::now();
    let mut quiet_since = from;
    while from.elapsed() < LONGEST {
        match sys::poll_change() {
            Ok(Some((tid, Change::Stopped(signal, event)))) => {
                quiet_since = Instant::now();
                stopped(noted, tid, signal, event);
            }
            Ok(Some(_)) => {}
            Err(_) => return,
            Ok(None) => {
                let waits = |tid: &Tid| {
                    let blocked = tasks::signals(*tid, Signals::Blocked);
                    tasks::signals(*tid, Signals::Pending) & !blocked & TRAP != 0
                };
                if quiet_since.elapsed() >= QUIET && !threads.iter().any(waits) {
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
            // The byte is put back by another; until then it traps again. One that
            // was late hides that of a breakpoint.
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
