//! One side tests bits that the other one does not change.
//!
//! Goes by the instructions around both accesses: the only bits that branches, addresses and
//! copies depend on, and the only bits that the writer can change. Two writers are never safe:
//! neither a variable on which the report has a race of two writers, nor a reader that was called
//! by the function that writes, because then both threads write. It is wrong if another writer was
//! not seen.

use super::benign;
use crate::subject::{Side, Subject};
use redhanded_model::{Leaning, SAFE_FLAG};

pub const NAME: &str = SAFE_FLAG;

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let (reader, writer) = subject.reader_and_writer()?;
    let (tested, changed) = subject.bits_apart()?;
    if subject.has_two_writers() || runs(&reader, &writer) {
        return None;
    }
    benign(
        NAME,
        vec![format!(
            "{} tests {tested:#x}, and {} changes only {changed:#x}",
            reader.words(),
            writer.words()
        )],
    )
}

/// Whether the reader's thread is in the function that the other one writes in.
fn runs(reader: &Side<'_>, writer: &Side<'_>) -> bool {
    let Some(function) = &writer.access.function else {
        return false;
    };
    let stack = reader.access.stack.iter();
    let mut names = stack
        .map(|frame| &frame.function)
        .chain([&reader.access.function]);
    names.any(|name| name.as_ref() == Some(function))
}
