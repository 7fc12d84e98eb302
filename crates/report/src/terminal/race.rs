//! One race: its headline, the two sides, the value, and what it means.

use super::{Terminal, stack};
use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{counted, times};
use crate::style::{Role, Style};
use crate::values;
use redhanded_model::{AccessReport, Class, Race, SeenBy};

/// Where what belongs to a label starts.
pub(super) const HANG: usize = 10;
const LABEL: usize = HANG - 4;
/// Changed words of a wide value that are shown.
const WORDS: usize = 4;

/// The form for a race as it comes: where, what, and how it was seen.
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
    for note in notes(race) {
        page.put(
            2,
            HANG,
            label(style, Role::Heading, "note").words(Role::Plain, note),
        );
    }
    for (at, access) in race.accesses.iter().enumerate() {
        page.blank();
        stack::stack(style, page, side(at).1, access);
    }
    page.blank();
    page.put(2, 4, fingerprint(style, race));
}

/// The fingerprint, broken only where its parts meet.
fn fingerprint<'s>(style: &'s Style, race: &Race) -> Line<'s> {
    let line = Line::new(style).put(Role::Dim, &format!("fingerprint {}", race.id));
    race.fingerprint
        .0
        .split_inclusive(" | ")
        .flat_map(|places| places.split_inclusive(" @ "))
        .fold(line, |line, part| line.put(Role::Dim, part.trim_end()))
}

/// What the `at`th access of a race is called: the sampled one comes first.
const fn side(at: usize) -> (Role, &'static str) {
    match at {
        0 => (Role::Held, "held"),
        _ => (Role::Caught, "caught"),
    }
}

fn label<'s>(style: &'s Style, role: Role, text: &str) -> Line<'s> {
    Line::new(style).column(role, text, LABEL)
}

/// `RACE 1 of 3  counter.flags (unsigned int, 4 bytes), global of demo  [id]`.
fn headline<'s>(style: &'s Style, race: &Race, number: String) -> Line<'s> {
    let (role, title) = match (race.class, race.unknown_origin()) {
        (Class::Race, false) => (Role::Race, "RACE"),
        (Class::Race, true) => (Role::Race, "RACE, UNKNOWN ORIGIN"),
        (Class::PossiblyAtomic, false) => (Role::Doubt, "POSSIBLY ATOMIC"),
        (Class::PossiblyAtomic, true) => (Role::Doubt, "POSSIBLY ATOMIC, UNKNOWN ORIGIN"),
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
    let region = match names::region(&what.region).as_str() {
        "unknown" => "unknown region".to_owned(),
        region => region.to_owned(),
    };
    line.column(Role::Plain, &region, 0)
        .put(Role::Dim, &format!("[{}]", race.id))
}

/// No name or place takes more columns of a side's line than this.
const WIDEST: usize = 44;

/// One side of a race in cells.
struct Cells {
    kind: String,
    function: String,
    place: String,
    thread: String,
}

impl Cells {
    fn of(style: &Style, access: &AccessReport) -> Self {
        let atomic = if access.atomic { "atomic " } else { "" };
        let kind = access.kind.name();
        let mut function = match &access.function {
            Some(name) => names::shorten(name, WIDEST, style.ellipsis()),
            None => names::code_address(access),
        };
        if let Some(call) = &access.system_call {
            function.push_str(&format!(" (system call {call})"));
        }
        // Escaped already here, because that changes how wide they are.
        let clean = |text: String| crate::escape::clean(&text, style.unicode).into_owned();
        Self {
            kind: format!("{atomic}{kind} {}", names::bytes(access.size)),
            function: clean(function),
            place: clean(place(style, access)),
            thread: clean(names::thread(&access.thread)),
        }
    }
}

/// The line of an access. Code without lines (the C library's, mostly) is placed
/// by the nearest caller that has one.
fn place(style: &Style, access: &AccessReport) -> String {
    let short = |place: String| names::short_place(&place, WIDEST, style.ellipsis());
    if let Some(place) = names::place(access.file.as_deref(), access.line) {
        return short(place);
    }
    access
        .stack
        .iter()
        .find_map(|frame| names::place(frame.file.as_deref(), frame.line))
        .map(|place| format!("from {}", short(place)))
        .unwrap_or_default()
}

