//! What a replay came to, in names.

use crate::capture::Replay;
use crate::{Collision, naming, usage};
use redhanded_image::Shown;
use redhanded_model::{
    Avma, Bytes, Differing, FAILED_REPLAY, Frame, Region, ReplayTally, Step, What,
};
use redhanded_replay::{Call, Difference, Ended, Failure, Judgement, Order, Outcome, Side, number};
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
    let changes = matches!(replay.judgement.call, Call::StateChange { .. });
    let steps: Vec<Step> = match changes {
        true => usage::of(collision, modules)
            .into_iter()
            .filter_map(|usage| usage.step)
            .collect(),
        false => Vec::new(),
    };
    let teller = Tallying {
        replay,
        modules,
        values: values(collision, &steps),
        counter: Counter::new(collision, &steps),
        copies: match changes {
            true => usage::copies(collision, modules),
            false => Vec::new(),
        },
    };
    Some(teller.tally())
}

/// The function and the line of an instruction, the innermost inlined one.
#[must_use]
pub fn name_code(at: Avma, modules: &[Arc<Module>]) -> Option<Frame> {
    naming::frames(&[at], modules).into_iter().next()
}

/// The variable at these bytes.
#[must_use]
pub fn name_data(bytes: Bytes, modules: &[Arc<Module>]) -> Option<String> {
    named(naming::what(bytes, Region::Unknown, modules, "").what)
}

fn named(what: What) -> Option<String> {
    Some(format!("{}{}", what.name?, what.field.unwrap_or_default()))
}

struct Tallying<'a> {
    replay: &'a Replay,
    modules: &'a [Arc<Module>],
    /// What is raced on, in either order.
    values: Vec<(Vec<u8>, Vec<u8>)>,
    /// The number that it is, if it is counted.
    counter: Option<Counter>,
    /// Where the code keeps copies of it, and nothing else.
    copies: Vec<Avma>,
}

