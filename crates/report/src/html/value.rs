//! The value before and after: as a number, bit by bit, and by bit-field.

use super::markup::Markup;
use crate::notes;
use crate::style::Style;
use crate::values;
use redhanded_model::Race;

pub(super) fn value(page: &mut Markup, race: &Race) {
    let values = &race.values;
    page.tag("<section><h4>Value</h4>\n");
    let typed = values::typed(race);
    let changed = values::changed_bits(values, &Style::default());
    if values.before.is_empty() || values.after.is_empty() {
        page.tag("<p>not known</p></section>\n");
        return;
    }
    if changed.is_empty() {
        page.element("<p>", notes::unchanged(race), "</p>\n");
    } else {
        page.element("<p><mark>", &changed, "</mark> changed</p>\n");
    }
    let (before, after) = typed.unwrap_or_default();
    let sides = [
        ("before", &values.before, before),
        ("after", &values.after, after),
    ];
    if values::hexadecimal(&values.before).is_some() {
        page.tag("<table class=\"value\">\n");
        for (name, bytes, typed) in sides {
            page.element("<tr><th>", name, "</th><td><code>")
                .text(&values::hexadecimal(bytes).unwrap_or_default())
                .tag("</code></td><td>")
                .text(&typed)
                .tag("</td></tr>\n<tr class=\"bits\"><td></td><td colspan=\"2\"><code>");
            bits(page, bytes, &values.changed());
            page.tag("</code></td></tr>\n");
        }
        page.tag("</table>\n");
    } else {
        words(page, race);
    }
    fields(page, race);
    page.tag("</section>\n");
}

/// The bits, the highest first as in a number, in groups of a byte, with the changed ones marked.
fn bits(page: &mut Markup, bytes: &[u8], changed: &[u8]) {
    for (at, byte) in bytes.iter().enumerate().rev() {
        let changed = changed.get(at).copied().unwrap_or(0);
        let mut marked = false;
        for bit in (0..8).rev() {
            let differs = changed >> bit & 1 == 1;
            if differs != marked {
                page.tag(if differs { "<mark>" } else { "</mark>" });
                marked = differs;
            }
            page.tag(if byte >> bit & 1 == 1 { "1" } else { "0" });
        }
        if marked {
            page.tag("</mark>");
        }
        page.tag(" ");
    }
}

/// The changed words of a wide value.
fn words(page: &mut Markup, race: &Race) {
    page.tag("<table class=\"value\">\n");
    for word in values::changed_words(&race.values) {
        page.element("<tr><th>+", &word.offset.to_string(), "</th><td><code>")
            .text(&word.before)
            .tag("</code></td><td><code>")
            .text(&word.after)
            .tag("</code></td></tr>\n");
    }
    page.tag("</table>\n");
}

fn fields(page: &mut Markup, race: &Race) {
    let fields = values::fields(&race.values, &race.what.bit_fields);
    if fields.is_empty() {
        return;
    }
    page.tag("<table class=\"value fields\">\n")
        .tag("<tr><th>bit-field</th><th>bits</th><th>before</th><th>after</th></tr>\n");
    for value in fields {
        let field = value.field;
        let first = u64::from(field.first_bit);
        let last = first + u64::from(field.bits).saturating_sub(1);
        let (before, after) = match value.values {
            Some((before, after)) => (before.to_string(), after.to_string()),
            None => Default::default(),
        };
        page.tag(if value.changed {
            "<tr class=\"changed\"><td>"
        } else {
            "<tr><td>"
        });
        page.text(&field.name)
            .tag("</td><td>")
            .text(&if first == last {
                first.to_string()
            } else {
                format!("{first}–{last}")
            })
            .element("</td><td>", &before, "</td><td>")
            .text(&after)
            .tag("</td></tr>\n");
    }
    let style = Style::default();
    let outside = values::changed_outside(&race.values, &race.what.bit_fields, &style);
    page.tag("</table>\n");
    if !outside.is_empty() {
        page.element("<p>", &outside, " changed in no field</p>\n");
    }
}
