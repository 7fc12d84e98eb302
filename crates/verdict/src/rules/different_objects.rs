//! The two sides name different objects: memory that was given back and used again, or a
//! pointer that went astray.
//!
//! Goes by the types and members that the debug information or else the source names on both
//! sides, for memory on the heap; and by an index that leads out of a global array. An annotation can say that the memory is reused. It is wrong about unions, and about
//! names of one type that differ.

use super::harmful;
use crate::annotations::Says;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Region};

pub const NAME: &str = "different-objects";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let race = subject.race;
    let reused = || {
        subject
            .annotations
            .of(race)
            .any(|says| says == Says::Reused)
    };
    if race.what.sides_differ
        && let Some(why) = subject.sides().iter().find_map(outside)
    {
        return harmful(NAME, vec![why]);
    }
    if race.what.region != Region::Heap || !race.what.bit_fields.is_empty() || reused() {
        return None;
    }
    let [one, two] = subject.pair()?;
    // What the debug information says of both sides comes before words of the source.
    let by = if race.what.sides_differ {
        pointee
    } else {
        named
    };
    let ((a, first), (b, second)) = (by(&one)?, by(&two)?);
    if a == b || first == second {
        return None;
    }
    harmful(
        NAME,
        vec![format!(
            "{} accesses {a} ({first}), and {} {b} ({second})",
            one.words(),
            two.words()
        )],
    )
}

/// What a side says whose index leads out of its array.
fn outside(side: &Side<'_>) -> Option<String> {
    let meant = side.access.pointee.as_ref().filter(|it| it.outside)?;
    let name = meant.expression.clone().unwrap_or_else(|| meant.name());
    Some(format!(
        "{} accesses {name}, which is outside the array",
        side.words()
    ))
}

/// The member and the type that the source names.
fn named(side: &Side<'_>) -> Option<(String, String)> {
    let source = side.evidence?.source()?;
    let (_, member) = source.expression.as_ref()?.text.rsplit_once(['.', '>'])?;
    let words = source.declared.as_ref()?.split_whitespace();
    let plain: Vec<_> = words
        .filter(|word| !matches!(*word, "const" | "volatile"))
        .collect();
    Some((member.trim().to_owned(), plain.join(" ")))
}

/// What is behind the pointer, and the type of the accessed part.
fn pointee(side: &Side<'_>) -> Option<(String, String)> {
    let pointee = side.access.pointee.as_ref()?;
    Some((pointee.name(), pointee.part_type.clone()))
}
