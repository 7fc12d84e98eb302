//! The two threads of a race in time order, as far as the window shows it: one stood at its
//! access, the other made its own, and only then did the first go on.

use crate::names;
use crate::values;
use redhanded_model::{AccessKind, AccessReport, AccessValue, Race, SeenBy};

/// One step.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Which access of the race it belongs to; the second may be missing.
    pub(crate) side: usize,
    pub(crate) text: String,
}

/// What the `side`th access is called; the sampled one comes first.
pub(crate) fn side_name(race: &Race, side: usize) -> &'static str {
    match (side, race.accesses.get(side)) {
        (0, _) if race.seen_by == SeenBy::Analysis => "one",
        (_, Some(_)) if race.seen_by == SeenBy::Analysis => "other",
        (0, _) => "held",
        (_, Some(_)) => "caught",
        (_, None) => "other",
    }
}

/// The steps. Nothing is said about what the first thread did after it was released,
/// except that it came later.
pub(crate) fn order(race: &Race) -> Vec<Step> {
    // Of a recording nobody stood at its access.
    if race.seen_by == SeenBy::Analysis {
        return Vec::new();
    }
    let Some(held) = race.accesses.first() else {
        return Vec::new();
    };
    let values = &race.values;
    let changed = values.before != values.after;
    let size = names::bytes(held.size);
    let them = if held.size == 1 { "it" } else { "them" };
    let mut first = format!("is about to {} {size}", held.kind.name());
    if let Some(value) = held.value.as_ref().and_then(|value| own(race, value)) {
        first.push_str(&format!(": {value}"));
    }
    let mut second = match race.accesses.get(1) {
        Some(caught) => act(caught, them),
        None if race.is_unmapped() => format!("unmaps {them}"),
        None if changed => format!("changes {them}"),
        None => format!("changes {them}, and changes {them} back"),
    };
    if changed {
        let hexadecimal =
            || values::hexadecimal(&values.before).zip(values::hexadecimal(&values.after));
        if let Some((before, after)) = values::typed(race).or_else(hexadecimal) {
            second.push_str(&format!(", from {before} to {after}"));
        }
    } else if let Some(caught) = race.accesses.get(1).filter(|side| side.freed_by.is_none())
        && let Some(value) = caught.value.as_ref().and_then(|value| own(race, value))
    {
        second.push_str(&format!(": {value}"));
    }
    let third = format!("goes on: its {} comes only now", held.kind.name());
    let texts = [(0, first), (1, second), (0, third)];
    texts.map(|(side, text)| Step { side, text }).into()
}

/// What one side read or wrote, if a word is enough for it.
fn own(race: &Race, value: &AccessValue) -> Option<String> {
    let number = values::hexadecimal(&value.bytes)?;
    let typed = value.typed.clone();
    let typed = typed.filter(|_| race.what.bit_fields.is_empty());
    Some(match typed {
        // It says where the address leads, but not which it is.
        Some(text) if is_memory(&text) => format!("{number} ({text})"),
        Some(text) => text,
        None => number,
    })
}

/// Whether a text is for memory without a name.
fn is_memory(text: &str) -> bool {
    ["heap", "stack of ", "mapping ", "anonymous mapping"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// What the second thread does to the bytes.
fn act(caught: &AccessReport, them: &str) -> String {
    if let Some(free) = &caught.freed_by {
        return format!("gives the block back with {free}");
    }
    let verb = match caught.kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Update => "updates",
    };
    match &caught.system_call {
        Some(call) => format!("{verb} {them} in {call}(2)"),
        None => format!("{verb} {them}"),
    }
}
