//! One race: its headline, the two sides, the value, and what it means.

use super::sides::{detail, put_side, side, sides};
use super::value::value;
use super::{Terminal, stack};
use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{counted, times};
use crate::style::{Role, Style};
use redhanded_model::{Class, Race, Region, SeenBy};

/// Where what belongs to a label starts.
pub(super) const HANG: usize = 10;
const LABEL: usize = HANG - 4;

/// The form for a race that was just caught: where, what, and how it was seen.
pub(super) fn short(terminal: &Terminal, page: &mut Page<'_>, race: &Race, windows: u64) {
    let style = &terminal.style;
    page.put(0, 4, headline(style, race, String::new()));
    for rows in sides(style, race) {
        put_side(page, rows);
    }
    if race.unknown_origin() {
        page.put(2, HANG, nobody(style));
    }
    value(style, page, race, false);
    page.put(2, HANG, seen(style, race, windows));
}

/// The form for the end of a run.
pub(super) fn full(
    terminal: &Terminal,
    page: &mut Page<'_>,
    race: &Race,
    (number, of): (usize, usize),
    windows: u64,
) {
    let style = &terminal.style;
    page.put(0, 4, headline(style, race, format!(" {number} of {of}")));
    page.blank();
    for (access, rows) in race.accesses.iter().zip(sides(style, race)) {
        put_side(page, rows);
        detail(terminal, page, access);
    }
    if race.unknown_origin() {
        page.put(2, HANG, nobody(style));
    }
    page.blank();
    value(style, page, race, true);
    if names::object(&race.what).is_some() {
        let at = format!("{:#x}", race.what.address);
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "at").put(Role::Plain, &at),
        );
    }
    page.put(2, HANG, seen(style, race, windows));
    for suspect in &race.suspects {
        let text = format!("Perhaps: {suspect}.");
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "origin").words(Role::Plain, &text),
        );
    }
    for note in notes(race) {
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "note").words(Role::Plain, &note),
        );
    }
    for (at, access) in race.accesses.iter().enumerate() {
        page.blank();
        stack::stack(style, page, side(at).1, access);
    }
    page.blank();
    page.put(2, 4, fingerprint(style, race));
}

/// The fingerprint, with line breaks only between its parts.
fn fingerprint<'s>(style: &'s Style, race: &Race) -> Line<'s> {
    let line = Line::new(style).put(Role::Dim, &format!("fingerprint {}", race.id()));
    race.fingerprint
        .0
        .split_inclusive(" | ")
        .flat_map(|places| places.split_inclusive(" @ "))
        .fold(line, |line, part| line.put(Role::Dim, part.trim_end()))
}

/// A line that starts with a label.
pub(super) fn label<'s>(style: &'s Style, role: Role, text: &str) -> Line<'s> {
    Line::new(style).column(role, text, LABEL)
}

/// `RACE 1 of 3  counter.flags (unsigned int, 4 bytes), global of demo  [id]`.
fn headline<'s>(style: &'s Style, race: &Race, number: String) -> Line<'s> {
    let (role, title) = match (race.class, race.unknown_origin()) {
        (Class::Race, false) => (Role::Race, "RACE"),
        (Class::Race, true) => (Role::Race, "RACE, UNKNOWN ORIGIN"),
        (Class::PossiblyAtomic, false) => (Role::Doubt, "POSSIBLY ATOMIC"),
        (Class::PossiblyAtomic, true) => (Role::Doubt, "POSSIBLY ATOMIC, UNKNOWN ORIGIN"),
        (Class::Special, false) => (Role::Doubt, "SPECIAL"),
        (Class::Special, true) => (Role::Doubt, "SPECIAL, UNKNOWN ORIGIN"),
    };
    let what = &race.what;
    let size = names::bytes(what.size);
    let mut line = Line::new(style).column(role, &format!("{title}{number}"), 0);
    line = match names::object(what) {
        Some(name) => {
            let described = match &what.type_name {
                Some(type_name) => format!("({type_name}, {size}),"),
                None => format!("({size}),"),
            };
            line.put(Role::Name, &name).put(Role::Plain, &described)
        }
        None => {
            let described = match &what.type_name {
                Some(type_name) => format!("{type_name} ({size})"),
                None => size,
            };
            line.put(Role::Name, &described)
                .put(Role::Plain, &format!("at {:#x},", what.address))
        }
    };
    let region = match &what.region {
        Region::Unknown => "unknown region".to_owned(),
        region => region.to_string(),
    };
    line.column(Role::Plain, &region, 0)
        .put(Role::Dim, &format!("[{}]", race.id()))
}

fn nobody(style: &Style) -> Line<'_> {
    label(style, Role::Caught, "caught").words(
        Role::Plain,
        "nobody: the bytes changed while the thread was held",
    )
}

fn seen<'s>(style: &'s Style, race: &Race, windows: u64) -> Line<'s> {
    let how = match race.seen_by {
        SeenBy::Watch => "by a debug register,",
        SeenBy::Value => "by re-reading the bytes,",
    };
    let windows = counted(windows, "window", "windows");
    label(style, Role::Heading, "seen").words(
        Role::Plain,
        &format!("{how} {} in {windows}", times(race.instances)),
    )
}

/// What readers need to know who see such a report for the first time.
fn notes(race: &Race) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if race.class == Class::PossiblyAtomic {
        notes.push(
            "Possibly atomic: an atomic load or store in the source can compile to a plain move \
             like this one, and the binary does not show which it is. Look at the source lines. \
             This does not fail the run."
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
    if race.unknown_origin() && in_kernel {
        notes.push(
            "Unknown origin: no CPU was caught making the change. It can come from a device, from \
             another mapping of the same page, or from a CPU whose stop was reported too late."
                .to_owned(),
        );
    } else if race.unknown_origin() && race.suspects.is_empty() {
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
