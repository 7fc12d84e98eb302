//! How long all CPUs were stopped.

use redhanded_model::Standstill;
use std::time::{Duration, Instant};

/// The downtime of so many windows is kept; the first ones say enough.
const MOST_WINDOWS: usize = 10_000;

/// The time in which no CPU ran.
#[derive(Clone, Debug, Default)]
pub(super) struct Downtime {
    since: Option<Instant>,
    total: Duration,
    /// The total before the window that just ended, if one did.
    before_window: Option<Duration>,
    /// The downtime of each window.
    windows: Vec<Duration>,
}

impl Downtime {
    pub(super) fn begins(&mut self, at: Instant) {
        self.since.get_or_insert(at);
    }

    pub(super) fn ends(&mut self) {
        self.total += self.since.take().map_or(Duration::ZERO, |s| s.elapsed());
        if let Some(before) = self.before_window.take()
            && self.windows.len() < MOST_WINDOWS
        {
            self.windows.push(self.total - before);
        }
    }

    /// The total before the present stop.
    pub(super) const fn total(&self) -> Duration {
        self.total
    }

    /// A window ended that began when the total was `before`. Its CPU is resumed with
    /// the next that are.
    pub(super) fn window_ended(&mut self, before: Duration) {
        self.before_window = Some(self.before_window.map_or(before, |known| known.min(before)));
    }

    pub(super) fn so_far(&self) -> Standstill {
        let present = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let mut windows = self.windows.clone();
        let middle = windows.len() / 2;
        let median = (!windows.is_empty()).then(|| *windows.select_nth_unstable(middle).1);
        Standstill {
            total_s: (self.total + present).as_secs_f64(),
            window_s: median.map(|median| median.as_secs_f64()),
        }
    }
}
