//! What goes to stderr, whatever stderr is.

use crate::place::Place;
use nix::pty::openpty;
use std::fs::{File, OpenOptions};
use std::io::{Read, pipe};
use std::process::{Command, Stdio};

const A_RACE: &str = "run --max-races 1 --kill --for 2m -- ./racy";

/// Whether there is an escape sequence that sets a colour or a weight.
fn has_colour(text: &[u8]) -> bool {
    text.windows(2)
        .enumerate()
        .filter(|(_, pair)| pair == b"\x1b[")
        .any(|(at, _)| {
            let rest = &text[at + 2..];
            let end = rest
                .iter()
                .position(|byte| !byte.is_ascii_digit() && *byte != b';');
            end.is_some_and(|end| rest[end] == b'm')
        })
}

#[test]
fn a_file_gets_text_alone() {
    let place = Place::with("racy");
    let outcome = place.run(A_RACE.split(' '));
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    assert!(!outcome.stderr.contains('\u{1b}'), "{outcome:#?}");
    assert!(!outcome.stderr.contains('\r'), "{outcome:#?}");
}

/// What a terminal is sent.
fn on_a_terminal(mut command: Command) -> Vec<u8> {
    let terminal = openpty(None, None).unwrap();
    command.stdout(Stdio::null()).stderr(terminal.slave);
    let reader = std::thread::spawn(move || {
        let mut sent = Vec::new();
        let mut master = File::from(terminal.master);
        let mut buffer = [0; 4096];
        // The end of a terminal is an error.
        while let Ok(got) = master.read(&mut buffer)
            && got > 0
        {
            sent.extend(&buffer[..got]);
        }
        sent
    });
    assert_eq!(Place::status_of(command), 66);
    reader.join().unwrap()
}

#[test]
fn a_terminal_gets_colours_unless_they_are_unwanted() {
    let place = Place::with("racy");
    let command = || {
        let mut command = place.redhanded(A_RACE.split(' '));
        command.env("TERM", "xterm");
        command
    };
    assert!(has_colour(&on_a_terminal(command())));
    for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = command();
        command.env(variable, value);
        let sent = on_a_terminal(command);
        let text = String::from_utf8_lossy(&sent).into_owned();
        assert!(!has_colour(&sent), "{variable}: {text}");
        assert!(text.contains("RACE"), "{variable}: {text}");
    }
}

#[test]
fn nobody_needs_to_listen() {
    let place = Place::with("racy");
    place.executable("script", b"#!/bin/sh\nexit 6\n");
    let cases = [
        (A_RACE, 66),
        ("run -- ./script", 6),
        ("run -- ./nothing", 127),
        ("run --nonsense -- ./script", 125),
    ];
    for (line, status) in cases {
        let mut closed = place.command("sh");
        closed
            .args(["-c", "exec \"$0\" \"$@\" 2>&-"])
            .arg(env!("CARGO_BIN_EXE_redhanded"))
            .args(line.split(' '));
        assert_eq!(Place::status_of(closed), status, "closed: {line}");

        let mut full = place.redhanded(line.split(' '));
        full.stderr(OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(Place::status_of(full), status, "full: {line}");

        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut broken = place.redhanded(line.split(' '));
        broken.stderr(writer);
        assert_eq!(Place::status_of(broken), status, "broken: {line}");
    }
}

#[test]
fn quiet_is_quiet() {
    let place = Place::with("end");
    place.executable("script", b"#!/bin/sh\nexit 0\n");
    for program in ["./end", "./script"] {
        let outcome = place.run(["run", "-q", "--", program]);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    }
}