impl Tallying<'_> {
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
                further,
                untold,
            } => {
                let first = differences.iter().map(|difference| (that, difference));
                let all = first.chain(further.iter().map(|(order, it)| (order, it)));
                tally.difference = all
                    .map(|(order, difference)| self.differing(difference, *this, *order))
                    .collect();
                match untold {
                    // What is not told may be more than the value.
                    Some(why) if tally.difference.iter().all(Differing::is_the_value) => {
                        tally.replay_failure = 1;
                        tally.difference = vec![failed(why)];
                    }
                    _ => tally.state_change = 1,
                }
                // What is raced on tells most.
                tally.difference.sort_by_key(|difference| !difference.raced);
            }
            // It fails in every order once calls that give up are counted.
            Call::Fault { .. } => tally.replay_failure = 1,
            Call::ReplayFailure(failure) => {
                tally.replay_failure = 1;
                tally.difference = vec![failed(failure)];
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
            copy: false,
            in_use: None,
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
        let outcome_of = |order: Order| {
            let outcomes = &self.replay.judgement.outcomes;
            outcomes.iter().find(|o| o.order == order)
        };
        let mut in_use = None;
        let (what, raced, (this, that)) = match difference {
            Difference::Memory {
                address,
                this,
                that,
                words,
            } => {
                let bytes = Bytes::new(Avma(*address), this.len() as u64);
                let raced = self.raced(*address, bytes.len);
                match self.whole(bytes, [this, that], *words) {
                    Some((what, [this, that])) => (what, raced, values(this, that)),
                    None => {
                        let what = self.bytes_name(*address, bytes.len, raced);
                        (what, raced, values(number(this), number(that)))
                    }
                }
            }
            Difference::Register {
                side,
                name,
                this,
                that: other,
            } => {
                let outcome = outcome_of(that);
                in_use = outcome.map(|o| self.place(o.ended[*side as usize].ip));
                let text = values(format!("{this:#x}"), format!("{other:#x}"));
                (format!("{name} of {side}"), false, text)
            }
            Difference::Path { side } => {
                let ending = |order: Order| {
                    let outcome = outcome_of(order);
                    outcome.map_or_else(String::new, |o| self.ending(&o.ended[*side as usize]))
                };
                (side.to_string(), false, values(ending(this), ending(that)))
            }
        };
        let mut values = self.values.iter();
        let seen = values.any(|(old, new)| is_copy(difference, (old, new)));
        let later = || {
            self.counter
                .is_some_and(|counter| counter.is_later(difference, &self.copies))
        };
        let copy = !raced && (seen || later());
        Differing {
            what,
            raced,
            copy,
            in_use,
            this,
            that,
        }
    }

    fn raced(&self, address: u64, len: u64) -> bool {
        let (start, end) = self.replay.race;
        start <= address && address.saturating_add(len) <= end
    }

    /// The variable or member that differs in these bytes, with the whole of its value in
    /// either order, as its type has it. What is raced on is a value, too.
    fn whole(
        &self,
        differing: Bytes,
        [this, that]: [&Vec<u8>; 2],
        words: [u64; 2],
    ) -> Option<(String, [String; 2])> {
        let word = differing.start.0 & !7;
        let at = (differing.start.0 - word) as usize;
        let [one, other] = words.map(u64::to_le_bytes);
        // Logs of earlier versions do not have the words.
        if one.get(at..at + this.len())? != this || other.get(at..at + that.len())? != that {
            return None;
        }
        let around = [1, 2, 4, 8].into_iter().find_map(|size: usize| {
            let from = at & !(size - 1);
            let bytes = Bytes::new(Avma(word + from as u64), size as u64);
            if at + this.len() > from + size {
                return None;
            }
            let described = naming::what(bytes, Region::Unknown, self.modules, "");
            let reading = described.reading?;
            let show = |word: &[u8]| match reading.show(word.get(from..from + size)?)? {
                Shown::Text(text) => Some(text),
                Shown::Address(address) => Some(format!("{address:#x}")),
            };
            Some((named(described.what)?, [show(&one)?, show(&other)?]))
        });
        around.or_else(|| {
            // No type is known, but how much of it both threads access.
            let (start, end) = self.replay.race;
            let from = usize::try_from(start.checked_sub(word)?).ok()?;
            let to = usize::try_from(end.checked_sub(word)?).ok()?;
            if from > at || at + this.len() > to {
                return None;
            }
            let name = self.bytes_name(start, end - start, true);
            let show = |word: &[u8]| Some(number(word.get(from..to)?));
            Some((name, [show(&one)?, show(&other)?]))
        })
    }

    /// What bytes are called that may be a part of something.
    fn bytes_name(&self, address: u64, len: u64, raced: bool) -> String {
        match name_data(Bytes::new(Avma(address), len), self.modules) {
            Some(name) if raced => name,
            Some(name) if len == 1 => format!("a byte of {name}"),
            Some(name) => format!("{len} bytes of {name}"),
            None if raced => "the raced bytes".to_owned(),
            None if len == 1 => format!("the byte at {address:#x}"),
            None => format!("{len} bytes at {address:#x}"),
        }
    }
}

/// What stands for a replay of which nothing can be said.
fn failed(why: &Failure) -> Differing {
    Differing {
        what: FAILED_REPLAY.to_owned(),
        raced: false,
        copy: false,
        in_use: None,
        this: "cannot be done".to_owned(),
        that: why.to_string(),
    }
}

/// The values of what is raced on before and after an access that changes it: as they were seen
/// before and after, and as the code adds to the first of them. A third thread may have changed
/// it as well before it was seen again.
fn values(collision: &Collision, steps: &[Step]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (before, after) = (&collision.record.before, &collision.record.after);
    let mut values = vec![(before.clone(), after.clone())];
    for step in steps {
        if let Step::By(amount) = step
            && before.len() <= 8
        {
            values.push((before.clone(), added(before, *amount)));
        }
    }
    values
}

