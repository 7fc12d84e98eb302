//! How long the whole machine stood.

use redhanded_model::Standstill;
use std::time::{Duration, Instant};

/// Of so many windows it is kept how long each took; the first ones say enough.
const MOST_WINDOWS: usize = 10_000;

/// The time in which no CPU ran.
#[derive(Clone, Debug, Default)]
pub(super) struct Stood {
    since: Option<Instant>,
    total: Duration,
    /// What of it was before the window that is over, if one is.
    over: Option<Duration>,
    /// What each window took.
    windows: Vec<Duration>,
}

impl Stood {
    pub(super) fn begins(&mut self, at: Instant) {
        self.since.get_or_insert(at);
    }

    pub(super) fn ends(&mut self) {
        self.total += self.since.take().map_or(Duration::ZERO, |s| s.elapsed());
        if let Some(before) = self.over.take()
            && self.windows.len() < MOST_WINDOWS
        {
            self.windows.push(self.total - before);
        }
    }

    /// How long it stood before the present standstill.
    pub(super) const fn before(&self) -> Duration {
        self.total
    }

    /// A window is over that began in the standstill after `before`; its CPU is let
    /// go with the next that run.
    pub(super) fn window_over(&mut self, before: Duration) {
        self.over = Some(self.over.map_or(before, |over| over.min(before)));
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
