//! What orders threads in less usual ways, and what only seems to.

use crate::{LOCK, RUNTIME, Script, Sites, X, base, done, handed_over};
use redhanded_recording::translate::Translator;
use redhanded_recording::wire::{ChunkKind, Entry, Function, Kind};
use redhanded_recording::{Damage, Header, Item, Recording, Writer, steps};
use std::path::Path;

/// The block that `posix_memalign` gives is in memory, and told as a second value.
#[test]
fn blocks_of_all_allocators_are_known() {
    use Function as F;
    for (function, arguments, values) in [
        (F::PosixMemalign, [LOCK, 128, 64], [0, X]),
        (F::Memalign, [128, 64, 0], [X, 0]),
        (F::Pvalloc, [1, 0, 0], [X, 0]),
    ] {
        let allocates = |script: &mut Script, thread: u32| {
            script.enter(thread, function, &arguments);
            done(script.sequencer(thread, Kind::Return, function as u64, &values));
        };
        let mut script = Script::three();
        allocates(&mut script, 2);
        script.write(2, X, 10).call(2, F::Free, X);
        allocates(&mut script, 3);
        script.write(3, X, 20).is_ordered();
    }
    // A page at least, of which the last word is not the next block's.
    let mut script = Script::three();
    script.write(2, X + 4088, 10).enter(3, F::Pvalloc, &[1]);
    script
        .leave(3, F::Pvalloc, X)
        .write(3, X + 4088, 20)
        .is_ordered();
}

#[test]
fn locks_with_a_deadline_by_a_clock_are_locks() {
    use Function as F;
    for takes in [F::ReadClockLock, F::WriteClockLock] {
        let gives = |script: &mut Script| {
            script.call(2, F::WriteClockLock, LOCK);
            script.call(2, F::ReadWriteUnlock, LOCK);
        };
        handed_over(gives, |s| done(s.call(3, takes, LOCK))).is_ordered();
        handed_over(gives, |s| done(s.call(3, takes, LOCK + 64))).is_unordered();
    }
}

/// Calls that nest too deeply have no meaning any more, and nothing is claimed then.
#[test]
fn too_many_open_calls_are_counted_as_lost() {
    let lost = |depth: usize| {
        let mut script = Script::three();
        for _ in 0..depth {
            script.enter(2, Function::Once, &[LOCK]);
        }
        let recording = script.recording();
        let process = &recording.processes()[0];
        let mut translator = Translator::new(process);
        for step in steps(&recording, process, &Damage::default()) {
            translator.step(&step, &mut Sites, &mut Vec::new());
        }
        translator.lost()
    };
    assert_eq!((lost(256), lost(258)), (0, 2));
}

/// The parent goes on when the child has become another program, and nothing else says so.
#[test]
fn the_child_of_a_vfork_comes_before_its_parent() {
    const VFORK: u64 = 58;
    const CLONE: u64 = 56;
    const CLONE3: u64 = 435;
    let waits = 0x4100;
    for (number, arguments) in [
        (VFORK, [0; 4]),
        (CLONE, [waits, 0, 0, 0]),
        (CLONE3, [0, 88, waits, 0]),
    ] {
        let mut script = Script::default();
        script.start(1);
        script.sequencer(1, Kind::SystemCall, number, &arguments);
        script.start(2).write(2, X, 10);
        script.sequencer(2, Kind::SystemCall, 59, &[]);
        script.sequencer(1, Kind::SystemReturn, number, &[2]);
        script.write(1, X, 20).is_ordered();
    }
    let mut script = Script::default();
    script
        .start(1)
        .sequencer(1, Kind::SystemCall, CLONE, &[0x100]);
    script.start(2).write(2, X, 10);
    script.sequencer(1, Kind::SystemReturn, CLONE, &[2]);
    script.write(1, X, 20).is_unordered();
}

