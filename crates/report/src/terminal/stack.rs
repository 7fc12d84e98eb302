//! A whole stack, innermost frame first, nothing shortened.

use crate::layout::{Line, Page};
use crate::names;
use crate::style::{Role, Style};
use redhanded_model::{AccessReport, Frame};

/// Names up to this long line up, with the places in a column beside them. Longer
/// ones do not widen the column.
const NAME_COLUMN: usize = 36;

pub(super) fn stack(style: &Style, page: &mut Page<'_>, side: &str, access: &AccessReport) {
    let heading = format!("stack of the {side} {}", access.thread);
    page.put(2, 4, Line::new(style).put(Role::Heading, &heading));
    if access.stack.is_empty() {
        let none = format!("not known beyond {:#x}", access.pc);
        page.put(4, 4, Line::new(style).words(Role::Plain, &none));
        return;
    }
    let number = (access.stack.len() - 1).to_string().len() + 1;
    let name = access
        .stack
        .iter()
        .map(|frame| function(frame).chars().count())
        .filter(|columns| *columns <= NAME_COLUMN)
        .max()
        .unwrap_or(0);
    let home = access
        .stack
        .iter()
        .find_map(|frame| frame.module.as_deref());
    for (at, frame) in access.stack.iter().enumerate() {
        // Number and name stay together: a name alone at the start of a line would
        // look like a continuation.
        let numbered = format!("{:<number$} {}", format!("#{at}"), function(frame));
        let mut line = Line::new(style).column(Role::Plain, &numbered, number + 1 + name);
        if let Some(place) = names::place(frame.file.as_deref(), frame.line) {
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
        if frame.inlined {
            line = line.put(Role::Dim, "(inlined)");
        }
        page.put(4, 4 + number + 3, line);
    }
}

fn function(frame: &Frame) -> String {
    match &frame.function {
        Some(name) => name.clone(),
        None => names::frame_address(frame),
    }
}
