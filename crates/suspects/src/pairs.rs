//! A pair on each line: `function | function`, `file:line | file:line`, or mixed.

use crate::ReadError;
use crate::stack::place;
use redhanded_model::{Candidate, Spot};

/// A longer line is no pair.
const LONGEST: usize = 8192;

/// The pairs of a text. Empty lines and those that begin with `#` are left out.
pub fn read(text: &str) -> Result<Vec<Candidate>, ReadError> {
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = (line.len() <= LONGEST).then(|| pair(line)).flatten();
        pairs.push(pair.ok_or(ReadError::NoPair { number })?);
        if pairs.len() > crate::MOST {
            return Err(ReadError::TooMany);
        }
    }
    Ok(pairs)
}

fn pair(line: &str) -> Option<Candidate> {
    // C++ has operators with this sign, which have no space before them.
    let (first, second) = line.split_once(" | ").or_else(|| line.split_once('|'))?;
    Some(Candidate::new([spot(first)?, spot(second)?]))
}

fn spot(text: &str) -> Option<Spot> {
    let text = text.trim();
    // Neither has a control character, and nothing else that has one is a list.
    if text.is_empty() || text.contains(" | ") || text.contains(char::is_control) {
        return None;
    }
    // As a report writes it: `function (file:line)`.
    if let Some((function, rest)) = text.rsplit_once(" (")
        && let Some((file, line)) = rest.strip_suffix(')').and_then(place)
    {
        return Some(at(Some(function.trim()), file, line));
    }
    Some(match place(text) {
        Some((file, line)) => at(None, file, line),
        None => Spot {
            function: Some(text.to_owned()),
            ..Spot::default()
        },
    })
}

fn at(function: Option<&str>, file: &str, line: u32) -> Spot {
    Spot {
        function: function.map(str::to_owned),
        file: Some(file.to_owned()),
        line: Some(line),
    }
}
