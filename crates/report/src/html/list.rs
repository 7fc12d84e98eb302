//! The list of all races, a row for each.

use super::Html;
use super::markup::Markup;
use crate::names;
use crate::notes;
use crate::numbers::{count, counted};
use crate::outcome::standing;
use crate::problems::Problem;
use redhanded_model::{AccessReport, Class, Race, Report, State};

/// The most columns that a name takes in the list; the section has all of it.
const NAME: usize = 48;

/// The columns that not every report has.
#[derive(Clone, Copy)]
struct Columns {
    verdict: bool,
    state: bool,
}

/// The list, and what sorts and filters it.
pub(super) fn list(html: &Html, page: &mut Markup, report: &Report, problems: &[Problem<'_>]) {
    if report.races.is_empty() {
        return;
    }
    let any = |has: fn(&Race) -> bool| report.races.iter().any(has);
    let columns = Columns {
        verdict: any(|race| race.verdict.is_some()),
        state: any(|race| race.triage.is_some()),
    };
    page.tag("<h2 id=\"list\">Races</h2>\n");
    filter(page, columns);
    page.tag("<table id=\"races\">\n<thead><tr><th data-sort=\"number\">#</th><th>Class</th>");
    if columns.verdict {
        page.tag("<th data-sort=\"number\">Verdict</th>");
    }
    if columns.state {
        page.tag("<th>State</th>");
    }
    page.tag("<th>What</th><th>Held</th><th>Caught</th><th data-sort=\"number\">Seen</th>")
        .tag("</tr></thead>\n<tbody>\n");
    let mut number = 0;
    for problem in problems {
        for race in problem.all() {
            number += 1;
            row(html, page, (race, problem), number, columns);
        }
    }
    page.tag("</tbody>\n</table>\n");
}

/// Shown by the script, without which it would do nothing.
fn filter(page: &mut Markup, columns: Columns) {
    page.tag("<form id=\"filter\" role=\"search\" hidden>\n<label>Filter <input type=\"search\" ")
        .tag("id=\"words\" autocomplete=\"off\" spellcheck=\"false\" ")
        .tag("placeholder=\"words that must occur, -word must not\"></label>\n")
        .tag("<label>Class <select id=\"class\"><option value=\"\">all</option>")
        .tag("<option>race</option><option>possibly-atomic</option><option>special</option>")
        .tag("</select></label>\n");
    if columns.verdict {
        page.tag("<label>Verdict <select id=\"verdict\"><option value=\"\">all</option>")
            .tag("<option>proven-harmful</option><option>likely-harmful</option>")
            .tag("<option>undecided</option><option>likely-benign</option></select></label>\n");
    }
    if columns.state {
        page.tag("<label>State <select id=\"state\"><option value=\"\">all</option>");
        for state in State::ALL {
            page.element("<option>", state.name(), "</option>");
        }
        page.tag("</select></label>\n");
    }
    page.tag("<output id=\"shown\" aria-live=\"polite\"></output>\n")
        .tag("<p class=\"keys\">Keys: <kbd>/</kbd> filter, <kbd>j</kbd> and <kbd>k</kbd> next ")
        .tag("and previous race, <kbd>Enter</kbd> opens or closes it, <kbd>l</kbd> back to the ")
        .tag("list.</p>\n</form>\n");
}

fn row(
    html: &Html,
    page: &mut Markup,
    (race, problem): (&Race, &Problem<'_>),
    number: usize,
    columns: Columns,
) {
    page.tag("<tr data-class=\"").tag(class(race));
    if let Some(verdict) = &race.verdict {
        page.tag("\" data-verdict=\"")
            .text(&verdict.call.name().replace(' ', "-"));
    }
    if let Some(triage) = &race.triage {
        page.tag("\" data-state=\"").text(triage.state.name());
    }
    page.tag("\"><td>")
        .text(&number.to_string())
        .tag("</td><td>");
    badge(page, race);
    page.tag("</td>");
    if columns.verdict {
        let call = race.verdict.as_ref().map(|verdict| verdict.call);
        let rank = call.map_or(9, |call| call as u8);
        page.tag("<td data-key=\"")
            .text(&rank.to_string())
            .tag("\">")
            .text(call.map_or("", |call| call.name()))
            .tag("</td>");
    }
    if columns.state {
        let state = race.triage.as_ref().map(standing);
        page.element("<td>", state.as_deref().unwrap_or_default(), "</td>");
    }
    page.tag("<td><a href=\"#")
        .text(&anchor(race))
        .tag("\">")
        .text(&object(race))
        .tag("</a> <small>")
        .text(&names::region(&race.what))
        .tag(" ")
        .text(&race.id())
        .tag("</small>");
    if problem.races() > 1 {
        let races = counted(problem.races() as u64, "race", "races");
        let text = format!(
            "problem {}: {races} {}",
            race.problem().id(),
            problem.common()
        );
        page.element("<br><small>", &text, "</small>");
    }
    page.tag("</td>");
    for (at, cell) in ["<td class=\"held\">", "<td class=\"caught\">"]
        .into_iter()
        .enumerate()
    {
        page.tag(cell);
        match race.accesses.get(at) {
            Some(access) => did(html, page, access),
            None => drop(page.tag("unknown")),
        }
        page.tag("</td>");
    }
    page.tag("<td data-key=\"")
        .text(&race.instances.to_string())
        .tag("\">")
        .text(&count(race.instances))
        .tag("</td></tr>\n");
}

/// `update in set_busy demo.c:42`.
fn did(html: &Html, page: &mut Markup, access: &AccessReport) {
    let (function, within) = names::told(access, |name| names::shorten(name, NAME, "…"));
    page.text(access.kind.name())
        .tag(" in <b>")
        .name(&function)
        .tag("</b>");
    if let Some(within) = within {
        page.tag(" (in ").name(&within).tag(")");
    }
    if let Some(shown) = access.shown_place()
        && let Some(place) = html.place(Some(shown.file), shown.line)
    {
        page.tag(if shown.is_only_from {
            " <small>from "
        } else {
            " <small>"
        })
        .text(&names::short_place(&place, NAME, "…"))
        .tag("</small>");
    }
}

/// What the class of a race is called in attributes.
pub(super) const fn class(race: &Race) -> &'static str {
    match race.class {
        Class::Race => "race",
        Class::PossiblyAtomic => "possibly-atomic",
        Class::Special => "special",
        Class::WiderThanSource | Class::Synchronised => "none",
    }
}

pub(super) fn badge(page: &mut Markup, race: &Race) {
    page.tag("<span class=\"badge ")
        .tag(class(race))
        .tag("\">")
        .text(notes::title(race))
        .tag("</span>");
}

/// Where the section of a race is on the page.
pub(super) fn anchor(race: &Race) -> String {
    format!("race-{}", race.fingerprint.hash())
}

/// What is raced on.
pub(super) fn object(race: &Race) -> String {
    let what = &race.what;
    names::object(what)
        .or_else(|| what.type_name.clone())
        .unwrap_or_else(|| format!("{} at {:#x}", names::bytes(what.size), what.address))
}
