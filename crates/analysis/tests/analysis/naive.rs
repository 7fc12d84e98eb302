//! The same analyses as their definitions have it, in quadratic time and worse.

use redhanded_analysis::{Access, Event, Mode, Object, ObjectKind, Place, Refine, Standing, What};
use redhanded_model::{Bytes, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The pairs of sites, each with its best standing.
pub type Pairs = BTreeMap<[Place; 2], Standing>;

fn add(pairs: &mut Pairs, first: &Event, second: &Event, standing: Standing) {
    let places = [first.place.min(second.place), first.place.max(second.place)];
    let known = pairs.entry(places).or_insert(standing);
    *known = (*known).min(standing);
}

/// A region: from when to when, in moments. A sequencer is one by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Region {
    thread: TaskId,
    start: u64,
    end: u64,
}

/// The region of each event. The moment of a sequencer is twice its number; what follows it
/// begins one later.
fn regions(events: &[Event]) -> Vec<Region> {
    let next = |at: usize| {
        let mut later = events[at + 1..].iter();
        later.find_map(|event| event.number.filter(|_| event.thread == events[at].thread))
    };
    let mut last: HashMap<TaskId, u64> = HashMap::new();
    (0..events.len())
        .map(|at| {
            let thread = events[at].thread;
            if let Some(number) = events[at].number {
                last.insert(thread, 2 * number + 1);
                return Region {
                    thread,
                    start: 2 * number,
                    end: 2 * number + 1,
                };
            }
            let start = last.get(&thread).copied().unwrap_or(0);
            let end = next(at).map_or(u64::MAX, |number| 2 * number);
            Region { thread, start, end }
        })
        .collect()
}

/// Whether all bytes began or ended a life between two events.
fn is_reused(events: &[Event], from: usize, to: usize, shared: Bytes) -> bool {
    all_are(events, from, to, shared, |what| match what {
        What::Allocate { bytes } | What::Free { bytes, .. } => Some(*bytes),
        _ => None,
    })
}

/// Whether accesses to all of these bytes were forgotten between two events.
fn is_forgotten(events: &[Event], from: usize, to: usize, shared: Bytes) -> bool {
    all_are(events, from, to, shared, |what| match what {
        What::Allocate { bytes } | What::Free { bytes, .. } | What::Slack { bytes } => Some(*bytes),
        _ => None,
    })
}

fn all_are(
    events: &[Event],
    from: usize,
    to: usize,
    shared: Bytes,
    which: impl Fn(&What) -> Option<Bytes>,
) -> bool {
    let gone: Vec<Bytes> = events[from..to]
        .iter()
        .filter_map(|event| which(&event.what))
        .collect();
    (shared.start.0..shared.end()).all(|byte| {
        gone.iter()
            .any(|bytes| (bytes.start.0..bytes.end()).contains(&byte))
    })
}

/// All conflicting accesses of different threads to memory in the same life.
fn conflicts(events: &[Event]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (to, second) in events.iter().enumerate() {
        for (from, first) in events[..to].iter().enumerate() {
            let (Some(one), Some(other)) = (first.access(), second.access()) else {
                continue;
            };
            if first.thread != second.thread && one.conflicts(other) {
                let shared = one.bytes.intersection(other.bytes).unwrap();
                if !is_forgotten(events, from, to, shared) {
                    found.push((from, to));
                }
            }
        }
    }
    found
}

fn may_acquire(access: &Access) -> bool {
    use redhanded_analysis::{Atomicity, Ordering};
    access.kind.reads()
        && !matches!(
            access.atomicity,
            Atomicity::Plain | Atomicity::Atomic(Ordering::Relaxed | Ordering::Release)
        )
}

fn may_release(access: &Access) -> bool {
    use redhanded_analysis::{Atomicity, Ordering};
    access.kind.writes()
        && !matches!(
            access.atomicity,
            Atomicity::Plain | Atomicity::Atomic(Ordering::Relaxed | Ordering::Acquire)
        )
}

