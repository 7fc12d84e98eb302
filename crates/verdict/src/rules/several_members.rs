//! Several races of the same two functions on one object: its members change together, and the
//! other thread can see some of them changed.
//!
//! Goes by the names of the variable, or by the type of an object without a name, and by the
//! functions. Counters and gauges that stand side by side are left out. It is wrong about members
//! that do not belong together, and about two objects of one type.

use super::{gauge, harmful, statistics_counter};
use crate::subject::Subject;
use redhanded_model::{Leaning, Race};

pub const NAME: &str = "several-members";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let own = subject.race;
    let (object, member) = part(own)?;
    let functions = |race: &Race| {
        let mut names: Vec<_> = race
            .accesses
            .iter()
            .map(|access| access.function.clone())
            .collect();
        names.sort();
        names
    };
    // Bit-fields of one word are one race on it.
    if !own.what.bit_fields.is_empty() || is_counter(subject, own) {
        return None;
    }
    let is_sibling = |race: &&&Race| {
        part(race).is_some_and(|(of, other)| of == object && are_apart(member, other))
            && functions(race) == functions(own)
            && !is_counter(subject, race)
    };
    let sibling = subject.all.iter().find(is_sibling)?;
    let (_, other) = part(sibling)?;
    let name = if object.is_empty() {
        "the object"
    } else {
        object
    };
    harmful(
        NAME,
        vec![format!("the same functions race on {name}{other} as well")],
    )
}

/// The object and the path to its member: of a variable, or of what is behind a pointer.
fn part(race: &Race) -> Option<(&str, &str)> {
    let what = &race.what;
    let name = what.name.as_deref();
    if let Some(field) = what.field.as_deref() {
        return Some((name.unwrap_or_default(), field));
    }
    let pointee = what.pointee.as_ref().filter(|it| !it.doubtful)?;
    let is_member = name.is_none() && pointee.path.starts_with('.');
    is_member.then_some((pointee.type_name.as_str(), pointee.path.as_str()))
}

/// Whether the other path leads to another member, and neither to a part of the other.
fn are_apart(member: &str, other: &str) -> bool {
    let within = |part: &str, whole: &str| {
        let rest = part.strip_prefix(whole);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    !other.contains('[') && !within(member, other) && !within(other, member)
}

fn is_counter(subject: &Subject<'_>, race: &Race) -> bool {
    let subject = Subject::new(race, subject.all, subject.annotations);
    statistics_counter::rule(&subject).is_some() || gauge::rule(&subject).is_some()
}
