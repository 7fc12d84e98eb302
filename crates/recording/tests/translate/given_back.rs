//! Memory that is given back while others use it, on hand-written entries.

use super::{RUNTIME, Script, X};
use redhanded_analysis::Standing;
use redhanded_recording::translate::{is_call, parts};
use redhanded_recording::wire::{Entry, Function, Kind};

/// Thread 2 has a block, thread 3 uses it, and thread 2 calls this function with it from this site.
fn used(function: Function, site: u32, ends: impl Fn(&mut Script)) -> Vec<([u64; 2], Standing)> {
    let mut script = Script::three();
    script.enter(2, Function::Malloc, &[40]);
    script.leave(2, Function::Malloc, X);
    // The block is handed over: only its end is in question.
    script.system(2, 1, &[1], 8);
    script.system(3, 0, &[0], 8);
    script.access(3, Kind::Read, X + 32, 20);
    ends(&mut script);
    let call = Entry {
        kind: Kind::Call,
        size: 0,
        address: function as u64,
        word: site.into(),
    };
    script.put(2, call, true, &[X, 80]);
    script.leave(2, function, X);
    script.found()
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

/// A block that is resized may stay where it is.
#[test]
fn nobody_knows_whether_a_block_was_moved() {
    assert_eq!(used(Function::Realloc, 30, |_| {}), []);
}
