//! What ThreadSanitizer and Go's race detector print.

use crate::Suspects;
use crate::stack::{Frame, Sides, place};
use redhanded_model::Spot;

/// How a report begins.
const BEGINS: [&str; 2] = ["WARNING: ThreadSanitizer:", "WARNING: DATA RACE"];

/// Whether one of them printed something here.
pub fn is_said(text: &str) -> bool {
    BEGINS.iter().any(|begin| text.contains(begin))
}

/// Adds the races of a text.
pub fn collect(text: &str, suspects: &mut Suspects) {
    let mut sides = Sides::default();
    // Go has the function on one line, and its place on the next.
    let mut function: Option<&str> = None;
    for line in text.lines() {
        if BEGINS.iter().any(|begin| line.contains(begin)) || line.starts_with("=====") {
            sides.finish(suspects);
            function = None;
            continue;
        }
        let words = line.trim();
        if is_access(words) {
            sides.begin();
        } else if words.is_empty() {
            sides.end();
        } else if let Some(frame) = numbered(words) {
            sides.frame(frame);
        } else if let Some(at) = go_place(words) {
            let name = function.take().unwrap_or_default();
            sides.frame(Frame {
                spot: spot(name.strip_suffix("()").unwrap_or(name), Some(at)),
                module: None,
            });
        } else {
            function = Some(words);
        }
    }
    sides.finish(suspects);
}

/// `Write of size 4 at 0x… by thread T1:`, `Previous atomic read of size 8 at …`, in Go
/// `Previous write at 0x… by goroutine 7:`.
fn is_access(words: &str) -> bool {
    let lower = words.to_ascii_lowercase();
    let rest = lower.strip_prefix("previous ").unwrap_or(&lower);
    let rest = rest.strip_prefix("atomic ").unwrap_or(rest);
    let kind = rest
        .strip_prefix("read ")
        .or_else(|| rest.strip_prefix("write "));
    kind.is_some_and(|rest| {
        (rest.starts_with("of size ") || rest.starts_with("at 0x")) && rest.contains(" by ")
    })
}

/// `/src/race.go:12 +0x44`.
fn go_place(words: &str) -> Option<(&str, u32)> {
    let (at, _) = words.rsplit_once(" +0x")?;
    place(at)
}

/// `#0 Account::look() const /src/race.cc:4 (race+0x1432)`.
fn numbered(words: &str) -> Option<Frame> {
    let rest = words.strip_prefix('#')?;
    let (number, mut rest) = rest.split_once(' ')?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut module = None;
    // `(race+0x1432)`, and after it perhaps `(BuildId: …)`.
    while let Some((before, last)) = rest.trim_end().rsplit_once(" (") {
        let Some(inner) = last.strip_suffix(')') else {
            break;
        };
        if let Some((name, _)) = inner.rsplit_once("+0x") {
            module = name.rsplit('/').next().map(str::to_owned);
        } else if !inner.starts_with("BuildId") {
            break;
        }
        rest = before;
    }
    let rest = rest.trim();
    // A path may have a space in it, a place has none behind it.
    let (function, at) = match rest.rsplit_once(' ') {
        Some((function, last)) => match place(last) {
            Some(at) => (function, Some(at)),
            None if last == "<null>" => (function, None),
            None => (rest, None),
        },
        None => (rest, None),
    };
    Some(Frame {
        spot: spot(function, at),
        module,
    })
}

fn spot(function: &str, at: Option<(&str, u32)>) -> Spot {
    let function = function.trim();
    Spot {
        function: (!function.is_empty() && function != "<null>").then(|| function.to_owned()),
        file: at.map(|(file, _)| file.to_owned()),
        line: at.map(|(_, line)| line),
    }
}
