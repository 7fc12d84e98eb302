//! Interrupt levels as locks: each level has one, and a processor holds those of all levels that
//! it does not admit.

use crate::{Object, ObjectKind};
use std::ops::RangeInclusive;

/// No processor has more levels. A damaged recording may claim any number.
const HIGHEST: u32 = 255;

/// What is acquired and released when a level changes.
pub struct Change {
    acquired: RangeInclusive<u32>,
    released: RangeInclusive<u32>,
}

/// The change from one level to another.
pub fn change(from: u32, to: u32) -> Change {
    let (from, to) = (from.min(HIGHEST), to.min(HIGHEST));
    Change {
        acquired: from + 1..=to,
        released: to + 1..=from,
    }
}

impl Change {
    /// The locks that are acquired, the lowest first.
    pub fn acquired(&self) -> impl Iterator<Item = Object> {
        self.acquired.clone().map(lock)
    }

    /// The locks that are released.
    pub fn released(&self) -> impl Iterator<Item = Object> {
        self.released.clone().map(lock)
    }
}

fn lock(level: u32) -> Object {
    Object {
        kind: ObjectKind::InterruptLevel,
        id: u64::from(level),
    }
}
