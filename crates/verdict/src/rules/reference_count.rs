//! A number that goes up and down: a reference count, a number of free places.
//!
//! Goes by what updates add, on both sides, in other races on the same variable and elsewhere
//! in the module. It counts for them as well if a branch depends on a number right after it was
//! counted down. It is wrong about gauges that are only printed, such as the number of open
//! connections in a status line.

use super::harmful;
use crate::subject::Subject;
use redhanded_model::{Leaning, Step, Use};

pub const NAME: &str = "reference-count";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let steps = subject.steps();
    let sides = subject.all_sides();
    if !steps.iter().any(|step| step.is_down()) {
        return None;
    }
    let mut facts = Vec::new();
    if steps.iter().any(|step| step.is_up()) {
        facts.push("the number is counted up and down".to_owned());
    }
    let tested = sides
        .iter()
        .find(|side| side.step().is_some_and(Step::is_down) && side.uses(&Use::Branch));
    if let Some(side) = tested {
        facts.push(format!(
            "a branch depends on what is left after {}",
            side.words()
        ));
    }
    if facts.is_empty() {
        return None;
    }
    harmful(NAME, facts)
}
