//! Compares what the orders left behind.

use crate::liveness::{Registers, live_at};
use crate::machine::{Machine, Mode, Space};
use crate::memory::PAGE;
use crate::outcome::{Call, Difference, End, Failure, Order, Side};
use crate::ranges::Ranges;
use crate::scene::Scene;
use crate::schedule::{Played, SIDES, Thread};
use crate::state::{RSP, State, flag};
use std::collections::BTreeSet;

/// Differences of two orders that are listed, and as many of all further ones.
const MOST: usize = 32;

/// In what two orders differ.
#[derive(Default)]
struct Found {
    list: Vec<Difference>,
    /// Whether there is more than is listed.
    cut: bool,
}

impl Found {
    fn add(&mut self, difference: Difference) {
        if self.list.len() < MOST {
            self.list.push(difference);
        } else {
            self.cut = true;
        }
    }
}

/// Compares all orders with the first one. The first difference counts, and what else all those
/// orders show that are about the race: to interrupt a thread there may show what running one
/// after the other does not. What interrupting it elsewhere adds is due to other races of the same
/// regions, such as an update of other bytes that is lost.
pub(crate) fn compare(machine: &mut Machine<'_>, scene: &Scene, played: &[Played]) -> Call {
    let mode = scene.mode;
    let here = || played.iter().filter(|p| p.order.is_of_this_machine());
    let failing: Vec<Order> = here()
        .filter(|p| p.fails(scene.handled))
        .map(|p| p.order)
        .collect();
    if failing.len() == here().count() {
        return Call::ReplayFailure(Failure::FaultsInEveryOrder);
    }
    if !failing.is_empty() {
        return Call::Fault { orders: failing };
    }
    let Some((this, others)) = played.split_first() else {
        return Call::NoStateChange;
    };
    let race = Ranges::new(scene.race.clone());
    // What the first order that differs shows, and what later ones show besides.
    let mut first: Option<(Order, Vec<Difference>)> = None;
    let mut further: Vec<(Order, Difference)> = Vec::new();
    let (mut untold, mut failure) = (None, None);
    for that in others {
        let about_it = that.is_about(&race);
        let found = match differences(&mut machine.space, mode, this, that) {
            Ok(found) => found,
            Err(why) => {
                if about_it {
                    untold = untold.or(Some(why.clone()));
                }
                failure = failure.or(Some(why));
                continue;
            }
        };
        let mut cut = found.cut;
        match &first {
            None if found.list.is_empty() => {}
            None => first = Some((that.order, found.list)),
            Some(_) if !about_it => continue,
            Some((_, known)) => {
                for difference in found.list {
                    let mut before = known.iter().chain(further.iter().map(|(_, it)| it));
                    if before.any(|it| *it == difference) {
                        continue;
                    }
                    if further.len() == MOST {
                        cut = true;
                        break;
                    }
                    further.push((that.order, difference));
                }
            }
        }
        if cut {
            untold = untold.or(Some(Failure::ManyDifferences));
        }
    }
    match first {
        Some((that, differences)) => Call::StateChange {
            this: this.order,
            that,
            differences,
            further,
            untold,
        },
        None => failure.map_or(Call::NoStateChange, Call::ReplayFailure),
    }
}

fn differences(
    space: &mut Space<'_>,
    mode: Mode,
    this: &Played,
    that: &Played,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    for side in SIDES {
        let (a, b) = (&this.threads[side as usize], &that.threads[side as usize]);
        if same_place(side, a, b)? {
            let live = live_at(space, mode, a.state.ip);
            registers(side, &a.state, &b.state, live, &mut found);
        } else {
            found.add(Difference::Path { side });
        }
    }
    memory(space, mode, this, that, &mut found);
    Ok(found)
}

/// Whether a thread ended its region at the same place for the same reason. An error where
/// it did not, and only because the replay gave up.
fn same_place(side: Side, a: &Thread, b: &Thread) -> Result<bool, Failure> {
    let of = |t: &Thread| t.end.clone().unwrap_or(End::Bound);
    let (x, y) = (of(a), of(b));
    let same = a.state.ip == b.state.ip && x == y;
    // As many instructions, or the one may only not be there yet.
    if same && (x != End::Bound || a.steps == b.steps) {
        return Ok(true);
    }
    match [x, y].into_iter().find(|end| !end.is_of_the_program()) {
        Some(end) => Err(Failure::Incomparable { side, end }),
        None => Ok(false),
    }
}

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

