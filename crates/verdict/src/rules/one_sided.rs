//! A lock on one side only: somebody thought of the other threads, and the other side did not.
//!
//! Goes by calls of functions whose names say that they take or give back a lock, in the order
//! of the code, in the function of the access and its next callers. If the side without a lock
//! only reads, it is a hint, because statistics and flags are often read so; so is a barrier on
//! one side only. It is wrong if the lock is another one than that which guards the bytes.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Leans};

pub const NAME: &str = "one-sided";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let [one, two] = subject.pair()?;
    let lock = |side: &Side<'_>| side.usage.and_then(|usage| usage.lock.clone());
    let (held, without) = match (lock(&one), lock(&two)) {
        (Some(lock), None) => ((one, lock), two),
        (None, Some(lock)) => ((two, lock), one),
        (Some(_), Some(_)) => return None,
        (None, None) => return barrier(&one, &two),
    };
    let (locked, name) = held;
    // Whoever checks again with the lock held is not without it.
    if without
        .usage
        .is_some_and(|usage| usage.checked_again.is_some())
        || without.is_locked()
    {
        return None;
    }
    let facts = vec![format!(
        "{name} was called before {}, and no lock before {}",
        locked.words(),
        without.words()
    )];
    if without.writes() {
        return harmful(NAME, facts);
    }
    Some(Leaning::hint(NAME, Leans::Harmful, facts))
}

fn barrier(one: &Side<'_>, two: &Side<'_>) -> Option<Leaning> {
    let near = |side: &Side<'_>| side.usage.and_then(|usage| usage.barrier.clone());
    let (side, barrier) = match (near(one), near(two)) {
        (Some(barrier), None) => (one, barrier),
        (None, Some(barrier)) => (two, barrier),
        _ => return None,
    };
    let fact = format!("only {} has `{barrier}` near it", side.words());
    Some(Leaning::hint(NAME, Leans::Harmful, vec![fact]))
}
