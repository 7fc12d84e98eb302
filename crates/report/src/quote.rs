//! The line of the source that an access is shown with, and which part of it is accessed.

use crate::escape::clean;
use crate::format::SourceLine;
use redhanded_model::{AccessReport, Expression, Race};
use std::ops::Range;

/// Words of a line that name nothing that could be accessed.
const WORDS: [&str; 12] = [
    "const", "else", "for", "if", "int", "let", "mut", "return", "static", "unsafe", "void",
    "while",
];

/// A line of the source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quote {
    pub(crate) number: u32,
    /// What is before the accessed expression; the whole line if that is not known.
    pub(crate) before: String,
    /// The accessed expression.
    pub(crate) accessed: String,
    /// What is behind it.
    pub(crate) after: String,
}

impl Quote {
    /// The line of the `at`th access, if `source` has it.
    pub(crate) fn of(race: &Race, at: usize, source: &SourceLine) -> Option<Self> {
        let access = race.accesses.get(at)?;
        let shown = access.shown_place()?;
        let number = shown.line?;
        let line = source(shown.file, number)?;
        let text = line.trim_end().replace('\t', " ");
        if text.trim().is_empty() {
            return None;
        }
        let known = expression(race, at, access);
        let part = known.and_then(|known| find(&text, known));
        let part = part.unwrap_or(text.len()..text.len());
        Some(Self {
            number,
            before: text[..part.start].trim_start().to_owned(),
            accessed: text[part.clone()].to_owned(),
            after: text[part.end..].to_owned(),
        })
    }

    /// With whatever a terminal would act on escaped, which may lengthen it.
    pub(crate) fn cleaned(self, unicode: bool) -> Self {
        let clean = |text: &str| clean(text, unicode).into_owned();
        Self {
            before: clean(&self.before),
            accessed: clean(&self.accessed),
            after: clean(&self.after),
            ..self
        }
    }

    /// Whether it says something to mark the accessed expression: there are other names in the
    /// line that it could be, and it is not what the whole statement assigns to.
    pub(crate) fn marking_tells(&self) -> bool {
        let is_known = !self.accessed.is_empty();
        is_known && (has_names(&self.before) || has_names(&self.after) && !assigns(&self.after))
    }

    /// Cut to so many columns, around the accessed expression. The file has the rest.
    pub(crate) fn cut(mut self, room: usize, ellipsis: &str) -> Self {
        let columns = |text: &str| text.chars().count();
        let whole = columns(&self.before) + columns(&self.accessed) + columns(&self.after);
        if whole <= room {
            return self;
        }
        let dots = columns(ellipsis);
        let first = |text: &str, count: usize| text.chars().take(count).collect::<String>();
        if self.accessed.is_empty() {
            self.before = first(&self.before, room.saturating_sub(dots)) + ellipsis;
            return self;
        }
        // Both ends may have to go; each then ends in dots.
        let most = room.saturating_sub(2 * dots);
        if columns(&self.accessed) > most {
            self.accessed = first(&self.accessed, most);
            if !self.before.is_empty() {
                self.before = ellipsis.to_owned();
            }
            self.after = ellipsis.to_owned();
            return self;
        }
        let beside = most - columns(&self.accessed);
        let (before, after) = (columns(&self.before), columns(&self.after));
        // What is before it tells more, if it is all there.
        let before_kept = if before <= beside + dots {
            before
        } else if after <= beside / 2 {
            beside + dots - after
        } else {
            beside - beside / 2
        };
        let before_kept = before_kept.min(before);
        if before_kept < before {
            let kept: String = self.before.chars().skip(before - before_kept).collect();
            self.before = format!("{ellipsis}{kept}");
        }
        let left = room
            .saturating_sub(columns(&self.before))
            .saturating_sub(columns(&self.accessed));
        if after > left {
            self.after = first(&self.after, left.saturating_sub(dots)) + ellipsis;
        }
        self
    }
}

/// Whether a part of a line has names of what could be accessed.
fn has_names(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| {
        word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !WORDS.contains(&word)
    })
}

/// Whether what is behind an expression assigns to it: ` = 1;`, ` += n;`.
fn assigns(after: &str) -> bool {
    let operator = after.trim_start();
    let operator = operator.trim_start_matches(['+', '-', '*', '/', '%', '&', '|', '^']);
    operator.starts_with('=') && !operator.starts_with("==")
}