/// A number that is counted, as it was when the window opened. Others may have counted since.
#[derive(Clone, Copy)]
struct Counter {
    first: u64,
    size: usize,
    /// What a single update adds or subtracts; `None` if it is only counted up.
    by: Option<u64>,
}

impl Counter {
    /// Anything may be next to a small number, so that those are left out, except where the code
    /// is seen to keep a copy.
    const SMALL: u64 = 64;
    /// How much may be added in the instructions of a replay. A register may also hold what was
    /// read a little earlier.
    const MOST: u64 = 1 << 14;

    fn new(collision: &Collision, steps: &[Step]) -> Option<Self> {
        let before = &collision.record.before;
        let first = whole(before)?;
        let only_up = !steps.is_empty() && steps.iter().all(|step| step.is_up());
        let by = match steps {
            _ if only_up => None,
            [Step::By(amount)] => Some(amount.unsigned_abs()),
            _ => return None,
        };
        (before.len() >= 4).then_some(Self {
            first,
            size: before.len(),
            by,
        })
    }

    /// Whether this is what the number may have been in either order, while the replay went on
    /// to count. What is also counted down differs by one update.
    fn is_later(self, difference: &Difference, copies: &[Avma]) -> bool {
        let most = match self.by {
            None => Self::MOST,
            Some(_) => Self::SMALL,
        };
        let kept = match difference {
            Difference::Memory { address, .. } => {
                let start = address & !(self.size as u64 - 1);
                copies.contains(&Avma(start))
            }
            Difference::Register { .. } | Difference::Path { .. } => false,
        };
        let least = match kept {
            true => 0,
            false => Self::SMALL,
        };
        let near = |value: u64| value >= least && value.abs_diff(self.first) <= most;
        let both = |this: u64, that: u64| {
            self.first >= least
                && near(this)
                && near(that)
                && self.by.is_none_or(|by| this.abs_diff(that) == by)
        };
        match difference {
            Difference::Memory {
                address,
                this,
                words: [one, two],
                ..
            } => {
                let at = (address & 7 & !(self.size as u64 - 1)) * 8;
                let cut = |word: u64| match self.size {
                    8 => word,
                    _ => word >> at & u64::from(u32::MAX),
                };
                let within = (*address & (self.size as u64 - 1)) + this.len() as u64;
                within <= self.size as u64 && both(cut(*one), cut(*two))
            }
            Difference::Register { this, that, .. } => both(*this, *that),
            Difference::Path { .. } => false,
        }
    }
}

/// A number of at most eight bytes.
fn whole(number: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..number.len())?.copy_from_slice(number);
    Some(u64::from_le_bytes(bytes))
}

/// A number of at most eight bytes after something was added to it.
fn added(number: &[u8], amount: i64) -> Vec<u8> {
    let sum = whole(number).unwrap_or(0).wrapping_add_signed(amount);
    sum.to_le_bytes()[..number.len()].to_vec()
}

