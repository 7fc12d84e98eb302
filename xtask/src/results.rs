//! What came of the trials of a corpus: each is told when it is over, and all are
//! summed up at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;

use crate::trial::{State, TrialResult};

/// How many trials are named as the slowest.
const SLOWEST: usize = 10;

/// How many cases passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that went as they must.
    pub passed: u64,
    /// Cases that did not.
    pub failed: u64,
}

impl Tally {
    /// One case that passed.
    pub const PASSED: Self = Self {
        passed: 1,
        failed: 0,
    };
    /// One case that failed.
    pub const FAILED: Self = Self {
        passed: 0,
        failed: 1,
    };
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        let mut sum = Self::default();
        tallies.for_each(|tally| sum += tally);
        sum
    }
}

/// Prints how one trial went.
pub fn print(result: &TrialResult) {
    println!("{}", result.line());
    if let State::Failed(why) = &result.state {
        for line in why.lines() {
            println!("    {line}");
        }
        println!();
    }
}

/// Prints the sums over all trials, the slowest of them, and once more those that did
/// not pass; returns how many passed.
pub fn print_summary(results: &[TrialResult]) -> Tally {
    let mut tally = Tally::default();
    let mut losses: BTreeMap<&str, u64> = BTreeMap::new();
    for result in results {
        match result.state {
            State::Passed(_) => tally += Tally::PASSED,
            State::Failed(_) => tally += Tally::FAILED,
            State::NotApplicable => {}
        }
        for (reason, count) in &result.losses {
            *losses.entry(reason).or_default() += count;
        }
    }
    let samples: u64 = results.iter().map(|result| result.samples).sum();
    let windows: u64 = results.iter().map(|result| result.windows).sum();
    println!("\n{samples} samples, {windows} windows; losses by reason:");
    for (reason, count) in losses.iter().filter(|(_, count)| **count > 0) {
        #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
        let share = 100.0 * *count as f64 / samples.max(1) as f64;
        println!("  {reason:<40} {count:>8}  {share:5.2} % of samples");
    }
    println!("{}", slowest(results));
    for result in results {
        if !matches!(result.state, State::Passed(_)) {
            println!("{}", result.line());
        }
    }
    tally
}

/// `slowest: never/mutex O2 twin 3.1 s, …`.
fn slowest(results: &[TrialResult]) -> String {
    let mut order: Vec<&TrialResult> = results.iter().collect();
    order.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let named = order.iter().take(SLOWEST);
    let named: Vec<_> = named
        .map(|result| format!("{} {:.1} s", result.title, result.seconds))
        .collect();
    format!("slowest: {}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(title: &str, seconds: f64, state: State) -> TrialResult {
        TrialResult {
            title: title.to_owned(),
            state,
            seconds,
            windows: 0,
            samples: 0,
            losses: BTreeMap::new(),
        }
    }

    #[test]
    fn the_slowest_trials_are_named_first() {
        let mut results: Vec<_> = (1..=12)
            .map(|n| result(&format!("k{n}"), f64::from(n), State::NotApplicable))
            .collect();
        results.swap(0, 11);
        let line = slowest(&results);
        assert!(
            line.starts_with("slowest: k12 12.0 s, k11 11.0 s,"),
            "{line}"
        );
        assert!(line.ends_with("k3 3.0 s"), "{line}");
    }

    #[test]
    fn a_skipped_case_neither_passes_nor_fails() {
        let tally = print_summary(&[
            result("a", 1.0, State::Passed(String::new())),
            result("b", 1.0, State::NotApplicable),
            result("c", 1.0, State::Failed(String::new())),
        ]);
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
    }
}
