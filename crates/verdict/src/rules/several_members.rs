//! Several races of the same two functions on one object: its members change together, and the
//! other thread can see some of them changed.
//!
//! Goes by the names of the variable and of the functions. Counters and gauges that stand side by
//! side are left out. It is wrong about members that do not belong together.

use super::{gauge, harmful, statistics_counter};
use crate::subject::Subject;
use redhanded_model::{Leaning, Race};

pub const NAME: &str = "several-members";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let own = subject.race;
    let member = own.what.field.as_deref()?;
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
    let sibling = subject.all.iter().find(|race| {
        race.what.name == own.what.name
            && race
                .what
                .field
                .as_deref()
                .is_some_and(|field| field != member && !field.contains('['))
            && functions(race) == functions(own)
            && !is_counter(subject, race)
    })?;
    let other = sibling.what.field.as_deref().unwrap_or_default();
    let name = own.what.name.as_deref().unwrap_or("the object");
    harmful(
        NAME,
        vec![format!("the same functions race on {name}{other} as well")],
    )
}

fn is_counter(subject: &Subject<'_>, race: &Race) -> bool {
    let subject = Subject::new(race, subject.all, subject.annotations);
    statistics_counter::rule(&subject).is_some() || gauge::rule(&subject).is_some()
}
