//! Stacks, innermost frame first: the program's own frames, of both sides beside each other
//! if that fits, or, if everything is wanted, the whole with nothing shortened.

use super::Terminal;
use crate::folding::{Part, folded};
use crate::layout::{Line, Page};
use crate::names;
use crate::order::side_name;
use crate::style::Role;
use redhanded_model::{AccessReport, Creation, Frame, Race};

/// Names up to this long line up, with the places in a column beside them. Longer
/// ones do not widen the column.
const NAME_COLUMN: usize = 36;
/// How much of a name or a place is shown to get both stacks beside each other: all, or as
/// much as fits.
const BESIDE: [Option<usize>; 4] = [None, Some(24), Some(16), Some(14)];
/// What is said of a frame that was inlined.
const INLINED: &str = "(inlined)";
/// The columns between two stacks.
const GAP: usize = 3;

/// A line of a stack, and where it starts and goes on.
struct Row<'s> {
    indent: usize,
    hang: usize,
    line: Line<'s>,
}

impl<'s> Row<'s> {
    const fn new(indent: usize, hang: usize, line: Line<'s>) -> Self {
        Self { indent, hang, line }
    }
}

/// The stacks of both sides.
pub(super) fn stacks(terminal: &Terminal, page: &mut Page<'_>, race: &Race) {
    if !terminal.verbose
        && let [held, caught] = race.accesses.as_slice()
    {
        // The threads are named above, and beside each other there is no room to do it again.
        let heading = |at| format!("stack of the {} side", side_name(race, at));
        for limit in BESIDE {
            let left = rows(terminal, &heading(0), held, limit);
            let right = rows(terminal, &heading(1), caught, limit);
            if put_beside(terminal, page, left, right) {
                return;
            }
        }
    }
    for (at, access) in race.accesses.iter().enumerate() {
        if terminal.verbose {
            page.blank();
        }
        let heading = format!("stack of the {} {}", side_name(race, at), access.thread);
        for row in rows(terminal, &heading, access, None) {
            page.put(row.indent, row.hang, row.line);
        }
        if terminal.verbose
            && let Some(created) = &access.created
        {
            put_creation(terminal, page, "which", "created", created);
        }
    }
    if terminal.verbose
        && let Some(allocated) = &race.what.allocated
    {
        page.blank();
        put_creation(terminal, page, "the block, which", "allocated", allocated);
    }
}

/// Where a thread did something: `which thread 4711 (main) created here`.
fn put_creation(
    terminal: &Terminal,
    page: &mut Page<'_>,
    what: &str,
    did: &str,
    creation: &Creation,
) {
    let heading = format!("{what} {} {did} here", creation.thread);
    // Of how the C library makes threads and blocks nobody wants to know.
    let parts = folded(&creation.stack, 0);
    for row in framed(terminal, &heading, &creation.stack, parts, None) {
        page.put(row.indent, row.hang, row.line);
    }
}

/// Puts two stacks beside each other, if they fit.
fn put_beside(
    terminal: &Terminal,
    page: &mut Page<'_>,
    left: Vec<Row<'_>>,
    right: Vec<Row<'_>>,
) -> bool {
    let widest = |rows: &[Row<'_>]| {
        let columns = rows.iter().map(|row| row.indent + row.line.columns());
        columns.max().unwrap_or(0)
    };
    let middle = widest(&left) + GAP;
    // The right one is indented like the left one, less what every line starts with.
    let margin = right.first().map_or(0, |row| row.indent);
    if middle + widest(&right) - margin > terminal.style.columns() {
        return false;
    }
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    loop {
        let (line, other) = (left.next(), right.next());
        if line.is_none() && other.is_none() {
            return true;
        }
        let line = line.map_or_else(
            || Line::new(&terminal.style),
            |row| row.line.indented(row.indent),
        );
        let other = other.map_or_else(
            || Line::new(&terminal.style),
            |row| row.line.indented(row.indent - margin),
        );
        page.put(0, 0, line.beside(middle, other));
    }
}

