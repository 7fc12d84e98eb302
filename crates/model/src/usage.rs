//! What the code around an access does with the accessed value, and what the values were over
//! all instances of a race. A verdict's rules judge by these, so they are kept with the race.

use crate::{Values, notation};
use serde::{Deserialize, Serialize};
use std::ops::Not;

/// Bits of the accessed bytes, the lowest bit of the first byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bits(#[serde(with = "notation::address")] pub u64);

/// What the code around one access does with the value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// What an update adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// The only bits that a write can change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Bits>,
    /// The only bits that anything depends on that is done with the value: branches, addresses,
    /// copies. Only if all of that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Bits>,
    /// The constant that is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant: Option<Bits>,
    /// What becomes of a value that is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Use>,
    /// A lock that was taken shortly before, by the function that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// A memory barrier or locked instruction nearby, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier: Option<String>,
    /// The function that takes a lock before the same bytes are read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_again: Option<String>,
    /// Branches only ask whether the value is above or below a number that is not next to zero.
    #[serde(skip_serializing_if = "Not::not")]
    pub threshold: bool,
    /// Neither the functions that the value is followed through nor those that they call write
    /// to the same variable, whose address is fixed.
    #[serde(skip_serializing_if = "Not::not")]
    pub only_looks: bool,
    /// What other code of the module adds to the same variable, or how else it writes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Step>,
    /// A branch depends on what is left after code of the module counted the variable down.
    #[serde(skip_serializing_if = "Not::not")]
    pub left_tested: bool,
    /// All code of the module that writes the variable by its address takes a lock before, or
    /// is a locked instruction.
    #[serde(skip_serializing_if = "Not::not")]
    pub guarded: bool,
}

impl Usage {
    /// Whether the value is used so.
    #[must_use]
    pub fn has(&self, used: &Use) -> bool {
        self.uses.contains(used)
    }
}

/// What an update does to a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It adds this constant.
    By(i64),
    /// It adds something.
    Up,
    /// It subtracts something.
    Down,
    /// It changes single bits.
    Bits,
    /// It computes something else.
    Other,
}

impl Step {
    /// Whether it counts up.
    #[must_use]
    pub const fn is_up(self) -> bool {
        match self {
            Self::By(amount) => amount > 0,
            Self::Up => true,
            Self::Down | Self::Bits | Self::Other => false,
        }
    }

    /// Whether it counts down.
    #[must_use]
    pub const fn is_down(self) -> bool {
        match self {
            Self::By(amount) => amount < 0,
            Self::Down => true,
            Self::Up | Self::Bits | Self::Other => false,
        }
    }
}

/// What becomes of a value that is read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It is the address of an access, or of a call.
    Address,
    /// It is an index into memory.
    Index,
    /// A branch depends on it.
    Branch,
    /// How often a loop runs depends on it.
    Loop,
    /// A loop does nothing but wait until it changes.
    Wait,
    /// It goes into a register that is computed with.
    Computed,
    /// It is written to other memory.
    Stored,
    /// A branch depends on it, and then something else is written in its place.
    Overwritten,
    /// It is passed to this function, which has no name in a stripped file.
    Passed(Option<String>),
    /// It is returned to a caller that is not known.
    Returned,
    /// Not all of its uses were followed.
    Lost,
}

/// The values over all instances of a race.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// Instances in which the value grew.
    pub grew: u64,
    /// In which it shrank.
    pub shrank: u64,
    /// In which it stayed the same.
    pub unchanged: u64,
    /// How often it was higher than at the end of the instance before, at the same address.
    pub rose_between: u64,
    /// How often it was lower.
    pub fell_between: u64,
    /// How often it was higher when an instance began than when the one before began, at the
    /// same address.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub began_higher: u64,
    /// How often it was lower.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub began_lower: u64,
    /// Where it was last, and what at the beginning and at the end.
    #[serde(skip)]
    pub last: Option<(u64, u64, u64)>,
}

