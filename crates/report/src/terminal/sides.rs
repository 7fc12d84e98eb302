//! The two sides of a race: who did what where, with the source line and the
//! instruction.

use super::Terminal;
use super::race::{HANG, label};
use crate::layout::{Line, Page};
use crate::names;
use crate::order::side_name;
use crate::quote::Quote;
use crate::style::{Role, Style};
use redhanded_model::{AccessReport, Race};

/// How the `at`th access of a race is shown: the sampled one comes first.
pub(super) const fn role(at: usize) -> Role {
    match at {
        0 => Role::Held,
        _ => Role::Caught,
    }
}

/// The most columns that a name or a place takes in the line of a side.
const WIDEST: usize = 44;

/// The same where there is little room.
const BRIEF: usize = 24;

/// One side of a race in cells.
struct Cells {
    kind: String,
    function: String,
    place: String,
    thread: String,
}

impl Cells {
    fn of(terminal: &Terminal, access: &AccessReport) -> Self {
        let style = &terminal.style;
        let atomic = if access.atomic { "atomic " } else { "" };
        let kind = access.kind.name();
        let shorten = |name: &str| names::shorten(name, WIDEST, style.ellipsis());
        let (mut function, within) = names::told(access, shorten);
        let mut how: Vec<String> = within.iter().map(|own| format!("in {own}")).collect();
        how.extend((access.system_call.iter()).map(|call| format!("system call {call}")));
        how.extend((access.freed_by.iter()).map(|free| format!("calls {free}")));
        if !how.is_empty() {
            function.push_str(&format!(" ({})", how.join(", ")));
        }
        // Escaping makes text wider, so it comes before the columns are measured.
        let clean = |text: String| crate::escape::clean(&text, style.unicode).into_owned();
        Self {
            kind: format!("{atomic}{kind} {}", names::bytes(access.size)),
            function: clean(function),
            place: clean(place(terminal, access)),
            thread: clean(access.thread.to_string()),
        }
    }
}

/// The line of an access, or for code without lines that of the nearest caller of the program
/// that has one.
fn place(terminal: &Terminal, access: &AccessReport) -> String {
    let Some(shown) = access.shown_place() else {
        return String::new();
    };
    let place = terminal.place(Some(shown.file), shown.line);
    let place = place.unwrap_or_default();
    let short = names::short_place(&place, WIDEST, terminal.style.ellipsis());
    if shown.is_only_from {
        return format!("from {short}");
    }
    short
}

/// Where an access is, in few words: its function and its line, or in fewer.
pub(super) fn whereabouts(terminal: &Terminal, access: &AccessReport, place: bool) -> String {
    let cells = Cells::of(terminal, access);
    match cells.place.as_str() {
        _ if !place => names::shorten(&cells.function, BRIEF, terminal.style.ellipsis()),
        "" => cells.function,
        place => format!("{} {place}", cells.function),
    }
}

/// The lines of both sides: in columns if they fit, otherwise in two rows each.
pub(super) fn sides<'s>(terminal: &'s Terminal, race: &Race) -> Vec<Vec<Line<'s>>> {
    let style = &terminal.style;
    let cells: Vec<Cells> = race
        .accesses
        .iter()
        .map(|access| Cells::of(terminal, access))
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
        let (role, name) = (role(at), side_name(race, at));
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

pub(super) fn put_side(page: &mut Page<'_>, rows: Vec<Line<'_>>) {
    for (row, line) in rows.into_iter().enumerate() {
        page.put(if row == 0 { 2 } else { HANG }, HANG, line);
    }
}

/// What is known of an access beyond its place.
pub(super) fn detail(terminal: &Terminal, page: &mut Page<'_>, race: &Race, at: usize) {
    let style = &terminal.style;
    let access = &race.accesses[at];
    if access.system_call.is_some() {
        let text = "made by the kernel on behalf of this thread";
        page.put(HANG, HANG, Line::new(style).words(Role::Dim, text));
    }
    let source = terminal.source.as_ref();
    if let Some(quote) = source.and_then(|source| Quote::of(race, at, source)) {
        source_line(style, page, quote);
    }
    if let Some(instruction) = &access.instruction
        && (terminal.verbose || terminal.assembly)
    {
        page.put(HANG, HANG, Line::new(style).put(Role::Dim, instruction));
    }
    if !terminal.verbose {
        return;
    }
    let pointee = access.pointee.as_ref();
    if let Some(expression) = pointee.and_then(|pointee| pointee.expression.as_ref()) {
        let line = Line::new(style).words(Role::Dim, "as");
        page.put(HANG, HANG, line.put(Role::Dim, expression));
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
                line = line.glue(Role::Dim, ", itself inlined into");
            }
            line = line.put(Role::Dim, &name);
        }
        page.put(HANG, HANG + 2, line);
    }
}

/// `42 │ c->flags |= BUSY;`, with the accessed expression underlined: in the line where there
/// are colours, or else below it if that tells something.
fn source_line(style: &Style, page: &mut Page<'_>, quote: Quote) {
    let number = quote.number.to_string();
    let start = HANG + number.len() + 3;
    let room = style.columns().saturating_sub(start).max(20);
    let tells = quote.marking_tells();
    let quote = quote.cleaned(style.unicode).cut(room, style.ellipsis());
    let line = Line::new(style)
        .put(Role::Dim, &number)
        .put(Role::Dim, style.bar());
    let line = if quote.before.is_empty() {
        line.put(Role::Accessed, &quote.accessed)
    } else {
        line.put(Role::Plain, &quote.before)
            .glue(Role::Accessed, &quote.accessed)
    };
    page.put(HANG, HANG, line.glue(Role::Plain, &quote.after));
    if tells && !style.color {
        let mark = "^".repeat(quote.accessed.chars().count());
        let before = quote.before.chars().count();
        page.put(start + before, 0, Line::new(style).put(Role::Plain, &mark));
    }
}
