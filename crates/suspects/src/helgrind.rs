//! What Helgrind prints.

use crate::Suspects;
use crate::stack::{Frame, Sides, place};
use redhanded_model::Spot;

/// How a race begins, and how its other side does.
const RACE: &str = "Possible data race during ";
const CONFLICT: &str = "This conflicts with a previous ";

/// Whether it printed a race here.
pub fn is_said(text: &str) -> bool {
    text.contains(RACE)
}

/// Adds the races of a text.
pub fn collect(text: &str, suspects: &mut Suspects) {
    let mut sides = Sides::default();
    for line in text.lines() {
        let words = without_number(line).trim();
        if words.starts_with(RACE) {
            sides.finish(suspects);
            sides.begin();
        } else if words.starts_with(CONFLICT) {
            sides.begin();
        } else if words.is_empty() {
            sides.end();
        } else if let Some(frame) = frame(words) {
            sides.frame(frame);
        }
    }
    sides.finish(suspects);
}

/// A line without the number of the process: `==1234== `.
fn without_number(line: &str) -> &str {
    let line = line.trim_start();
    let without = line.strip_prefix("==").and_then(|rest| {
        let (number, rest) = rest.split_once("==")?;
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(rest)
    });
    without.unwrap_or(line)
}

/// `at 0x1092B2: Account::look() const (race.cc:4)`, `by 0x4851DA3: memmove (in /lib/x.so)`.
fn frame(words: &str) -> Option<Frame> {
    let rest = words
        .strip_prefix("at 0x")
        .or_else(|| words.strip_prefix("by 0x"))?;
    let (_, rest) = rest.split_once(": ")?;
    let (function, inner) = match rest.rsplit_once(" (") {
        Some((function, last)) => (function, last.strip_suffix(')')),
        None => (rest, None),
    };
    let at = inner.and_then(place);
    let module = inner.and_then(|inner| inner.strip_prefix("in "));
    // Parameters at the end of a name are in brackets, too.
    let function = if at.is_none() && module.is_none() {
        rest
    } else {
        function
    };
    let function = function.trim();
    Some(Frame {
        spot: Spot {
            function: (!function.is_empty() && function != "???").then(|| function.to_owned()),
            file: at.map(|(file, _)| file.to_owned()),
            line: at.map(|(_, line)| line),
        },
        module: module.and_then(|path| path.rsplit('/').next().map(str::to_owned)),
    })
}
