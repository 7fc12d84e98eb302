//! Sequencers on small traces.

use crate::trace::{sequencers, trace};

fn races(text: &str) -> Vec<String> {
    let trace = trace(text);
    trace.words(&sequencers(&trace.merged()))
}

#[test]
fn regions_of_the_papers_first_figure() {
    // S1 and S4 and S7 are T2's, S3 and S5 are T1's, S2 and S6 are T3's. The region from S3 to S5
    // overlaps those from S1 to S4, from S4 to S7 and from S2 to S6.
    let found = races(
        "T2 write x @ before S1
         T2 call
         T2 write x @ S1 to S4
         T3 call
         T3 read x @ S2 to S6
         T1 call
         T1 write x @ S3 to S5
         T2 call
         T2 write x @ S4 to S7
         T1 call
         T1 fence
         T3 call
         T3 read x @ after S6
         T2 call
         T2 write x @ after S7",
    );
    let with_region: Vec<&String> = found
        .iter()
        .filter(|pair| pair.contains("S3 to S5"))
        .collect();
    assert_eq!(
        with_region,
        [
            "S1 to S4 | S3 to S5: unordered",
            "S2 to S6 | S3 to S5: unordered",
            "S3 to S5 | S4 to S7: unordered"
        ]
    );
    assert!(found.contains(&"S2 to S6 | S4 to S7: unordered".to_owned()));
    assert!(found.contains(&"S4 to S7 | after S6: unordered".to_owned()));
    assert!(!found.iter().any(|pair| pair.contains("S1 to S4 | after")));
}

#[test]
fn any_sequencers_between_two_accesses_are_an_order() {
    assert_eq!(races("T1 write x\nT1 fence\nT2 fence\nT2 write x"), [""; 0]);
    // One of them alone is not.
    let race = ["T1 write x | T2 write x: unordered"];
    assert_eq!(races("T1 write x\nT1 fence\nT2 write x"), race);
    assert_eq!(races("T2 fence\nT1 write x\nT1 fence\nT2 write x"), race);
}

#[test]
fn a_sequencer_is_a_moment() {
    // T2's region begins after the locked write, although T1's next one has not.
    assert_eq!(
        races("T1 update x locked @ a\nT2 fence\nT2 write x @ b"),
        [""; 0]
    );
    assert_eq!(
        races("T2 fence\nT1 update x locked @ a\nT2 write x @ b\nT2 fence"),
        ["a | b: unordered"]
    );
    assert_eq!(
        races("T2 write x @ b\nT2 fence\nT1 update x locked @ a"),
        [""; 0]
    );
}

#[test]
fn a_read_that_may_acquire_makes_a_suspect_of_what_follows_it() {
    assert_eq!(
        races("T1 write x @ a\nT2 read f doubtful\nT2 write x @ b"),
        ["a | b: suspect"]
    );
    assert_eq!(
        races("T1 write x @ a\nT2 write x @ b\nT2 read f doubtful"),
        ["a | b: unordered"]
    );
    // Either side may be the later one.
    assert_eq!(
        races("T1 read f doubtful\nT1 write x @ a\nT2 write x @ b"),
        ["a | b: suspect"]
    );
    // The first region goes on all the while: its thread may have said so to a region of the other
    // thread that is over, or to a third thread.
    let sequencer = "fence";
    assert_eq!(
        races(&format!(
            "T1 write x @ a\nT2 read f doubtful\nT2 {sequencer}\nT2 write x @ b"
        )),
        ["a | b: suspect"]
    );
    assert_eq!(
        races(&format!(
            "T1 write x @ a\nT3 read f doubtful\nT3 {sequencer}\nT2 {sequencer}\nT2 write x @ b"
        )),
        ["a | b: suspect"]
    );
}

#[test]
fn a_locked_instruction_may_have_read_from_a_third_access() {
    assert_eq!(
        races("T1 write x @ a\nT2 update x locked @ b"),
        ["a | b: unordered"]
    );
    assert_eq!(
        races("T1 write x @ a\nT1 write x doubtful @ c\nT2 update x locked @ b"),
        ["a | b: suspect", "b | c: unordered"]
    );
}

#[test]
fn memory_that_is_reused_is_a_new_variable() {
    assert_eq!(races("T1 write x\nT2 allocate x\nT2 write x"), [""; 0]);
}

#[test]
fn of_many_accesses_those_stay_that_overlap_an_open_region() {
    let sites = |name: &str| -> String {
        (0..40)
            .map(|site| format!("T1 write x @ {name}{site:02}\nT1 fence\n"))
            .collect()
    };
    let (before, after) = (sites("a"), sites("b"));
    // T2's region was open all the time: in the stream it comes before all of T1's.
    let all = races(&format!("T2 read x @ r\n{before}{after}"));
    assert_eq!(all.len(), 80);
    // A locked read meets nothing that has ended.
    let one = races(&format!(
        "{before}{after}T1 write x @ open\nT2 read x locked @ r"
    ));
    assert_eq!(one, ["open | r: unordered"]);
}

#[test]
fn memory_is_given_back_at_a_moment_of_its_own() {
    assert_eq!(
        races("T1 read x @ use\nT2 give-back x @ end"),
        ["end | use: unordered"]
    );
    assert_eq!(races("T1 read x\nT1 call\nT2 give-back x"), [""; 0]);
    assert_eq!(races("T1 read x\nT2 free x"), [""; 0]);
}
