//! `redhanded record`: the program behaves as it does alone, and what it did is in the file.
//!
//! These tests need the recorder, which `cargo xtask recorder` builds.

use crate::place::{Outcome, Place};
use redhanded_recording::wire::{Function, Kind};
use redhanded_recording::{Item, Process, Recording, Thread};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A place with the program; none, and the reason printed, if there is no recorder.
fn place() -> Option<Place> {
    let beside = Path::new(env!("CARGO_BIN_EXE_redhanded")).with_file_name("recorder");
    if !beside.join("libredhanded_recorder.so").exists() {
        eprintln!("skipped: this test needs `cargo xtask recorder`");
        return None;
    }
    Some(Place::with("recorded"))
}

fn record(place: &Place, words: &[&str]) -> (Outcome, Recording) {
    let outcome = place.run([&["record", "-o", "r", "--", "./recorded"], words].concat());
    let recording = Recording::open(&place.path("r")).unwrap();
    (outcome, recording)
}

/// Runs it alone and recorded; both must look the same.
#[track_caller]
fn same(place: &Place, program: &str, words: &[&str]) -> Recording {
    let alone = place.command(program).args(words).output().unwrap();
    let outcome = place.run([&["record", "-o", "r", "--", program], words].concat());
    assert_eq!(
        outcome.stdout(),
        String::from_utf8_lossy(&alone.stdout),
        "{words:?}: {outcome:#?}"
    );
    assert_eq!(Some(outcome.status), alone.status.code(), "{outcome:#?}");
    let recording = Recording::open(&place.path("r")).unwrap();
    assert_eq!(recording.cut_short(), None);
    recording
}

fn items(recording: &Recording, thread: &Thread) -> Vec<Item> {
    recording.entries(thread).map(Result::unwrap).collect()
}

fn all_items(recording: &Recording) -> Vec<Item> {
    let each = recording.processes().iter().flat_map(Process::threads);
    each.flat_map(|thread| items(recording, thread)).collect()
}

fn count(recording: &Recording, of: impl Fn(Kind) -> bool) -> usize {
    let all = all_items(recording);
    all.iter().filter(|item| of(item.entry.kind)).count()
}

#[test]
fn programs_behave_as_they_do_alone() {
    let Some(place) = place() else { return };
    for words in [
        &["threads"][..],
        &["exit", "7"],
        &["exit", "255"],
        &["code"],
    ] {
        let recording = same(&place, "./recorded", words);
        assert_eq!(recording.processes().len(), 1, "{words:?}");
        assert!(count(&recording, |kind| kind == Kind::Write) > 100);
    }
}

#[test]
fn signals_and_faults_are_the_programs_own() {
    let Some(place) = place() else { return };
    let recording = same(&place, "./recorded", &["signals"]);
    // 600 faults, and as many signals that the threads send to themselves.
    assert_eq!(count(&recording, |kind| kind == Kind::Signal), 1200);
}

#[test]
fn six_hundred_threads() {
    let Some(place) = place() else { return };
    let recording = same(&place, "./recorded", &["crowd"]);
    assert_eq!(recording.processes()[0].threads().len(), 601);
    assert_eq!(count(&recording, |kind| kind == Kind::Start), 601);
    assert_eq!(count(&recording, |kind| kind == Kind::Exit), 601);
}

#[test]
fn children_are_recorded_each_as_a_process() {
    let Some(place) = place() else { return };
    let recording = same(&place, "./recorded", &["processes"]);
    // Itself, four that are forked, one that is spawned, a shell, and what it becomes.
    assert_eq!(recording.processes().len(), 8);
    for process in recording.processes() {
        assert!(!process.modules().is_empty());
        assert!(!process.threads().is_empty());
    }
}

#[test]
fn a_static_program_has_its_functions_hooked_too() {
    let Some(place) = place() else { return };
    place.build("recorded", "static", &["-static"]);
    let recording = same(&place, "./static", &["threads"]);
    let locks = calls_of(&recording, Function::MutexLock);
    assert!(locks >= 2000, "{locks}");
}

#[test]
fn the_environment_is_the_programs_own() {
    let Some(place) = place() else { return };
    same(&place, "./recorded", &["environment"]);
}

/// The C library finds it with vector registers before the program begins.
#[test]
fn a_program_knows_its_name() {
    let Some(place) = place() else { return };
    same(&place, "./recorded", &["name"]);
}