/// Whether it is the one of two values in the one order, and the other in the other order. Of
/// memory only the bytes that differ are told.
fn is_copy(difference: &Difference, (before, after): (&[u8], &[u8])) -> bool {
    if before.len() != after.len() || before.len() > 8 {
        return false;
    }
    match difference {
        Difference::Memory { this, that, .. } => {
            let differs = |(one, two): &(u8, u8)| one != two;
            let bytes: Vec<(u8, u8)> = before.iter().copied().zip(after.iter().copied()).collect();
            let mut runs = bytes
                .split(|pair| !differs(pair))
                .filter(|run| !run.is_empty());
            runs.any(|run| {
                let (old, new): (Vec<u8>, Vec<u8>) = run.iter().copied().unzip();
                (old == *this && new == *that) || (new == *this && old == *that)
            })
        }
        Difference::Register { this, that, .. } => {
            let number = |bytes: &[u8], sign: bool| {
                let high = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                let mut whole = [if sign && high { 0xff } else { 0 }; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(whole)
            };
            [false, true].into_iter().any(|sign| {
                let (old, new) = (number(before, sign), number(after, sign));
                old != new && [(old, new), (new, old)].contains(&(*this, *that))
            })
        }
        Difference::Path { .. } => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: (&[u8], &[u8]) = (&[0xff, 1, 0, 0], &[0, 2, 0, 0]);

    #[test]
    fn a_register_may_hold_a_copy() {
        let register = |this, that| Difference::Register {
            side: Side::A,
            name: "rax".to_owned(),
            this,
            that,
        };
        assert!(is_copy(&register(0x200, 0x1ff), VALUES));
        assert!(is_copy(&register(0x1ff, 0x200), VALUES));
        assert!(!is_copy(&register(0x200, 0x201), VALUES));
        assert!(!is_copy(&register(0x1ff, 0x1ff), VALUES));
        let signed: (&[u8], &[u8]) = (&[0xff, 0xff], &[0, 0]);
        assert!(is_copy(&register(u64::MAX, 0), signed));
    }

    #[test]
    fn what_is_added_carries() {
        assert_eq!(added(VALUES.0, 1), VALUES.1);
        assert_eq!(added(VALUES.1, -1), VALUES.0);
        assert_eq!(added(&[0xff], 1), [0]);
    }

    #[test]
    fn of_memory_the_bytes_that_differ_are_compared() {
        let memory = |this: &[u8], that: &[u8]| Difference::Memory {
            address: 0x1000,
            this: this.to_vec(),
            that: that.to_vec(),
            words: [0; 2],
        };
        assert!(is_copy(&memory(&[0, 2], &[0xff, 1]), VALUES));
        assert!(!is_copy(&memory(&[0], &[0xff]), VALUES));
        assert!(!is_copy(&memory(&[0, 2, 1], &[0xff, 1, 2]), VALUES));
        assert!(!is_copy(&Difference::Path { side: Side::A }, VALUES));
    }

    #[test]
    fn a_counter_that_goes_on_is_copied_as_it_is_later() {
        let counter = Counter {
            first: 0x1f0,
            size: 4,
            by: None,
        };
        let memory = |address, this: u64, that: u64| Difference::Memory {
            address,
            this: vec![0],
            that: vec![1],
            words: [this, that],
        };
        assert!(counter.is_later(&memory(0x1000, 0x7_0000_01f5, 0x7_0000_0200), &[]));
        assert!(counter.is_later(&memory(0x1005, 0x01f5 << 32, 0x0200 << 32), &[]));
        assert!(counter.is_later(&memory(0x1000, 0x1ef, 0x200), &[]));
        // A small number, or far more.
        assert!(!counter.is_later(&memory(0x1000, 0x3f, 0x200), &[]));
        assert!(!counter.is_later(&memory(0x1000, 0x1f5, 0x1_0000), &[]));
        assert!(!counter.is_later(&memory(0x1000, 1, 0), &[]));
        // A small number, where the code keeps nothing but copies.
        let small = Counter {
            first: 2,
            ..counter
        };
        let difference = memory(0x1001, 0, 40);
        assert!(small.is_later(&difference, &[Avma(0x1000)]));
        assert!(!small.is_later(&difference, &[Avma(0x1004)]));
        assert!(!small.is_later(&difference, &[]));
        assert!(!small.is_later(&memory(0x1000, 0, 1 << 20), &[Avma(0x1000)]));
        let gauge = Counter {
            by: Some(1),
            ..counter
        };
        assert!(gauge.is_later(&memory(0x1000, 0x1f5, 0x1f4), &[]));
        assert!(!gauge.is_later(&memory(0x1000, 0x1f5, 0x1f3), &[]));
        assert!(!gauge.is_later(&memory(0x1000, 0x2f5, 0x2f4), &[]));
    }
}
