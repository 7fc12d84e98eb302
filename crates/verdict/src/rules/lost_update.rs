//! Two writers of one word, of which one reads it, changes it and writes it back: what the
//! other one wrote in between is lost.
//!
//! Goes by two writing sides with an update among them that is not locked. Counting up on both
//! sides is left to the rule about counters. A counter that one side sets to a constant is left
//! open, because resetting statistics looks like this. An exchange that fails writes nothing that
//! could be lost, and loses nothing. It is wrong where the program has only
//! one writer at a time and the two accesses are ordered in a way that the hardware shows but
//! nothing was caught of; such accesses cannot meet.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Step};

pub const NAME: &str = "lost-update";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.writers()?;
    if sides.iter().any(Side::changes_nothing) {
        return None;
    }
    let update = sides
        .iter()
        .find(|side| side.is_update() && !side.is_locked())?;
    let counts = |side: &Side<'_>| side.step().is_some_and(Step::is_up);
    let sets = |side: &Side<'_>| side.usage.is_some_and(|usage| usage.constant.is_some());
    if sides.iter().all(|side| counts(side) || sets(side)) {
        return None;
    }
    let how = match update.step() {
        Some(Step::Bits) => "changes some bits of the word and writes all of it back",
        _ => "reads the value, changes it and writes it back",
    };
    harmful(
        NAME,
        vec![format!("both sides write, and {} {how}", update.words())],
    )
}
