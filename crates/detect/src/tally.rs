//! What a replay came to, in names.

use crate::capture::Replay;
use crate::{Collision, naming};
use redhanded_model::{Avma, Bytes, Differing, FAILED_REPLAY, Frame, Region, ReplayTally};
use redhanded_replay::{Call, Difference, Ended, Judgement, Order, Outcome, Side, number};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// Functions that a program calls when it has found a mistake of its own. None comes back.
const GIVES_UP: [&str; 14] = [
    "abort",
    "__assert",
    "__assert_fail",
    "__assert_fail_base",
    "__assert_perror_fail",
    "__chk_fail",
    "__fortify_fail",
    "__libc_fatal",
    "__libc_message",
    "__stack_chk_fail",
    "malloc_printerr",
    "std::terminate()",
    "std::__terminate(void (*)())",
    "rust_panic",
];
/// How the names of those in Rust's library begin.
const PANICS: &str = "core::panicking::";

/// What the replay of a collision came to, as one instance. `modules` are those that were
/// mapped.
#[must_use]
pub fn tally(collision: &Collision, modules: &[Arc<Module>]) -> Option<ReplayTally> {
    let replay = collision.replay.as_ref()?;
    Some(Teller { replay, modules }.tally())
}

/// The function and the line of an instruction, the innermost inlined one.
#[must_use]
pub fn name_code(at: Avma, modules: &[Arc<Module>]) -> Option<Frame> {
    naming::frames(&[at], modules).into_iter().next()
}

/// The variable at these bytes.
#[must_use]
pub fn name_data(bytes: Bytes, modules: &[Arc<Module>]) -> Option<String> {
    let what = naming::what(bytes, Region::Unknown, modules, "").what;
    Some(format!("{}{}", what.name?, what.field.unwrap_or_default()))
}

struct Teller<'a> {
    replay: &'a Replay,
    modules: &'a [Arc<Module>],
}

