//! A number that is counted up and down under a lock, such as the number of open connections,
//! and that somebody looks at without it.
//!
//! Goes by updates that add and subtract, with a lock wherever the module writes the variable;
//! and by a reader that shows the value or compares it with a threshold, where neither its
//! functions nor what they call write the variable. Whoever asks for zero, or keeps what is left
//! after counting down, speaks against it. If not all of that is known, or the value is passed
//! to a function that does not print, it is a hint, by which nothing is called benign: a number
//! that is not counted exactly, or that somebody looks at before taking a place, may do harm. It
//! is wrong where the reader's decision must still hold when it acts.

use super::{benign, reference_count};
use crate::subject::{Side, Subject};
use redhanded_model::{GAUGE, Leaning, Leans, Step, Use};

pub const NAME: &str = GAUGE;

/// Functions of the C library that format what they are given, and do nothing else with it.
const PRINTING: [&str; 7] = [
    "printf", "fprintf", "dprintf", "sprintf", "snprintf", "asprintf", "syslog",
];

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let (reader, writer) = subject.reader_and_writer()?;
    let steps = subject.steps();
    let counts = |step: &Step| step.is_up() || step.is_down();
    let both = steps.iter().any(|step| step.is_up()) && steps.iter().any(|step| step.is_down());
    if !both || !steps.iter().all(counts) || subject.is_pointer() {
        return None;
    }
    let sides = subject.all_sides();
    let mut writers = sides.iter().filter(|side| side.writes());
    if !writers.all(holds_a_lock) || !sides.iter().all(Side::is_natural) {
        return None;
    }
    if !only_looks(&reader) || keeps(&writer) {
        return None;
    }
    let facts = vec![
        format!(
            "the number is counted up and down, with a lock in {}",
            writer.words()
        ),
        format!(
            "{} only shows it or compares it with a threshold",
            reader.words()
        ),
    ];
    let alone = |side: Side<'_>| side.usage.is_some_and(|usage| usage.only_looks);
    let guarded = sides
        .iter()
        .any(|side| side.usage.is_some_and(|usage| usage.guarded));
    let known = guarded && alone(reader) && !passes(&reader);
    match known && reference_count::evidence(subject).is_empty() {
        true => benign(NAME, facts),
        false => Some(Leaning::hint(NAME, Leans::Benign, facts)),
    }
}

fn holds_a_lock(side: &Side<'_>) -> bool {
    side.is_locked() || side.usage.is_some_and(|usage| usage.lock.is_some())
}

/// Whether a reader does no more than show the value, or ask whether it is above or below
/// something.
pub fn only_looks(reader: &Side<'_>) -> bool {
    reader.usage.is_some_and(|usage| {
        let looks = |used: &Use| match used {
            Use::Branch => usage.threshold,
            Use::Computed | Use::Stored | Use::Passed(_) => true,
            _ => false,
        };
        usage.uses.iter().all(looks)
    })
}

/// Whether a reader passes the value to a function that may do more than print it.
fn passes(reader: &Side<'_>) -> bool {
    // A part of a name is not enough: `login` and `fingerprint` do not print.
    let prints = |name: &str| {
        let name = name.trim_end_matches("_chk").trim_start_matches('_');
        PRINTING.contains(&name)
    };
    let other = |used: &Use| match used {
        Use::Passed(name) => !name.as_deref().is_some_and(prints),
        _ => false,
    };
    reader
        .usage
        .is_some_and(|usage| usage.uses.iter().any(other))
}

/// Whether an update does something with the number that it has counted.
fn keeps(writer: &Side<'_>) -> bool {
    let counted = |used: &Use| !matches!(used, Use::Branch | Use::Computed);
    writer
        .usage
        .is_none_or(|usage| usage.uses.iter().any(counted))
}
