//! A branch on a statistics counter: a hint that makes it less certain that the count does not
//! matter.
//!
//! Goes by what makes a counter one (see `statistics_counter`), and by a branch on its value.
//! Thresholds, after which something is flushed or printed, are such branches and do no harm, so
//! this only lowers the confidence.

use super::statistics_counter;
use crate::subject::Subject;
use redhanded_model::{Leaning, Leans, Use};

pub const NAME: &str = "counter-branch";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    let branches = sides.iter().filter(|side| side.uses(&Use::Branch));
    let facts: Vec<String> = branches
        .map(|side| format!("a branch depends on {}", side.words()))
        .collect();
    if facts.is_empty() {
        return None;
    }
    statistics_counter::rule(subject)?;
    Some(Leaning::hint(NAME, Leans::Harmful, facts))
}