/// The lines of both sides: in columns where they fit, else each in two rows.
fn sides<'s>(style: &'s Style, race: &Race) -> Vec<Vec<Line<'s>>> {
    let cells: Vec<Cells> = race
        .accesses
        .iter()
        .map(|access| Cells::of(style, access))
        .collect();
    let widest = |cell: fn(&Cells) -> &str| {
        cells
            .iter()
            .map(|cells| cell(cells).chars().count())
            .max()
            .unwrap_or(0)
    };
    let kind = widest(|cells| &cells.kind);
    let function = widest(|cells| &cells.function);
    let place = widest(|cells| &cells.place);
    let thread = widest(|cells| &cells.thread);
    let in_columns = HANG + kind + function + place + thread + 6 <= style.columns();
    let rows = |(at, cells): (usize, &Cells)| {
        let (role, name) = side(at);
        if !in_columns {
            let code = label(style, role, name)
                .column(Role::Name, &cells.function, 0)
                .put(Role::Place, &cells.place);
            let access = Line::new(style)
                .column(Role::Plain, &cells.kind, kind)
                .put(Role::Plain, &cells.thread);
            return vec![code, access];
        }
        let mut line = label(style, role, name)
            .column(Role::Plain, &cells.kind, kind)
            .column(Role::Name, &cells.function, function);
        if place > 0 {
            line = line.column(Role::Place, &cells.place, place);
        }
        vec![line.put(Role::Plain, &cells.thread)]
    };
    cells.iter().enumerate().map(rows).collect()
}

fn put_side(page: &mut Page<'_>, rows: Vec<Line<'_>>) {
    for (row, line) in rows.into_iter().enumerate() {
        page.put(if row == 0 { 2 } else { HANG }, HANG, line);
    }
}

/// What is known of an access beyond its place.
fn detail(terminal: &Terminal, page: &mut Page<'_>, access: &AccessReport) {
    let style = &terminal.style;
    if access.system_call.is_some() {
        let text = "done by the kernel on behalf of this thread";
        page.put(HANG, HANG, Line::new(style).words(Role::Dim, text));
    }
    if let (Some(file), Some(number), Some(source)) = (&access.file, access.line, &terminal.source)
        && let Some(text) = source(file, number)
    {
        source_line(style, page, number, &text);
    }
    if let Some(instruction) = &access.instruction {
        page.put(HANG, HANG, Line::new(style).put(Role::Dim, instruction));
    }
    if access.stack.first().is_some_and(|frame| frame.inlined) {
        let callers = access
            .stack
            .windows(2)
            .take_while(|pair| pair[0].inlined)
            .map(|pair| &pair[1]);
        let mut line = Line::new(style).words(Role::Dim, "inlined into");
        for (at, frame) in callers.enumerate() {
            let name = match &frame.function {
                Some(name) => names::shorten(name, WIDEST, style.ellipsis()),
                None => names::frame_address(frame),
            };
            if at > 0 {
                line = line.glue(Role::Dim, ", in turn into");
            }
            line = line.put(Role::Dim, &name);
        }
        page.put(HANG, HANG + 2, line);
    }
}

/// `42 │ c->flags |= BUSY;`, cut to the width: the file has the rest.
fn source_line(style: &Style, page: &mut Page<'_>, number: u32, text: &str) {
    let number = number.to_string();
    let text = text.trim().replace('\t', " ");
    if text.is_empty() {
        return;
    }
    let room = style
        .columns()
        .saturating_sub(HANG + number.len() + 3)
        .max(20);
    // Cut after escaping, which may lengthen it.
    let text = crate::escape::clean(&text, style.unicode);
    let text = if text.chars().count() > room {
        let kept = room - style.ellipsis().chars().count();
        text.chars()
            .take(kept)
            .chain(style.ellipsis().chars())
            .collect()
    } else {
        text.into_owned()
    };
    let line = Line::new(style)
        .put(Role::Dim, &number)
        .put(Role::Dim, style.bar())
        .put(Role::Plain, &text);
    page.put(HANG, HANG, line);
}

fn nobody(style: &Style) -> Line<'_> {
    label(style, Role::Caught, "caught").words(
        Role::Plain,
        "nobody: the bytes changed while the thread was held",
    )
}

