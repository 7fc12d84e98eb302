//! What a run may cost.

use std::time::Duration;

/// The share of thread time that threads may be held.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget {
    /// 0.05 for five percent.
    pub overhead: f64,
    /// A program that has run for less is treated as if it had run this long.
    pub credit: Duration,
}

/// The credit of a program that we start: most test programs live for a millisecond,
/// and a share of that is nothing. A server that has run for days gets none.
pub const CREDIT: Duration = Duration::from_secs(1);

/// The share of the budget that windows are planned with. The rest covers what is
/// known only afterwards: threads that wait for the scheduler after a window.
const PLANNED: f64 = 0.9;

impl Budget {
    /// How long threads may have been held in total after this much thread time.
    #[must_use]
    pub fn allowance(self, thread_time: Duration) -> Duration {
        let share = thread_time.max(self.credit).as_secs_f64() * self.overhead.max(0.0) * PLANNED;
        Duration::try_from_secs_f64(share).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn after_the_first_second_the_share_is_kept(seconds in 1.0f64..1e6, overhead in 0.0f64..4.0) {
            let time = Duration::from_secs_f64(seconds);
            let allowance = Budget { overhead, credit: CREDIT }.allowance(time).as_secs_f64();
            prop_assert!(allowance <= seconds * overhead * 1.000_001 + 1e-9);
        }

        #[test]
        fn more_time_never_allows_less(a in 0u64..10_000_000, b in 0u64..10_000_000) {
            let budget = Budget {
                overhead: 0.05,
                credit: CREDIT,
            };
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(
                budget.allowance(Duration::from_micros(short))
                    <= budget.allowance(Duration::from_micros(long))
            );
        }
    }
}
