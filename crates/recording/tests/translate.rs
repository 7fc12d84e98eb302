//! What entries mean, on hand-written ones, down to what happens-before makes of them.

use redhanded_analysis::{Atomicity, HappensBefore, Lockset, Place, Standing};
use redhanded_model::{AccessKind, Bytes, TaskId};
use redhanded_recording::translate::{Judge, Origin, Owns, Translator, parts};
use redhanded_recording::wire::{ChunkKind, Entry, Function, Kind};
use redhanded_recording::{Damage, Header, Item, Recording, Writer, steps};
use std::path::Path;

#[path = "translate/given_back.rs"]
mod given_back;
#[path = "translate/kernel.rs"]
mod kernel;
#[path = "translate/own.rs"]
mod own;
#[path = "translate/unusual.rs"]
mod unusual;

const X: u64 = 0x50_5000;
const LOCK: u64 = 0x50_6000;
const RUNTIME: u32 = 900;

/// The sites from [`RUNTIME`] on are the C library's, and odd ones may be atomic.
struct Sites;

impl Judge for Sites {
    fn is_runtime(&mut self, site: u32) -> bool {
        site >= RUNTIME
    }

    fn atomicity(&mut self, place: Place, _: AccessKind, _: Bytes) -> Option<Atomicity> {
        Some(match place.0 {
            site if site >= RUNTIME.into() || site % 2 == 1 => Atomicity::Doubtful,
            _ => Atomicity::Plain,
        })
    }

    fn tells_free(&mut self, place: Place, _: &'static str, _: Bytes) -> bool {
        parts(place).0 < RUNTIME
    }

    fn tells_kernel(&mut self, place: Place, _: &'static str, _: Bytes) -> bool {
        place.0 < RUNTIME.into()
    }
}

/// The base of a thread's own memory, and its `pthread_t`: far from what is tested, because its
/// stack begins a new life with it.
fn base(thread: u32) -> u64 {
    0x7f00_0000_0000 + 0x1000_0000 * u64::from(thread)
}

/// A step of a script that is not gone on with.
fn done(_: &mut Script) {}

/// What threads do, one after the other, each step with the next number.
#[derive(Default)]
struct Script {
    threads: Vec<(u32, Vec<Item>)>,
    number: u64,
}

impl Script {
    fn put(&mut self, thread: u32, entry: Entry, is_sequencer: bool, values: &[u64]) {
        self.number += 1;
        let number = is_sequencer.then_some(self.number);
        let item = Item::new(entry, number, values);
        match self.threads.iter_mut().find(|(id, _)| *id == thread) {
            Some((_, items)) => items.push(item),
            None => self.threads.push((thread, vec![item])),
        }
    }

    fn sequencer(&mut self, thread: u32, kind: Kind, address: u64, values: &[u64]) -> &mut Self {
        let entry = Entry {
            kind,
            size: 0,
            address,
            word: 0,
        };
        self.put(thread, entry, true, values);
        self
    }

    fn start(&mut self, thread: u32) -> &mut Self {
        let base = base(thread);
        self.sequencer(thread, Kind::Start, 0, &[base, base - 0x100]);
        self
    }

    fn exit(&mut self, thread: u32) -> &mut Self {
        self.sequencer(thread, Kind::Exit, 0, &[]);
        self
    }

    fn access(&mut self, thread: u32, kind: Kind, address: u64, site: u32) -> &mut Self {
        let entry = Entry {
            kind,
            size: 8,
            address,
            word: site.into(),
        };
        self.put(thread, entry, kind == Kind::Atomic, &[]);
        self
    }

    fn write(&mut self, thread: u32, address: u64, site: u32) -> &mut Self {
        self.access(thread, Kind::Write, address, site)
    }

    fn enter(&mut self, thread: u32, function: Function, arguments: &[u64]) -> &mut Self {
        self.sequencer(thread, Kind::Call, function as u64, arguments);
        self
    }

