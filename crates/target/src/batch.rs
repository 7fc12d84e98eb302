//! Batching: what lets a backend do several things in one round trip.
//!
//! A gdbstub stops all CPUs when one stops, and every packet costs a round trip in
//! which none of them runs. Such a backend defers what it can and sends it with
//! what comes next. For that it has to know what comes next, and this trait tells
//! it. All defaults are right for a backend where a request costs a system call.
//!
//! The order of calls in the life of a window, which a backend may rely on:
//!
//! 1. [`Control::next_stop`] returns a breakpoint stop. [`Batch::capacity`] is asked;
//!    if it is [`Capacity::Exceeded`] the task is resumed and there is no window.
//! 2. The driver decides: [`Inspect::context`], then [`Batch::read_code`] for the
//!    sampled instruction, then [`Control::other_tasks`].
//! 3. [`Control::watch`] for each piece of the bytes. They may be deferred up to
//!    the next step, which must not read before they are set.
//! 4. [`Batch::read_last`] reads the bytes and ends the opening: nothing more is
//!    asked of this window before `next_stop` or the recheck, so everything that is
//!    not held may run while the answer is under way.
//! 5. After [`Batch::recheck_after`], again and again: [`Inspect::read`] of the bytes
//!    and [`Control::is_stalled`].
//! 6. When the delay is over and nothing was seen, [`Hint::Elapsed`], while the held
//!    task is still stopped; then [`Control::unwatch`] for each piece and
//!    [`Control::resume`], which may be deferred up to the next `next_stop`.
//! 7. After a collision the target is inspected at length, the tasks are resumed,
//!    and [`Hint::Idle`] says that nothing will be asked for a while: whatever is
//!    deferred is due now, resumption included.
//!
//! [`Hint::Allowance`] comes at each tick.
//!
//! Several windows may be open; each goes through these steps on its own. Between
//! windows, at each tick of the sampler: [`Batch::capacity`] (sites are changed only
//! while it is [`Capacity::Free`]), [`Batch::take_running_code`],
//! [`Batch::standstill`].
//!
//! [`Control::next_stop`]: crate::Control::next_stop
//! [`Control::other_tasks`]: crate::Control::other_tasks
//! [`Control::watch`]: crate::Control::watch
//! [`Control::unwatch`]: crate::Control::unwatch
//! [`Control::resume`]: crate::Control::resume
//! [`Control::is_stalled`]: crate::Control::is_stalled

use crate::Inspect;
use redhanded_model::{Avma, SpaceId, Standstill};
use std::ops::Range;
use std::time::Duration;

/// How often the bytes of a window are read again in quick succession.
const OFTEN: u32 = 200;

/// How many tasks are held, compared with how many can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Another one can be.
    Free,
    /// As many as can be.
    Full,
    /// More than there can be windows for.
    Exceeded,
}

/// What the driver is about to do, for a backend that can use the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Nothing will be asked for a while.
    Idle,
    /// A window of this length ended without a hit; its task is still stopped.
    Elapsed(Duration),
    /// Tasks may be held for this long in all, from the start.
    Allowance(Duration),
}

/// The hints and shortcuts of a backend where every request is expensive. The
/// module's documentation gives their order.
pub trait Batch: Inspect {
    /// Uses the moment that `hint` announces.
    fn hint(&mut self, _hint: Hint) {}

    /// Whether another task could be held, as far as that is known in advance.
    fn capacity(&self) -> Capacity {
        Capacity::Free
    }

    /// Reads code, perhaps from a copy made when it was indexed. Conclusions from it
    /// have to be confirmed with [`Inspect::read`] before anything is claimed.
    fn read_code(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.read(space, address, buffer)
    }

    /// Reads memory as the last request before the target runs.
    fn read_last(&mut self, space: SpaceId, address: Avma, buffer: &mut [u8]) -> bool {
        self.read(space, address, buffer)
    }

    /// How long to wait before the bytes of an open window are read again, after
    /// that was done `rechecks` times.
    fn recheck_after(&self, rechecks: u32) -> Duration {
        // A window that is open for so long is one of a hunt, which may last for seconds.
        if rechecks < OFTEN {
            Duration::from_micros(100)
        } else {
            Duration::from_millis(1)
        }
    }

    /// The functions that were seen to run since the last call, as live ranges.
    /// Only a backend with [`RotationLimits`](crate::RotationLimits) needs to tell.
    fn take_running_code(&mut self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// For how long all tasks were stopped, where stopping one stops all.
    fn standstill(&self) -> Option<Standstill> {
        None
    }
}
