//! Which frame of its stack an access is known by: the program's own, whatever a library did
//! for it.
//!
//! Who reads sources quotes the line of that frame, and who writes reports shows it, so both
//! ask here.

use crate::{AccessReport, Creation, Frame};

/// Where in the source an access is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownPlace<'a> {
    /// The file.
    pub file: &'a str,
    /// The line in it.
    pub line: Option<u32>,
    /// Whether the access itself is in code without lines, and this is where that was called.
    pub is_only_from: bool,
}

impl Creation {
    /// The innermost frame of the program's own, or else the innermost one.
    #[must_use]
    pub fn by(&self) -> Option<&Frame> {
        let own = self.stack.iter().find(|frame| !frame.is_library());
        own.or(self.stack.first())
    }
}

impl AccessReport {
    /// The innermost frame of the program's own, and its number.
    #[must_use]
    pub fn own(&self) -> Option<(usize, &Frame)> {
        let mut frames = self.stack.iter().enumerate();
        frames.find(|(_, frame)| !frame.is_library())
    }

    /// The program's own frame that an access of a library was made for, and its number.
    #[must_use]
    pub fn caller(&self) -> Option<(usize, &Frame)> {
        self.own().filter(|(at, _)| *at > 0)
    }

    /// Where it is shown: at its own line, at that of the program's code which a library made
    /// it for, or else at that of the nearest caller which has one.
    #[must_use]
    pub fn shown_place(&self) -> Option<ShownPlace<'_>> {
        let (file, line) = match self.caller() {
            Some((_, frame)) => (frame.file.as_deref(), frame.line),
            None => (self.file.as_deref(), self.line),
        };
        let place = |file, line, is_only_from| ShownPlace {
            file,
            line,
            is_only_from,
        };
        if let Some(file) = file {
            return Some(place(file, line, false));
        }
        let mut own = self.stack.iter().filter(|frame| !frame.is_library());
        own.find_map(|frame| Some(place(frame.file.as_deref()?, frame.line, true)))
    }
}