/// A stack under its heading, names and places cut to `limit`.
fn rows<'s>(
    terminal: &'s Terminal,
    heading: &str,
    access: &AccessReport,
    limit: Option<usize>,
) -> Vec<Row<'s>> {
    let style = &terminal.style;
    let first = access.stack.first();
    let is_told = first.is_some_and(|frame| frame.function == access.function);
    if access.stack.is_empty() {
        let heading = Line::new(style).put(Role::Heading, heading);
        let none = format!("not known beyond {:#x}", access.pc);
        let none = Line::new(style).words(Role::Plain, &none);
        return vec![Row::new(2, 4, heading), Row::new(4, 4, none)];
    }
    let parts: Vec<Part<'_>> = if terminal.verbose {
        let all = access.stack.iter().enumerate();
        all.map(|(at, frame)| Part::Frame(at, frame)).collect()
    } else {
        // The side itself is told above, with what a library did for it.
        let own = access.caller().map_or(0, |(at, _)| at);
        let mut parts = folded(&access.stack, 1);
        let told = |part: &Part<'_>| matches!(part, Part::Frame(at, _) if *at == own);
        if is_told && let Some(at) = parts.iter().position(told) {
            parts.drain(..=at);
        }
        parts
    };
    framed(terminal, heading, &access.stack, parts, limit)
}

/// These parts of a stack under a heading, if there are any.
fn framed<'s>(
    terminal: &'s Terminal,
    heading: &str,
    stack: &[Frame],
    parts: Vec<Part<'_>>,
    limit: Option<usize>,
) -> Vec<Row<'s>> {
    if parts.is_empty() {
        return Vec::new();
    }
    let style = &terminal.style;
    let heading = Line::new(style).put(Role::Heading, heading);
    let mut rows = vec![Row::new(2, 4, heading)];
    let longest = limit.unwrap_or(NAME_COLUMN);
    let function = |frame: &Frame| match &frame.function {
        Some(name) if terminal.verbose => name.clone(),
        Some(name) => names::shorten(name, longest, style.ellipsis()),
        None => names::frame_address(frame),
    };
    // Of those that are shown: the outermost are mostly the runtime's.
    let numbers = parts.iter().filter_map(|part| match part {
        Part::Frame(at, _) => Some(at.to_string().len() + 1),
        _ => None,
    });
    let number = numbers.max().unwrap_or(0);
    let name = parts
        .iter()
        .filter_map(|part| match part {
            Part::Frame(_, frame) => Some(function(frame).chars().count()),
            _ => None,
        })
        .filter(|columns| *columns <= NAME_COLUMN)
        .max()
        .unwrap_or(0);
    // A place that does not fit behind its name loses folders instead of taking a line.
    let room = style.columns().saturating_sub(4 + number + 1 + name + 2);
    let place = |frame: &Frame| {
        let inlined = if frame.inlined { INLINED.len() + 2 } else { 0 };
        let place = terminal.place(frame.file.as_deref(), frame.line)?;
        Some(if terminal.verbose {
            place
        } else {
            let room = limit.unwrap_or(room.saturating_sub(inlined));
            names::short_place(&place, room, style.ellipsis())
        })
    };
    let home = stack.iter().find_map(|frame| frame.module.as_deref());
    for part in parts {
        let Part::Frame(at, frame) = part else {
            let left_out = part.left_out().unwrap_or_default();
            let line = Line::new(style).words(Role::Dim, &left_out);
            rows.push(Row::new(4 + number + 1, 4 + number + 1, line));
            continue;
        };
        // Number and name stay together: a name alone at the start of a line would
        // look like a continuation.
        let numbered = format!("{:<number$} {}", format!("#{at}"), function(frame));
        let mut line = Line::new(style).column(Role::Plain, &numbered, number + 1 + name);
        if let Some(place) = place(frame) {
            line = line.column(Role::Place, &place, 0);
            if let Some(module) = frame
                .module
                .as_deref()
                .filter(|_| frame.module.as_deref() != home)
            {
                line = line.column(Role::Dim, module, 0);
            }
        } else if frame.function.is_some() {
            line = line.column(Role::Dim, &names::frame_address(frame), 0);
        }
        if frame.inlined && limit.is_none() {
            line = line.put(Role::Dim, INLINED);
        }
        rows.push(Row::new(4, 4 + number + 3, line));
    }
    rows
}
