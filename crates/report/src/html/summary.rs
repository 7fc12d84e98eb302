//! What a run came to: counts, plots, what was not seen, what is no race.

use super::markup::Markup;
use super::{Html, list, plot, race};
use crate::names;
use crate::numbers::{count, counted, seconds, times};
use crate::outcome;
use redhanded_model::{Class, Crash, Report};

/// How many races of which class, in words.
fn counts(report: &Report) -> Vec<String> {
    let of = |class| {
        let those = report.races.iter().filter(|race| race.class == class);
        those.count() as u64
    };
    let (races, doubts, special) = (
        of(Class::Race),
        of(Class::PossiblyAtomic),
        of(Class::Special),
    );
    let mut parts = Vec::new();
    if races > 0 {
        parts.push(counted(races, "race", "races"));
    }
    if doubts > 0 {
        parts.push(format!("{} possibly atomic", count(doubts)));
    }
    if special > 0 {
        parts.push(format!("{} special", count(special)));
    }
    if parts.is_empty() {
        let windows = counted(report.run.windows, "window", "windows");
        parts.push(format!("No race caught in {windows}"));
    }
    if let (Some(last), Some(text)) = (parts.last_mut(), outcome::in_problems(report)) {
        last.push_str(&format!(" {text}"));
    }
    parts
}

/// The title of the page.
pub(super) fn title(report: &Report) -> String {
    let program = report.run.program.first().map_or("", String::as_str);
    let name = program.rsplit('/').next().unwrap_or_default();
    let counts = counts(report).join(", ");
    match name {
        "" => format!("{counts} – Redhanded"),
        name => format!("{name}: {counts} – Redhanded"),
    }
}

/// The heading of the page.
pub(super) fn headline(page: &mut Markup, report: &Report) {
    page.text(&counts(report).join(", "));
}

/// The run in numbers.
pub(super) fn summary(page: &mut Markup, report: &Report) {
    let run = &report.run;
    if run.cut_short {
        page.tag("<p class=\"warning\">The tracer was lost before the end of the run.</p>\n");
    }
    page.tag("<dl class=\"facts\">\n");
    for (label, text) in outcome::facts(report) {
        page.fact(label, &text);
    }
    page.tag("</dl>\n");
    if report.races.is_empty() {
        page.element("<p>", outcome::SILENCE, "</p>\n<ul>\n");
        for advice in outcome::advice(run) {
            page.element("<li>", &advice, "</li>\n");
        }
        page.tag("</ul>\n");
    }
    plot::plots(page, run);
    if !run.unseen.is_empty() {
        page.tag("<details><summary>Not looked at: ")
            .text(&counted(run.unseen.len() as u64, "thing", "things"))
            .tag("</summary>\n<ul>\n");
        for unseen in &run.unseen {
            page.element("<li><b>", &unseen.what, "</b>: ")
                .text(&unseen.why)
                .tag("</li>\n");
        }
        page.tag("</ul>\n</details>\n");
    }
}

/// Collisions that are no races.
pub(super) fn set_aside(page: &mut Markup, report: &Report) {
    if report.set_aside.is_empty() {
        return;
    }
    page.tag("<h2>Seen, and no race</h2>\n<ul class=\"aside\">\n");
    for race in &report.set_aside {
        page.element("<li><b>", &list::object(race), "</b>, ")
            .text(&times(race.instances));
        if let Some(rule) = race.rule {
            page.tag(": ").text(rule.reason());
        }
        page.tag(" <small>").text(&race.id()).tag("</small></li>\n");
    }
    page.tag("</ul>\n");
}

/// What killed the program.
pub(super) fn crash(html: &Html, page: &mut Markup, crash: &Crash) {
    page.tag("<h2>Crash</h2>\n<p>")
        .text(&format!("{} got signal {}.", crash.thread, crash.signal))
        .tag("</p>\n");
    race::stack(html, page, &crash.stack, 1);
    page.tag("<p>Threads held shortly before, the latest last:</p>\n<ul>\n");
    for window in &crash.windows {
        let at = match &window.at.function {
            Some(function) => function.clone(),
            None => names::frame_address(&window.at),
        };
        let caught = if window.caught { ", collided" } else { "" };
        let text = format!(
            "{} before, thread {} for {} at {at}{caught}",
            seconds(window.ago_s),
            window.tid,
            seconds(window.held_s)
        );
        page.element("<li>", &text, "</li>\n");
    }
    page.tag("</ul>\n");
}
