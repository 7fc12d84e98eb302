//! A crash of the program, and the windows just before it.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{counted, seconds};
use crate::style::{Role, Style};
use redhanded_model::{Crash, Frame};

/// How many windows are shown; JSON has them all.
const MOST_WINDOWS: usize = 8;
/// How many frames are shown whatever they are: where it crashed.
const INNERMOST: usize = 3;
/// How many frames are shown in all, which only a runaway recursion exceeds.
const MOST_FRAMES: usize = 40;

pub(super) fn crash(style: &Style, page: &mut Page<'_>, crash: &Crash) {
    let title = format!("CRASH: {} got signal {}", crash.thread, crash.signal);
    page.put(0, 4, Line::new(style).words(Role::Race, &title));
    stack(style, page, &crash.stack);
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
            place(&window.at)
        );
        page.put(4, 8, Line::new(style).words(Role::Plain, &text));
    }
    page.blank();
}

/// The program's own frames. What it calls in between, mostly inlined containers,
/// is counted.
fn stack(style: &Style, page: &mut Page<'_>, stack: &[Frame]) {
    let mut shown = 0;
    let mut rest = stack;
    while let Some(first) = rest.first() {
        let others = rest.iter().take_while(|frame| is_library(frame)).count();
        // A line that says how many are left out takes the room of one.
        let left_out = match others {
            _ if shown >= MOST_FRAMES => rest.len(),
            others if shown >= INNERMOST && others > 1 => others,
            _ => 0,
        };
        let (role, text) = match left_out {
            0 => (Role::Plain, place(first)),
            _ if left_out == others => {
                let text = counted(left_out as u64, "frame", "frames of libraries");
                (Role::Dim, format!("({text} left out; JSON has all)"))
            }
            _ => {
                let text = counted(left_out as u64, "more frame", "more frames");
                (Role::Dim, format!("({text} left out; JSON has all)"))
            }
        };
        page.put(2, 6, Line::new(style).words(role, &text));
        shown += 1;
        rest = &rest[left_out.max(1)..];
    }
}

/// Whether a frame is not of the program's own source, as far as that shows.
fn is_library(frame: &Frame) -> bool {
    match (&frame.file, &frame.module) {
        (Some(file), _) => {
            ["/usr/include/", "/usr/lib/", "/rustc/"]
                .iter()
                .any(|folder| file.starts_with(folder))
                || file.contains("/rustlib/src/")
        }
        (None, Some(module)) => module.contains(".so"),
        (None, None) => true,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(frames: &[(&str, &str)]) -> Vec<String> {
        let frames = frames.iter().map(|(function, file)| Frame {
            function: Some((*function).to_owned()),
            file: Some((*file).to_owned()),
            ..Frame::default()
        });
        let frames: Vec<Frame> = frames.collect();
        let style = Style::default();
        let mut page = Page::new(&style);
        stack(&style, &mut page, &frames);
        let text = page.into_text();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn the_programs_own_frames_are_shown_behind_any_number_of_others() {
        let inlined = [("std::get", "/usr/include/c++/12/tuple"); 20];
        let mut frames = inlined.to_vec();
        frames.push(("work", "work.cc"));
        frames.extend([
            ("std::call", "/usr/include/c++/12/functional"),
            ("main", "main.cc"),
        ]);
        let told = told(&frames);
        assert_eq!(told.len(), INNERMOST + 4, "{told:#?}");
        assert_eq!(told[3], "(17 frames of libraries left out; JSON has all)");
        assert!(told[4].starts_with("work"), "{told:#?}");
        assert!(
            told[5].starts_with("std::call"),
            "one costs no more than saying so"
        );
        assert!(told[6].starts_with("main"), "{told:#?}");
    }

    #[test]
    fn a_recursion_ends_with_how_much_is_left_out() {
        let told = told(&[("again", "again.c"); 100]);
        assert_eq!(told.len(), MOST_FRAMES + 1, "{told:#?}");
        assert_eq!(told[MOST_FRAMES], "(60 more frames left out; JSON has all)");
    }
}
