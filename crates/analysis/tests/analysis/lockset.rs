//! Lockset beyond the lecture's examples.

use crate::trace::{Trace, trace};
use redhanded_analysis::{Annotations, Lockset, Place, State, Suspicion};
use redhanded_model::{Avma, Bytes};

fn analysed(trace: &Trace) -> Lockset {
    let mut analysis = Lockset::default();
    for event in &trace.events {
        analysis.push(event);
    }
    analysis
}

fn words(trace: &Trace, suspicions: &[Suspicion]) -> Vec<String> {
    let mut words: Vec<String> = suspicions
        .iter()
        .map(|found| {
            let [first, second] = found.sides.map(|side| trace.place(side.place));
            format!("{first} | {second}")
        })
        .collect();
    words.sort();
    words
}

fn suspects(text: &str) -> Vec<String> {
    let trace = trace(text);
    words(&trace, analysed(&trace).suspicions())
}

fn none(text: &str) {
    assert_eq!(suspects(text), [""; 0], "{text}");
}

/// The state of x after the lines.
fn state(text: &str) -> State {
    let mut trace = trace(text);
    let x = Avma(trace.address("x"));
    analysed(&trace).state(x)
}

#[test]
fn the_four_states() {
    assert_eq!(state("T1 write y"), State::Virgin);
    assert_eq!(state("T1 read x"), State::Exclusive);
    assert_eq!(state("T1 write x\nT1 read x\nT1 write x"), State::Exclusive);
    assert_eq!(state("T1 write x\nT2 read x\nT1 read x"), State::Shared);
    assert_eq!(state("T1 write x\nT2 write x"), State::SharedModified);
    assert_eq!(
        state("T1 write x\nT2 read x\nT1 write x"),
        State::SharedModified
    );
    assert_eq!(
        state("T1 write x\nT2 write x\nT2 allocate x"),
        State::Virgin
    );
    assert_eq!(state("T1 write x\nT2 write x\nT2 free x"), State::Virgin);
}

#[test]
fn initialisation_and_read_sharing_need_no_lock() {
    none("T1 write x\nT2 read x\nT3 read x\nT1 read x");
    none("T1 write x\nT1 lock m\nT1 write x\nT1 unlock m\nT2 lock m\nT2 write x");
    assert_eq!(
        suspects("T1 write x @ a\nT2 read x @ b\nT1 write x @ c"),
        ["b | c"]
    );
}

#[test]
fn two_reads_are_no_pair() {
    let locked =
        |thread: &str, what: &str| format!("{thread} lock m\n{thread} {what}\n{thread} unlock m\n");
    let text = [
        locked("T1", "write x @ a"),
        locked("T2", "read x @ b"),
        locked("T1", "write x @ c"),
        locked("T2", "read x @ d"),
        "T1 read x @ e".to_owned(),
    ]
    .concat();
    none(&text);
    assert_eq!(suspects(&format!("{text}\nT2 write x @ f")), ["e | f"]);
}

#[test]
fn a_write_needs_a_lock_that_is_held_exclusively() {
    let reader = "T2 share m\nT2 read x @ r\nT2 unlock m";
    none(&format!(
        "T1 lock m\nT1 write x\nT1 unlock m\n{reader}\nT1 lock m\nT1 write x"
    ));
    let text = format!("{reader}\nT1 share m\nT1 write x @ w");
    let trace = trace(&text);
    let found = analysed(&trace).finish();
    assert_eq!(words(&trace, &found), ["r | w"]);
    // What the reader held, it held in a mode that suffices for a read.
    let names = found[0].held.each_ref().map(|locks| locks.len());
    assert_eq!(names, [1, 0]);
}

#[test]
fn a_recursive_lock_is_held_until_the_last_release() {
    let inner = "lock m\nT1 lock m\nT1 unlock m\nT1 write x\nT1 unlock m";
    none(&format!("T2 lock m\nT2 write x\nT2 unlock m\nT1 {inner}"));
}

#[test]
fn a_suspicion_has_both_sides_and_the_sets() {
    let mut trace = trace(
        "T1 lock m
         T1 write x @ a
         T1 unlock m
         T2 lock m
         T2 write x @ b
         T2 unlock m
         T1 lock n
         T1 write x @ c",
    );
    let found = analysed(&trace).finish();
    assert_eq!(found.len(), 1);
    let names = |locks: &[redhanded_analysis::Object]| -> Vec<String> {
        locks.iter().map(|lock| trace.name(*lock)).collect()
    };
    assert_eq!(
        found[0].sides.map(|side| trace.place(side.place)),
        ["b", "c"]
    );
    assert_eq!(found[0].sides.map(|side| side.thread.0), [2, 1]);
    assert_eq!(names(&found[0].held[0]), ["m"]);
    assert_eq!(names(&found[0].held[1]), ["n"]);
    assert_eq!(names(found[0].candidates.as_ref().unwrap()), ["m"]);
    let x = trace.address("x");
    assert_eq!(found[0].sides[1].bytes, Bytes::new(Avma(x), 8));
}

