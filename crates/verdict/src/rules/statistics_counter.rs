//! A number that is only ever counted up and not used for anything that matters.
//!
//! Goes by updates that add, on every side that writes; by values that only grow over several
//! instances, but for falls that updates explain which were lost: a thread that was held
//! writes back what it had read before; and by no code of the module that counts the same variable down. Two instances are
//! enough where all code is seen to add a constant. What is added from a register may be negative, and what is reached by
//! a pointer may be counted down elsewhere: of few instances chance decides. A value that
//! goes anywhere after it was counted (a ticket, an index) speaks against it. A branch on it
//! does not, because thresholds are branches too (see `counter_branch`). If only one of two writers has a
//! barrier near it, that may be a lock that the other forgot, and nothing is decided. It is wrong about a count that is
//! relied on later and elsewhere, such as one that must be exact for a bill.

use super::benign;
use crate::subject::{Side, Subject};
use redhanded_model::{History, Leaning, Leans, STATISTICS_COUNTER, Step, Use};

pub const NAME: &str = STATISTICS_COUNTER;

/// How often a value must have grown where not all is known that happens to it. What goes up and
/// down as often grows so many times in a row once in 256 cases.
const SEVERAL: u64 = 8;

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let sides = subject.sides();
    let writers = || sides.iter().filter(|side| side.writes());
    let counts = |side: &Side<'_>| side.step().is_some_and(Step::is_up);
    if writers().count() == 0 || !writers().all(counts) || subject.is_pointer() {
        return None;
    }
    let elsewhere = |step: &Step| step.is_down() || *step == Step::Bits;
    if subject.steps().iter().any(elsewhere) || sides.iter().any(matters) {
        return None;
    }
    if !sides.iter().all(Side::is_natural) {
        return None;
    }
    let amount = |step: Option<Step>| match step {
        Some(Step::By(amount)) => format!("adds {amount}"),
        _ => "adds something".to_owned(),
    };
    let mut facts: Vec<String> = writers()
        .map(|side| format!("{} {}", side.words(), amount(side.step())))
        .collect();
    facts.dedup();
    let ordered = |side: &&Side<'_>| side.usage.is_some_and(|usage| usage.barrier.is_some());
    if writers().filter(ordered).count() == 1 && writers().count() == 2 {
        facts.push("only one side has a barrier near it".to_owned());
        return Some(Leaning::hint(NAME, Leans::Benign, facts));
    }
    let history = subject.race.history.as_ref();
    let times = match writers().all(adds_wherever_it_is_written) {
        true => 2,
        false => SEVERAL,
    };
    let grows = |history: &&History| {
        let only_up = subject.steps().iter().all(|step| step.is_up());
        history.only_grows(times) || only_up && history.loses_updates()
    };
    let Some(history) = history.filter(grows) else {
        facts.push("too few instances to see that it only grows".to_owned());
        return Some(Leaning::hint(NAME, Leans::Benign, facts));
    };
    facts.push(growth(history));
    benign(NAME, facts)
}

/// Whether a writer adds a constant, as does all code that writes the variable by its address,
/// of which this is a part.
fn adds_wherever_it_is_written(writer: &Side<'_>) -> bool {
    let constant = |step: &Step| matches!(step, Step::By(1..));
    writer.usage.is_some_and(|usage| {
        let elsewhere = &usage.elsewhere;
        usage.step.iter().all(constant) && !elsewhere.is_empty() && elsewhere.iter().all(constant)
    })
}

/// How often the value grew, of how many instances.
fn growth(history: &History) -> String {
    let seen = history.grew.saturating_add(history.shrank);
    let seen = seen.saturating_add(history.unchanged);
    let grew = format!("the value grew in {} of {seen} instances", history.grew);
    let between = match history.rose_between {
        0 => String::new(),
        times => format!(", {times} times between two"),
    };
    match history.falls() {
        0 => format!("{grew}{between}, and never fell"),
        falls => format!("{grew}{between}, and fell {falls} times by lost updates"),
    }
}

/// Whether the value goes somewhere where it matters.
fn matters(side: &Side<'_>) -> bool {
    let Some(usage) = side.usage else {
        return true;
    };
    usage.uses.iter().any(|used| match used {
        Use::Address | Use::Index | Use::Loop | Use::Wait | Use::Overwritten => true,
        // A reader may print it. Whoever counts and then keeps the number makes it a ticket.
        Use::Stored | Use::Returned | Use::Passed(_) | Use::Lost => side.is_update(),
        Use::Branch | Use::Computed => false,
    })
}
