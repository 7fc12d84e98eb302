//! One race: its headline, the two sides, the value, and what it means.

use super::sides::{detail, put_side, role as side_role, sides, whereabouts};
use super::value::value;
use super::{Terminal, explain, stack, verdict};
use crate::hint::hint;
use crate::layout::{Line, Page};
use crate::names::{self, allocation};
use crate::notes;
use crate::numbers::{counted, times};
use crate::order::{order, side_name};
use crate::style::{Role, Style};
use redhanded_model::{Class, Creation, Race, SeenBy};
use std::time::Duration;

/// Where what belongs to a label starts.
pub(super) const HANG: usize = 10;
const LABEL: usize = HANG - 4;
/// The most columns that a name takes where there is little room.
const BRIEF: usize = 40;

/// Which race of how many it is, and of which earlier one's problem it is a part: that one's
/// number, and what the two have in common.
pub(super) struct Title {
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) same: Option<(usize, String)>,
}

impl Title {
    /// ` 2 of 7`.
    fn count(&self) -> String {
        format!(" {} of {}", self.number, self.of)
    }
}

/// Says that a race is no bug of its own.
fn put_same(style: &Style, page: &mut Page<'_>, title: &Title) {
    if let Some((first, common)) = &title.same {
        let text = format!("Part of the same problem as race {first}: both are {common}.");
        page.put(2, 4, Line::new(style).words(Role::Plain, &text));
    }
}

/// The form for a race that was just caught: when, what, and where the two were. In a line
/// each, as far as that is possible.
pub(super) fn short(terminal: &Terminal, page: &mut Page<'_>, race: &Race, after: Duration) {
    let style = &terminal.style;
    let time = format!("[{:.1}s]", after.as_secs_f64());
    let title = || Line::new(style).put(Role::Dim, &time);
    let whole = headline(title(), race, String::new());
    page.put(
        0,
        4,
        if whole.columns() <= style.columns() {
            whole
        } else {
            brief_headline(title(), race)
        },
    );
    page.put(4, 8, against(terminal, race));
}

/// The form for a race that needs no attention: what, where the two were, and why not.
pub(super) fn brief(terminal: &Terminal, page: &mut Page<'_>, race: &Race, title: &Title) {
    let line = Line::new(&terminal.style);
    page.put(0, 4, headline(line, race, title.count()));
    put_same(&terminal.style, page, title);
    page.put(2, HANG, against(terminal, race));
    verdict::verdict(&terminal.style, page, race);
}

/// Where the two were, without the places if these would take another line.
fn against<'t>(terminal: &'t Terminal, race: &Race) -> Line<'t> {
    let style = &terminal.style;
    let both = |place: bool| {
        let mut line = Line::new(style);
        for (at, access) in race.accesses.iter().enumerate() {
            let role = side_role(at);
            if at > 0 {
                line = line.put(Role::Plain, "against");
            }
            line = line
                .put(role, access.kind.name())
                .put(Role::Plain, "in")
                .put(Role::Place, &whereabouts(terminal, access, place));
        }
        if race.unknown_origin() {
            line = line.words(Role::Plain, "against nobody that was caught");
        }
        line
    };
    let line = both(true);
    if 4 + line.columns() > style.columns() {
        return both(false);
    }
    line
}

/// The form for the end of a run.
pub(super) fn full(
    terminal: &Terminal,
    page: &mut Page<'_>,
    race: &Race,
    title: &Title,
    windows: u64,
) {
    let style = &terminal.style;
    page.put(0, 4, headline(Line::new(style), race, title.count()));
    put_same(style, page, title);
    if let Some(text) = names::sides_differ(race) {
        page.put(2, 4, Line::new(style).words(Role::Doubt, &text));
    }
    if terminal.verbose {
        page.blank();
    }
    for (at, rows) in sides(terminal, race).into_iter().enumerate() {
        put_side(page, rows);
        detail(terminal, page, race, at);
    }
    if race.unknown_origin() {
        page.put(2, HANG, nobody(style, race));
    }
    if terminal.verbose {
        page.blank();
    }
    value(style, page, race);
    if let Some(allocated) = &race.what.allocated {
        put_allocation(terminal, page, allocated);
    }
    if terminal.verbose && names::object(&race.what).is_some() {
        let at = format!("{:#x}", race.what.address);
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "at").put(Role::Plain, &at),
        );
    }
    put_order(style, page, race);
    page.put(2, HANG, seen(style, race, windows));
    verdict::verdict(style, page, race);
    for suspect in &race.suspects {
        let text = format!("Perhaps: {suspect}.");
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "origin").words(Role::Plain, &text),
        );
    }
    for note in notes::notes(race) {
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "note").words(Role::Plain, &note),
        );
    }
    if let Some(hint) = hint(race) {
        let text = format!("usually: {hint}");
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "hint").words(Role::Plain, &text),
        );
    }
    if terminal.explains {
        explain::explain(style, page, race);
    }
    stack::stacks(terminal, page, race);
    if terminal.verbose {
        page.blank();
        page.put(2, 4, fingerprint(style, race));
    }
}

