//! A crash of the program, and the windows just before it.

use super::Terminal;
use crate::folding::{Part, folded};
use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::seconds;
use crate::style::Role;
use redhanded_model::{Crash, Frame};

/// How many windows are shown; JSON has them all.
const MOST_WINDOWS: usize = 8;
/// How many frames are shown whatever they are: where it crashed.
const INNERMOST: usize = 3;

pub(super) fn crash(terminal: &Terminal, page: &mut Page<'_>, crash: &Crash) {
    let style = &terminal.style;
    let title = format!("CRASH: {} got signal {}", crash.thread, crash.signal);
    page.put(0, 4, Line::new(style).words(Role::Race, &title));
    stack(terminal, page, &crash.stack);
    let title = if crash.windows.is_empty() {
        "no thread was held shortly before"
    } else {
        "threads held shortly before, the latest last"
    };
    page.put(2, 6, Line::new(style).words(Role::Heading, title));
    let first = crash.windows.len().saturating_sub(MOST_WINDOWS);
    for window in &crash.windows[first..] {
        let caught = if window.caught { ", collided" } else { "" };
        let text = format!(
            "{} before, thread {} for {} at {}{caught}",
            seconds(window.ago_s),
            window.tid,
            seconds(window.held_s),
            place(terminal, &window.at)
        );
        page.put(4, 8, Line::new(style).words(Role::Plain, &text));
    }
    page.blank();
}

fn stack(terminal: &Terminal, page: &mut Page<'_>, stack: &[Frame]) {
    for part in folded(stack, INNERMOST) {
        let (role, text) = match part {
            Part::Frame(_, frame) => (Role::Plain, place(terminal, frame)),
            part => {
                let left_out = part.left_out().unwrap_or_default();
                (Role::Dim, format!("({left_out} left out; JSON has all)"))
            }
        };
        page.put(2, 6, Line::new(&terminal.style).words(role, &text));
    }
}

fn place(terminal: &Terminal, frame: &Frame) -> String {
    let function = frame
        .function
        .clone()
        .unwrap_or_else(|| names::frame_address(frame));
    match terminal.place(frame.file.as_deref(), frame.line) {
        Some(place) => format!("{function} {place}"),
        None => function,
    }
}
