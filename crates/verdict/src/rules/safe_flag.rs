//! One side tests bits that the other one does not change.
//!
//! Goes by the instructions around both accesses: the only bits that branches look at, and the
//! only bits that the writer can change. Two writers are never safe: neither a variable on which
//! the report has a race of two writers, nor a reader that was called by the function that
//! writes, because then both threads write. It is wrong if another writer was not seen.

use super::benign;
use crate::subject::{Side, Subject};
use redhanded_model::Leaning;

pub const NAME: &str = "safe-flag";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let (reader, writer) = subject.reader_and_writer()?;
    let (tests, changes) = (reader.usage?.tests?.0, writer.usage?.changes?.0);
    let of = |side: &Side<'_>| Some(side.evidence?.extent);
    let (read, written) = (of(&reader)?, of(&writer)?);
    if read.size > 8 || written.size > 8 || tests == 0 {
        return None;
    }
    // Each counts bits from its own first byte.
    let bits = |mask: u64, size: u64, from: u64| -> Option<u128> {
        let whole = u128::MAX.checked_shr(128 - u32::try_from(size * 8).ok()?)?;
        let first = read.address.min(written.address);
        let by = u32::try_from(from.checked_sub(first)?.checked_mul(8)?).ok()?;
        (u128::from(mask) & whole).checked_shl(by)
    };
    let tested = bits(tests, read.size, read.address)?;
    let changed = bits(changes, written.size, written.address)?;
    let many = subject.all.iter().any(|race| {
        let other = Subject::new(race, subject.all, subject.annotations);
        other.writers().is_some()
            && race.what.name.is_some()
            && race.what.name == subject.race.what.name
            && race.what.address == subject.race.what.address
    });
    if tested & changed != 0 || changed == 0 || many || runs(&reader, &writer) {
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