    fn leave(&mut self, thread: u32, function: Function, result: u64) -> &mut Self {
        self.sequencer(thread, Kind::Return, function as u64, &[result]);
        self
    }

    fn call(&mut self, thread: u32, function: Function, argument: u64) -> &mut Self {
        self.enter(thread, function, &[argument, LOCK]);
        self.leave(thread, function, 0)
    }

    fn system(&mut self, thread: u32, number: u64, arguments: &[u64], result: u64) -> &mut Self {
        self.sequencer(thread, Kind::SystemCall, number, arguments);
        self.sequencer(thread, Kind::SystemReturn, number, &[result]);
        self
    }

    /// Thread 1 begins and creates 2 and 3, which begin.
    fn three() -> Self {
        let mut script = Self::default();
        script.start(1);
        script.system(1, 435, &[], 2).start(2);
        script.system(1, 435, &[], 3).start(3);
        script
    }

    fn recording(&self) -> Recording {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for (thread, items) in &self.threads {
            let entries = items.iter().flat_map(Item::to_entries);
            let bytes: Vec<u8> = entries.flat_map(Entry::pack).collect();
            writer
                .append(1, ChunkKind::Entries, *thread, &bytes)
                .unwrap();
        }
        writer.append(1, ChunkKind::Goodbye, 0, b"").unwrap();
        let bytes = writer
            .finish(&redhanded_recording::Ending::default())
            .unwrap();
        Recording::read(Box::new(bytes), Path::new("script")).unwrap()
    }

    /// The standing of each pair that happens-before finds, by its sites.
    fn found(&self) -> Vec<([u64; 2], Standing)> {
        self.found_with(&Owns::default())
    }

    /// The same, if somebody says what these functions do.
    fn found_with(&self, owns: &Owns) -> Vec<([u64; 2], Standing)> {
        let recording = self.recording();
        let process = &recording.processes()[0];
        let mut translator = Translator::new(process).with(owns);
        let mut analysis = HappensBefore::default();
        let mut events = Vec::new();
        for step in steps(&recording, process, &Damage::default()) {
            translator.step(&step, &mut Sites, &mut events);
            events.drain(..).for_each(|event| analysis.push(&event));
        }
        let found = analysis.finish();
        let told = found
            .iter()
            .map(|f| (f.places.map(|place| place.0), f.standing()));
        told.collect()
    }

    #[track_caller]
    fn is_ordered(&self) {
        assert_eq!(self.found(), []);
    }

    #[track_caller]
    fn is_unordered(&self) {
        assert_eq!(self.found(), [([10, 20], Standing::Unordered)]);
    }
}

/// Thread 2 writes, then does something; then thread 3 does something, and writes.
fn handed_over(gives: impl Fn(&mut Script), takes: impl Fn(&mut Script)) -> Script {
    let mut script = Script::three();
    script.write(2, X, 10);
    gives(&mut script);
    takes(&mut script);
    script.write(3, X, 20);
    script
}

#[test]
fn nothing_orders_two_threads_by_itself() {
    handed_over(|_| {}, |_| {}).is_unordered();
    fn sleeps(script: &mut Script, thread: u32) -> &mut Script {
        script.system(thread, 230, &[], 0)
    }
    handed_over(|s| done(sleeps(s, 2)), |s| done(sleeps(s, 3))).is_unordered();
}

