//! A pointer that is read while it is written, and then followed.
//!
//! Goes by code that uses the value as an address, or by a pointer's type, unless the value is
//! only compared. A value of which the address takes only bits that the writer leaves alone, such
//! as a flag that says how long a header is, is none. What is behind the pointer may not be ready,
//! or no longer there. It is wrong where the objects are never changed after their pointer is published, and the processor
//! keeps the order of stores, as x86 does.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, Use};

pub const NAME: &str = "pointer";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    let follows = |side: &&Side<'_>| side.uses(&Use::Address) && !subject.is_apart(side);
    if let Some(side) = sides.iter().find(follows) {
        let fact = format!(
            "{} gets a value that the code then uses as an address",
            side.words()
        );
        return harmful(NAME, vec![fact]);
    }
    if !subject.is_pointer() {
        return None;
    }
    let only_compared = |side: &Side<'_>| {
        let uses = side
            .usage
            .map(|usage| usage.uses.as_slice())
            .unwrap_or_default();
        !uses.is_empty()
            && uses
                .iter()
                .all(|used| matches!(used, Use::Branch | Use::Computed))
    };
    let reader = sides.iter().find(|side| !side.writes());
    let fact = match reader {
        Some(side) if only_compared(side) => return None,
        Some(side) => format!(
            "{} takes a pointer, and not only to compare it",
            side.words()
        ),
        None => "both sides write a pointer".to_owned(),
    };
    harmful(NAME, vec![fact])
}
