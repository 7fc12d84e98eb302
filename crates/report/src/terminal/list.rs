//! Races in a line each: the index of a report, and the list of what a store has.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{counted, times};
use crate::outcome;
use crate::problems::problems;
use crate::style::{Role, Style};
use redhanded_model::{Class, Race, SeenBy};

/// How many of a problem's other races are named in a list.
const MOST_OTHERS: usize = 6;

/// When a race was seen, in words.
type When<'a> = &'a dyn Fn(&Race) -> Option<String>;

/// An index to the races above. Those of one problem stand below its first.
pub(super) fn index(style: &Style, page: &mut Page<'_>, races: &[&Race]) {
    let width = races.len().to_string().len();
    let mut number = 0;
    for problem in problems(races.iter().copied()) {
        number += 1;
        put(
            page,
            2,
            width,
            line(style, problem.first, number, width, None),
        );
        for race in problem.others {
            number += 1;
            put(page, 4, width, line(style, race, number, width, None));
        }
    }
}

/// A list that stands alone, with an entry for each problem: its first race with both sides and
/// when it was seen, and the names of the others.
pub(super) fn list(style: &Style, page: &mut Page<'_>, races: &[Race], when: When<'_>) {
    let problems = problems(races);
    let width = problems.len().to_string().len();
    for (at, problem) in problems.iter().enumerate() {
        let first = line(style, problem.first, at + 1, width, Some(when));
        put(page, 2, width, first);
        if problem.others.is_empty() {
            continue;
        }
        let others = counted(problem.others.len() as u64, "more race", "more races");
        let text = format!("and {others} {}:", problem.common());
        let mut line = Line::new(style).words(Role::Plain, &text);
        for (at, race) in problem.others.iter().take(MOST_OTHERS).enumerate() {
            if at > 0 {
                line = line.glue(Role::Plain, ",");
            }
            line = line
                .put(Role::Dim, &format!("[{}]", race.id()))
                .put(Role::Name, &names::race_object(race));
            let standing = race.triage.as_ref().map(outcome::standing);
            if let Some(word) = standing.filter(|_| race.triage != problem.first.triage) {
                line = line.put(Role::Plain, &format!("({word})"));
            }
        }
        if problem.others.len() > MOST_OTHERS {
            line = line.glue(Role::Plain, style.ellipsis());
        }
        page.put(4 + width, 4 + width, line);
    }
}

fn put(page: &mut Page<'_>, indent: usize, width: usize, line: Line<'_>) {
    page.put(indent, indent + 2 + width, line);
}

/// One race; in a list with both sides and what `when` says.
fn line<'s>(
    style: &'s Style,
    race: &Race,
    number: usize,
    width: usize,
    when: Option<When<'_>>,
) -> Line<'s> {
    let what = names::race_object(race);
    let mut line = Line::new(style)
        .put(Role::Plain, &format!("{number:>width$}"))
        .put(Role::Dim, &format!("[{}]", race.id()))
        .put(Role::Name, &what);
    let sides = if when.is_some() {
        line = line.glue(Role::Plain, ":");
        race.accesses.as_slice()
    } else {
        &[]
    };
    for (at, access) in sides.iter().enumerate() {
        let (function, _) = names::told(access, |name| names::shorten(name, 32, style.ellipsis()));
        let comma = if at > 0 { "/ " } else { "" };
        line = line.put(
            Role::Plain,
            &format!("{comma}{} in {function}", access.kind.name()),
        );
    }
    if race.unknown_origin() {
        line = match when {
            Some(_) => line.put(Role::Plain, "/ unknown origin"),
            None => line
                .glue(Role::Plain, ",")
                .words(Role::Plain, "unknown origin"),
        };
    }
    line = line
        .glue(Role::Plain, ",")
        .put(Role::Plain, &times(race.instances));
    if race.class == Class::PossiblyAtomic {
        line = line
            .glue(Role::Plain, ",")
            .put(Role::Doubt, "possibly atomic");
    }
    if let Some(analysed) = &race.analysed {
        line = line
            .glue(Role::Plain, ",")
            .put(Role::Plain, analysed.standing.name());
    }
    if race.is_freed() {
        let words = match race.seen_by {
            SeenBy::Analysis => "with the end of its memory",
            SeenBy::Watch | SeenBy::Value => "freed while it stood",
        };
        line = line.glue(Role::Plain, ",").put(Role::Race, words);
    }
    if let Some(verdict) = &race.verdict {
        line = line
            .glue(Role::Plain, ",")
            .words(Role::Plain, verdict.call.name());
    }
    if race.class == Class::Special {
        line = line.glue(Role::Plain, ",").put(Role::Doubt, "special");
    }
    if let Some(word) = race.triage.as_ref().map(outcome::standing) {
        line = line.glue(Role::Plain, ",").put(Role::Plain, &word);
    }
    if let Some(when) = when.and_then(|when| when(race)) {
        line = line.glue(Role::Plain, ",").put(Role::Dim, &when);
    }
    line
}
