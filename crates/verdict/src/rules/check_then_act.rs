//! A value is checked, and then another is written in its place: both threads can pass the
//! check before either writes.
//!
//! Goes by a branch on the value, followed by a store to the same bytes, without a lock in
//! between. Waiting for one's turn looks alike and is left out, and so is code that holds a lock
//! while the other side only reads: nothing can come in between. It is wrong where a second write
//! does no harm.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Use};

pub const NAME: &str = "check-then-act";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let acts = |side: &&Side<'_>| {
        let again = side
            .usage
            .is_some_and(|usage| usage.checked_again.is_some());
        side.uses(&Use::Overwritten) && !side.uses(&Use::Wait) && !again
    };
    let sides = subject.sides();
    let alone = |side: &&Side<'_>| {
        let locked = side.usage.is_some_and(|usage| usage.lock.is_some());
        locked && side.writes() && subject.reader_and_writer().is_some()
    };
    let side = sides.iter().find(|side| acts(side) && !alone(side))?;
    harmful(
        NAME,
        vec![format!(
            "the code checks what {} gives, and then writes the same bytes",
            side.words()
        )],
    )
}
