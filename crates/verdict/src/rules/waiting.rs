//! Synchronisation of the program's own: one side does nothing but wait until the other one
//! writes.
//!
//! Goes by a loop that reads the bytes again and again, does nothing that others could notice,
//! and ends by their value alone; and by a writer that stores without reading. It is wrong if
//! what is waited for was stored after the flag: on x86 only the compiler can do that.

use super::benign;
use crate::subject::Subject;
use redhanded_model::{Leaning, Use};

pub const NAME: &str = "waiting";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let (reader, writer) = subject.reader_and_writer()?;
    if !reader.uses(&Use::Wait)
        || writer.is_update()
        || !reader.is_natural()
        || !writer.is_natural()
    {
        return None;
    }
    benign(
        NAME,
        vec![format!(
            "a loop around {} only waits until the value changes",
            reader.words()
        )],
    )
}
