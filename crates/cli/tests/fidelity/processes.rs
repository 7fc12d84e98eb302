//! Children of every kind run with their own code, and end as they would alone.

use crate::row::{Row, User, same};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn children_end_as_they_would_alone() {
    Row::new("forks").same_as_alone(&[], 7);
}

#[test]
fn a_child_runs_sampled_functions_for_long() {
    Row::new("child_runs_on").same_as_alone(&[], 0);
}

#[test]
fn other_programs_are_started() {
    Row::new("starts_others").same_as_alone(&[], 0);
}

#[test]
fn its_first_thread_becomes_another_program() {
    Row::new("execs").same_as_alone(&["leader", "4", "first"], 0);
}

#[test]
fn another_thread_becomes_another_program() {
    Row::new("execs").same_as_alone(&["other", "4", "first"], 0);
}

#[test]
fn a_daemon_outlives_the_run() {
    let row = Row::new("daemon");
    for user in User::all() {
        let names = [format!("{user:?}-alone"), format!("{user:?}-observed")];
        let paths = names.map(|name| row.place.path(name));
        for path in &paths {
            row.same_for(user, &[path.to_str().unwrap()], 11);
        }
        for path in &paths {
            let written = when_there(path);
            assert_eq!(written, "session its own, group of the session\n");
        }
    }
}

/// What a file holds, once there is one.
fn when_there(path: &Path) -> String {
    let start = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "no {path:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_pipeline_of_the_shell() {
    // A program with threads is in it, so that there is something to sample.
    let row = Row::new("forks");
    let script =
        "seq 1000 | sort -n | tail -1; { ./forks; echo status $?; } | cat; ./forks; exit $?";
    let alone = {
        let mut command = row.place.command("sh");
        command.args(["-c", script]);
        row.place.finish(command)
    };
    assert_eq!(
        (alone.status, alone.stdout().lines().next()),
        (7, Some("1000"))
    );
    same(
        &alone,
        &row.place.finish(row.observing("sh", &["-c", script])),
    );
}

#[test]
fn clones_with_and_without_the_same_memory() {
    Row::new("clones").same_as_alone(&[], 0);
}

#[test]
fn clones_no_tracer_is_told_of() {
    Row::new("clones").same_as_alone(&["untraced"], 0);
}
