//! A write that changes nothing, as often as it was seen: caught in the act, or held before it,
//! with the same value in each instance. An update that adds something changes it by nature.
//!
//! A hint only: in Figure 4 of the DataCollider paper both threads write the same values, and
//! the race does harm. A replay of both orders tells more.

use crate::subject::Subject;
use redhanded_model::{Leaning, Leans, Step};

pub const NAME: &str = "redundant-write";

pub fn rule(subject: &Subject<'_>) -> Option<Leaning> {
    let [held, caught] = subject.pair()?;
    let adds = |step: Step| step.is_up() || step.is_down();
    if [held, caught]
        .iter()
        .any(|side| side.step().is_some_and(adds))
    {
        return None;
    }
    let history = subject.race.history.as_ref()?;
    let never = history.grew == 0 && history.shrank == 0 && history.unchanged >= 2;
    let nor_between = history.rose_between == 0 && history.fell_between == 0;
    if !never || !(caught.access.kind.writes() || held.access.kind.writes() && nor_between) {
        return None;
    }
    let when = match caught.access.kind.writes() {
        true => "after the write",
        false => "whenever the write was about to be made",
    };
    let fact = format!("the value was the same {when}, {} times", history.unchanged);
    Some(Leaning::hint(NAME, Leans::Benign, vec![fact]))
}
