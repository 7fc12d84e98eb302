//! Memory that is given back while others use it, on hand-written entries.

use super::{RUNTIME, Script, X};
use redhanded_analysis::Standing;
use redhanded_recording::translate::{Own, Owns, Size, is_call, parts};
use redhanded_recording::wire::{Entry, FIRST_OWN, Function, Kind};

/// Thread 2 has a block from the function of this number, thread 3 reads 8 bytes at this offset,
/// and thread 2 calls a function with the block from this site.
fn uses(
    allocator: u64,
    offset: u64,
    function: Function,
    site: u32,
    ends: impl Fn(&mut Script),
) -> Script {
    let mut script = Script::three();
    script.sequencer(2, Kind::Call, allocator, &[36]);
    script.sequencer(2, Kind::Return, allocator, &[X]);
    // The block is handed over: only its end is in question.
    script.system(2, 1, &[1], 8);
    script.system(3, 0, &[0], 8);
    script.access(3, Kind::Read, X + offset, 20);
    ends(&mut script);
    let call = Entry {
        kind: Kind::Call,
        size: 0,
        address: function as u64,
        word: site.into(),
    };
    script.put(2, call, true, &[X, 80]);
    script.leave(2, function, X);
    script
}

/// What is found if the block is one of 36 bytes from `malloc`, and its last ones are read.
fn used(function: Function, site: u32, ends: impl Fn(&mut Script)) -> Vec<([u64; 2], Standing)> {
    uses(Function::Malloc as u64, 32, function, site, ends).found()
}

#[test]
fn a_call_of_free_races_with_what_nothing_orders() {
    let found = used(Function::Free, 30, |_| {});
    let [([place, call], Standing::Unordered)] = found[..] else {
        panic!("{found:?}");
    };
    let call = redhanded_analysis::Place(call);
    assert_eq!((place, parts(call)), (20, (30, 0)));
    assert!(is_call(call) && !is_call(redhanded_analysis::Place(place)));
    // What the runtime gives back by itself is not told.
    assert_eq!(used(Function::Free, RUNTIME, |_| {}), []);
}

#[test]
fn who_waits_may_free() {
    let waits = |script: &mut Script| {
        script.system(3, 1, &[1], 8);
        script.system(2, 0, &[0], 8);
    };
    assert_eq!(used(Function::Free, 30, waits), []);
}

/// How an allocator rounds up is not known: behind the last byte may be another's block.
#[test]
fn only_what_was_asked_for_is_given_back() {
    let script = uses(Function::Malloc as u64, 36, Function::Free, 30, |_| {});
    assert_eq!(script.found(), []);
}

/// Whoever says how long a block is may be wrong.
#[test]
fn a_block_that_somebody_described_is_not_given_back_by_free() {
    let owns = Owns::new(&["gets".into()], |_| {
        Some(Own::Allocates(Size::Argument(0)))
    });
    let script = uses(FIRST_OWN, 32, Function::Free, 30, |_| {});
    assert_eq!(script.found_with(&owns), []);
}

/// A block that is resized may stay where it is.
#[test]
fn nobody_knows_whether_a_block_was_moved() {
    assert_eq!(used(Function::Realloc, 30, |_| {}), []);
}
