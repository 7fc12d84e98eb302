//! Notices that the tracer hangs.
//!
//! A tracer that hangs holds its target as surely as a dead one frees it. So it gives a
//! sign of life in the memory that it shares with those who look after it: whenever it
//! asks the kernel or a stub for news of its target, and during everything else that may
//! take long. They look twice a second. A tracer that has given no sign for too long
//! is told to go on and to end if it is stopped, and killed if that does not help.
//!
//! They count looks, not time. While the machine is suspended, or while they are stopped
//! themselves, nothing is counted against the tracer.

use super::tracer::{ENDING, ENOUGH, HUNG};
use redhanded_sys::{self as sys, Ledger, Tid, status_field};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many looks in a row may find no sign of life.
struct Patience {
    /// If the tracer used no CPU time either: it is stopped, or waits for something.
    idle: u32,
    /// If it is at work.
    busy: u32,
}

/// 10 s and 2 minutes.
const ORDINARY: Patience = Patience {
    idle: 20,
    busy: 240,
};
/// 2 and 10 s, for a tracer that was asked to end: somebody waits for it.
const HURRIED: Patience = Patience { idle: 4, busy: 20 };

/// What one look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    beats: u64,
    /// The CPU time used so far.
    cpu: Duration,
    /// Whether it would use more if it got a CPU.
    wants_cpu: bool,
    /// Whether it was asked to end, or nobody waits for what it finds.
    hurried: bool,
}

/// Who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looker {
    /// Who acts first.
    First,
    /// Who waits half as long again, in case the first one cannot act.
    Second,
}

/// Looks at a tracer again and again.
pub struct Vigil {
    ledger: Ledger,
    looker: Looker,
    last: Option<Look>,
    /// Looks in a row without a beat, and without CPU time used either.
    silent: u32,
    idle: u32,
    /// Whether it was stopped and has been told to go on.
    woken: bool,
}

impl Vigil {
    pub const fn new(ledger: Ledger, looker: Looker) -> Self {
        Self {
            ledger,
            looker,
            last: None,
            silent: 0,
            idle: 0,
            woken: false,
        }
    }

    /// Looks once. Kills the tracer if it has hung for too long, after `still_there` says
    /// that it has not ended by itself.
    pub fn look(&mut self, hurried: bool, still_there: impl FnOnce() -> bool) {
        let beats = self.ledger.beats().load(Ordering::Relaxed);
        let tracer = self.ledger.writer().load(Ordering::Acquire) as Tid;
        if beats == 0 || tracer == 0 {
            return;
        }
        let state = status_field(tracer, "State:").unwrap_or_default();
        let look = Look {
            beats,
            cpu: sys::cpu_time(tracer).unwrap_or_default(),
            wants_cpu: state.starts_with('R'),
            hurried,
        };
        if self.has_hung(look) && still_there() {
            self.ledger.flags().fetch_or(HUNG, Ordering::Release);
            // A tracer that was stopped can let go in the ordinary way. If it is killed, every
            // thread that has reached a breakpoint meanwhile dies of it.
            if state.starts_with('T') && !self.woken {
                self.woken = true;
                (self.silent, self.idle) = (0, 0);
                self.ledger
                    .flags()
                    .fetch_or(ENOUGH | ENDING, Ordering::Release);
                let _ = sys::kill(tracer, libc::SIGCONT);
                return;
            }
            if sys::kill(tracer, libc::SIGKILL).is_err() {
                self.ledger.flags().fetch_and(!HUNG, Ordering::Release);
            }
        }
    }

    /// Counts a look. Returns whether it was one too many.
    fn has_hung(&mut self, look: Look) -> bool {
        let is_busy = |last: Look| look.wants_cpu || look.cpu != last.cpu;
        match self.last.replace(look) {
            // It has its time from when it was asked to end.
            Some(last) if last.beats == look.beats && last.hurried == look.hurried => {
                self.silent += 1;
                self.idle = if is_busy(last) { 0 } else { self.idle + 1 };
            }
            _ => (self.silent, self.idle) = (0, 0),
        }
        let patience = if look.hurried { HURRIED } else { ORDINARY };
        let longest = |looks: u32| match self.looker {
            Looker::First => looks,
            Looker::Second => looks + looks / 2,
        };
        self.idle >= longest(patience.idle) || self.silent >= longest(patience.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many looks it takes until a tracer has hung that does this at each look.
    #[track_caller]
    fn check(looker: Looker, at: impl Fn(u32) -> Look, expected: Option<u32>) {
        let mut vigil = Vigil::new(Ledger::new().unwrap(), looker);
        let hung = (0..1000).find(|number| vigil.has_hung(at(*number)));
        assert_eq!(hung, expected, "{looker:?}");
    }

    const STOPPED: Look = Look {
        beats: 1,
        cpu: Duration::ZERO,
        wants_cpu: false,
        hurried: false,
    };

    fn working(number: u32) -> Look {
        Look {
            cpu: Duration::from_micros(number.into()),
            ..STOPPED
        }
    }

    #[test]
    fn a_tracer_has_hung_after_so_many_looks_without_a_beat() {
        check(Looker::First, |_| STOPPED, Some(20));
        check(Looker::Second, |_| STOPPED, Some(30));
        check(Looker::First, working, Some(240));
        check(Looker::Second, working, Some(360));
        let starved = Look {
            wants_cpu: true,
            ..STOPPED
        };
        check(Looker::First, |_| starved, Some(240));
        let beating = |number: u32| Look {
            beats: (number / 19).into(),
            ..STOPPED
        };
        check(Looker::First, beating, None);
    }

    #[test]
    fn a_tracer_that_was_asked_to_end_has_less_time_but_from_then_on() {
        let asked = |number: u32, look: Look| Look {
            hurried: number >= 15,
            ..look
        };
        check(Looker::First, |number| asked(number, STOPPED), Some(19));
        check(Looker::Second, |number| asked(number, STOPPED), Some(21));
        let late = |number| asked(number, working(number));
        check(Looker::First, late, Some(35));
    }
}