/// Records a program with values; it must look as it does alone.
fn record_values(place: &Place, words: &[&str]) {
    let alone = place.command("./recorded").args(words).output().unwrap();
    let begin = ["record", "--values", "-o", "r", "--", "./recorded"];
    let outcome = place.run([&begin, words].concat());
    assert_eq!(outcome.stdout(), String::from_utf8_lossy(&alone.stdout));
    assert_eq!(Some(outcome.status), alone.status.code(), "{outcome:#?}");
}

/// How many stretches of all threads were replayed, and how many of them exactly.
fn replayed(outcome: &Outcome) -> (u64, u64) {
    let printed = outcome.stdout();
    let table = printed.lines().skip(1).take_while(|line| !line.is_empty());
    let rows = table.map(|line| {
        let columns: Vec<u64> = line
            .split_whitespace()
            .skip(3)
            .take(2)
            .map(|number| number.parse().unwrap())
            .collect();
        (columns[0], columns[1])
    });
    rows.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}

#[test]
fn what_was_recorded_with_values_is_replayed_to_the_same_registers() {
    let Some(place) = place() else { return };
    for words in [&["name"][..], &["exit", "7"], &["environment"]] {
        record_values(&place, words);
        let outcome = place.run(["replay", "r"]);
        let (all, exact) = replayed(&outcome);
        assert!(all > 50 && exact == all, "{words:?}: {outcome:#?}");
        assert_eq!(outcome.status, 0, "{outcome:#?}");
    }
}

#[test]
fn code_that_is_gone_is_no_trouble_to_a_child() {
    let Some(place) = place() else { return };
    record_values(&place, &["unmapped"]);
    let outcome = place.run(["replay", "r"]);
    let (all, exact) = replayed(&outcome);
    assert!(all > 50 && exact == all, "{outcome:#?}");
}

/// What another thread changes just before it is read goes astray, which is rare.
#[test]
fn threads_signals_and_children_are_replayed_each_alone() {
    let Some(place) = place() else { return };
    for words in [&["threads"][..], &["signals"], &["processes"]] {
        record_values(&place, words);
        let outcome = place.run(["replay", "r"]);
        let (all, exact) = replayed(&outcome);
        assert!(
            all > 500 && exact * 100 >= all * 99,
            "{words:?}: {outcome:#?}"
        );
        assert_eq!(outcome.status, i32::from(exact != all), "{outcome:#?}");
    }
}

#[test]
fn a_thread_is_listed_from_a_sequencer_on() {
    let Some(place) = place() else { return };
    record_values(&place, &["name"]);
    let recording = Recording::open(&place.path("r")).unwrap();
    let thread = recording.processes()[0].threads()[0].id().to_string();
    let outcome = place.run(["replay", "--thread", &thread, "--at", "2", "r"]);
    assert!(outcome.stdout().contains("after sequencer"), "{outcome:#?}");
    assert!(outcome.stdout().contains("mov "), "{outcome:#?}");
    let nobody = place.run(["replay", "--thread", "1", "r"]);
    nobody.refused(125, "cannot replay r: it has no thread 1");
}

#[test]
fn what_cannot_be_replayed_is_said_in_a_sentence() {
    let Some(place) = place() else { return };
    record(&place, &["name"]);
    let outcome = place.run(["replay", "r"]);
    outcome.refused(
        125,
        "cannot replay r: it has no values; record the program again with `redhanded record --values`",
    );
    let outcome = place.run(["replay", "--order", "a", "r"]);
    outcome.refused(125, "only a scenario has --order, --weak-memory and --gdb");
    record_values(&place, &["name"]);
    let whole = std::fs::read(place.path("r")).unwrap();
    place.file("cut", &whole[..whole.len() * 2 / 3], 0o600);
    let outcome = place.run(["replay", "cut"]);
    assert!(
        outcome.stdout().contains("The recording is not whole: "),
        "{outcome:#?}"
    );
}

fn calls_of(recording: &Recording, function: Function) -> usize {
    let all = all_items(recording);
    let calls =
        |item: &&Item| item.entry.kind == Kind::Call && item.entry.address == function as u64;
    all.iter().filter(calls).count()
}

#[test]
fn deaths_keep_what_was_recorded() {
    let Some(place) = place() else { return };
    for (signal, status) in [("6", 134), ("11", 139), ("15", 143), ("9", 137)] {
        let (outcome, recording) = record(&place, &["die", signal]);
        assert_eq!(outcome.status, status, "{outcome:#?}");
        assert_eq!(outcome.stdout(), "100\n");
        assert!(calls_of(&recording, Function::MutexLock) >= 100);
    }
}

