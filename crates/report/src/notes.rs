//! What a report says about a race beyond its data.

use redhanded_model::{Class, Race, SeenBy};

/// What it is, in a few words.
pub(crate) fn title(race: &Race) -> &'static str {
    if race.seen_by == SeenBy::Analysis {
        return match (race.class, race.is_suspect()) {
            (Class::Race, false) if race.is_freed() => "race, unordered with the end of its memory",
            (Class::Race, false) => "race, unordered",
            (Class::Race, true) => "suspect",
            (Class::PossiblyAtomic, false) => "possibly atomic, unordered",
            (Class::PossiblyAtomic, true) => "suspect, possibly atomic",
            (Class::Special, _) => "special",
            (Class::WiderThanSource, _) => "wider than the source",
            (Class::Synchronised, _) => "no race",
        };
    }
    match (race.class, race.unknown_origin()) {
        (Class::Race, _) if race.is_freed() => "race, freed while it stood",
        (Class::Race, false) => "race",
        (Class::Race, true) => "race, unknown origin",
        (Class::PossiblyAtomic, false) => "possibly atomic",
        (Class::PossiblyAtomic, true) => "possibly atomic, unknown origin",
        (Class::Special, false) => "special",
        (Class::Special, true) => "special, unknown origin",
        (Class::WiderThanSource, _) => "wider than the source",
        (Class::Synchronised, _) => "no race",
    }
}

/// Which analyses found it.
pub(crate) fn found_by(race: &Race) -> String {
    let by = race
        .analysed
        .as_ref()
        .map_or(&[][..], |analysed| &analysed.by);
    let names: Vec<&str> = by.iter().map(|analysis| analysis.name()).collect();
    format!("in a recording, by {}", names.join(" and "))
}

/// Why there is a collision although the bytes are equal.
pub(crate) fn unchanged(race: &Race) -> &'static str {
    match race.accesses.get(1) {
        // It may have come between the watch and the first look at the bytes.
        Some(other) if other.kind.writes() => {
            "unchanged: the caught access wrote the same value, or wrote before it was first read"
        }
        Some(_) => "unchanged: the caught access only reads",
        None if race.is_unmapped() => "what it was before it was unmapped",
        None => "unchanged at the end: it was changed and changed back",
    }
}

/// What readers need to know who see such a report for the first time.
pub(crate) fn notes(race: &Race) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if race.seen_by == SeenBy::Analysis {
        notes.push(if race.is_suspect() {
            "Suspect: something may have ordered the two that a recording does not show, or only \
             the locks that were held speak against them. This does not fail the run; the hunt of \
             redhanded check or run --suspects can catch it."
                .to_owned()
        } else {
            "Unordered: nothing in the recorded execution kept the two apart. They did not \
             coincide; the order may be another next time."
                .to_owned()
        });
    }
    if race.class == Class::PossiblyAtomic {
        notes.push(
            "Possibly atomic: an atomic load or store in the source can compile to a plain move \
             like this one, and the binary does not show which it is. Look at the source lines. \
             This does not fail the run."
                .to_owned(),
        );
    }
    if race.is_unmapped() {
        notes.push(
            "Freed while it stood: the memory was unmapped between the thread's decision to access it and \
             the access, which faults. Another thread called munmap, or freed a large block, which the \
             allocator then unmapped."
                .to_owned(),
        );
    } else if race.is_freed() && race.seen_by == SeenBy::Analysis {
        notes.push(
            "Given back: the one side calls an allocator's function for the block that the other \
             accesses. Whatever that access is, next time it may be one to memory that is no longer \
             its own."
                .to_owned(),
        );
    } else if race.is_freed() {
        notes.push(
            "Freed while it stood: an allocator gave the block back, or handed it out again, between the \
             thread's decision to access it and the access. Whatever the access is, it is one to memory \
             that is no longer its own."
                .to_owned(),
        );
    }
    if let Some(reason) = &race.special {
        notes.push(format!(
            "Special: this variable is accessed without a lock by design ({reason}). This does not fail the \
             run."
        ));
    }
    let in_kernel = race
        .accesses
        .iter()
        .any(|access| access.thread.context.is_some());
    let changed_by_nobody = race.unknown_origin() && !race.is_unmapped();
    if changed_by_nobody && in_kernel {
        notes.push(
            "Unknown origin: no CPU was caught making the change. It can come from a device, from \
             another mapping of the same page, or from a CPU whose stop was reported too late."
                .to_owned(),
        );
    } else if changed_by_nobody && race.suspects.is_empty() {
        notes.push(
            "Unknown origin: no watched thread was seen to make the change. It can come from \
             another process through shared memory, from a second mapping of the same page, \
             from the kernel filling a buffer, or from a thread that could not be watched."
                .to_owned(),
        );
    }
    let writers = race
        .accesses
        .iter()
        .filter(|access| access.kind.writes())
        .count();
    if writers > 1 && race.what.bit_fields.len() > 1 {
        notes.push(
            "Both sides write, and bit-fields that share bytes are written back together: \
             changing one can undo a change of another."
                .to_owned(),
        );
    }
    notes
}
