//! The value of the raced-on bytes: before and after, and what changed in it.

use super::race::{HANG, label};
use crate::layout::{Line, Page};
use crate::notes;
use crate::numbers::counted;
use crate::style::{Role, Style};
use crate::values;
use redhanded_model::{Race, SeenBy};

/// Changed words of a wide value that are shown.
const WORDS: usize = 4;

/// The value before and after, with what changed in it.
pub(super) fn value(style: &Style, page: &mut Page<'_>, race: &Race) {
    let values = &race.values;
    let changed = values::changed_bits(values, style);
    let fields = values::fields(values, &race.what.bit_fields);
    let line = label(style, Role::Heading, "value");
    if race.seen_by == SeenBy::Analysis {
        return;
    }
    if values.before.is_empty() || values.after.is_empty() {
        page.put(2, HANG, line.words(Role::Plain, "not known"));
        return;
    }
    let narrow = values::hexadecimal(&values.before).zip(values::hexadecimal(&values.after));
    if changed.is_empty() {
        let line = match narrow {
            Some((before, _)) => {
                let line = line.put(Role::Plain, &before);
                let line = match values::typed(race) {
                    Some((text, _)) => line.put(Role::Plain, &format!("({text})")),
                    None => line,
                };
                line.glue(Role::Plain, ",")
            }
            None => line,
        };
        page.put(2, HANG, line.words(Role::Plain, notes::unchanged(race)));
    } else if let Some((before, after)) = narrow {
        let line = line.put(Role::Plain, &format!("{before} {} {after}", style.arrow()));
        let line = match values::typed(race) {
            Some((before, after)) => line.put(
                Role::Plain,
                &format!("({before} {} {after})", style.arrow()),
            ),
            None => line,
        };
        let line = line
            .glue(Role::Plain, ",")
            .put(Role::Changed, &changed)
            .put(Role::Plain, "changed");
        page.put(2, HANG, changed_fields(style, race, line, &fields));
    } else {
        let line = line
            .put(Role::Changed, &changed)
            .put(Role::Plain, "changed");
        page.put(2, HANG, changed_fields(style, race, line, &fields));
        words(style, page, race);
    }
    if !fields.is_empty() {
        page.put(2, HANG, all_fields(style, &fields));
    }
}

/// `: need_callback 0 → 1`, after the changed bits.
fn changed_fields<'s>(
    style: &'s Style,
    race: &Race,
    mut line: Line<'s>,
    fields: &[values::FieldValue<'_>],
) -> Line<'s> {
    if fields.is_empty() {
        return line;
    }
    line = line.glue(Role::Plain, ":");
    let mut first = true;
    for field in fields.iter().filter(|field| field.changed) {
        if !first {
            line = line.glue(Role::Plain, ",");
        }
        first = false;
        line = line.put(Role::Changed, &field_value(style, field));
    }
    let outside = values::changed_outside(&race.values, &race.what.bit_fields, style);
    if !outside.is_empty() {
        if !first {
            line = line.glue(Role::Plain, ",");
        }
        line = line.put(Role::Plain, &format!("{outside} in no field"));
    }
    line
}

fn field_value(style: &Style, field: &values::FieldValue<'_>) -> String {
    let name = &field.field.name;
    match field.values {
        Some((before, after)) if field.changed => {
            format!("{name} {before} {} {after}", style.arrow())
        }
        Some((before, _)) => format!("{name} {before}"),
        None => name.clone(),
    }
}

fn all_fields<'s>(style: &'s Style, fields: &[values::FieldValue<'_>]) -> Line<'s> {
    let mut line = label(style, Role::Heading, "fields");
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            line = line.glue(Role::Plain, ",");
        }
        let role = if field.changed {
            Role::Changed
        } else {
            Role::Plain
        };
        line = line.put(role, &field_value(style, field));
    }
    line
}

/// The changed words of a value wider than one.
fn words(style: &Style, page: &mut Page<'_>, race: &Race) {
    let words = values::changed_words(&race.values);
    for word in words.iter().take(WORDS) {
        let line = Line::new(style)
            .column(Role::Dim, &format!("+{}", word.offset), 3)
            .put(
                Role::Plain,
                &format!("{} {} {}", word.before, style.arrow(), word.after),
            );
        page.put(HANG, HANG + 5, line);
    }
    if words.len() > WORDS {
        let more = counted((words.len() - WORDS) as u64, "more word", "more words");
        page.put(
            HANG,
            HANG,
            Line::new(style).words(Role::Dim, &format!("and {more}")),
        );
    }
}