impl History {
    /// Adds an instance at `address`. Values of more than eight bytes are no numbers.
    pub fn add(&mut self, address: u64, values: &Values) {
        let number = |bytes: &[u8]| -> Option<u64> {
            if bytes.is_empty() || bytes.len() > 8 {
                return None;
            }
            let digits = bytes.iter().rev();
            Some(digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        };
        let (Some(before), Some(after)) = (number(&values.before), number(&values.after)) else {
            return;
        };
        match after.cmp(&before) {
            std::cmp::Ordering::Greater => self.grew += 1,
            std::cmp::Ordering::Less => self.shrank += 1,
            std::cmp::Ordering::Equal => self.unchanged += 1,
        }
        if let Some((place, first, last)) = self.last
            && place == address
        {
            self.began_higher += u64::from(before > first);
            self.began_lower += u64::from(before < first);
            self.rose_between += u64::from(before > last);
            self.fell_between += u64::from(before < last);
        }
        self.last = Some((address, before, after));
    }

    /// Adds another history of the same race.
    pub fn join(&mut self, other: &Self) {
        self.grew += other.grew;
        self.shrank += other.shrank;
        self.unchanged += other.unchanged;
        self.rose_between += other.rose_between;
        self.fell_between += other.fell_between;
        self.began_higher += other.began_higher;
        self.began_lower += other.began_lower;
    }

    /// How often the value was seen to fall.
    #[must_use]
    pub const fn falls(&self) -> u64 {
        self.shrank.saturating_add(self.fell_between)
    }

    /// Whether the value was seen to grow again and again, and updates that were lost explain
    /// that it fell: a thread that was held writes back one more than what it had read before,
    /// so that the next instance begins no lower than this one began. What is counted up and
    /// down begins lower as often as higher.
    #[must_use]
    pub const fn loses_updates(&self) -> bool {
        let grew = self.grew.saturating_add(self.rose_between);
        let seldom = self.falls().saturating_mul(10) <= grew && grew >= 10;
        let higher = self.began_lower.saturating_mul(10) <= self.began_higher;
        seldom || higher && self.began_higher >= 5
    }

    /// Whether the value was seen to grow so often at least, and never to fall.
    #[must_use]
    pub const fn only_grows(&self, times: u64) -> bool {
        self.shrank == 0
            && self.fell_between == 0
            && self.grew.saturating_add(self.rose_between) >= times
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(values: &[(u64, u8, u8)]) -> History {
        let mut history = History::default();
        for (address, before, after) in values {
            let values = Values {
                before: vec![*before, 0, 0, 0],
                after: vec![*after, 0, 0, 0],
                ..Values::default()
            };
            history.add(*address, &values);
        }
        history
    }

    #[test]
    fn a_counter_only_grows() {
        assert!(history(&[(1, 3, 4), (1, 7, 8)]).only_grows(2));
        assert!(!history(&[(1, 3, 4)]).only_grows(2));
        assert!(!history(&[(1, 3, 4), (1, 7, 6), (1, 8, 9)]).only_grows(2));
    }

    #[test]
    fn a_few_falls_are_lost_updates() {
        let mut values: Vec<_> = (0..10).map(|n| (1, 2 * n, 2 * n + 1)).collect();
        assert!(history(&values).only_grows(10));
        values.push((1, 3, 4));
        let fell = history(&values);
        assert!(fell.falls() == 1 && !fell.only_grows(2) && fell.loses_updates());
        values.extend([(1, 2, 3), (1, 1, 2)]);
        assert!(!history(&values).loses_updates());
    }

    #[test]
    fn what_was_held_takes_back_what_was_counted_meanwhile() {
        // Nine were counted while a thread was held, which then wrote one more than it had read.
        let mut values: Vec<_> = (0..6).map(|n| (1, 3 * n, 3 * n + 9)).collect();
        let held = history(&values);
        assert_eq!((held.fell_between, held.began_higher), (5, 5));
        assert!(held.loses_updates());
        values.push((1, 4, 13));
        assert!(!history(&values).loses_updates());
        // Up and down again.
        let gauge: Vec<_> = (0..40).map(|n| (1, 5 + n % 2, 6 + n % 2)).collect();
        assert!(!history(&gauge).loses_updates());
    }

    #[test]
    fn what_falls_between_the_instances_is_no_counter() {
        let history = history(&[(1, 3, 4), (1, 3, 4), (1, 3, 4)]);
        assert_eq!(history.fell_between, 2);
        assert!(!history.only_grows(2));
    }

    #[test]
    fn other_objects_have_other_values() {
        assert!(history(&[(1, 30, 31), (2, 3, 4), (1, 40, 41)]).only_grows(3));
    }

    #[test]
    fn long_values_are_no_numbers() {
        let mut history = History::default();
        history.add(
            1,
            &Values {
                before: vec![0; 16],
                after: vec![1; 16],
                ..Values::default()
            },
        );
        assert_eq!(history, History::default());
    }
}
