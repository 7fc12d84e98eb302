//! The program is as it would be alone.

use crate::place::Place;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

#[test]
fn what_it_reads_and_writes_is_not_touched() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..4_000_000u32)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes()[..2].to_vec())
        .collect();
    place.file("input", &bytes, 0o644);
    let mut command = place.redhanded(["run", "--", "cat"]);
    command.stdin(File::open(place.path("input")).unwrap());
    let outcome = place.finish(command);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stdout == bytes, "cat gave other bytes back");
}

#[test]
fn input_that_comes_by_a_pipe() {
    use std::io::Write;
    let place = Place::new();
    let mut command = place.redhanded(["run", "--quiet", "--", "wc", "-c"]);
    command.stdin(Stdio::piped());
    let mut running = place.start(command);
    let mut input = running.child.stdin.take().unwrap();
    for _ in 0..100 {
        input.write_all(&[7; 10_007]).unwrap();
    }
    drop(input);
    let outcome = running.end();
    assert_eq!((outcome.status, outcome.stdout()), (0, "1000700\n".into()));
    assert_eq!(outcome.stderr, "");
}

#[test]
fn its_file_is_changed_and_removed_while_it_runs() {
    let place = Place::with("touched");
    let outcome = place.run(["run", "--overhead", "50%", "--", "./touched"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
}

#[test]
fn its_own_stderr_comes_through() {
    let place = Place::new();
    place.executable("complain", b"#!/bin/sh\nprintf 'no\\001 newline' >&2\n");
    let outcome = place.run(["run", "--quiet", "--", "./complain"]);
    assert_eq!(outcome.stderr, "no\u{1} newline");
}

#[test]
fn its_surroundings_are_those_of_its_user() {
    let place = Place::with("surroundings");
    fs::create_dir(place.path("elsewhere")).unwrap();
    let arguments = [
        OsString::from(""),
        OsString::from("--json"),
        OsString::from("two words\tand more"),
        OsString::from_vec(vec![0xff, 0xfe, b'x']),
        OsString::from("--"),
    ];
    let started = |mut command: std::process::Command| {
        command
            .args(&arguments)
            .env("COLOUR_OF_THE_BIKE_SHED", "any\nwill do")
            .current_dir(place.path("elsewhere"));
        place.finish(command)
    };
    let alone = {
        let mut command = place.command("/usr/bin/env");
        command.arg("--default-signal");
        command.arg(place.path("surroundings"));
        started(command)
    };
    let observed = {
        let mut command = place.redhanded(["run", "--quiet", "--"]);
        command.arg(place.path("surroundings"));
        started(command)
    };
    assert_eq!(alone.status, 0);
    assert!(alone.stdout().contains("two words"), "{alone:#?}");
    assert_eq!(observed.stdout(), alone.stdout());
    assert_eq!((observed.status, observed.stderr.as_str()), (0, ""));
}

#[test]
fn it_is_found_on_the_path_by_its_own_name() {
    let place = Place::with("surroundings");
    let mut command = place.redhanded(["run", "--quiet", "--", "surroundings"]);
    command.env("PATH", place.path(""));
    let outcome = place.finish(command);
    assert!(
        outcome.stdout().starts_with("argument surroundings\n"),
        "{outcome:#?}"
    );
}

#[test]
fn its_children_run_with_their_own_code() {
    let place = Place::with("family");
    for follow in ["none", "exec", "all"] {
        let outcome = place.run(["run", "--follow", follow, "--", "./family"]);
        assert_eq!(outcome.status, 0, "{outcome:#?}");
        let told = outcome.says("child processes: not followed");
        assert_eq!(told, follow == "none", "{outcome:#?}");
    }
}
