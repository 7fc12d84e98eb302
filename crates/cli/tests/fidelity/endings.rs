//! How it ends is how it would end alone.

use crate::place::Outcome;
use crate::row::{Row, User, same};
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
pub fn with_core(row: &Row, limit: &str, command: &Command) -> (Outcome, Option<Vec<u8>>) {
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