/// Who allocated the block that the bytes are in, and where.
fn put_allocation(terminal: &Terminal, page: &mut Page<'_>, allocated: &Creation) {
    let style = &terminal.style;
    let mut line = label(style, Role::Heading, "block").words(Role::Plain, &allocation(allocated));
    if let Some(by) = allocated.by() {
        let function = match &by.function {
            Some(name) if terminal.verbose => name.clone(),
            Some(name) => names::shorten(name, BRIEF, style.ellipsis()),
            None => names::frame_address(by),
        };
        line = line.put(Role::Plain, "in").put(Role::Plain, &function);
        if let Some(place) = terminal.place(by.file.as_deref(), by.line) {
            line = line.put(Role::Place, &place);
        }
    }
    page.put(2, HANG, line);
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

/// `RACE  flags  [id]`, for little room.
fn brief_headline<'s>(line: Line<'s>, race: &Race) -> Line<'s> {
    let style = line.style();
    let what = match names::object(&race.what) {
        Some(name) => names::shorten(&name, BRIEF, style.ellipsis()),
        None => race.what.region.to_string(),
    };
    line.column(role(race), &notes::title(race).to_uppercase(), 0)
        .column(Role::Name, &what, 0)
        .put(Role::Dim, &format!("[{}]", race.id()))
}

fn role(race: &Race) -> Role {
    match race.class {
        Class::Race if !race.is_suspect() => Role::Race,
        _ => Role::Doubt,
    }
}

/// `RACE 1 of 3  counter.flags (unsigned int, 4 bytes), global of demo  [id]`.
fn headline<'s>(line: Line<'s>, race: &Race, number: String) -> Line<'s> {
    let title = notes::title(race).to_uppercase();
    let what = &race.what;
    let size = || names::bytes(what.size);
    let mut line = line.column(role(race), &format!("{title}{number}"), 0);
    line = match names::object(what) {
        Some(name) => {
            let described = match &what.type_name {
                Some(type_name) => format!("({}),", names::typed_bytes(race, type_name)),
                None => format!("({}),", size()),
            };
            line.put(Role::Name, &name).put(Role::Plain, &described)
        }
        None => {
            let described = match &what.type_name {
                Some(type_name) => names::typed_bytes(race, type_name),
                None => size(),
            };
            line.put(Role::Name, &described)
                .put(Role::Plain, &format!("at {:#x},", what.address))
        }
    };
    line.column(Role::Plain, &names::region(what), 0)
        .put(Role::Dim, &format!("[{}]", race.id()))
}

/// Both threads in time order, a line for each step.
fn put_order(style: &Style, page: &mut Page<'_>, race: &Race) {
    for (at, step) in order(race).into_iter().enumerate() {
        let role = side_role(step.side);
        let heading = if at == 0 { "order" } else { "" };
        let line = label(style, Role::Heading, heading)
            .put(Role::Plain, &(at + 1).to_string())
            .column(role, side_name(race, step.side), 6)
            .words(Role::Plain, &step.text);
        page.put(2, HANG + 10, line);
    }
}

fn nobody<'s>(style: &'s Style, race: &Race) -> Line<'s> {
    let text = if race.is_unmapped() {
        "nobody: the bytes were unmapped while the thread was held"
    } else {
        "nobody: the bytes changed while the thread was held"
    };
    label(style, Role::Caught, "caught").words(Role::Plain, text)
}

fn seen<'s>(style: &'s Style, race: &Race, windows: u64) -> Line<'s> {
    let windows = counted(windows, "window", "windows");
    let times = times(race.instances);
    let text = match race.seen_by {
        SeenBy::Watch => format!("by a debug register, {times} in {windows}"),
        SeenBy::Value => format!("by re-reading the bytes, {times} in {windows}"),
        SeenBy::Analysis => format!("{}, {times}", notes::found_by(race)),
    };
    label(style, Role::Heading, "seen").words(Role::Plain, &text)
}
