//! What triage says of a race, in few lines.

use super::Terminal;
use super::race::{HANG, label};
use crate::layout::Page;
use crate::numbers::counted;
use crate::style::{Role, Style};
use redhanded_model::{Call, FAILED_REPLAY, Leans, Race, ReplayTally};

/// How many reasons are told.
const MOST: usize = 2;

/// Whether a race is told briefly.
pub(super) fn is_brief(terminal: &Terminal, race: &Race) -> bool {
    let call = race.verdict.as_ref().map(|verdict| verdict.call);
    let is_benign = call == Some(Call::LikelyBenign) && !terminal.shows_benign;
    // Of these there may be many, and most are none.
    (is_benign || race.is_by_locks_alone()) && !terminal.verbose && !terminal.explains
}

/// The call, and the reasons for it.
pub(super) fn verdict(style: &Style, page: &mut Page<'_>, race: &Race) {
    let Some(verdict) = &race.verdict else {
        return;
    };
    let role = role(verdict.call);
    let mut line = label(style, Role::Heading, "judged").words(role, verdict.call.name());
    if verdict.call != Call::Undecided {
        line = line.put(Role::Dim, &format!("({:.2})", verdict.confidence));
    }
    let mut reasons = Vec::new();
    let replay = verdict.replay.as_ref().and_then(replayed);
    let decides = |leans: Leans| match verdict.call {
        Call::ProvenHarmful | Call::LikelyHarmful => leans == Leans::Harmful,
        Call::LikelyBenign => leans == Leans::Benign,
        Call::Undecided => true,
    };
    if verdict.call == Call::ProvenHarmful {
        reasons.extend(replay.clone());
    }
    for rule in verdict.rules.iter().filter(|rule| decides(rule.leans)) {
        let facts = rule.facts.join("; ");
        let hint = if rule.hint { ", a hint only" } else { "" };
        reasons.push(format!("{facts} [{}{hint}]", rule.rule));
    }
    if verdict.call != Call::ProvenHarmful {
        reasons.extend(replay);
    }
    if reasons.is_empty() {
        reasons.push("nothing tells whether it does harm".to_owned());
    }
    line = line.glue(Role::Plain, ":");
    let more = reasons.len().saturating_sub(MOST);
    reasons.truncate(MOST);
    let mut text = reasons.join("; ");
    if more > 0 {
        text.push_str(&format!(
            " and {}",
            counted(more as u64, "more reason", "more reasons")
        ));
    }
    page.put(2, HANG, line.words(Role::Plain, &text));
}

fn role(call: Call) -> Role {
    match call {
        Call::ProvenHarmful | Call::LikelyHarmful => Role::Race,
        Call::Undecided => Role::Doubt,
        Call::LikelyBenign => Role::Good,
    }
}

/// What the replays of a race came to, in one sentence.
#[must_use]
pub fn replayed(tally: &ReplayTally) -> Option<String> {
    let difference = difference(tally);
    let of = counted(tally.instances(), "replay", "replays");
    if tally.faults > 0 {
        Some(format!(
            "one order of the two ends in a fault, in {} of {of}{difference}",
            tally.faults
        ))
    } else if tally.state_change > 0 {
        Some(format!(
            "the order matters in {} of {of}{difference}",
            tally.state_change
        ))
    } else if tally.replay_failure > 0 {
        Some(format!(
            "{} of {of} could not be finished",
            tally.replay_failure
        ))
    } else if tally.no_state_change > 0 {
        Some(format!("the order made no difference in {of}"))
    } else {
        None
    }
}

/// In what two orders differ. A register and a number mean nothing to a reader, so the place is
/// told that goes on with it.
fn difference(tally: &ReplayTally) -> String {
    let told = || {
        let those = tally.difference.iter();
        those.filter(|it| it.what != FAILED_REPLAY)
    };
    let named = told().find(|it| it.in_use.is_none());
    match (named, told().find_map(|it| it.in_use.as_ref())) {
        (Some(it), _) => format!(": {}: {}; {}", it.what, it.this, it.that),
        (None, Some(place)) => format!(": in values that are still in use in {place}"),
        (None, None) => String::new(),
    }
}