/// `posix_spawn` makes a child that says it has its parent's thread-local memory. Whoever joins the
/// parent later waits for the parent.
#[test]
fn the_child_of_a_vfork_is_not_joined_in_place_of_its_parent() {
    let script = |joined: u32| {
        let mut script = Script::three();
        script.sequencer(2, Kind::SystemCall, 58, &[]);
        script.sequencer(4, Kind::Start, 0, &[base(2), base(4) - 0x100]);
        script.sequencer(4, Kind::SystemCall, 59, &[]);
        script.sequencer(2, Kind::SystemReturn, 58, &[4]);
        script.write(2, X, 10).exit(2).exit(3);
        script.call(1, Function::ThreadJoin, base(joined));
        script.write(1, X, 20);
        script
    };
    script(2).is_ordered();
    script(3).is_unordered();
}

/// A forked child is no thread of its parent, and takes none of the places that there are for them.
#[test]
fn a_forked_child_is_no_thread() {
    const FORK: u64 = 57;
    const CLONE: u64 = 56;
    const COPY: u64 = 0x120_0011;
    for (number, flags, expected) in [(FORK, 0, 1), (CLONE, COPY, 1), (CLONE, COPY | 0x100, 2)] {
        let mut script = Script::default();
        script.start(1).system(1, number, &[flags], 77);
        let recording = script.recording();
        let process = &recording.processes()[0];
        let mut translator = Translator::new(process);
        for step in steps(&recording, process, &Damage::default()) {
            translator.step(&step, &mut Sites, &mut Vec::new());
        }
        assert_eq!(translator.tasks().len(), expected, "{number}, {flags:#x}");
    }
}

#[test]
fn a_robust_mutex_is_given_back_by_the_end_of_its_owner() {
    let dies = |script: &mut Script| done(script.exit(2));
    let takes = |result: u64| {
        move |script: &mut Script| {
            script.enter(3, Function::MutexLock, &[LOCK]);
            done(script.leave(3, Function::MutexLock, result));
        }
    };
    handed_over(dies, takes(130)).is_ordered();
    handed_over(dies, takes(0)).is_unordered();
}

/// A cancelled thread has the mutex again when its cleanup handlers run.
#[test]
fn a_wait_that_is_cancelled_has_taken_the_mutex_again() {
    let cancelled = |mutex: u64| {
        let mut script = Script::three();
        script.call(2, Function::MutexLock, LOCK);
        script.enter(2, Function::ConditionWait, &[0x7000, LOCK]);
        script.call(3, Function::MutexLock, mutex).write(3, X, 10);
        script.call(3, Function::MutexUnlock, mutex);
        // The runtime takes it, and calls the handler.
        script.access(2, Kind::Atomic, mutex, RUNTIME);
        script.write(2, X, 20);
        script
    };
    cancelled(LOCK).is_ordered();
    cancelled(LOCK + 64).is_unordered();
}

/// Which threads met at a barrier is not known if more come than it lets through.
#[test]
fn a_crowded_barrier_orders_all_who_came() {
    let script = |count: u64| {
        use Function::BarrierWait as Wait;
        let mut script = Script::three();
        script.system(1, 435, &[], 4).start(4);
        script.enter(1, Function::BarrierInit, &[LOCK, 0, count]);
        script.leave(1, Function::BarrierInit, 0);
        // The first and the last meet, and then the other two.
        script.enter(1, Wait, &[LOCK]).enter(4, Wait, &[LOCK]);
        script.enter(2, Wait, &[LOCK]).leave(4, Wait, 0);
        script.write(3, X, 10).enter(3, Wait, &[LOCK]);
        script.leave(1, Wait, 0).leave(2, Wait, 0);
        script.write(2, X, 20);
        script
    };
    script(2).is_ordered();
    script(3).is_unordered();
}

#[test]
fn signals_are_read_from_descriptors_too() {
    let signals = |script: &mut Script| done(script.system(2, 234, &[1, 3, 10], 0));
    handed_over(signals, |s| done(s.system(3, 0, &[4, 0, 128], 128))).is_ordered();
}

