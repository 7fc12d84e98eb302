//! The section of one race: both sides beside each other, then the value, the order of
//! events, why it has its class, and what to do next.

use super::markup::Markup;
use super::{Html, command, list, value, verdict};
use crate::facts;
use crate::folding::{Part, folded};
use crate::hint::hint;
use crate::names;
use crate::notes;
use crate::numbers::{counted, times};
use crate::order::{order, side_name};
use crate::outcome::standing;
use crate::problems::Problem;
use crate::quote::Quote;
use redhanded_model::{Creation, Frame, Known, Race, Report, SeenBy};
use std::ops::Range;

/// How many other races of its problem are named.
const MOST_OTHERS: usize = 12;
/// What the two sides are called.
const SIDES: [&str; 2] = ["Held", "Caught"];

pub(super) fn section(
    html: &Html,
    page: &mut Markup,
    report: &Report,
    (race, problem): (&Race, &Problem<'_>),
    number: usize,
    open: bool,
) {
    page.tag("<details class=\"section\" id=\"")
        .text(&list::anchor(race))
        .tag(if open { "\" open>\n" } else { "\">\n" });
    headline(page, race, number);
    same_problem(page, race, problem);
    if let Some(differ) = names::sides_differ(race) {
        page.element("<p class=\"warning\">", &differ, "</p>\n");
    }
    page.tag("<div class=\"sides\">\n");
    for (at, name) in SIDES.iter().enumerate() {
        match race.accesses.get(at) {
            Some(_) => side(html, page, name, race, at),
            None => {
                page.tag("<section class=\"caught\"><h4>Caught: nobody</h4>\n");
                let text = if race.is_unmapped() {
                    "The bytes were unmapped while the thread was held."
                } else {
                    "The bytes changed while the thread was held."
                };
                page.element("<p>", text, "</p></section>\n");
            }
        }
    }
    page.tag("</div>\n<div class=\"parts\">\n");
    value::value(page, race);
    if let Some(allocated) = &race.what.allocated {
        page.tag("<section><h4>Block</h4>\n");
        creation(
            html,
            page,
            &format!("Allocated by {}", allocated.thread),
            allocated,
        );
        page.tag("</section>\n");
    }
    in_order(page, race);
    why(page, race);
    if let Some(judged) = &race.verdict {
        verdict::verdict(page, judged);
    }
    decided(page, race);
    notes_and_hint(page, race, report.run.windows);
    commands(html, page, report, race);
    page.tag("</div>\n</details>\n");
}

/// The other races of its problem.
fn same_problem(page: &mut Markup, race: &Race, problem: &Problem<'_>) {
    if problem.races() == 1 {
        return;
    }
    let others = counted(problem.others.len() as u64, "other race", "other races");
    let text = format!("One problem with {others} {}: ", problem.common());
    page.element("<p class=\"problem\">", &text, "");
    let is_other = |other: &&Race| other.fingerprint != race.fingerprint;
    for (at, other) in problem.all().filter(is_other).take(MOST_OTHERS).enumerate() {
        page.tag(if at > 0 {
            ", <a href=\"#"
        } else {
            "<a href=\"#"
        })
        .text(&list::anchor(other))
        .tag("\">")
        .text(&list::object(other))
        .tag("</a>");
    }
    page.tag(if problem.others.len() > MOST_OTHERS {
        ", …</p>\n"
    } else {
        "</p>\n"
    });
}

fn headline(page: &mut Markup, race: &Race, number: usize) {
    let what = &race.what;
    page.tag("<summary><h3><span class=\"number\">")
        .text(&number.to_string())
        .tag("</span> ");
    list::badge(page, race);
    page.element(
        " <span class=\"what\">",
        &list::object(race),
        "</span></h3> <small>",
    );
    let size = names::bytes(what.size);
    match (&what.type_name, names::object(what)) {
        (Some(type_name), Some(_)) => {
            page.text(&format!("{}, ", names::typed_bytes(race, type_name)))
        }
        _ => page.text(&format!("{size}, ")),
    };
    page.text(&names::region(what))
        .tag(" <span class=\"id\">")
        .text(&race.id())
        .tag("</span></small></summary>\n");
}

/// One side: who did what where, its stack, and where its thread was created.
fn side(html: &Html, page: &mut Markup, name: &str, race: &Race, at: usize) {
    let access = &race.accesses[at];
    page.tag("<section class=\"")
        .text(&name.to_lowercase())
        .tag("\"><h4>")
        .text(name)
        .tag(": ")
        .text(&access.thread.to_string())
        .tag("</h4>\n<p>");
    let atomic = if access.atomic { "atomic " } else { "" };
    let size = names::bytes(access.size);
    let (function, within) = names::told(access, str::to_owned);
    page.text(&format!("{atomic}{} of {size} in ", access.kind.name()))
        .element("<code>", &function, "</code>");
    if let Some(within) = within {
        page.element(" (in <code>", &within, "</code>)");
    }
    if let Some(call) = &access.system_call {
        page.text(&format!(", by the kernel in {call}(2)"));
    }
    if let Some(free) = &access.freed_by {
        page.text(&format!(", which calls {free}"));
    }
    let shown = access.shown_place();
    if let Some(shown) = shown
        && let Some(place) = html.place(Some(shown.file), shown.line)
    {
        page.tag(if shown.is_only_from { ", from" } else { "," })
            .element(" <span class=\"place\">", &place, "</span>");
    }
    let pointee = access.pointee.as_ref();
    if let Some(expression) = pointee.and_then(|pointee| pointee.expression.as_ref()) {
        page.element(", as <code>", expression, "</code>");
    }
    page.tag("</p>\n");
    if let Some(quote) = Quote::of(race, at, &html.source) {
        source(page, &quote);
    }
    if let Some(instruction) = &access.instruction {
        page.element("<pre class=\"code\">", instruction, "</pre>\n");
    }
    stack(html, page, &access.stack, 1);
    if let Some(created) = &access.created {
        creation(
            html,
            page,
            &format!("Created by {}", created.thread),
            created,
        );
    }
    page.tag("</section>\n");
}

/// Where something was created, under a heading that says by whom.
fn creation(html: &Html, page: &mut Markup, heading: &str, created: &Creation) {
    page.tag("<details class=\"creation\"><summary>")
        .text(heading)
        .tag("</summary>\n");
    stack(html, page, &created.stack, 0);
    page.tag("</details>\n");
}

/// A source line, with the accessed expression marked.
fn source(page: &mut Markup, quote: &Quote) {
    page.tag("<pre class=\"code\"><span class=\"line\">")
        .text(&quote.number.to_string())
        .tag("</span> ")
        .text(&quote.before);
    if !quote.accessed.is_empty() {
        page.element("<mark>", &quote.accessed, "</mark>");
    }
    page.text(&quote.after).tag("</pre>\n");
}

/// A whole stack, innermost first. Frames of the runtime are there, but folded, except for the
/// `innermost`.
pub(super) fn stack(html: &Html, page: &mut Markup, stack: &[Frame], innermost: usize) {
    let mut at = 0;
    let mut parts = folded(stack, innermost).into_iter().peekable();
    while let Some(part) = parts.next() {
        let left_out = part.left_out();
        let mut count = match part {
            Part::Frame(..) => 1,
            Part::Libraries(count) | Part::More(count) => count,
        };
        if let Some(left_out) = &left_out {
            page.element(
                "<details class=\"runtime\"><summary>",
                left_out,
                "</summary>\n",
            );
        } else {
            while parts
                .next_if(|next| matches!(next, Part::Frame(..)))
                .is_some()
            {
                count += 1;
            }
        }
        frames(html, page, stack, at..at + count);
        if left_out.is_some() {
            page.tag("</details>\n");
        }
        at += count;
    }
}

/// These frames of a stack, with their numbers.
fn frames(html: &Html, page: &mut Markup, stack: &[Frame], range: Range<usize>) {
    page.tag("<ol class=\"stack\" start=\"")
        .text(&range.start.to_string())
        .tag("\">\n");
    for frame in stack.get(range).unwrap_or_default() {
        page.tag(if frame.is_library() {
            "<li class=\"library\"><code>"
        } else {
            "<li><code>"
        });
        let address = names::frame_address(frame);
        page.text(frame.function.as_deref().unwrap_or(&address))
            .tag("</code>");
        let place = html.place(frame.file.as_deref(), frame.line);
        let place = place.or_else(|| frame.function.is_some().then_some(address));
        if let Some(place) = place {
            page.element(" <span class=\"place\">", &place, "</span>");
        }
        if frame.inlined {
            page.tag(" <small>inlined</small>");
        }
        page.tag("</li>\n");
    }
    page.tag("</ol>\n");
}

/// Both threads in time order, each in its column.
fn in_order(page: &mut Markup, race: &Race) {
    page.tag("<section><h4>In this order</h4>\n<ol class=\"order\">\n");
    for step in order(race) {
        page.tag(if step.side == 0 {
            "<li class=\"held\"><b>"
        } else {
            "<li class=\"caught\"><b>"
        })
        .text(side_name(race, step.side))
        .tag("</b> ");
        page.text(&step.text).tag("</li>\n");
    }
    page.tag("</ol></section>\n");
}

/// The rule that gave it its class, and the facts.
fn why(page: &mut Markup, race: &Race) {
    let Some(rule) = race.rule else {
        return;
    };
    page.tag("<section><h4>Why it is called ")
        .text(notes::title(race))
        .tag("</h4>\n<p>")
        .element("<code>", rule.name(), "</code>: ")
        .text(rule.reason())
        .tag("</p>\n");
    if let Some(evidence) = &race.evidence {
        page.tag("<ul class=\"evidence\">\n");
        for (side, name) in evidence.sides.iter().zip(SIDES) {
            for known in &side.facts {
                fact(page, name, known);
            }
        }
        for known in &evidence.bytes {
            fact(page, "Bytes", known);
        }
        page.tag("</ul>\n");
    }
    page.tag("</section>\n");
}

fn fact(page: &mut Markup, about: &str, known: &Known) {
    page.element("<li><b>", about, "</b> ")
        .text(&facts::fact(&known.fact))
        .element(" <small>", &facts::basis(known), "</small></li>\n");
}

/// What people decided about it, and the entry of a suppression file that lists it.
fn decided(page: &mut Markup, race: &Race) {
    let Some(triage) = &race.triage else {
        return;
    };
    page.element("<section><h4>State: ", &standing(triage), "</h4>\n");
    let because = triage.because.iter();
    let listed = triage.suppressed.iter().map(|listed| &listed.because);
    for because in because.chain(listed) {
        page.element("<p>Because: ", because, "</p>\n");
    }
    if let Some(owner) = &triage.owner {
        page.element("<p>Owner: ", owner, "</p>\n");
    }
    if let Some(until) = &triage.until {
        page.element("<p>Until: ", until, "</p>\n");
    }
    page.tag("</section>\n");
}

fn notes_and_hint(page: &mut Markup, race: &Race, windows: u64) {
    let windows = counted(windows, "window", "windows");
    let times = times(race.instances);
    let seen = match race.seen_by {
        SeenBy::Watch => format!("Seen by a debug register, {times} in {windows}."),
        SeenBy::Value => format!("Seen by re-reading the bytes, {times} in {windows}."),
        SeenBy::Analysis => format!("Found {}, {times}.", notes::found_by(race)),
    };
    page.element("<section><h4>Notes</h4>\n<p>", &seen, "</p>\n");
    for suspect in &race.suspects {
        page.element("<p>Perhaps: ", &suspect.to_string(), ".</p>\n");
    }
    for note in notes::notes(race) {
        page.element("<p>", &note, "</p>\n");
    }
    if let Some(hint) = hint(race) {
        page.element("<p>Usually mended by: ", hint, ".</p>\n");
    }
    page.tag("</section>\n");
}

fn commands(html: &Html, page: &mut Markup, report: &Report, race: &Race) {
    let offers = command::offers(report, race, html.store.as_deref());
    page.tag("<section><h4>What next</h4>\n");
    for offer in offers {
        page.element("<p>", offer.does, "</p>\n").element(
            "<pre class=\"code command\">",
            &offer.command,
            "</pre>\n",
        );
    }
    page.element(
        "<p>Fingerprint</p>\n<pre class=\"code command\">",
        &race.fingerprint.0,
        "</pre>\n",
    )
    .tag("</section>\n");
}
