//! Stacks that other tools print, and which frame of one is the program's own.

use crate::Suspects;
use redhanded_model::{Candidate, Spot};

/// Libraries that are nobody's own, by the beginnings of their file names: those of the tools
/// themselves, the C and C++ libraries, the dynamic linker.
const FOREIGN_MODULES: [&str; 10] = [
    "libtsan",
    "libclang_rt",
    "libasan",
    "vgpreload_",
    "libc.so",
    "libc-",
    "libpthread",
    "libstdc++",
    "libc++",
    "ld-linux",
];

/// Parts of the paths of source files that are nobody's own.
const FOREIGN_FILES: [&str; 6] = [
    "libsanitizer/",
    "sanitizer_common/",
    "/tsan/rtl/",
    "tsan_interceptors",
    "hg_intercepts.c",
    "vg_replace_",
];

/// Functions that a tool puts into the program in place of the C library's.
const FOREIGN_FUNCTIONS: [&str; 4] = [
    "__tsan_",
    "__interceptor_",
    "___interceptor_",
    "__sanitizer_",
];

/// A frame, as far as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frame {
    pub spot: Spot,
    /// The file name of the module.
    pub module: Option<String>,
}

impl Frame {
    fn is_own(&self) -> bool {
        let begins = |name: &Option<String>, with: &[&str]| {
            let name = name.as_deref().unwrap_or_default();
            with.iter().any(|start| name.starts_with(start))
        };
        let file = self.spot.file.as_deref().unwrap_or_default();
        self.spot.is_named()
            && !begins(&self.module, &FOREIGN_MODULES)
            && !begins(&self.spot.function, &FOREIGN_FUNCTIONS)
            && !FOREIGN_FILES.iter().any(|part| file.contains(part))
    }
}

/// The sides of one race, while they are read.
#[derive(Default)]
pub struct Sides {
    /// The innermost frame of the program's own for each side that was begun.
    sides: Vec<Option<Spot>>,
    /// Whether frames belong to the last side.
    open: bool,
}

impl Sides {
    /// A side begins; its frames follow.
    pub fn begin(&mut self) {
        self.sides.push(None);
        self.open = true;
    }

    /// What follows belongs to no side.
    pub fn end(&mut self) {
        self.open = false;
    }

    /// The next frame, from the innermost on.
    pub fn frame(&mut self, frame: Frame) {
        if let (true, Some(side @ None)) = (self.open, self.sides.last_mut())
            && frame.is_own()
        {
            *side = Some(frame.spot);
        }
    }

    /// The race is over: it is a suspect if both sides are known.
    pub fn finish(&mut self, suspects: &mut Suspects) {
        self.open = false;
        let sides = std::mem::take(&mut self.sides);
        if sides.is_empty() {
            return;
        }
        // A race of more than two accesses has all of them with the first.
        let mut sides = sides.into_iter();
        let first = sides.next().flatten();
        let before = suspects.candidates.len();
        for other in sides.flatten() {
            if let Some(first) = &first {
                let pair = Candidate::new([first.clone(), other]);
                suspects.candidates.push(pair);
            }
        }
        suspects.one_sided += usize::from(suspects.candidates.len() == before);
    }
}

/// A file and a line from `FILE:LINE` or `FILE:LINE:COLUMN`.
pub fn place(text: &str) -> Option<(&str, u32)> {
    let last = |text: &str| {
        let (rest, number) = text.rsplit_once(':')?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((
            rest.len(),
            digits.then(|| number.parse::<u32>().ok()).flatten()?,
        ))
    };
    let (end, number) = last(text)?;
    let (end, line) = match last(text.get(..end)?) {
        // What was read first is a column.
        Some((end, line)) => (end, line),
        None => (end, number),
    };
    let file = text.get(..end)?;
    // `a::1` is no file, and a line is never 0.
    (!file.is_empty() && !file.ends_with(':') && line > 0).then_some((file, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_line_and_perhaps_a_column() {
        assert_eq!(place("src/a.c:12"), Some(("src/a.c", 12)));
        assert_eq!(place("src/a.c:12:7"), Some(("src/a.c", 12)));
        assert_eq!(place("C:\\a.c:12"), Some(("C:\\a.c", 12)));
        for none in [
            "",
            "a",
            "a:",
            ":1",
            "a::1",
            "a:0",
            "a:x",
            "a:99999999999",
            "std::get",
        ] {
            assert_eq!(place(none), None, "{none}");
        }
    }
}