#[test]
fn what_is_released_and_acquired_is_ordered() {
    use Function as F;
    for (gives, takes) in [
        (F::MutexUnlock, F::MutexLock),
        (F::MutexUnlock, F::MutexTryLock),
        (F::ReadWriteUnlock, F::ReadLock),
        (F::ReadWriteUnlock, F::WriteLock),
        (F::SpinUnlock, F::SpinLock),
        (F::SemaphorePost, F::SemaphoreWait),
        (F::ConditionSignal, F::ConditionWait),
        (F::Once, F::Once),
        (F::GuardRelease, F::GuardAcquire),
        (F::BarrierWait, F::BarrierWait),
        (F::GompBarrier, F::GompBarrier),
        (F::OmpUnsetLock, F::OmpSetLock),
        (F::GompCriticalEnd, F::GompCriticalStart),
    ] {
        let gives_it = |script: &mut Script| {
            // A writer's lock: readers are ordered with writers alone.
            if gives == F::ReadWriteUnlock {
                script.call(2, F::WriteLock, LOCK);
            }
            script.call(2, gives, LOCK);
        };
        if gives == F::BarrierWait {
            let mut script = Script::three();
            script.write(2, X, 10);
            script.enter(2, gives, &[LOCK]).enter(3, gives, &[LOCK]);
            script.leave(2, gives, 0).leave(3, gives, u64::MAX);
            script.write(3, X, 20).is_ordered();
            continue;
        }
        handed_over(gives_it, |s| done(s.call(3, takes, LOCK))).is_ordered();
        // Another lock orders nothing.
        if !matches!(gives, F::GompBarrier | F::GompCriticalEnd) {
            handed_over(gives_it, |s| done(s.call(3, takes, LOCK + 64))).is_unordered();
        }
    }
}

#[test]
fn a_lock_that_was_not_taken_orders_nothing() {
    let failed = |script: &mut Script| {
        script.enter(3, Function::MutexTryLock, &[LOCK]);
        script.leave(3, Function::MutexTryLock, 16);
    };
    let unlocks = |script: &mut Script| done(script.call(2, Function::MutexUnlock, LOCK));
    handed_over(unlocks, failed).is_unordered();
}

#[test]
fn waiting_for_a_condition_gives_the_mutex_back_and_takes_it_again() {
    let mut script = Script::three();
    script.call(2, Function::MutexLock, LOCK).write(2, X, 10);
    script.enter(2, Function::ConditionWait, &[0x7000, LOCK]);
    script.call(3, Function::MutexLock, LOCK).write(3, X, 20);
    script.call(3, Function::MutexUnlock, LOCK);
    script.leave(2, Function::ConditionWait, 0).write(2, X, 30);
    script.is_ordered();
}

#[test]
fn threads_are_ordered_with_their_creator() {
    let mut script = Script::default();
    script.start(1).write(1, X, 10);
    // The child begins before its creator has returned.
    script.sequencer(1, Kind::SystemCall, 435, &[]);
    script.start(2).write(2, X, 20);
    script.sequencer(1, Kind::SystemReturn, 435, &[2]);
    script.exit(2);
    script.enter(1, Function::ThreadJoin, &[base(2)]);
    script.leave(1, Function::ThreadJoin, 0).write(1, X, 30);
    script.is_ordered();

    let mut script = Script::three();
    script.write(2, X, 10).exit(2);
    // Another thread is waited for.
    script.exit(3).enter(1, Function::ThreadJoin, &[base(3)]);
    script.leave(1, Function::ThreadJoin, 0).write(1, X, 20);
    script.is_unordered();
}

#[test]
fn what_is_sent_comes_before_what_is_received() {
    let wakes = |script: &mut Script| done(script.system(2, 202, &[LOCK, 129, 1], 1));
    let waits = |at: u64| move |s: &mut Script| done(s.system(3, 202, &[at, 128, 0], 0));
    handed_over(wakes, waits(LOCK)).is_ordered();
    handed_over(wakes, waits(LOCK + 8)).is_unordered();
    let sends = |script: &mut Script| done(script.system(2, 1, &[5, 0, 1], 1));
    handed_over(sends, |s| done(s.system(3, 0, &[4, 0, 1], 1))).is_ordered();
    handed_over(sends, |s| done(s.system(3, 1, &[5, 0, 1], 1))).is_unordered();
    let signals = |script: &mut Script| done(script.system(2, 234, &[1, 3, 10], 0));
    handed_over(signals, |s| done(s.sequencer(3, Kind::Signal, 10, &[]))).is_ordered();
    // A call that nobody knows may do anything.
    fn unknown(script: &mut Script, thread: u32) -> &mut Script {
        script.system(thread, 999, &[], 0)
    }
    handed_over(|s| done(unknown(s, 2)), |s| done(unknown(s, 3))).is_ordered();
}

