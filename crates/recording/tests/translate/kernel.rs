//! What the kernel reads and writes for a system call.

use crate::{LOCK, Script, Standing, X};
use redhanded_recording::wire::{Function, Kind};

const READ: u64 = 0;
const WRITE: u64 = 1;

/// The calls have no site.
fn is_with_the_call(script: &Script) {
    assert_eq!(script.found(), [([0, 10], Standing::Unordered)]);
}

#[test]
fn what_the_kernel_does_is_the_threads_access() {
    for (number, result) in [(READ, 8), (WRITE, 8), (READ, 1)] {
        let mut script = Script::three();
        script.write(2, X, 10);
        is_with_the_call(script.system(3, number, &[3, X, 64], result));
        let mut script = Script::three();
        script.system(3, number, &[3, X, 64], result);
        is_with_the_call(script.write(2, X, 10));
    }
    // It writes before a thread goes on that it began while another one was at its bytes.
    let mut script = Script::three();
    script.sequencer(3, Kind::SystemCall, READ, &[3, X, 64]);
    script.write(2, X, 10);
    is_with_the_call(script.sequencer(3, Kind::SystemReturn, READ, &[8]));
}

#[test]
fn the_kernel_reads_what_it_sends_and_writes_what_it_has() {
    let with = |number, length, result: i64| {
        let mut script = Script::three();
        script.write(2, X, 10);
        script.system(3, number, &[3, X - 8, length], result.cast_unsigned());
        script
    };
    is_with_the_call(&with(READ, 64, 9));
    is_with_the_call(&with(WRITE, 64, 9));
    for number in [READ, WRITE] {
        // Less, nothing, or a failure.
        for (length, result) in [(64, 8), (64, 0), (64, -4), (8, 64)] {
            with(number, length, result).is_ordered();
        }
    }
    // Two readers.
    let mut script = Script::three();
    script.access(2, Kind::Read, X, 10);
    script.system(3, WRITE, &[1, X, 8], 8).is_ordered();
}

/// Whoever receives what was sent may use the buffer again.
#[test]
fn the_kernels_access_is_ordered_as_its_thread_is() {
    let mut script = Script::three();
    script.system(2, WRITE, &[1, X, 8], 8);
    script.system(3, READ, &[0, 0x9000, 8], 8);
    script.write(3, X, 10).is_ordered();
    // The same while the sender has not returned yet.
    let mut script = Script::three();
    script.sequencer(2, Kind::SystemCall, WRITE, &[1, X, 8]);
    script.system(3, READ, &[0, 0x9000, 8], 8).write(3, X, 10);
    script.sequencer(2, Kind::SystemReturn, WRITE, &[8]);
    script.is_ordered();
    // What was written before it was sent may be filled in by the receiver's kernel.
    let mut script = Script::three();
    script.write(2, X, 10).system(2, WRITE, &[1, 0x9000, 8], 8);
    script.system(3, READ, &[0, X, 8], 8).is_ordered();
    let mut script = Script::three();
    script.call(2, Function::MutexLock, LOCK).write(2, X, 10);
    script.call(2, Function::MutexUnlock, LOCK);
    script.call(3, Function::MutexLock, LOCK);
    script.system(3, READ, &[3, X, 8], 8).is_ordered();
}

#[test]
fn what_is_not_known_is_not_claimed() {
    // Nothing says that it returned.
    let mut script = Script::three();
    script.write(2, X, 10);
    script.sequencer(3, Kind::SystemCall, WRITE, &[1, X, 8]);
    script.is_ordered();
    // A handler ran, and nobody knows what the call did before.
    let mut script = Script::three();
    script.write(2, X, 10);
    script.sequencer(3, Kind::SystemCall, WRITE, &[1, X, 8]);
    script.sequencer(3, Kind::Signal, 10, &[]);
    script.sequencer(3, Kind::SystemReturn, WRITE, &[8]);
    script.is_ordered();
    // A call of the runtime's made it.
    let mut script = Script::three();
    script.write(2, X, 10);
    script.enter(3, Function::ConditionSignal, &[LOCK]);
    script.system(3, WRITE, &[1, X, 8], 8);
    script.leave(3, Function::ConditionSignal, 0).is_ordered();
}
