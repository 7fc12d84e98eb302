//! Happens-before on small traces: what orders, what does not, and what only may.

use crate::trace::{happens_before, trace};
use redhanded_analysis::{Event, Standing};

fn races(text: &str) -> Vec<String> {
    let trace = trace(text);
    trace.words(&happens_before(&trace.merged()))
}

fn none(text: &str) {
    assert_eq!(races(text), [""; 0]);
}

/// A write by T1 before the lines, and one by T2 after them.
fn between(lines: &str) -> Vec<String> {
    races(&format!("T1 write x\n{lines}\nT2 write x"))
}

const RACE: [&str; 1] = ["T1 write x | T2 write x: unordered"];
const SUSPECT: [&str; 1] = ["T1 write x | T2 write x: suspect"];

#[test]
fn each_kind_of_synchronisation_orders_in_its_direction_only() {
    for (order, reverse) in [
        (
            "T1 lock m\nT1 unlock m\nT2 lock m",
            "T2 lock m\nT2 unlock m\nT1 lock m",
        ),
        ("T1 up s\nT2 down s", "T2 up s\nT1 down s"),
        ("T1 send p\nT2 receive p", "T2 send p\nT1 receive p"),
        (
            "T1 update f locked\nT2 update f locked",
            "T2 update f locked\nT1 update f locked",
        ),
        (
            "T1 write f locked\nT2 read f locked",
            "T1 read f locked\nT2 read f locked",
        ),
        ("T1 exit\nT2 join T1", "T1 fence\nT2 call"),
        (
            "T1 level 2\nT1 level 0\nT2 level 1",
            "T2 level 2\nT2 level 0\nT1 level 2",
        ),
        (
            "T1 arrive b\nT2 arrive b\nT1 depart b\nT2 depart b",
            "T1 arrive b\nT1 depart b\nT2 arrive b\nT2 depart b",
        ),
    ] {
        assert_eq!(between(order), [""; 0], "{order}");
        assert_eq!(between(reverse), RACE, "{reverse}");
    }
}

#[test]
fn different_objects_do_not_order() {
    assert_eq!(between("T1 unlock m\nT2 lock n"), RACE);
    // A lock and a channel at one address are two objects.
    assert_eq!(between("T1 unlock m\nT2 receive m"), RACE);
    assert_eq!(
        between("T1 update f[0..4] locked\nT2 update f[4..8] locked"),
        RACE
    );
    assert_eq!(
        between("T1 update f[0..1] locked\nT2 update f[0..4] locked"),
        [""; 0]
    );
    assert_eq!(between("T1 update f relaxed\nT2 update f relaxed"), RACE);
}

#[test]
fn who_shares_a_lock_comes_after_writers_only() {
    assert_eq!(between("T1 lock m\nT1 unlock m\nT2 share m"), [""; 0]);
    assert_eq!(between("T1 share m\nT1 unlock m\nT2 lock m"), [""; 0]);
    assert_eq!(between("T1 share m\nT1 unlock m\nT2 share m"), RACE);
}

