//! The signals of the tool itself.

use crate::Stop;
use redhanded_sys::{self as sys, SignalSet, Taken};
use std::sync::Arc;
use std::time::Duration;

/// Sent by the kernel to the tracer when the process in front dies.
pub const FRONT_DIED: i32 = 40;

/// The signals that the tool takes at a time of its own choosing: the program's
/// changes, and requests to stop, at which breakpoints are removed first.
pub struct Signals(SignalSet);

impl Signals {
    /// Holds them back from now on. To be called before any thread is started:
    /// a signal to the process goes to whichever thread does not block it.
    #[must_use]
    pub fn hold() -> Arc<Self> {
        let mut signals = vec![libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
        // What nohup or a shell has us ignore is ignored; the program inherits that.
        signals.retain(|signal| !sys::is_ignored(*signal));
        signals.extend([libc::SIGCHLD, FRONT_DIED]);
        Arc::new(Self(SignalSet::block(&signals)))
    }

    /// The number of one that asks the tool to end, without waiting.
    #[must_use]
    pub fn asked_to_end(&self) -> Option<i32> {
        match self.taken()? {
            Stop::Interrupted { signal, .. } => Some(signal),
            _ => None,
        }
    }

    /// One that came for the tool, without waiting.
    #[must_use]
    pub fn taken(&self) -> Option<Stop> {
        let taken = self.0.wait(Duration::ZERO)?;
        (taken.signal != libc::SIGCHLD).then_some(Stop::Interrupted {
            signal: taken.signal,
            by_process: taken.by_process && taken.signal != FRONT_DIED,
        })
    }

    /// Any of them, within `limit`: for whoever looks after children as well.
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