#[test]
fn a_read_is_suspected_with_the_write_that_it_misses() {
    let found = suspects(
        "T1 write x @ first
         T2 lock m
         T2 write x @ written
         T2 unlock m
         T3 lock m
         T3 read x @ guarded
         T3 unlock m
         T1 read x @ unguarded",
    );
    assert_eq!(found, ["written | unguarded"]);
}

#[test]
fn bytes_of_one_word_are_variables_of_their_own() {
    none("T1 write x[0..4]\nT2 write x[4..8]\nT1 write x[0..4]");
    // A variable is split when a part of it is touched, and each part goes its own way.
    let text = "T1 write x[0..8] @ a\nT2 write x[2..3] @ b\nT1 write x[4..8] @ c";
    assert_eq!(suspects(text), ["a | b"]);
    assert_eq!(
        suspects("T1 write x[6..10] @ a\nT2 write x[8..16] @ b"),
        ["a | b"]
    );
}

#[test]
fn a_semaphore_is_a_lock_while_it_is_used_like_one() {
    let guarded = |thread: u32| format!("T{thread} down s\nT{thread} write x\nT{thread} up s\n");
    none(&[guarded(1), guarded(2), guarded(1)].concat());
    // With room for two it keeps nobody out.
    let wide = format!("T1 count s 2\n{}{}", guarded(1), guarded(2));
    assert_eq!(suspects(&wide).len(), 1);
    // Who posts without having waited signals; from then on nobody holds it.
    let signal = format!("T3 up s\n{}{}", guarded(1), guarded(2));
    assert_eq!(suspects(&signal).len(), 1);
    let late = format!("{}T2 down s\nT3 up s\nT2 write x @ late", guarded(1));
    assert_eq!(suspects(&late), ["T1 write x | late"]);
    // It becomes a new one when it is initialised.
    none(&format!(
        "T3 up s\nT3 count s 1\n{}{}",
        guarded(1),
        guarded(2)
    ));
}

#[test]
fn atomic_accesses_protect_from_each_other_only() {
    none("T1 update x locked\nT2 write x atomic\nT3 read x relaxed");
    assert_eq!(
        suspects("T1 update x locked @ a\nT2 update x locked @ b\nT1 write x @ c"),
        ["b | c"]
    );
}

#[test]
fn memory_that_is_allocated_again_is_virgin() {
    none("T1 write x\nT2 lock m\nT2 write x\nT2 unlock m\nT1 allocate x\nT1 write x");
}

#[test]
fn ignored_functions_and_variables_are_left_out() {
    let mut trace = trace("T1 write x @ a\nT2 write x @ b\nT1 write y @ c\nT2 write y @ d");
    let y = Bytes::new(Avma(trace.address("y")), 8);
    let place = |name: &str| {
        let mut events = trace.events.iter();
        events
            .find(|event| trace.place(event.place) == name)
            .unwrap()
            .place
    };
    let function = place("b")..Place(place("b").0 + 1);
    let left = |annotations: Annotations| {
        let mut analysis = Lockset::default();
        for event in trace
            .events
            .iter()
            .filter(|event| !annotations.ignores(event))
        {
            analysis.push(event);
        }
        words(&trace, analysis.suspicions())
    };
    assert_eq!(left(Annotations::default()), ["a | b", "c | d"]);
    assert_eq!(left(Annotations::new([function.clone()], [])), ["c | d"]);
    assert_eq!(left(Annotations::new([], [y])), ["a | b"]);
    // A part of a variable is not the variable.
    let half = Bytes::new(y.start, 4);
    assert_eq!(
        left(Annotations::new([function.clone()], [half])),
        ["c | d"]
    );
    let rest = Bytes::new(y.start.offset(4), 4);
    assert_eq!(left(Annotations::new([function], [rest, half])), [""; 0]);
}

/// More than 64 locks at once are not told apart: what is accessed meanwhile is left out, and what
/// comes after they were given back is not.
#[test]
fn accesses_under_very_many_locks_are_left_out() {
    let many = |number: usize, what: &str| -> String {
        let each = |lock: usize| format!("T1 {what} m{lock}\n");
        (0..number).map(each).collect()
    };
    let text = |number: usize| {
        let (take, give) = (many(number, "lock"), many(number, "unlock"));
        format!(
            "T2 write x @ a\n{take}T1 write x @ b\n{give}T2 write x @ c\nT1 write y @ d\nT2 write y @ e"
        )
    };
    assert_eq!(suspects(&text(64)).len(), 2);
    none(&text(65).replace("T1 write y @ d\n", ""));
    assert_eq!(suspects(&text(65)).len(), 1);
    let analysed = analysed(&trace(&text(65)));
    assert_eq!(analysed.left_out(), 1);
}
