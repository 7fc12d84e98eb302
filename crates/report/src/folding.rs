//! Stacks in few lines: the program's own frames, with those of libraries counted.

use crate::numbers::counted;
use redhanded_model::Frame;

/// How many frames are shown in all, which only a runaway recursion exceeds.
const MOST_FRAMES: usize = 40;

/// A part of a stack as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part<'f> {
    /// A frame with its number.
    Frame(usize, &'f Frame),
    /// So many frames of libraries.
    Libraries(usize),
    /// So many frames of any kind.
    More(usize),
}

impl Part<'_> {
    /// What is said of frames that are not shown.
    pub(crate) fn left_out(self) -> Option<String> {
        match self {
            Self::Frame(..) => None,
            Self::Libraries(count) => Some(counted(count as u64, "frame", "frames of the runtime")),
            Self::More(count) => Some(counted(count as u64, "more frame", "more frames")),
        }
    }
}

/// The parts of a stack. The `innermost` frames are shown whatever they are.
pub(crate) fn folded(stack: &[Frame], innermost: usize) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(frame) = stack.get(at) {
        let rest = &stack[at..];
        let libraries = rest.iter().take_while(|frame| frame.is_library()).count();
        if parts.len() >= MOST_FRAMES {
            parts.push(Part::More(rest.len()));
            break;
        }
        // A line that says how many are left out takes the room of one.
        if at >= innermost && libraries > 1 {
            parts.push(Part::Libraries(libraries));
            at += libraries;
        } else {
            parts.push(Part::Frame(at, frame));
            at += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(named: &[(&str, &str)]) -> Vec<Frame> {
        let frames = named.iter().map(|(function, file)| Frame {
            function: Some((*function).to_owned()),
            file: Some((*file).to_owned()),
            ..Frame::default()
        });
        frames.collect()
    }

    #[test]
    fn the_programs_own_frames_are_shown_behind_any_number_of_others() {
        let inlined = [("std::get", "/usr/include/c++/12/tuple"); 20];
        let mut stack = inlined.to_vec();
        stack.push(("work", "work.cc"));
        stack.extend([
            ("std::call", "/usr/include/c++/12/functional"),
            ("main", "main.cc"),
        ]);
        let stack = frames(&stack);
        let parts = folded(&stack, 3);
        assert_eq!(parts[3], Part::Libraries(17), "{parts:#?}");
        assert_eq!(parts[4], Part::Frame(20, &stack[20]));
        // One costs no more than saying so.
        assert_eq!(parts[5], Part::Frame(21, &stack[21]));
        assert_eq!(parts[6], Part::Frame(22, &stack[22]));
        assert_eq!(parts.len(), 7);
    }

    #[test]
    fn a_recursion_ends_with_how_much_is_left_out() {
        let stack = frames(&[("again", "again.c"); 100]);
        let parts = folded(&stack, 3);
        assert_eq!(parts.len(), MOST_FRAMES + 1);
        assert_eq!(parts[MOST_FRAMES], Part::More(60));
    }

    #[test]
    fn the_c_library_is_one_with_its_sources_too() {
        let mut stack = frames(&[("work", "a.c"), ("start_thread", "./nptl/pthread_create.c")]);
        stack.push(stack[1].clone());
        for frame in &mut stack[1..] {
            frame.module = Some("libc.so.6".to_owned());
        }
        assert_eq!(folded(&stack, 1)[1..], [Part::Libraries(2)]);
        stack[1].module = Some("libcache.so".to_owned());
        assert_eq!(folded(&stack, 1).len(), 3, "a library of the program's own");
    }
}