impl Teller<'_> {
    fn tally(&self) -> ReplayTally {
        let judgement = &self.replay.judgement;
        let mut tally = ReplayTally {
            orders: judgement.outcomes.len() as u64,
            ..ReplayTally::default()
        };
        if let Some(differing) = self.fails(judgement) {
            tally.faults = 1;
            tally.difference = vec![differing];
            return tally;
        }
        match &judgement.call {
            Call::NoStateChange => tally.no_state_change = 1,
            Call::StateChange {
                this,
                that,
                differences,
            } => {
                tally.state_change = 1;
                let differing = |d| self.differing(d, *this, *that);
                tally.difference = differences.iter().map(differing).collect();
                // What is raced on tells most.
                tally.difference.sort_by_key(|difference| !difference.raced);
            }
            // It fails in every order once calls that give up are counted.
            Call::Fault { .. } => tally.replay_failure = 1,
            Call::ReplayFailure(failure) => {
                tally.replay_failure = 1;
                tally.difference = vec![Differing {
                    what: FAILED_REPLAY.to_owned(),
                    raced: false,
                    this: "cannot be done".to_owned(),
                    that: failure.to_string(),
                }];
            }
        }
        tally
    }

    /// A failure that only some orders have.
    fn fails(&self, judgement: &Judgement) -> Option<Differing> {
        let faults: &[Order] = match &judgement.call {
            Call::Fault { orders } => orders,
            // It proves nothing that the replay gave up somewhere else.
            Call::ReplayFailure(_) => return None,
            _ => &[],
        };
        let failing = |outcome: &&Outcome| {
            faults.contains(&outcome.order)
                || outcome.ended.iter().any(|e| self.gives_up(e).is_some())
        };
        let outcomes = || {
            let all = judgement.outcomes.iter();
            all.filter(|outcome| outcome.order.is_of_this_machine())
        };
        let bad = outcomes().find(failing)?;
        let good = outcomes().find(|o| !failing(o))?;
        let at =
            |n: &usize| bad.ended[*n].end.is_failure() || self.gives_up(&bad.ended[*n]).is_some();
        let side = (0..2).find(at)?;
        Some(Differing {
            what: [Side::A, Side::B][side].to_string(),
            raced: false,
            this: format!(
                "{}: {}",
                order_name(good.order),
                self.ending(&good.ended[side])
            ),
            that: format!(
                "{}: {}",
                order_name(bad.order),
                self.ending(&bad.ended[side])
            ),
        })
    }

    /// The function that gives up, if the thread has called one.
    fn gives_up(&self, ended: &Ended) -> Option<String> {
        let names = ended.calls.iter().filter_map(|at| self.function(*at));
        let mut those =
            names.filter(|name| GIVES_UP.contains(&name.as_str()) || name.starts_with(PANICS));
        those.next()
    }

    /// The function that a call leads to, or whose linkage stub it is.
    fn function(&self, at: u64) -> Option<String> {
        let module = module_at(self.modules, Avma(at))?;
        let image = module.image.as_ref()?;
        let svma = module.svma(Avma(at));
        if let Some(name) = image.plt_name(svma) {
            return Some(name.to_owned());
        }
        name_code(Avma(at), self.modules)?.function
    }

    fn place(&self, at: u64) -> String {
        let frame = name_code(Avma(at), self.modules).unwrap_or_default();
        let mut place = match (&frame.function, &frame.module) {
            (Some(function), _) => function.clone(),
            (None, Some(module)) => format!("{module}+{:#x}", frame.address),
            (None, None) => format!("{at:#x}"),
        };
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            let name = file.rsplit('/').next().unwrap_or(file);
            place = format!("{place} ({name}:{line})");
        }
        place
    }

    fn ending(&self, ended: &Ended) -> String {
        let place = self.place(ended.ip);
        if let Some(function) = self.gives_up(ended) {
            return format!("gives up, calls {function}");
        }
        format!("{} in {place}", ended.end)
    }

    fn differing(&self, difference: &Difference, this: Order, that: Order) -> Differing {
        let values = |a: String, b: String| {
            (
                format!("{a} ({})", order_name(this)),
                format!("{b} ({})", order_name(that)),
            )
        };
        let (what, raced, (this, that)) = match difference {
            Difference::Memory {
                address,
                this,
                that,
            } => {
                let raced = self.raced(*address, this.len() as u64);
                let what = self.bytes_name(*address, this.len() as u64, raced);
                (what, raced, values(number(this), number(that)))
            }
            Difference::Register {
                side,
                name,
                this,
                that,
            } => (
                format!("{name} of {side}"),
                false,
                values(format!("{this:#x}"), format!("{that:#x}")),
            ),
            Difference::Path { side } => {
                let outcomes = &self.replay.judgement.outcomes;
                let ending = |order: Order| {
                    let outcome = outcomes.iter().find(|o| o.order == order);
                    outcome.map_or_else(String::new, |o| self.ending(&o.ended[*side as usize]))
                };
                (side.to_string(), false, values(ending(this), ending(that)))
            }
        };
        Differing {
            what,
            raced,
            this,
            that,
        }
    }

    fn raced(&self, address: u64, len: u64) -> bool {
        let (start, end) = self.replay.race;
        start <= address && address.saturating_add(len) <= end
    }

    fn bytes_name(&self, address: u64, len: u64, raced: bool) -> String {
        match name_data(Bytes::new(Avma(address), len), self.modules) {
            Some(name) => name,
            None if raced => "the raced bytes".to_owned(),
            None if len == 1 => format!("the byte at {address:#x}"),
            None => format!("{len} bytes at {address:#x}"),
        }
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::First(Side::A) => "held first",
        Order::First(Side::B) => "caught first",
        Order::Split { side: Side::A, .. } => "caught in between",
        Order::Split { side: Side::B, .. } => "held in between",
        Order::Delayed { side: Side::A, .. } => "held first, a store late",
        Order::Delayed { side: Side::B, .. } => "caught first, a store late",
    }
}