#[test]
fn a_child_comes_after_its_creation_and_before_its_join() {
    none(
        "T1 write x
         T1 create T2
         T2 start
         T2 write x
         T2 exit
         T1 join T2
         T1 write x",
    );
    let found = races(
        "T1 create T2
         T1 write x
         T2 start
         T2 write x
         T2 exit
         T1 write x @ later",
    );
    let expected = [
        "T1 write x | T2 write x: unordered",
        "T2 write x | later: unordered",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_thread_of_unknown_origin_comes_after_all_before_it() {
    let mut trace = trace("T1 write x\nT2 fence\nT2 write x\nT1 write x @ later");
    trace.events.retain(|event| {
        event.thread.0 != 2 || event.access().is_some() || {
            matches!(event.what, redhanded_analysis::What::Fence)
        }
    });
    let is_origin = |event: &Event| matches!(event.what, redhanded_analysis::What::Create { .. });
    trace.events.retain(|event| !is_origin(event));
    let events = trace.events.clone();
    let found = trace.words(&happens_before(&events));
    // The last access came where it must not, so that nothing is claimed about it.
    assert_eq!(found, ["T2 write x | later: suspect"]);
}

#[test]
fn a_round_of_a_barrier_orders_its_own_threads_only() {
    // T1 comes to the second round before T2 has left the first.
    let found = races(
        "T1 arrive b
         T2 arrive b
         T1 depart b
         T1 write x
         T1 arrive b
         T2 depart b
         T2 write x
         T2 arrive b
         T2 depart b
         T2 write x @ after",
    );
    assert_eq!(found, ["T1 write x | T2 write x: unordered"]);
}

#[test]
fn all_pairs_of_sites_are_found_not_only_the_first() {
    let found = races(
        "T1 write x @ a
         T1 write x @ b
         T2 read x @ c
         T2 write x @ d
         T3 read x @ e",
    );
    let expected = [
        "a | c", "a | d", "a | e", "b | c", "b | d", "b | e", "d | e",
    ];
    assert_eq!(found, expected.map(|pair| format!("{pair}: unordered")));
}

#[test]
fn bytes_that_are_not_shared_do_not_race() {
    none("T1 write x[0..4]\nT2 write x[4..8]");
    none("T1 write x[0..1]\nT2 write x[1..2]");
    assert_eq!(
        races("T1 write x[0..8] @ a\nT2 write x[7..9] @ b"),
        ["a | b: unordered"]
    );
}

#[test]
fn an_access_over_two_words_is_one_instance() {
    let trace = trace("T1 write x[0..16] @ a\nT2 write x[4..12] @ b");
    let found = happens_before(&trace.merged());
    assert_eq!((found.len(), found[0].unordered), (1, 1));
    assert_eq!(
        found[0].instances[0].sides.map(|side| side.thread.0),
        [1, 2]
    );
}

#[test]
fn reads_and_atomics_do_not_race_among_themselves() {
    none("T1 read x\nT2 read x");
    none("T1 update x locked\nT2 update x locked");
    none("T1 write x relaxed\nT2 write x relaxed");
    assert_eq!(
        races("T1 update x locked @ a\nT2 update x @ b"),
        ["a | b: unordered"]
    );
}

#[test]
fn memory_that_is_freed_and_allocated_is_a_new_variable() {
    none(
        "T1 write x
         T1 free x
         T2 allocate x
         T2 write x",
    );
    assert_eq!(
        races("T1 write x @ a\nT1 free x[0..4]\nT2 allocate x[0..4]\nT2 write x[4..8] @ b"),
        ["a | b: unordered"]
    );
}

/// It may be the beginning of the next block, with a lock there that is in use.
#[test]
fn behind_a_block_accesses_are_forgotten_and_order_is_not() {
    none("T1 write x @ a\nT2 slack x\nT2 write x @ b");
    none(
        "T1 write x
         T1 update lock locked
         T3 slack lock
         T2 update lock locked
         T2 write x",
    );
    assert_eq!(
        races(
            "T1 write x @ a
             T1 update lock locked
             T3 free lock
             T2 update lock locked
             T2 write x @ b"
        ),
        ["a | b: unordered"]
    );
}

#[test]
fn giving_memory_back_races_with_what_others_still_do_to_it() {
    let given_back = |between: &str| {
        races(&format!(
            "T1 read x[0..4] @ use\n{between}\nT2 give-back x @ end"
        ))
    };
    assert_eq!(given_back(""), ["end | use: unordered"]);
    assert_eq!(given_back("T1 up s\nT2 down s"), [""; 0]);
    assert_eq!(
        given_back("T1 write f doubtful @ set\nT2 read f doubtful @ seen"),
        ["end | use: suspect", "seen | set: suspect"]
    );
    // Atomic accesses use it as well, and whoever frees may use it.
    assert_eq!(
        races("T1 read x atomic @ use\nT2 write x @ own\nT2 give-back x @ end"),
        ["end | use: unordered", "own | use: unordered"]
    );
    // What comes later is to another variable, or to none: an allocator that is not known may
    // have handed it out again.
    none("T1 call\nT2 give-back x\nT1 call\nT1 write x");
    none("T1 call\nT2 give-back x\nT1 give-back x");
}

/// The one message that a flag passes, with both sides marked.
fn message(mark: &str, between: &str) -> Vec<String> {
    races(&format!(
        "T1 write x
         T1 write flag {mark} @ set
         {between}
         T2 read flag {mark} @ seen
         T2 write x"
    ))
}

#[test]
fn a_flag_that_may_be_atomic_makes_a_suspect() {
    assert_eq!(
        message("doubtful", ""),
        ["T1 write x | T2 write x: suspect", "seen | set: suspect"]
    );
    let expected = [
        "T1 write x | T2 write x: unordered",
        "seen | set: unordered",
    ];
    assert_eq!(message("", ""), expected);
}

#[test]
fn an_atomic_flag_orders_once_it_is_known_to_be_written_before() {
    // The regions overlap: whether the write was seen, nothing shows.
    assert_eq!(message("atomic", ""), SUSPECT);
    assert_eq!(message("atomic", "T1 fence"), SUSPECT);
    assert_eq!(message("atomic", "T1 fence\nT2 fence"), [""; 0]);
    // A relaxed one orders nothing by the language.
    assert_eq!(message("relaxed", "T1 fence\nT2 fence"), RACE);
}

#[test]
fn a_flag_counts_whatever_the_order_of_the_stream() {
    // T2's region comes first in the stream and ends after T1's write.
    let found = races(
        "T2 fence
         T2 read flag doubtful @ seen
         T2 write x
         T1 fence
         T1 write x
         T1 write flag doubtful @ set
         T1 fence
         T2 fence",
    );
    assert_eq!(
        found,
        ["T1 write x | T2 write x: suspect", "seen | set: suspect"]
    );
    // Here it has ended before T1's region begins.
    let found = races(
        "T2 fence
         T2 read flag doubtful @ seen
         T2 write x
         T2 fence
         T1 fence
         T1 write x
         T1 write flag doubtful @ set",
    );
    assert_eq!(
        found,
        [
            "T1 write x | T2 write x: unordered",
            "seen | set: unordered"
        ]
    );
}

#[test]
fn a_chain_of_doubtful_moves_through_a_third_thread_counts() {
    let found = races(
        "T1 write x
         T1 write f doubtful @ 1
         T3 read f doubtful @ 2
         T3 write g doubtful @ 3
         T2 read g doubtful @ 4
         T2 write x",
    );
    assert!(found.contains(&SUSPECT[0].to_owned()), "{found:?}");
    // The first link must have come before the second: T3 read f before T1 wrote it.
    let found = races(
        "T3 read f doubtful @ 2
         T3 write g doubtful @ 3
         T3 fence
         T1 fence
         T1 write x
         T1 write f doubtful @ 1
         T2 read g doubtful @ 4
         T2 write x",
    );
    assert!(found.contains(&RACE[0].to_owned()), "{found:?}");
}

#[test]
fn a_plain_store_may_release_what_a_locked_instruction_takes() {
    // A hand-made spin lock.
    let found = races(
        "T1 update l locked
         T1 write x
         T1 write l doubtful @ release
         T2 update l locked
         T2 write x",
    );
    assert!(found.contains(&SUSPECT[0].to_owned()), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_pair_that_may_be_atomic_itself_says_so() {
    let trace = trace("T1 write x doubtful\nT2 write x");
    let found = happens_before(&trace.merged());
    assert!(found[0].possibly_atomic());
    assert_eq!(found[0].standing(), Standing::Unordered);
}

#[test]
fn a_stream_that_breaks_its_rules_proves_nothing() {
    let trace = trace("T1 fence\nT2 fence\nT1 write x\nT2 write x");
    assert_eq!(trace.words(&happens_before(&trace.merged())), RACE);
    // T1's access does not follow its own sequencer.
    assert_eq!(trace.words(&happens_before(&trace.events)), SUSPECT);
}

#[test]
fn a_loop_counts_regions_and_keeps_the_first_instances() {
    let mut text = String::from("T1 write x @ a\n");
    for _ in 0..100 {
        text.push_str("T2 write x @ b\nT2 write x @ b\nT2 fence\n");
    }
    let found = happens_before(&trace(&text).merged());
    assert_eq!((found[0].unordered, found[0].instances.len()), (100, 16));
}

/// T1 writes a word at many sites, before and after the lines.
fn many_sites(lines: &str) -> Vec<String> {
    let sites = |name: &str, count: usize| -> String {
        (0..count)
            .map(|site| format!("T1 write x @ {name}{site:02}\n"))
            .collect()
    };
    let (before, after) = (sites("a", 30), sites("b", 40));
    races(&format!("{before}{lines}\n{after}T2 read x @ r"))
}

#[test]
fn of_many_accesses_only_those_that_all_know_of_are_dropped() {
    let pairs = |name: &str, count: usize| -> Vec<String> {
        let pair = |site| format!("{name}{site:02} | r: unordered");
        (0..count).map(pair).collect()
    };
    let (before, after) = (pairs("a", 30), pairs("b", 40));
    let learn = "T1 unlock m\nT2 lock m";
    assert_eq!(many_sites(&format!("{learn}\nT3 lock m")), after);
    // T3 does not know of the first ones, but T2 does.
    assert_eq!(many_sites(&format!("T3 fence\n{learn}")), after);
    let all = [before, after].concat();
    assert_eq!(many_sites("T1 unlock m\nT3 lock m"), all);
}
