//! How much memory and time the analysis of a recording may take.
//!
//! Whoever wrote a recording decides what has to be kept for it. A file of some hundred bytes can
//! claim accesses to gigabytes, so what is allowed grows with the file.

use redhanded_recording::Recording;
use redhanded_sys::{cpu_time, own_memory, total_memory};
use std::time::Duration;

/// Every recording may take as much memory,
const LEAST_MEMORY: u64 = 512 << 20;
/// or as many times its own size, up to half of the machine's.
const TIMES: u64 = 64;
/// And as much CPU time of this process. How long it waits, for others or for a processor, is not
/// for the file to decide.
const LEAST_TIME: Duration = Duration::from_secs(60);
/// with so much more for each megabyte of it.
const EACH_MEGABYTE: Duration = Duration::from_secs(10);
/// How much is done before that is looked at again. A unit keeps some hundred bytes at most.
const EVERY: u64 = 1 << 16;

/// What is left of it.
pub struct Allowance {
    memory: u64,
    time: Duration,
    since: Duration,
    done: u64,
    spent: Option<String>,
}

impl Allowance {
    /// That of a recording, from now on.
    pub fn of(recording: &Recording) -> Self {
        Self::of_length(recording.length())
    }

    fn of_length(length: u64) -> Self {
        let most = (total_memory() / 2).max(LEAST_MEMORY);
        let megabytes = u32::try_from(length >> 20).unwrap_or(u32::MAX);
        Self {
            memory: length.saturating_mul(TIMES).clamp(LEAST_MEMORY, most),
            time: LEAST_TIME.saturating_add(EACH_MEGABYTE.saturating_mul(megabytes)),
            since: used(),
            done: 0,
            spent: None,
        }
    }

    /// One with little memory.
    #[cfg(test)]
    pub fn of_memory(memory: u64) -> Self {
        Self {
            memory,
            ..Self::of_length(0)
        }
    }

    /// Takes note of some work; whether more may be done.
    pub fn allows(&mut self, work: u64) -> bool {
        if self.is_due(work) {
            let most = self.memory >> 20;
            let why = format!("a recording of its size may take {most} MB of memory");
            if own_memory() > self.memory {
                self.spent.get_or_insert(why);
            }
        }
        self.spent.is_none()
    }

    /// The same before the analyses, which need as much memory as is taken by then.
    pub fn allows_half(&mut self, work: u64) -> bool {
        let is_half = self.is_due(work) && own_memory() > self.memory / 2;
        !is_half && self.spent.is_none()
    }

    /// Whether it is time to look at the memory. Looks at the clock.
    fn is_due(&mut self, work: u64) -> bool {
        self.done = self.done.saturating_add(work);
        if self.done < EVERY {
            return false;
        }
        self.done = 0;
        if used().saturating_sub(self.since) > self.time {
            let most = self.time.as_secs();
            let why = format!("a recording of its size may take {most} s of CPU time");
            self.spent.get_or_insert(why);
        }
        true
    }

    /// Why nothing more is done, if that is so.
    pub fn spent(&self) -> Option<&str> {
        self.spent.as_deref()
    }
}

/// The CPU time that this process has used.
fn used() -> Duration {
    cpu_time(0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_grows_with_the_file() {
        let (small, large) = (Allowance::of_length(700), Allowance::of_length(1 << 30));
        assert_eq!((small.memory, small.time), (LEAST_MEMORY, LEAST_TIME));
        assert!(large.memory >= small.memory && large.time > Duration::from_secs(10_000));
        assert!(large.memory <= (total_memory() / 2).max(LEAST_MEMORY));
    }

    #[test]
    fn who_has_spent_it_is_told_why() {
        let mut allowance = Allowance::of_length(0);
        assert!(allowance.allows(EVERY) && allowance.allows_half(EVERY));
        allowance.memory = 1;
        assert!(allowance.allows(1), "it is not looked at each time");
        assert!(!allowance.allows_half(EVERY) && allowance.spent().is_none());
        assert!(!allowance.allows(EVERY) && allowance.spent().unwrap().contains("memory"));
        let mut allowance = Allowance::of_length(0);
        allowance.time = Duration::ZERO;
        assert!(!allowance.allows(EVERY) && allowance.spent().unwrap().contains("CPU time"));
        let mut allowance = Allowance::of_length(0);
        allowance.time = Duration::from_millis(500);
        std::thread::sleep(Duration::from_millis(600));
        assert!(allowance.allows(EVERY), "waiting costs nothing");
    }
}
