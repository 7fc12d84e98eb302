//! A value is checked without a lock, and again with the lock held; the writer holds it too.
//!
//! Goes by a branch on the value, then a call that takes a lock, then a second read of the same
//! bytes; and by a lock that the writer took. A pointer that is followed without the lock is a
//! matter of another rule. It is wrong if the two locks are not the same, and if what the flag
//! announces is used without the lock on a processor that reorders loads.

use super::benign;
use crate::subject::Subject;
use redhanded_model::{Leaning, Use};

pub const NAME: &str = "double-check";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let (reader, writer) = subject.reader_and_writer()?;
    let again = reader.usage?.checked_again.as_deref()?;
    let lock = writer.usage?.lock.as_deref()?;
    if !reader.uses(&Use::Branch) || subject.is_pointer() {
        return None;
    }
    benign(
        NAME,
        vec![
            format!("{} is repeated after {again}", reader.words()),
            format!("{lock} was called before {}", writer.words()),
        ],
    )
}
