//! Runs all orders that matter, and compares them.

use crate::compare::compare;
use crate::landmark::{Landmark, Scout};
use crate::machine::{Access, Machine};
use crate::outcome::{Call, End, Failure, Judgement, Order, Side};
use crate::ranges::Ranges;
use crate::scene::{Limits, Scene};
use crate::schedule::{Extent, Played, SIDES, count, play};
use crate::state::State;
use crate::undo::before_access;

/// What every order of a scene starts from.
pub(crate) struct Prepared {
    /// The threads before their accesses.
    pub starts: [State; 2],
    /// Each thread first.
    pub played: [Played; 2],
    /// What each must not read.
    unknown: [Ranges; 2],
    /// How far they run.
    pub extent: Extent,
    /// What both use, and one of them writes, in either of these.
    pub contested: Ranges,
    /// What either uses.
    used: Ranges,
}

/// Takes back the accesses that were made, and runs the two orders that interrupt nobody.
pub(crate) fn prepare(
    machine: &mut Machine<'_>,
    scene: &Scene,
    limits: Limits,
) -> Result<Prepared, Failure> {
    let [a, b] = &scene.threads;
    let (a, unknown_to_b) = before_access(machine, a)?;
    let (b, unknown_to_a) = before_access(machine, b)?;
    let starts = [a, b];
    // What a thread must not read, because nobody knows what the other one overwrote.
    let unknown = [unknown_to_a, unknown_to_b];
    let race = Ranges::new(scene.race.clone());
    let mut extent = Extent::of(limits);
    let mut found = [None; 2];
    let mut played = SIDES.map(|side| {
        let mut scout = Scout::new(side);
        let order = Order::First(side);
        let played = play(machine, &starts, order, &race, extent, &mut scout);
        found[side as usize] = landmark(&played, side, &scout);
        played
    });
    extent.landmarks = found;
    if found.iter().any(Option::is_some) {
        played =
            SIDES.map(|side| play(machine, &starts, Order::First(side), &race, extent, &mut ()));
    }
    for side in SIDES {
        // If the replay gave up before an access was made, it says nothing about the race.
        let thread = &played[side as usize].threads[side as usize];
        let touches = |a: &Access| race.touch(a.address, a.size.into());
        let end = thread.end.clone().unwrap_or(End::Bound);
        let gave_up = !end.is_of_the_program() && !thread.accesses.iter().any(touches);
        if (gave_up || thread.steps == 0) && !end.is_failure() {
            return Err(Failure::NoStart { side, end });
        }
    }
    let accesses = |side: Side, takes: fn(&Access) -> bool| {
        let of = |p: &Played| Ranges::of(&p.threads[side as usize].accesses, takes);
        played
            .iter()
            .map(of)
            .fold(Ranges::default(), |all, one| all.with(&one))
    };
    let any = SIDES.map(|side| accesses(side, |_| true));
    let writes = SIDES.map(|side| accesses(side, |a| a.write));
    let contested = any[0]
        .common(&writes[1])
        .with(&any[1].common(&writes[0]))
        .with(&race);
    Ok(Prepared {
        used: any[0].with(&any[1]),
        starts,
        unknown,
        extent,
        played,
        contested,
    })
}

/// Where the region of a thread ends, if only the bound ended it.
fn landmark(played: &Played, side: Side, scout: &Scout) -> Option<Landmark> {
    let end = played.threads[side as usize].end.as_ref();
    scout.landmark().filter(|_| end == Some(&End::Bound))
}

/// Answers one question.
pub(crate) fn judge(machine: &mut Machine<'_>, scene: &Scene, limits: Limits) -> Judgement {
    let prepared = match prepare(machine, scene, limits) {
        Ok(prepared) => prepared,
        Err(failure) => return nothing(failure),
    };
    let Prepared {
        starts,
        unknown,
        extent,
        played,
        contested,
        mut used,
    } = prepared;
    let most = SIDES.map(|side| count(of(&played, side), &contested).min(limits.splits));
    let late = SIDES.map(|side| {
        let stores: Vec<Access> = of(&played, side)
            .iter()
            .filter(|a| a.write)
            .copied()
            .collect();
        count(&stores, &contested).min(limits.delays)
    });
    let race = Ranges::new(scene.race.clone());
    let writes_back = SIDES.into_iter().find(|side| {
        writes_back(machine, &starts[*side as usize], of(&played, *side), &race)
            && of(&played, side.other())
                .iter()
                .any(|a| a.write && race.touch(a.address, a.size.into()))
    });
    let mut guessed = played.iter().any(|it| reads_any(it, &unknown));
    let mut played = Vec::from(played);
    let splits = SIDES.into_iter().zip(most).flat_map(|(side, most)| {
        let split = move |after| Order::Split { side, after };
        (1..=most).map(split)
    });
    let delays = SIDES.into_iter().zip(late).flat_map(|(side, most)| {
        let delayed = move |store| Order::Delayed { side, store };
        (1..=most).map(delayed)
    });
    for order in splits.chain(delays) {
        let mut other = play(machine, &starts, order, &contested, extent, &mut ());
        guessed |= reads_any(&other, &unknown);
        // Kept as ranges only: many orders with long lists would need much memory.
        for thread in &mut other.threads {
            let accesses = std::mem::take(&mut thread.accesses);
            used = used.with(&Ranges::of(&accesses, |_| true));
        }
        played.push(other);
    }
    if guessed {
        let why = "what its write overwrote is not known";
        return nothing(Failure::CannotUndo(why.into()));
    }
    let call = match (compare(machine, scene, &played), writes_back) {
        (Call::NoStateChange, Some(side)) => Call::ReplayFailure(Failure::WritesBack { side }),
        (call, _) => call,
    };
    let threads = || played.iter().flat_map(|p| &p.threads);
    Judgement {
        call,
        outcomes: played.iter().map(Played::outcome).collect(),
        used: used.into_vec(),
        steps: threads().map(|t| t.steps).sum(),
    }
}

/// Whether a thread reads what is unknown to it.
fn reads_any(played: &Played, unknown: &[Ranges; 2]) -> bool {
    SIDES.into_iter().any(|side| {
        let accesses = &played.threads[side as usize].accesses;
        let unknown = &unknown[side as usize];
        accesses
            .iter()
            .any(|a| !a.write && unknown.touch(a.address, a.size.into()))
    })
}

/// What a thread accesses when it comes first.
fn of(played: &[Played; 2], side: Side) -> &[Access] {
    &played[side as usize].threads[side as usize].accesses
}

/// Whether a thread reads the bytes of the race and writes them later. A locked instruction
/// does both at once, and ends the region unless it is the first.
fn writes_back(
    machine: &mut Machine<'_>,
    start: &State,
    accesses: &[Access],
    race: &Ranges,
) -> bool {
    machine.load(start);
    if machine.is_at_locked() {
        return false;
    }
    let mut those = accesses
        .iter()
        .filter(|a| race.touch(a.address, a.size.into()));
    those.any(|a| !a.write) && those.any(|a| a.write)
}

const fn nothing(failure: Failure) -> Judgement {
    Judgement {
        call: Call::ReplayFailure(failure),
        outcomes: Vec::new(),
        used: Vec::new(),
        steps: 0,
    }
}