#[test]
fn memory_begins_a_new_life() {
    let frees = |script: &mut Script| done(script.call(2, Function::Free, X));
    let allocates = |script: &mut Script| {
        script.enter(3, Function::Malloc, &[8]);
        script.leave(3, Function::Malloc, X);
    };
    handed_over(frees, allocates).is_ordered();
    handed_over(|_| {}, |s| done(s.system(3, 9, &[0, 0x1000], X))).is_ordered();
    // The second thread goes on after that.
    let unmaps = |s: &mut Script| done(s.system(2, 11, &[0x50_5000, 0x1000], 0));
    handed_over(unmaps, |s| done(s.system(3, 230, &[], 0))).is_ordered();
}

/// Within a call of the runtime, the call says what happens; but the program's own functions
/// may run in it, and the guard of a once is read without a call.
#[test]
fn the_inside_of_a_call_is_left_out() {
    let mut script = Script::three();
    script.enter(2, Function::MutexLock, &[LOCK]);
    script.write(2, X, RUNTIME).leave(2, Function::MutexLock, 0);
    script.write(3, X, 20);
    script.is_ordered();

    let mut script = Script::three();
    script.enter(2, Function::GompParallel, &[1, 2, 3]);
    script.write(2, X, 10).write(3, X, 20);
    script.is_unordered();

    let mut script = Script::three();
    script.enter(2, Function::Malloc, &[8]).write(2, X, 10);
    script.access(2, Kind::Atomic, LOCK, 12);
    script.leave(2, Function::Malloc, 0x9000).write(3, X, 20);
    script.is_ordered();
}

#[test]
fn atomic_instructions_order_and_doubtful_moves_may() {
    fn touches(script: &mut Script, thread: u32) -> &mut Script {
        script.access(thread, Kind::Atomic, LOCK, 30)
    }
    handed_over(|s| done(touches(s, 2)), |s| done(touches(s, 3))).is_ordered();
    let reads = |s: &mut Script| done(s.access(3, Kind::Read, LOCK, 31));
    let script = handed_over(|s| done(s.write(2, LOCK, 33)), reads);
    assert!(script.found().contains(&([10, 20], Standing::Suspect)));
}

/// Each thread's own memory has the same offsets.
#[test]
fn thread_local_memory_orders_nothing() {
    for offset in [0x1c, 0xffff_ffff_fff0] {
        handed_over(
            |s| done(s.access(2, Kind::Atomic, offset, 30).write(2, offset, 32)),
            |s| done(s.access(3, Kind::Atomic, offset, 30).write(3, offset, 34)),
        )
        .is_unordered();
    }
}

#[test]
fn a_block_has_a_size_and_somebody_who_asked_for_it() {
    let mut script = Script::three();
    script.enter(2, Function::Calloc, &[3, 8]);
    script.leave(2, Function::Calloc, X);
    let recording = script.recording();
    let process = &recording.processes()[0];
    let mut translator = Translator::new(process);
    for step in steps(&recording, process, &Damage::default()) {
        translator.step(&step, &mut Sites, &mut Vec::new());
    }
    let block = translator.allocation(X + 23).unwrap();
    assert_eq!(block.bytes.len, 24);
    let by = TaskId(1);
    assert!(matches!(block.origin, Origin::Heap { by: who, .. } if who == by));
    assert_eq!(
        translator.tasks()[1].creator.map(|(task, _)| task),
        Some(TaskId(0))
    );
}