/// Sequencers: pairs in overlapping regions.
pub fn sequencers(events: &[Event]) -> Pairs {
    let regions = regions(events);
    let mut pairs = Pairs::new();
    for (from, to) in conflicts(events) {
        if regions[from].start >= regions[to].end || regions[to].start >= regions[from].end {
            continue;
        }
        // Whether a read up to this access, of its thread, may have acquired something that was
        // done in the region of the other one.
        let follows = |at: usize, other: usize| {
            (0..=at).any(|read| {
                events[read].thread == events[at].thread
                    && regions[read].end > regions[other].start
                    && events[read].number.is_none()
                    && events[read].access().is_some_and(may_acquire)
            })
        };
        // A third thread may have read, and passed it on by a sequencer.
        let through_third = (0..to).any(|read| {
            ![from, to]
                .map(|at| events[at].thread)
                .contains(&events[read].thread)
                && regions[read].end > regions[from].start
                && events[read].number.is_none()
                && events[read].access().is_some_and(may_acquire)
        });
        let bytes = |at: usize| events[at].access().unwrap().bytes;
        let site = |at: usize| {
            let access = events[at].access().unwrap();
            (
                events[at].thread,
                events[at].place,
                access.kind,
                access.atomicity,
            )
        };
        let third = |at: usize| {
            events[at].thread != events[to].thread
                && events[at].access().is_some_and(may_release)
                && regions[at].end > regions[from].start
                && site(at) != site(from)
                && bytes(at)
                    .intersection(bytes(to))
                    .is_some_and(|shared| !is_reused(events, at, to, shared))
        };
        let is_locked = events[to].number.is_some();
        let by_third =
            is_locked && events[to].access().is_some_and(may_acquire) && (0..to).any(third);
        let standing = if follows(from, to) || follows(to, from) || through_third || by_third {
            Standing::Suspect
        } else {
            Standing::Unordered
        };
        add(&mut pairs, &events[from], &events[to], standing);
    }
    pairs
}

/// The locks that stand for interrupt levels.
fn levels(range: std::ops::RangeInclusive<u32>) -> Vec<Object> {
    let kind = ObjectKind::InterruptLevel;
    range
        .map(|level| Object {
            kind,
            id: level.into(),
        })
        .collect()
}

/// What an event acquires and what it releases, shared or not.
type Operation = (Vec<(Object, Mode)>, Vec<(Object, Mode)>);

/// The operation of each event.
fn operations(events: &[Event]) -> Vec<Operation> {
    let mut shared: Vec<(TaskId, Object)> = Vec::new();
    let mut level: HashMap<TaskId, u32> = HashMap::new();
    let mut all = Vec::new();
    for event in events {
        let mut operation = (Vec::new(), Vec::new());
        match event.what {
            What::Acquire { object, mode } => {
                if mode == Mode::Shared {
                    shared.push((event.thread, object));
                }
                operation.0.push((object, mode));
            }
            What::Release { object } => {
                let held = shared
                    .iter()
                    .position(|held| *held == (event.thread, object));
                let mode = match held {
                    Some(held) => {
                        shared.swap_remove(held);
                        Mode::Shared
                    }
                    None => Mode::Exclusive,
                };
                operation.1.push((object, mode));
            }
            What::SetInterruptLevel { level: to } => {
                let from = level.insert(event.thread, to).unwrap_or(0);
                let exclusive = |object| (object, Mode::Exclusive);
                operation
                    .0
                    .extend(levels(from + 1..=to).into_iter().map(exclusive));
                operation
                    .1
                    .extend(levels(to + 1..=from).into_iter().map(exclusive));
            }
            _ => {}
        }
        all.push(operation);
    }
    all
}

/// Whether `first`, which is earlier in the stream, certainly orders `second` after itself by one
/// step of synchronisation.
fn synchronises(first: &Event, second: &Event) -> bool {
    match (first.what, second.what) {
        _ if first.thread == second.thread => true,
        (What::Create { child }, _) if second.thread == child => true,
        (_, What::Join { child }) if first.thread == child => true,
        _ => false,
    }
}