/// The kernel clears a word at the end of a thread, which others wait for or look at.
#[test]
fn a_thread_that_has_ended_clears_its_word() {
    let script = |flags: u64, looks: fn(&mut Script)| {
        let mut script = Script::default();
        script.start(1);
        script.sequencer(1, Kind::SystemCall, 56, &[flags, 0, 0, LOCK]);
        script.start(2).write(2, X, 10);
        script.sequencer(1, Kind::SystemReturn, 56, &[2]).exit(2);
        looks(&mut script);
        script.write(1, X, 20);
        script
    };
    let waits: fn(&mut Script) = |script| done(script.system(1, 202, &[LOCK, 0, 2], 0));
    let reads: fn(&mut Script) = |script| done(script.access(1, Kind::Atomic, LOCK, 31));
    for looks in [waits, reads] {
        script(0x20_0100, looks).is_ordered();
        script(0x100, looks).is_unordered();
    }
}

#[test]
fn a_thread_may_end_before_its_creator_knows_of_it() {
    let mut script = Script::default();
    script.start(1).sequencer(1, Kind::SystemCall, 435, &[]);
    script.start(2).exit(2);
    script.sequencer(1, Kind::SystemReturn, 435, &[2]);
    let recording = script.recording();
    let process = &recording.processes()[0];
    let mut translator = Translator::new(process);
    for step in steps(&recording, process, &Damage::default()) {
        translator.step(&step, &mut Sites, &mut Vec::new());
    }
    assert_eq!(translator.tasks().len(), 2);
}

/// OpenMP counts a loop's iterations by atomic instructions, which order nothing of the program's.
#[test]
fn the_schedule_of_a_loop_orders_nothing() {
    let asks = |function: Function| {
        move |script: &mut Script, thread: u32| {
            script.enter(thread, function, &[]);
            script.access(thread, Kind::Atomic, LOCK, RUNTIME);
            done(script.leave(thread, function, 1));
        }
    };
    let next = asks(Function::GompNonmonotonicDynamicNext);
    handed_over(|s| next(s, 2), |s| next(s, 3)).is_unordered();
    let barrier = asks(Function::GompBarrier);
    handed_over(|s| barrier(s, 2), |s| barrier(s, 3)).is_ordered();
}

/// When the recorder stops, it says how far each thread is: what waits ends nothing early.
#[test]
fn a_stopped_recording_is_whole_up_to_its_marks() {
    let script = |last: fn(&mut Script)| {
        let mut script = Script::three();
        script.write(2, X, 10).write(3, X, 20);
        for thread in 1..=3 {
            script.sequencer(thread, Kind::Fence, 0, &[]);
        }
        last(&mut script);
        script
    };
    let seen = |script: &Script| {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for (thread, items) in &script.threads {
            let entries = items.iter().flat_map(Item::to_entries);
            let bytes: Vec<u8> = entries.flat_map(Entry::pack).collect();
            writer
                .append(1, ChunkKind::Entries, *thread, &bytes)
                .unwrap();
        }
        let bytes = writer
            .finish(&redhanded_recording::Ending::default())
            .unwrap();
        let recording = Recording::read(Box::new(bytes), Path::new("script")).unwrap();
        let damage = Damage::default();
        let process = &recording.processes()[0];
        let seen = steps(&recording, process, &damage).count();
        assert!(damage.is_early_end());
        seen
    };
    let all: usize = script(|_| {})
        .threads
        .iter()
        .map(|(_, items)| items.len())
        .sum();
    assert_eq!(seen(&script(|_| {})), all);
    // What a thread did after another's mark does not count.
    let more = script(|script| done(script.write(3, X, 30).write(3, X + 8, 40)));
    assert!(seen(&more) <= all + 2);
    let later = script(|script| done(script.system(3, 230, &[], 0)));
    assert_eq!(seen(&later), all);
}
