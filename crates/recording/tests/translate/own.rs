//! Locks and allocators of the program's own, on hand-written entries.

use super::{LOCK, Script, Sites, X};
use redhanded_analysis::{Event, Mode, Object, ObjectKind, What};
use redhanded_model::{Avma, Bytes};
use redhanded_recording::translate::{Lock, Own, Owns, Size, Translator};
use redhanded_recording::wire::{FIRST_OWN, Function, Kind};
use redhanded_recording::{Damage, steps};

/// What thread 1 does by these functions, each called once with these arguments and result, and
/// which of the functions were called.
fn events(functions: &[(Option<Own>, u64)]) -> (Vec<What>, usize) {
    let mut script = Script::default();
    script.start(1);
    for (number, (_, result)) in (FIRST_OWN..).zip(functions) {
        script.sequencer(1, Kind::Call, number, &[LOCK, 20, X]);
        script.write(1, LOCK, 10);
        script.sequencer(1, Kind::Return, number, &[*result]);
        script.write(1, X + 0x100, 10);
    }
    script.exit(1);
    let names: Vec<String> = (0..functions.len()).map(|at| at.to_string()).collect();
    let owns = Owns::new(&names, |name| {
        functions[name.parse::<usize>().unwrap()].0.clone()
    });
    let recording = script.recording();
    let mut translator = Translator::new(&recording.processes()[0]).with(&owns);
    let mut all = Vec::new();
    for step in steps(&recording, &recording.processes()[0], &Damage::default()) {
        let mut events: Vec<Event> = Vec::new();
        translator.step(&step, &mut Sites, &mut events);
        for event in &events {
            if let Some(access) = event.access() {
                let is_within = access.bytes.start == Avma(LOCK);
                let is_annotated = functions[0].0.is_some();
                assert_eq!(translator.is_annotated(), is_within && is_annotated);
            }
        }
        all.extend(events.into_iter().map(|event| event.what));
    }
    let called = translator.called().len();
    let is_told = |what: &What| {
        matches!(
            what,
            What::Acquire { .. } | What::Allocate { .. } | What::Free { .. }
        )
    };
    let released = |what: &What| match what {
        What::Release { object } => object.kind == ObjectKind::Annotated,
        what => is_told(what),
    };
    all.retain(released);
    (all, called)
}

const fn lock(id: u64) -> Object {
    Object {
        kind: ObjectKind::Annotated,
        id,
    }
}

#[test]
fn a_lock_of_the_programs_own_is_taken_at_the_return_and_given_back_at_the_call() {
    let (all, called) = events(&[
        // Whatever it returns: it may return nothing.
        (Some(Own::Locks(Lock::Argument(0), Mode::Shared)), 7),
        (Some(Own::Unlocks(Lock::Argument(0))), 7),
        (Some(Own::Locks(Lock::Numbered(16), Mode::Exclusive)), 0),
    ]);
    assert_eq!(
        all,
        [
            What::Acquire {
                object: lock(LOCK),
                mode: Mode::Shared
            },
            What::Release { object: lock(LOCK) },
            What::Acquire {
                object: lock(16),
                mode: Mode::Exclusive
            },
        ]
    );
    assert_eq!(called, 3);
}

/// An annotation that leaves something out must not take an order away: the lock that a reader
/// keeps for ever is another one, although a read-write lock is at its address.
#[test]
fn a_lock_that_is_never_given_back_is_none_of_the_c_librarys() {
    let owns = Owns::new(&["reads".into()], |_| {
        Some(Own::Locks(Lock::Argument(0), Mode::Shared))
    });
    let mut script = Script::three();
    script.sequencer(2, Kind::Call, FIRST_OWN, &[LOCK]);
    script.sequencer(2, Kind::Return, FIRST_OWN, &[0]);
    script.call(2, Function::WriteLock, LOCK);
    script.write(2, X, 10);
    script.call(2, Function::ReadWriteUnlock, LOCK);
    script.call(3, Function::ReadLock, LOCK);
    script.access(3, Kind::Read, X, 20);
    assert_eq!(script.found_with(&owns), []);
}

/// Just as long as it is said to be: what is behind it is the next block.
#[test]
fn a_block_of_the_programs_own_is_as_long_as_somebody_says() {
    let bytes = Bytes::new(Avma(X), 20);
    let (all, _) = events(&[
        (Some(Own::Allocates(Size::Argument(1))), X),
        (Some(Own::Frees(2)), 0),
        (Some(Own::Allocates(Size::Bytes(20))), 0),
        (Some(Own::Frees(2)), 0),
    ]);
    assert_eq!(
        all,
        [
            What::Allocate { bytes },
            What::Free {
                bytes,
                written: None
            }
        ]
    );
}

#[test]
fn a_function_of_which_nobody_says_anything_is_a_function() {
    assert_eq!(events(&[(None, 0)]), (Vec::new(), 0));
}