fn registers(side: Side, a: &State, b: &State, live: Registers, found: &mut Found) {
    let mut differ = |name: String, this: u64, that: u64| {
        found.add(Difference::Register {
            side,
            name,
            this,
            that,
        });
    };
    for (n, name) in NAMES.iter().enumerate() {
        if live.general >> n & 1 != 0 && a.general[n] != b.general[n] {
            differ((*name).to_owned(), a.general[n], b.general[n]);
        }
    }
    // Arithmetic flags as far as they are read, and all that are not set by arithmetic.
    let flags = !flag::STATUS | crate::native::rflags(live.flags);
    if (a.flags ^ b.flags) & flags != 0 {
        differ("flags".to_owned(), a.flags, b.flags);
    }
    for (name, this, that) in [
        ("fs_base", a.fs_base, b.fs_base),
        ("gs_base", a.gs_base, b.gs_base),
    ] {
        if this != that {
            differ(name.to_owned(), this, that);
        }
    }
    let (x, y) = (&a.vectors, &b.vectors);
    for n in 0..32 {
        let (p, q) = (x.register(n, 64), y.register(n, 64));
        let low = live.low >> n & 1 != 0 && p[..16] != q[..16];
        let high = live.high >> n & 1 != 0 && p[16..] != q[16..];
        if low || high {
            let at = p.iter().zip(q).position(|(x, y)| x != y).unwrap_or(0) & !7;
            let number = |r: &[u8]| {
                r[at..at + 8]
                    .iter()
                    .rev()
                    .fold(0, |n, b| n << 8 | u64::from(*b))
            };
            differ(format!("zmm{n}[{at}..]"), number(p), number(q));
        }
    }
    for n in 0..8 {
        if live.masks >> n & 1 != 0 && x.masks[n] != y.masks[n] {
            differ(format!("k{n}"), x.masks[n], y.masks[n]);
        }
    }
    // Exceptions that are only remembered, in the lowest six bits, steer next to nothing.
    if (x.mxcsr ^ y.mxcsr) & !0x3f != 0 {
        differ("mxcsr".to_owned(), x.mxcsr.into(), y.mxcsr.into());
    }
    let x87 = |v: &crate::state::Vectors| {
        let used =
            (0..8).filter(|n| v.x87_tags >> ((n + usize::from(v.x87_status >> 11)) % 8) & 1 != 0);
        let values: Vec<_> = used
            .map(|n| v.x87.0[n * 16..n * 16 + 10].to_vec())
            .collect();
        (v.x87_control, v.x87_status >> 11 & 7, v.x87_tags, values)
    };
    if x87(x) != x87(y) {
        differ("x87".to_owned(), x.x87_tags.into(), y.x87_tags.into());
    }
}

/// Stack below the stack pointer, which a signal handler may overwrite at any time. A
/// program may use 128 bytes of it in functions that call no other.
fn dead_stack(mode: Mode, played: &Played, side: Side) -> (u64, u64) {
    let thread = &played.threads[side as usize];
    let top = thread.state.general[RSP];
    let zone = match mode {
        Mode::User if thread.returned_to != top => 128,
        _ => 0,
    };
    (
        thread.lowest_stack.saturating_sub(128),
        top.saturating_sub(zone),
    )
}

/// The eight aligned bytes around a place in a page.
fn word(page: &[u8], at: usize) -> u64 {
    let bytes = page[at & !7..].iter().take(8).rev();
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn memory(space: &Space<'_>, mode: Mode, this: &Played, that: &Played, found: &mut Found) {
    let dead: Vec<(u64, u64)> = SIDES
        .into_iter()
        .map(|side| {
            let (a, b) = (dead_stack(mode, this, side), dead_stack(mode, that, side));
            // Dead in both orders.
            (a.0.min(b.0), a.1.min(b.1))
        })
        .collect();
    let is_dead = |at: u64| dead.iter().any(|(start, end)| (*start..*end).contains(&at));
    let pages: BTreeSet<u64> = this
        .written
        .keys()
        .chain(that.written.keys())
        .copied()
        .collect();
    for page in pages {
        let Some(original) = space.original(page) else {
            continue;
        };
        let bytes = |p: &'_ Played| p.written.get(&page).map_or(*original, |b| b.0);
        let (a, b) = (bytes(this), bytes(that));
        let mut at = 0;
        while at < PAGE as usize && !found.cut {
            let differs = |n: &usize| a[*n] != b[*n] && !is_dead(page + *n as u64);
            if !differs(&at) {
                at += 1;
                continue;
            }
            let length = (at..PAGE as usize).take_while(differs).take(64).count();
            found.add(Difference::Memory {
                address: page + at as u64,
                this: a[at..at + length].to_vec(),
                that: b[at..at + length].to_vec(),
                words: [word(&a, at), word(&b, at)],
            });
            at += length;
        }
    }
}
