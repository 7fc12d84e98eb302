//! A value that does not change as a whole.
//!
//! Goes by accesses of more than eight bytes, across an alignment, or piece by piece, which the
//! other side can see half done. An aligned vector of 16 bytes is one access on processors with
//! AVX, unless the other side has other bytes. It is wrong about a copy of a record whose
//! members do not belong together, such as a snapshot of statistics.

use super::harmful;
use crate::subject::{Side, Subject};
use redhanded_model::{Fact, Form, Leaning};

pub const NAME: &str = "torn";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    let extents: Vec<_> = sides
        .iter()
        .filter_map(|side| Some(side.evidence?.extent))
        .collect();
    let same = extents.windows(2).all(|pair| pair[0] == pair[1]);
    let torn = |side: &&Side<'_>| {
        let Some(evidence) = side.evidence else {
            return false;
        };
        let copied = |fact: &Fact| matches!(fact, Fact::MemoryFunction { .. }).then_some(());
        match evidence.form() {
            Form::Wide | Form::Repeated => true,
            Form::Vector => !(same && evidence.has(&Fact::AtomicVector)),
            _ if evidence.find(copied).is_some() => evidence.extent.size > 8,
            _ => evidence.has(&Fact::Natural { natural: false }),
        }
    };
    let side = sides.iter().find(torn)?;
    let size = side.access.size;
    harmful(
        NAME,
        vec![format!(
            "{} is of {size} bytes and is not made in one piece",
            side.words()
        )],
    )
}
