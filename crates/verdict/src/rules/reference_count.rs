//! A reference count, a number of free places: somebody asks what is left, and acts on it.
//!
//! Goes by code that counts a number down and, by a branch, asks what is left: here, in another
//! race or elsewhere in the module; or by a branch of another access that asks for zero or for
//! some other single number; or by two writers of a number that is counted up and down, whose
//! lost updates nobody makes good. Without any of that it is a gauge. If one side only asks
//! whether the number is above or below a threshold, and the other side holds a lock, it is a
//! hint: that does not decide about the last reference. It is wrong about counts whose zero
//! means nothing.

use super::{gauge, harmful};
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Leans, Step, Use};

pub const NAME: &str = "reference-count";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let facts = evidence(subject);
    if facts.is_empty() {
        return None;
    }
    let locked =
        |side: &Side<'_>| side.is_locked() || side.usage.is_some_and(|usage| usage.lock.is_some());
    let compares = |side: &Side<'_>| {
        side.usage.is_some_and(|usage| usage.threshold) && gauge::only_looks(side)
    };
    match subject.reader_and_writer() {
        Some((reader, writer)) if compares(&reader) && locked(&writer) => {
            Some(Leaning::hint(NAME, Leans::Harmful, facts))
        }
        _ => harmful(NAME, facts),
    }
}

/// What speaks for a number on which something depends.
pub fn evidence(subject: &Subject<'_>) -> Vec<String> {
    let steps = subject.steps();
    let sides = subject.all_sides();
    let mut facts = Vec::new();
    if !steps.iter().any(|step| step.is_down()) {
        return facts;
    }
    let down = |side: &&Side<'_>| side.step().is_some_and(Step::is_down);
    if let Some(side) = sides
        .iter()
        .find(|side| down(side) && side.uses(&Use::Branch))
    {
        facts.push(format!(
            "a branch depends on what is left after {}",
            side.words()
        ));
    } else if sides
        .iter()
        .any(|side| side.usage.is_some_and(|usage| usage.left_tested))
    {
        facts.push("a branch depends on what is left where the module counts it down".to_owned());
    }
    let asks = |side: &&Side<'_>| {
        !side.writes()
            && side.uses(&Use::Branch)
            && side.usage.is_some_and(|usage| !usage.threshold)
    };
    if let Some(side) = sides.iter().find(asks) {
        facts.push(format!(
            "{} asks for a certain number, and it is counted down",
            side.words()
        ));
    }
    if steps.iter().any(|step| step.is_up()) && subject.has_two_writers() {
        facts.push("two writers count the number up and down".to_owned());
    }
    facts
}