/// Happens-before: pairs that no path orders, by the transitive closure of all steps.
pub fn happens_before(events: &[Event]) -> Pairs {
    let regions = regions(events);
    let operations = operations(events);
    let passes = |from: usize, to: usize| {
        operations[from].1.iter().any(|(released, how)| {
            operations[to].0.iter().any(|(acquired, mode)| {
                released == acquired && (*how == Mode::Exclusive || *mode == Mode::Exclusive)
            })
        })
    };
    let shares_bytes = |from: usize, to: usize| {
        let (Some(one), Some(other)) = (events[from].access(), events[to].access()) else {
            return false;
        };
        one.bytes.intersection(other.bytes).is_some_and(|shared| {
            let (first, last) = (from.min(to), from.max(to));
            may_release(one) && may_acquire(other) && !is_reused(events, first, last, shared)
        })
    };
    let is_atomic = |at: usize| {
        events[at]
            .access()
            .is_some_and(|access| access.atomicity.is_atomic())
    };
    let mut before = vec![vec![false; events.len()]; events.len()];
    for to in 0..events.len() {
        for from in (0..to).rev() {
            let by_atomic = is_atomic(from)
                && is_atomic(to)
                && shares_bytes(from, to)
                && regions[from].end <= regions[to].start;
            if before[from][to]
                || synchronises(&events[from], &events[to])
                || passes(from, to)
                || by_atomic
            {
                for row in &mut before[..=from] {
                    if row[from] {
                        row[to] = true;
                    }
                }
                before[from][to] = true;
            }
        }
    }
    let mut pairs = Pairs::new();
    for (from, to) in conflicts(events) {
        if before[from][to] {
            continue;
        }
        let possible = |one: usize, other: usize| {
            possibly_before(events, &regions, one, &shares_bytes, &passes)
                .contains(&regions[other].start)
        };
        let standing = if possible(from, to) || possible(to, from) {
            Standing::Suspect
        } else {
            Standing::Unordered
        };
        add(&mut pairs, &events[from], &events[to], standing);
    }
    pairs
}

/// The regions, by their starts, that a path may lead to from the region of an event. A path takes
/// time: it leaves a region no earlier than it came in, and cannot enter one that has ended.
fn possibly_before(
    events: &[Event],
    regions: &[Region],
    source: usize,
    shares_bytes: &dyn Fn(usize, usize) -> bool,
    passes: &dyn Fn(usize, usize) -> bool,
) -> BTreeSet<u64> {
    // When each region is reached at the earliest.
    let mut reached: BTreeMap<u64, u64> =
        BTreeMap::from([(regions[source].start, regions[source].start)]);
    loop {
        let mut grew = false;
        for from in 0..events.len() {
            let Some(&time) = reached.get(&regions[from].start) else {
                continue;
            };
            for to in 0..events.len() {
                let (one, other) = (regions[from], regions[to]);
                let is_later = other.start >= one.end;
                let certain = is_later
                    && from < to
                    && (synchronises(&events[from], &events[to]) || passes(from, to));
                let possible = one.thread != other.thread
                    && shares_bytes(from, to)
                    && time.max(other.start) < other.end;
                if one != other && (certain || possible) {
                    let arrival = time.max(other.start);
                    let known = reached.entry(other.start).or_insert(u64::MAX);
                    if arrival < *known {
                        *known = arrival;
                        grew = true;
                    }
                }
            }
        }
        if !grew {
            return reached.into_keys().collect();
        }
    }
}