#[test]
fn atomic_instructions_are_numbered_in_the_order_in_which_they_took_effect() {
    let Some(place) = place() else { return };
    let (outcome, recording) = record(&place, &["order"]);
    let printed = outcome.stdout();
    let mut lines = printed.lines();
    let address = hexadecimal(lines.next().unwrap());
    let mut printed: Vec<Vec<u64>> = lines
        .map(|line| {
            line.split_whitespace()
                .map(|t| t.parse().unwrap())
                .collect()
        })
        .collect();
    printed.sort();
    let mut numbers: Vec<Vec<u64>> = Vec::new();
    for thread in recording.processes()[0].threads() {
        let items = items(&recording, thread);
        let atomic = items
            .iter()
            .filter(|item| item.entry.kind == Kind::Atomic && item.entry.address == address);
        let mine: Vec<u64> = atomic.map(|item| item.number.unwrap()).collect();
        numbers.extend((!mine.is_empty()).then_some(mine));
    }
    let mut all: Vec<u64> = numbers.iter().flatten().copied().collect();
    all.sort_unstable();
    let rank: BTreeMap<u64, u64> = all.iter().copied().zip(0..).collect();
    let mut recorded: Vec<Vec<u64>> = numbers
        .iter()
        .map(|thread| thread.iter().map(|number| rank[number]).collect())
        .collect();
    recorded.sort();
    assert_eq!(recorded, printed);
}

#[test]
fn accesses_have_their_instruction_and_the_calls_that_led_there() {
    let Some(place) = place() else { return };
    let (outcome, recording) = record(&place, &["calls"]);
    let printed = outcome.stdout();
    let mut words = printed.split_whitespace().map(hexadecimal);
    let mut next = || words.next().unwrap();
    let (word, inner, outer, copy) = (next(), next(), next(), next());
    let process = &recording.processes()[0];
    let thread = &process.threads()[0];
    let within = |function: u64, address: u64| (function..function + 64).contains(&address);
    let items = items(&recording, thread);
    let write = items
        .iter()
        .find(|item| item.entry.kind == Kind::Write && item.entry.address == word)
        .unwrap();
    assert_eq!(write.length(), 8);
    assert!(within(inner, process.site(write.entry.site()).unwrap()));
    let stack = process.stack(write.entry.context());
    assert!(within(outer, stack[0]), "{stack:x?}");
    // Outer, calls, main, and what the C library has before it.
    assert!((4..=6).contains(&stack.len()), "{stack:x?}");
    let copied = items.iter().any(|item| {
        item.entry.kind == Kind::Write && item.entry.address == copy && item.length() == 12
    });
    assert!(copied);
    let nowhere = items
        .iter()
        .any(|item| matches!(item.entry.kind, Kind::Read | Kind::Write) && item.entry.address == 8);
    assert!(!nowhere);
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn standard_input_is_the_programs() {
    let Some(place) = place() else { return };
    let mut command = place.redhanded(["record", "-q", "--", "./recorded", "echo"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"one\ntwo\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\ntwo\n");
    assert!(place.path("recorded.recording").exists());
}

#[test]
fn time_ends_the_recording_and_the_program_if_asked_for() {
    let Some(place) = place() else { return };
    let words = ["record", "-o", "r", "--for", "2s", "--kill", "--"];
    let outcome = place.run([&words[..], &["./recorded", "forever"]].concat());
    assert_eq!(outcome.status, 143, "{outcome:#?}");
    let recording = Recording::open(&place.path("r")).unwrap();
    assert_eq!(recording.cut_short(), None);
    assert!(calls_of(&recording, Function::MutexLock) > 0);
}

#[test]
fn a_program_goes_on_when_redhanded_is_killed() {
    let Some(place) = place() else { return };
    let mut command = place.redhanded(["record", "-q", "--", "./recorded", "outlive"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 6];
    let stdout = child.stdout.as_mut().unwrap();
    std::io::Read::read_exact(stdout, &mut begun).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let outlived = place.path("outlived");
    let patience = Instant::now() + Duration::from_secs(120);
    while !outlived.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(outlived.exists());
}

#[test]
fn what_cannot_be_recorded_is_refused_in_a_sentence() {
    let Some(place) = place() else { return };
    let outcome = place.run(["record", "--", "./absent"]);
    outcome.refused(127, "no such file");
    let outcome = place.run(["record", "-o", "no/folder", "--", "./recorded"]);
    outcome.refused(125, "cannot write the recording to no/folder");
    place.file("plain", b"text", 0o644);
    let outcome = place.run(["record", "--", "./plain"]);
    outcome.refused(126, "not executable");
    let outcome = place.run(["record", "-o", "/dev/full", "--", "./recorded", "threads"]);
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.says("No space left on device"), "{outcome:#?}");
}
