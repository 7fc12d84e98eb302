//! The signals of the tool itself.

use crate::Stop;
use redhanded_sys::{self as sys, REQUESTS, SignalSet, Taken};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Sent by the kernel to the tracer when the front process dies.
pub const FRONT_DIED: i32 = 40;

/// The signals that the tool takes when it chooses: state changes of the program, and
/// requests to stop, before which breakpoints are removed.
pub struct Signals(SignalSet);

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signals")
    }
}

impl Signals {
    /// Blocks them from now on. To be called before any thread is started: a signal to
    /// the process goes to any thread that does not block it.
    #[must_use]
    pub fn hold() -> Arc<Self> {
        let mut signals = REQUESTS.to_vec();
        // Signals that nohup or a shell made us ignore stay ignored, also by the program.
        signals.retain(|signal| !sys::is_ignored(*signal));
        signals.extend([libc::SIGCHLD, FRONT_DIED]);
        Arc::new(Self(SignalSet::block(&signals)))
    }

    /// The signal that asks the tool to end, if one came; does not wait.
    #[must_use]
    pub fn asked_to_end(&self) -> Option<i32> {
        match self.taken()? {
            Stop::Interrupted { signal, .. } => Some(signal),
            _ => None,
        }
    }

    /// Whether such a signal, or [`FRONT_DIED`], came and was not taken yet. It stays
    /// there to be taken.
    #[must_use]
    pub fn tell_to_end(&self) -> bool {
        SignalSet::is_pending(&REQUESTS) || SignalSet::is_pending(&[FRONT_DIED])
    }

    /// A signal for the tool, if one came; does not wait.
    #[must_use]
    pub fn taken(&self) -> Option<Stop> {
        let taken = self.0.wait(Duration::ZERO)?;
        (taken.signal != libc::SIGCHLD).then_some(Stop::Interrupted {
            signal: taken.signal,
            by_process: taken.by_process && taken.signal != FRONT_DIED,
        })
    }

    /// Waits up to `limit` for any of them, SIGCHLD included.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Option<Taken> {
        self.0.wait(limit)
    }

    /// The mask that the process had before.
    #[must_use]
    pub const fn held(&self) -> &SignalSet {
        &self.0
    }
}
