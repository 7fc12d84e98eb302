//! A crash of the program, and the windows just before it.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::seconds;
use crate::style::{Role, Style};
use redhanded_model::{Crash, Frame};

/// How much of the stack and how many windows are shown; JSON has them all.
const MOST: usize = 8;

pub(super) fn crash(style: &Style, page: &mut Page<'_>, crash: &Crash) {
    let title = format!("CRASH: {} got signal {}", crash.thread, crash.signal);
    page.put(0, 4, Line::new(style).words(Role::Race, &title));
    for frame in crash.stack.iter().take(MOST) {
        page.put(2, 6, Line::new(style).words(Role::Plain, &place(frame)));
    }
    let title = if crash.windows.is_empty() {
        "no thread was held shortly before"
    } else {
        "threads held shortly before, the latest last"
    };
    page.put(2, 6, Line::new(style).words(Role::Heading, title));
    let first = crash.windows.len().saturating_sub(MOST);
    for window in &crash.windows[first..] {
        let caught = if window.caught { ", collided" } else { "" };
        let text = format!(
            "{} before, thread {} for {} at {}{caught}",
            seconds(window.ago_s),
            window.tid,
            seconds(window.held_s),
            place(&window.at)
        );
        page.put(4, 8, Line::new(style).words(Role::Plain, &text));
    }
    page.blank();
}

fn place(frame: &Frame) -> String {
    let function = frame
        .function
        .clone()
        .unwrap_or_else(|| names::frame_address(frame));
    match names::place(frame.file.as_deref(), frame.line) {
        Some(place) => format!("{function} {place}"),
        None => function,
    }
}
