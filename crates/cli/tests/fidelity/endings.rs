//! How it ends is how it would end alone.

use crate::place::Outcome;
use crate::row::{Row, User, same};
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::fs;
use std::process::Command;

#[test]
fn its_exit_status_is_its_own() {
    let row = Row::new("endings");
    for status in [0, 1, 2, 42, 66, 127, 128, 255] {
        let number = status.to_string();
        row.same_for(User::Own, &["leader", "exit", &number], status);
    }
    row.same_as_alone(&["returns", "", "9"], 9);
    row.same_as_alone(&["leader", "_exit", "200"], 200);
    row.same_as_alone(&["thread", "exit", "3"], 3);
    row.same_as_alone(&["thread", "_exit", "4"], 4);
}

#[test]
fn others_go_on_when_its_first_thread_leaves() {
    Row::new("endings").same_as_alone(&["leaves", "", "12"], 12);
}

#[test]
fn it_dies_by_the_same_signal() {
    let row = Row::new("endings");
    for (how, number, signal) in [
        ("crash", "0", 11),
        // The very end of all addresses.
        ("crash", "-8", 11),
        ("abort", "0", 6),
        ("int3", "0", 5),
        ("pipe", "0", 13),
        ("raise", "5", 5),
        ("raise", "11", 11),
        ("kill", "9", 9),
        ("kill", "15", 15),
        ("kill", "1", 1),
        ("kill", "34", 34),
    ] {
        row.same_for(User::Own, &["leader", how, number], 128 + signal);
        row.same_for(User::Own, &["thread", how, number], 128 + signal);
    }
    row.same_as_alone(&["thread", "crash", "0"], 128 + 11);
}

/// The name of a core file here, if one is written to the working folder.
fn core_is_a_file() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let uses_pid = fs::read_to_string("/proc/sys/kernel/core_uses_pid").unwrap();
    let is_file = pattern.trim() == "core" && uses_pid.trim() == "0";
    if !is_file {
        println!("no core file is looked for: they go to {}", pattern.trim());
    }
    is_file
}

/// Runs a command with a limit for its core; what it left of one.
fn with_core(row: &Row, limit: &str, command: &Command) -> (Outcome, Option<Vec<u8>>) {
    let core = row.place.path("core");
    let mut shell = row.place.command("sh");
    let script = format!("ulimit -c {limit}; exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    let outcome = row.place.finish(shell);
    let bytes = fs::read(&core).ok();
    let _ = fs::remove_file(&core);
    (outcome, bytes)
}

#[test]
fn a_core_is_left_where_one_is_left_alone() {
    let row = Row::new("endings");
    for (limit, there) in [("unlimited", core_is_a_file()), ("0", false)] {
        let limited = |command: &Command| with_core(&row, limit, command);
        for who in ["leader", "thread", "child"] {
            let arguments = [who, "crash", "0"];
            let (alone, core_alone) = limited(&row.alone(&arguments));
            let (observed, core_observed) = limited(&row.observed(&arguments));
            same(&alone, &observed);
            row.windows_happened(&observed);
            assert_eq!(core_alone.is_some(), there, "{who}, limit {limit}");
            assert_eq!(core_observed.is_some(), there, "{who}, limit {limit}");
        }
    }
}

#[test]
fn a_core_holds_the_programs_own_code() {
    let row = Row::new("endings");
    for who in ["leader", "thread"] {
        let (_, core) = with_core(&row, "unlimited", &row.observed(&[who, "crash", "0"]));
        match core {
            Some(core) => no_breakpoint_in(&core, &fs::read(&row.program).unwrap()),
            None => println!("skipped: no core file is left here"),
        }
    }
}

/// Where a core holds the program's code at all, it is as in its file.
#[track_caller]
fn no_breakpoint_in(core: &[u8], program: &[u8]) {
    let program = object::File::parse(program).unwrap();
    let text = program.section_by_name(".text").unwrap().data().unwrap();
    let core = object::File::parse(core).unwrap();
    for segment in core.segments() {
        let SegmentFlags::Elf { p_flags } = segment.flags() else {
            panic!("no ELF core");
        };
        let bytes = segment.data().unwrap();
        // The start of the text is found by what no site is in: its first
        // instructions are those of _start.
        let start = bytes.windows(16).position(|part| part == &text[..16]);
        if let (true, Some(at)) = (p_flags & PF_X != 0, start) {
            let there = &bytes[at..at + text.len()];
            let other = there.iter().zip(text).position(|(a, b)| a != b);
            assert_eq!(other, None, "the text differs in the core");
        }
    }
}
