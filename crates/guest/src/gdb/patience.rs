//! How long a stub is waited for. Whatever it sends or holds back, every wait has an
//! end, and it comes soon once this process is told to end.

use redhanded_sys::beat;
use redhanded_target::Signals;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often pending signals are looked for.
const LISTEN_EVERY: Duration = Duration::from_millis(50);
/// How long an answer is still waited for when this process is told to end. A sound
/// stub needs less, and then the machine is let go in the ordinary way.
const HURRY: Duration = Duration::from_millis(500);

/// The time after this duration, saturating.
pub fn deadline(patience: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(1 << 30);
    let now = Instant::now();
    now.checked_add(patience).unwrap_or(now + FAR)
}

/// What ends a wait before its own deadline.
#[derive(Debug, Default)]
pub struct Patience {
    /// The signals that tell this process to end. They are left pending.
    signals: Option<Arc<Signals>>,
    listens_at: Option<Instant>,
    hurries_until: Option<Instant>,
    /// The end of everything.
    pub until: Option<Instant>,
}

impl Patience {
    pub fn new(signals: Option<Arc<Signals>>) -> Self {
        Self {
            signals,
            ..Self::default()
        }
    }

    /// How long to wait before asking again; `None` when the time is over. Whoever waits with
    /// signals to listen to shows often enough that it is alive.
    pub fn left(&mut self, deadline: Instant) -> Option<Duration> {
        beat();
        let now = Instant::now();
        let mut longest = Duration::MAX;
        if let Some(signals) = &self.signals {
            if self.listens_at.is_none_or(|at| at <= now) {
                self.listens_at = Some(now + LISTEN_EVERY);
                // Somebody may have taken the signal since: then there is no hurry.
                let hurry = self.hurries_until.unwrap_or(now + HURRY);
                self.hurries_until = signals.tell_to_end().then_some(hurry);
            }
            longest = LISTEN_EVERY;
        }
        let ends = [self.hurries_until, self.until].into_iter().flatten();
        let end = ends.fold(deadline, Instant::min);
        let left = end.saturating_duration_since(now).min(longest);
        (!left.is_zero()).then_some(left)
    }
}
