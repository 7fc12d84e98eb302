//! An access that the source marks as volatile or atomic: its author knew of other threads.
//!
//! Goes by the source of either side and by the declaration, for loads and stores of natural
//! size that are no updates. A race that is only *possibly atomic* gets a hint. It is wrong
//! about authors who took `volatile` for synchronisation of what it announces.

use super::benign;
use crate::subject::{Side, Subject};
use redhanded_model::{Class, Fact, Leaning, Leans, MARKED};

pub const NAME: &str = MARKED;

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    if sides.iter().any(Side::is_update) || !sides.iter().all(Side::is_natural) {
        return None;
    }
    let bytes = subject
        .race
        .evidence
        .iter()
        .flat_map(|evidence| &evidence.bytes);
    let mut declared = bytes.filter(|known| matches!(known.fact, Fact::Declared { .. }));
    let marked = sides
        .iter()
        .find_map(|side| Some((side.marked()?, side.words())));
    if let Some((word, words)) = marked {
        return benign(NAME, vec![format!("{words} is marked by {word}")]);
    }
    if declared.next().is_some() {
        return benign(
            NAME,
            vec!["the variable is declared atomic or volatile".to_owned()],
        );
    }
    (subject.race.class == Class::PossiblyAtomic).then(|| {
        let fact = "both accesses may be atomic in the source".to_owned();
        Leaning::hint(NAME, Leans::Benign, vec![fact])
    })
}
