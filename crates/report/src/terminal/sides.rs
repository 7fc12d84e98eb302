//! The two sides of a race: who did what where, with the source line and the
//! instruction.

use super::Terminal;
use super::race::{HANG, label};
use crate::layout::{Line, Page};
use crate::names;
use crate::style::{Role, Style};
use redhanded_model::{AccessReport, Race};

/// What the `at`th access of a race is called: the sampled one comes first.
pub(super) const fn side(at: usize) -> (Role, &'static str) {
    match at {
        0 => (Role::Held, "held"),
        _ => (Role::Caught, "caught"),
    }
}

/// The most columns that a name or a place takes in the line of a side.
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
        // Escaping makes text wider, so it comes before the columns are measured.
        let clean = |text: String| crate::escape::clean(&text, style.unicode).into_owned();
        Self {
            kind: format!("{atomic}{kind} {}", names::bytes(access.size)),
            function: clean(function),
            place: clean(place(style, access)),
            thread: clean(access.thread.to_string()),
        }
    }
}

/// The line of an access. For code without lines (mostly the C library's), that of
/// the nearest caller that has one.
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

/// The lines of both sides: in columns if they fit, otherwise in two rows each.
pub(super) fn sides<'s>(style: &'s Style, race: &Race) -> Vec<Vec<Line<'s>>> {
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

pub(super) fn put_side(page: &mut Page<'_>, rows: Vec<Line<'_>>) {
    for (row, line) in rows.into_iter().enumerate() {
        page.put(if row == 0 { 2 } else { HANG }, HANG, line);
    }
}

/// What is known of an access beyond its place.
pub(super) fn detail(terminal: &Terminal, page: &mut Page<'_>, access: &AccessReport) {
    let style = &terminal.style;
    if access.system_call.is_some() {
        let text = "made by the kernel on behalf of this thread";
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
                line = line.glue(Role::Dim, ", itself inlined into");
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
    // Escaping may lengthen it, so it is cut afterwards.
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
