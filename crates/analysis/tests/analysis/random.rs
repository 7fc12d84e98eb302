//! Random traces.

use proptest::prelude::*;
use redhanded_analysis::{
    Access, Atomicity, Event, Mode, Object, ObjectKind, Ordering, Place, What, merge,
};
use redhanded_model::{AccessKind, Avma, Bytes, TaskId};
use std::collections::BTreeMap;

/// One step of one thread. `None` for the number of an access that is no sequencer.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    thread: u32,
    place: u64,
    is_sequencer: bool,
    what: What,
}

const THREADS: u32 = 3;

/// Accesses to a few variables, so that they meet.
pub fn access() -> impl Strategy<Value = (Access, bool)> {
    let bytes = (
        0..3_u64,
        prop_oneof![
            Just((0, 8)),
            Just((0, 4)),
            Just((4, 4)),
            Just((3, 1)),
            Just((6, 4))
        ],
    );
    let kind = prop_oneof![
        Just(AccessKind::Read),
        Just(AccessKind::Write),
        Just(AccessKind::Update)
    ];
    let atomicity = prop_oneof![
        4 => Just((Atomicity::Plain, false)),
        2 => Just((Atomicity::Doubtful, false)),
        1 => Just((Atomicity::Atomic(Ordering::AcquireRelease), false)),
        1 => Just((Atomicity::Atomic(Ordering::Acquire), false)),
        1 => Just((Atomicity::Atomic(Ordering::Release), false)),
        1 => Just((Atomicity::Atomic(Ordering::Relaxed), false)),
        2 => Just((Atomicity::Atomic(Ordering::AcquireRelease), true)),
    ];
    (bytes, kind, atomicity).prop_map(|((variable, (offset, len)), kind, (atomicity, locked))| {
        let bytes = Bytes::new(Avma(0x1000 + 8 * variable + offset), len);
        (
            Access {
                bytes,
                kind,
                atomicity,
            },
            locked,
        )
    })
}

fn object() -> impl Strategy<Value = Object> {
    let kind = prop_oneof![
        3 => Just(ObjectKind::Lock),
        1 => Just(ObjectKind::Semaphore),
        1 => Just(ObjectKind::Channel)
    ];
    (kind, 0..2_u64).prop_map(|(kind, id)| Object { kind, id })
}

fn what() -> impl Strategy<Value = (What, bool)> {
    let mode = prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    let variable = || (0..3_u64).prop_map(|variable| Bytes::new(Avma(0x1000 + 8 * variable), 8));
    prop_oneof![
        12 => access().prop_map(|(access, locked)| (What::Access(access), locked)),
        1 => Just((What::Fence, true)),
        3 => (object(), mode).prop_map(|(object, mode)| (What::Acquire { object, mode }, true)),
        3 => object().prop_map(|object| (What::Release { object }, true)),
        1 => variable().prop_map(|bytes| (What::Allocate { bytes }, true)),
        1 => variable().prop_map(|bytes| (What::Slack { bytes }, true)),
        1 => (0..3_u32).prop_map(|level| (What::SetInterruptLevel { level }, true)),
        1 => (0..3_u32).prop_map(|count| (What::SetCount { semaphore: 0, count }, true)),
    ]
}

/// Steps of the threads that a trace begins with.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (1..=THREADS, 0..8_u64, what()).prop_map(|(thread, place, (what, is_sequencer))| Step {
            thread,
            place,
            is_sequencer,
            what,
        });
    // A fourth thread is created in the middle by one of the others, and joined by another.
    let fourth = (
        any::<bool>(),
        1..=THREADS,
        1..=THREADS,
        proptest::collection::vec((0..8_u64, what()), 0..8),
    );
    (proptest::collection::vec(step, 0..60), fourth).prop_map(|(mut steps, fourth)| {
        let (exists, creator, joiner, own) = fourth;
        if exists {
            let child = TaskId(4);
            let step = |thread, what| Step {
                thread,
                place: 99,
                is_sequencer: true,
                what,
            };
            let mut inserted = vec![step(creator, What::Create { child }), step(4, What::Start)];
            inserted.extend(own.into_iter().map(|(place, (what, is_sequencer))| Step {
                thread: 4,
                place,
                is_sequencer,
                what,
            }));
            inserted.push(step(4, What::Exit));
            // Spread over the second half, so that it overlaps with the others.
            let mut at = steps.len() / 3;
            for step in inserted {
                steps.insert(at.min(steps.len()), step);
                at += 2;
            }
            steps.insert(at.min(steps.len()), step(joiner, What::Join { child }));
        }
        steps
    })
}

/// The steps as events, with numbers in the order of the steps.
pub fn events(steps: &[Step]) -> Vec<Event> {
    let start = (1..=THREADS).map(|thread| {
        let child = TaskId(thread);
        Step {
            thread: 0,
            place: 99,
            is_sequencer: true,
            what: What::Create { child },
        }
    });
    let starts = (1..=THREADS).map(|thread| Step {
        thread,
        place: 99,
        is_sequencer: true,
        what: What::Start,
    });
    start
        .chain(starts)
        .chain(steps.iter().copied())
        .zip(1..)
        .map(|(step, number)| Event {
            thread: TaskId(step.thread),
            place: Place(step.place),
            number: step.is_sequencer.then_some(number),
            what: step.what,
        })
        .collect()
}

/// Events in the order in which the analyses want them.
pub fn merged(events: &[Event]) -> Vec<Event> {
    let mut threads: BTreeMap<TaskId, Vec<Event>> = BTreeMap::new();
    for event in events {
        threads.entry(event.thread).or_default().push(*event);
    }
    merge(threads.into_values()).collect()
}
