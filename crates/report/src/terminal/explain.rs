//! Why a collision has its class: the rule, and the facts that it was given.

use super::race::{HANG, label};
use crate::facts;
use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::times;
use crate::order::side_name;
use crate::style::{Role, Style};
use redhanded_model::{Class, Known, Race, Report};

/// The rule and the facts of one race.
pub(super) fn explain(style: &Style, page: &mut Page<'_>, race: &Race) {
    let Some(rule) = race.rule else {
        return;
    };
    let text = format!("{}: {}", rule.name(), rule.reason());
    page.put(
        2,
        HANG,
        label(style, Role::Heading, "why").words(Role::Plain, &text),
    );
    let Some(evidence) = &race.evidence else {
        return;
    };
    for (at, known) in evidence.sides.iter().enumerate() {
        for fact in &known.facts {
            put(style, page, side_name(race, at), fact);
        }
    }
    for fact in &evidence.bytes {
        put(style, page, "bytes", fact);
    }
}

fn put(style: &Style, page: &mut Page<'_>, about: &str, known: &Known) {
    let line = Line::new(style)
        .column(Role::Dim, about, 6)
        .words(Role::Plain, &facts::fact(&known.fact))
        .words(Role::Dim, &format!("({})", facts::basis(known)));
    page.put(HANG, HANG + 8, line);
}

/// What was seen and is no race.
pub(super) fn set_aside(style: &Style, page: &mut Page<'_>, report: &Report) {
    for race in &report.set_aside {
        let title = match race.class {
            Class::WiderThanSource => "WIDER THAN THE SOURCE",
            _ => "NO RACE",
        };
        let what = names::object(&race.what).unwrap_or_else(|| race.what.region.to_string());
        let mut line = Line::new(style)
            .column(Role::Heading, title, 0)
            .put(Role::Name, &format!("{what}:"));
        for (at, access) in race.accesses.iter().enumerate() {
            let function = match &access.function {
                Some(name) => names::shorten(name, 32, style.ellipsis()),
                None => names::code_address(access),
            };
            let comma = if at > 0 { "/ " } else { "" };
            let text = format!("{comma}{} in {function}", access.kind.name());
            line = line.put(Role::Plain, &text);
        }
        let line = line
            .glue(Role::Plain, ",")
            .put(Role::Plain, &times(race.instances));
        page.put(0, 4, line.put(Role::Dim, &format!("[{}]", race.id())));
        explain(style, page, race);
        page.blank();
    }
}
