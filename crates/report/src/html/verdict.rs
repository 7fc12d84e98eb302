//! What triage says of a race, with what speaks for and against it.

use super::markup::Markup;
use crate::numbers::{counted, percent};
use redhanded_model::{Leans, ReplayTally, Verdict};

pub(super) fn verdict(page: &mut Markup, verdict: &Verdict) {
    page.element("<section><h4>Verdict: ", verdict.call.name(), "</h4>\n");
    if verdict.confidence > 0.0 {
        let sure = format!("Confidence {}.", percent(verdict.confidence));
        page.element("<p>", &sure, "</p>\n");
    }
    page.tag("<ul class=\"evidence\">\n");
    for rule in &verdict.rules {
        page.tag(match rule.leans {
            Leans::Harmful => "<li><b>Harmful</b> <code>",
            Leans::Benign => "<li><b>Benign</b> <code>",
        })
        .text(&rule.rule)
        .tag("</code>");
        if !rule.facts.is_empty() {
            page.tag(": ").text(&rule.facts.join("; "));
        }
        page.tag(if rule.hint {
            " <small>a hint only</small></li>\n"
        } else {
            "</li>\n"
        });
    }
    page.tag("</ul>\n");
    if let Some(tally) = &verdict.replay {
        replay(page, tally);
    }
    page.tag("</section>\n");
}

fn replay(page: &mut Markup, tally: &ReplayTally) {
    let text = format!(
        "Replayed {} in {}: the same state {}, another state {}, a fault in some orders {}, not \
         replayable {}.",
        counted(tally.instances(), "instance", "instances"),
        counted(tally.orders, "order", "orders"),
        tally.no_state_change,
        tally.state_change,
        tally.faults,
        tally.replay_failure
    );
    page.element("<p>", &text, "</p>\n");
    if tally.difference.is_empty() {
        return;
    }
    page.tag("<table class=\"value\">\n<tr><th>differs</th><th>one order</th>")
        .tag("<th>another</th></tr>\n");
    for difference in &tally.difference {
        page.element("<tr><td>", &difference.what, "</td><td><code>")
            .text(&difference.this)
            .element(
                "</code></td><td><code>",
                &difference.that,
                "</code></td></tr>\n",
            );
    }
    page.tag("</table>\n");
}