/// The value before and after, with what changed in it.
fn value(style: &Style, page: &mut Page<'_>, race: &Race, in_full: bool) {
    let values = &race.values;
    let changed = values::changed_bits(values, style);
    let fields = values::fields(values, &race.what.bit_fields);
    let line = label(style, Role::Heading, "value");
    if values.before.is_empty() || values.after.is_empty() {
        if in_full {
            page.put(2, HANG, line.words(Role::Plain, "not known"));
        }
        return;
    }
    let narrow = values::hexadecimal(&values.before).zip(values::hexadecimal(&values.after));
    if changed.is_empty() {
        let line = match narrow {
            Some((before, _)) => {
                let line = line.put(Role::Plain, &before);
                let line = match values::in_type(&values.before, race.what.type_name.as_deref()) {
                    Some(text) if fields.is_empty() => line.put(Role::Plain, &format!("({text})")),
                    _ => line,
                };
                line.glue(Role::Plain, ",")
            }
            None => line,
        };
        page.put(2, HANG, line.words(Role::Plain, unchanged(race)));
    } else if let Some((before, after)) = narrow {
        let line = line.put(Role::Plain, &format!("{before} {} {after}", style.arrow()));
        let type_name = race.what.type_name.as_deref();
        let typed = values::in_type(&values.before, type_name)
            .zip(values::in_type(&values.after, type_name));
        let line = match typed {
            Some((before, after)) if fields.is_empty() => line.put(
                Role::Plain,
                &format!("({before} {} {after})", style.arrow()),
            ),
            _ => line,
        };
        let line = line
            .glue(Role::Plain, ",")
            .put(Role::Changed, &changed)
            .put(Role::Plain, "changed");
        page.put(2, HANG, changed_fields(style, race, line, &fields));
    } else {
        let line = line
            .put(Role::Changed, &changed)
            .put(Role::Plain, "changed");
        page.put(2, HANG, changed_fields(style, race, line, &fields));
        if in_full {
            words(style, page, race);
        }
    }
    if in_full && !fields.is_empty() {
        page.put(2, HANG, all_fields(style, &fields));
    }
}

/// Why equal bytes are a collision all the same.
fn unchanged(race: &Race) -> &'static str {
    match race.accesses.get(1) {
        Some(other) if other.kind.writes() => {
            "the same afterwards: the caught access wrote the value that was there"
        }
        Some(_) => "not changed: the caught access only reads",
        None => "the same at the end: it was changed and changed back",
    }
}

/// `: need_callback 0 → 1`, after the changed bits.
fn changed_fields<'s>(
    style: &'s Style,
    race: &Race,
    mut line: Line<'s>,
    fields: &[values::FieldValue<'_>],
) -> Line<'s> {
    if fields.is_empty() {
        return line;
    }
    line = line.glue(Role::Plain, ":");
    let mut first = true;
    for field in fields.iter().filter(|field| field.changed) {
        if !first {
            line = line.glue(Role::Plain, ",");
        }
        first = false;
        line = line.put(Role::Changed, &field_value(style, field));
    }
    let outside = values::changed_outside(&race.values, &race.what.bit_fields, style);
    if !outside.is_empty() {
        if !first {
            line = line.glue(Role::Plain, ",");
        }
        line = line.put(Role::Plain, &format!("{outside} of no field"));
    }
    line
}

fn field_value(style: &Style, field: &values::FieldValue<'_>) -> String {
    let name = &field.field.name;
    match field.values {
        Some((before, after)) if field.changed => {
            format!("{name} {before} {} {after}", style.arrow())
        }
        Some((before, _)) => format!("{name} {before}"),
        None => name.clone(),
    }
}

fn all_fields<'s>(style: &'s Style, fields: &[values::FieldValue<'_>]) -> Line<'s> {
    let mut line = label(style, Role::Heading, "fields");
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            line = line.glue(Role::Plain, ",");
        }
        let role = if field.changed {
            Role::Changed
        } else {
            Role::Plain
        };
        line = line.put(role, &field_value(style, field));
    }
    line
}

/// The changed words of a value wider than one.
fn words(style: &Style, page: &mut Page<'_>, race: &Race) {
    let words = values::changed_words(&race.values);
    for word in words.iter().take(WORDS) {
        let line = Line::new(style)
            .column(Role::Dim, &format!("+{}", word.offset), 3)
            .put(
                Role::Plain,
                &format!("{} {} {}", word.before, style.arrow(), word.after),
            );
        page.put(HANG, HANG + 5, line);
    }
    if words.len() > WORDS {
        let more = counted((words.len() - WORDS) as u64, "more word", "more words");
        page.put(
            HANG,
            HANG,
            Line::new(style).words(Role::Dim, &format!("and {more}")),
        );
    }
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

/// What a reader who has not seen such a report before needs to know.
fn notes(race: &Race) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if race.class == Class::PossiblyAtomic {
        notes.push(
            "Possibly atomic: the instructions are plain moves, which atomic accesses of the \
             source compile to as well, and nothing at hand tells which these are; look at the \
             source lines. Fails no run by default.",
        );
    }
    if race.unknown_origin() {
        notes.push(
            "Unknown origin: no watched thread was seen to make the change. It can come from \
             another process through shared memory, from a second mapping of the same page, \
             from the kernel filling a buffer, or from a thread that could not be watched.",
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
             changing one can undo a change of another.",
        );
    }
    notes
}
