//! Lists of suspects: pairs of code places that may race, as a person or another tool wrote
//! them down.
//!
//! [`read`] takes a text, whatever it is: a pair on each line, or what ThreadSanitizer, Go's
//! race detector or Helgrind printed, with anything else around it. [`of_report`] takes
//! Redhanded's own report. The text is foreign: nothing in it makes this panic, and there is
//! a limit to how many pairs it can name.

mod helgrind;
mod pairs;
mod sanitizer;
mod stack;

use redhanded_model::{Candidate, Report};
use std::collections::HashSet;
use thiserror::Error;

/// More pairs than this cannot be hunted in any reasonable time.
pub const MOST: usize = 4096;

/// Why a text is no list of suspects.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A line that is no pair.
    #[error(
        "line {number} is no pair: write `FUNCTION | FUNCTION` or `FILE:LINE | FILE:LINE`, one pair \
         a line"
    )]
    NoPair {
        /// Counted from 1.
        number: usize,
    },
    /// A tool's output that has no race with both sides.
    #[error("it has no race of which both sides are known")]
    NoRace,
    /// An empty list.
    #[error("it names no pair of suspects")]
    Empty,
    /// A list that nobody wrote by hand.
    #[error("it names more than {MOST} pairs")]
    TooMany,
}

/// The suspects of a text or a report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Suspects {
    /// Each pair once, in the order of the text; of a report likely harmful ones first.
    pub candidates: Vec<Candidate>,
    /// Races that are no candidates, because one side is unknown or has no names.
    pub one_sided: usize,
}

/// The suspects that a text names.
///
/// # Errors
/// When it is no such text, or names none.
pub fn read(text: &str) -> Result<Suspects, ReadError> {
    let mut suspects = Suspects::default();
    let said = sanitizer::is_said(text) || helgrind::is_said(text);
    if said {
        sanitizer::collect(text, &mut suspects);
        helgrind::collect(text, &mut suspects);
    } else {
        suspects.candidates = pairs::read(text)?;
    }
    let mut seen = HashSet::new();
    suspects.candidates.retain(|one| {
        let [first, second] = &one.sides;
        let pair = (first.min(second).clone(), first.max(second).clone());
        seen.insert(pair)
    });
    match suspects.candidates.len() {
        0 if said => Err(ReadError::NoRace),
        0 => Err(ReadError::Empty),
        many if many > MOST => Err(ReadError::TooMany),
        _ => Ok(suspects),
    }
}

/// The races of a report as suspects.
///
/// # Errors
/// When none of them has two sides with names.
pub fn of_report(report: &Report) -> Result<Suspects, ReadError> {
    let mut candidates: Vec<Candidate> =
        report.races.iter().filter_map(Candidate::of_race).collect();
    let one_sided = report.races.len() - candidates.len();
    candidates.sort_by_key(|one| std::cmp::Reverse(one.share()));
    match candidates.len() {
        0 => Err(ReadError::NoRace),
        many if many > MOST => Err(ReadError::TooMany),
        _ => Ok(Suspects {
            candidates,
            one_sided,
        }),
    }
}