/// Lockset, with one set for each byte: the pairs of sites.
pub fn lockset(events: &[Event], refine: Refine) -> BTreeSet<[Place; 2]> {
    #[derive(Clone)]
    struct Byte {
        accesses: Vec<usize>,
        threads: BTreeSet<TaskId>,
        candidates: Option<BTreeSet<Object>>,
        is_modified: bool,
    }
    let mut bytes: BTreeMap<u64, Byte> = BTreeMap::new();
    let mut held: Vec<(TaskId, Object, Mode)> = Vec::new();
    let mut signals: BTreeSet<Object> = BTreeSet::new();
    let operations = operations(events);
    let mut pairs = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        if let What::SetCount { semaphore, count } = event.what {
            let semaphore = Object {
                kind: ObjectKind::Semaphore,
                id: semaphore,
            };
            signals.remove(&semaphore);
            if count != 1 {
                signals.insert(semaphore);
            }
        }
        if let What::Allocate { bytes: new }
        | What::Free { bytes: new, .. }
        | What::Slack { bytes: new } = event.what
        {
            bytes.retain(|byte, _| !(new.start.0..new.end()).contains(byte));
        }
        for (object, mode) in &operations[at].0 {
            held.push((event.thread, *object, *mode));
        }
        for (object, _) in &operations[at].1 {
            let mine = |hold: &(TaskId, Object, Mode)| (hold.0, hold.1) == (event.thread, *object);
            // A lock is held in the strongest mode it was taken in until its last release.
            let weakest = (0..held.len())
                .filter(|at| mine(&held[*at]))
                .min_by_key(|at| held[*at].2);
            match weakest {
                Some(hold) => {
                    held.remove(hold);
                }
                None if object.kind == ObjectKind::Semaphore => {
                    signals.insert(*object);
                }
                None => {}
            }
        }
        held.retain(|(_, object, _)| {
            !signals.contains(object) && object.kind != ObjectKind::Channel
        });
        let Some(access) = event.access() else {
            continue;
        };
        let mut set: BTreeSet<Object> = held
            .iter()
            .filter(|(thread, _, mode)| {
                *thread == event.thread && (*mode == Mode::Exclusive || !access.kind.writes())
            })
            .map(|(_, object, _)| *object)
            .collect();
        if access.atomicity.is_atomic() {
            set.insert(Object {
                kind: ObjectKind::Atomicity,
                id: 0,
            });
        }
        for address in access.bytes.start.0..access.bytes.end() {
            let byte = bytes.entry(address).or_insert_with(|| Byte {
                accesses: Vec::new(),
                threads: BTreeSet::new(),
                candidates: None,
                is_modified: false,
            });
            byte.threads.insert(event.thread);
            if byte.threads.len() > 1 || refine == Refine::FirstAccess {
                byte.is_modified |= access.kind.writes();
                byte.candidates = Some(match &byte.candidates {
                    Some(candidates) => candidates & &set,
                    None => set.clone(),
                });
            }
            let is_empty = byte.candidates.as_ref().is_some_and(BTreeSet::is_empty);
            if byte.threads.len() > 1 && byte.is_modified && is_empty {
                let is_other = |at: &&usize| events[**at].thread != event.thread;
                // What a read missed: the latest write, if it is another thread's and not of a
                // time when only one thread used the byte, except for its very last access.
                let alone = byte
                    .accesses
                    .iter()
                    .take_while(|at| events[**at].thread == events[byte.accesses[0]].thread);
                let alone = alone.count().saturating_sub(1);
                let written = byte.accesses[alone..].iter().rev().find(|at| {
                    events[**at]
                        .access()
                        .is_some_and(|access| access.kind.writes())
                });
                let written = written.filter(is_other).filter(|_| !access.kind.writes());
                let other = written
                    .or_else(|| byte.accesses.iter().rev().find(is_other))
                    .unwrap();
                let place = events[*other].place;
                let kind = |event: &Event| event.access().map(|access| access.kind);
                let writes = [kind(event), kind(&events[*other])]
                    .iter()
                    .flatten()
                    .any(|kind| kind.writes());
                if writes {
                    pairs.insert([place.min(event.place), place.max(event.place)]);
                }
            }
            byte.accesses.push(at);
        }
    }
    pairs
}