/// The expression that the `at`th access is in the source, if it is on the line that is shown.
fn expression<'r>(race: &'r Race, at: usize, access: &AccessReport) -> Option<&'r Expression> {
    let side = race.evidence.as_ref()?.sides.get(at)?;
    let expression = side.source()?.expression.as_ref()?;
    let shown = access.shown_place()?;
    let is_there = match access.caller() {
        // The access's own line may have the same number in another file.
        Some(_) => expression.file == shown.file,
        None => !shown.is_only_from,
    };
    (is_there && Some(expression.line) == shown.line).then_some(expression)
}

/// Where in a line an expression is: where it occurs once, or where its column is.
fn find(line: &str, expression: &Expression) -> Option<Range<usize>> {
    let text = expression.text.as_str();
    if text.is_empty() {
        return None;
    }
    let mut all = line
        .match_indices(text)
        .map(|(start, _)| start..start + text.len());
    let first = all.next()?;
    let Some(second) = all.next() else {
        return Some(first);
    };
    let at = usize::try_from(expression.column?).ok()?.checked_sub(1)?;
    [first, second]
        .into_iter()
        .chain(all)
        .find(|part| part.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line with the expression in brackets, cut to so many columns.
    fn cut(line: &str, room: usize) -> String {
        let mut parts = line.split('`').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let quote = Quote {
            number: 1,
            before: next(),
            accessed: next(),
            after: next(),
        };
        let cut = quote.cut(room, "…");
        let text = format!("{}{}{}", cut.before, cut.accessed, cut.after);
        assert!(text.chars().count() <= room, "{text}");
        format!("{}`{}`{}", cut.before, cut.accessed, cut.after)
    }

    #[test]
    fn a_long_line_is_cut_around_the_expression() {
        let line =
            "__attribute__((noinline)) int rrow(Table*t,int i){ return `t->rows[i&3].key`; }";
        assert_eq!(cut(line, 100), line);
        assert_eq!(
            cut(line, 60),
            "…nline)) int rrow(Table*t,int i){ return `t->rows[i&3].key`; }"
        );
        assert_eq!(cut(line, 30), "…){ return `t->rows[i&3].key`; }");
        assert_eq!(cut("`a_long_name` = 1;", 9), "`a_long_`…");
        assert_eq!(cut("x = `a_long_name`;", 9), "…`a_long_`…");
        assert_eq!(
            cut("`hits` = some_function(of, it);", 20),
            "`hits` = some_functio…"
        );
        // Nothing is known of where it is.
        assert_eq!(
            cut("hits = some_function(of, it);", 20),
            "hits = some_functio…``"
        );
    }

    #[test]
    fn an_expression_that_occurs_twice_is_where_its_column_is() {
        let of = |column| Expression {
            text: "a[i]".to_owned(),
            file: "a.c".to_owned(),
            line: 1,
            column,
        };
        let line = "  a[i] = a[i] + 1;";
        assert_eq!(find(line, &of(None)), None);
        assert_eq!(find(line, &of(Some(3))), Some(2..6));
        assert_eq!(find(line, &of(Some(11))), Some(9..13));
        assert_eq!(find(line, &of(Some(8))), None, "the operator's column");
        assert_eq!(find("x = a[i];", &of(None)), Some(4..8));
    }

    #[test]
    fn a_mark_tells_something_where_there_are_other_names() {
        let tells = |before: &str, after: &str| {
            let quote = Quote {
                accessed: "hits".to_owned(),
                before: before.to_owned(),
                after: after.to_owned(),
                ..Quote::default()
            };
            quote.marking_tells()
        };
        for (before, after) in [("total = ", ";"), ("", " == n;"), ("if (n) ", " = 1;")] {
            assert!(tells(before, after), "{before}hits{after}");
        }
        for (before, after) in [
            ("", ";"),
            ("", "++;"),
            ("return ", ";"),
            ("", " = 0x1;"),
            // What is assigned would be marked itself.
            ("", " += n;"),
            ("unsafe { ", " = n }"),
        ] {
            assert!(!tells(before, after), "{before}hits{after}");
        }
    }
}