#[test]
fn locks_are_held_until_they_are_given_back() {
    let mut script = Script::three();
    for (thread, site) in [(2, 10), (3, 20), (2, 30)] {
        script
            .call(thread, Function::MutexLock, LOCK)
            .write(thread, X, site);
        script.call(thread, Function::MutexUnlock, LOCK);
    }
    let suspicions = |script: &Script| {
        let recording = script.recording();
        let process = &recording.processes()[0];
        let mut translator = Translator::new(process);
        let mut analysis = Lockset::default();
        let mut events = Vec::new();
        for step in steps(&recording, process, &Damage::default()) {
            translator.step(&step, &mut Sites, &mut events);
            events.drain(..).for_each(|event| analysis.push(&event));
        }
        analysis.finish().len()
    };
    assert_eq!(suspicions(&script), 0);
    script.write(3, X, 40);
    assert!(suspicions(&script) > 0);
}

/// What a thread released later is not known if it ends too early: others must not be accused.
#[test]
fn the_stream_ends_with_the_first_thread_that_is_cut_short() {
    let script = handed_over(
        |s| done(s.call(2, Function::MutexUnlock, LOCK)),
        |s| {
            s.call(3, Function::MutexLock, LOCK);
        },
    );
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for (thread, items) in &script.threads {
        // The second thread lacks what it did after its access.
        let kept = if *thread == 2 { 2 } else { items.len() };
        let entries = items[..kept].iter().flat_map(Item::to_entries);
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
    let seen: Vec<_> = steps(&recording, process, &damage).collect();
    assert!(damage.get().is_some());
    assert!(!seen.iter().any(|step| step.item.entry.site() == 20));
}

/// A stream may claim threads without end. The last that is told apart is the last step that counts.
#[test]
fn more_threads_than_can_be_told_apart_end_the_translation() {
    let full = |starts: u64| {
        let mut script = Script::default();
        for number in 0..starts {
            script.sequencer(1, Kind::Start, 0, &[number, 0]);
        }
        let recording = script.recording();
        let process = &recording.processes()[0];
        let mut translator = Translator::new(process);
        let mut events = Vec::new();
        for step in steps(&recording, process, &Damage::default()) {
            translator.step(&step, &mut Sites, &mut events);
            events.clear();
        }
        (
            translator.is_full(),
            translator.tasks().len(),
            translator.tasks()[0].base,
        )
    };
    assert_eq!(full(8192), (false, 8192, 0));
    assert_eq!(
        full(8193),
        (true, 8192, 0),
        "the first keeps what is known of it"
    );
}

/// The waiters of one futex are moved to a second, and those of that one to a third.
#[test]
fn futexes_whose_waiters_were_moved_are_one() {
    const FUTEX: u64 = 202;
    const WAIT: u64 = 0;
    const WAKE: u64 = 1;
    const MOVE: u64 = 3;
    let futex = |script: &mut Script, thread, at, what, to| {
        script.system(thread, FUTEX, &[at, what, 1, 1, to], 0);
    };
    for (woken, is_ordered) in [(0x700, true), (0x800, true), (0x900, false)] {
        let mut script = Script::three();
        futex(&mut script, 1, 0x600, MOVE, 0x700);
        futex(&mut script, 1, 0x700, MOVE, 0x800);
        script.write(2, X, 10);
        futex(&mut script, 2, 0x600, WAKE, 0);
        futex(&mut script, 3, woken, WAIT, 0);
        script.write(3, X, 20);
        match is_ordered {
            true => script.is_ordered(),
            false => script.is_unordered(),
        }
    }
}

/// What was released to a futex reaches those who wait for it after its waiters were moved, too.
#[test]
fn what_was_released_to_a_futex_is_kept_when_waiters_are_moved_to_it() {
    const FUTEX: u64 = 202;
    for (woken, is_ordered) in [(0x600, true), (0x700, true), (0x900, false)] {
        let mut script = Script::three();
        script.write(2, X, 10);
        script.system(2, FUTEX, &[woken, 1, 1], 0);
        script.system(1, FUTEX, &[0x600, 3, 1, 1, 0x700], 0);
        script.system(3, FUTEX, &[0x700, 0, 1], 0);
        script.write(3, X, 20);
        match is_ordered {
            true => script.is_ordered(),
            false => script.is_unordered(),
        }
    }
}
