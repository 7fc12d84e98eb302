//! What goes to stderr, whatever stderr is.

use crate::place::Place;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

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

#[test]
fn what_a_message_quotes_cannot_act_on_the_terminal() {
    let place = Place::new();
    let shell = place.path("\x1b]0;owned\x07sh");
    symlink("/bin/sh", &shell).unwrap();
    let script = format!("#!{}\n", shell.display());
    place.executable("script", script.as_bytes());
    let outcome = place.run(["run", "--", "./script"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    assert!(
        !outcome.stderr.contains(['\u{1b}', '\u{7}']),
        "{outcome:#?}"
    );
    assert!(outcome.says(r"/\x1b]0;owned\x07sh and the"), "{outcome:#?}");
}

/// A terminal, and whatever it is sent.
struct Terminal {
    keyboard: File,
    slave: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    screen: JoinHandle<()>,
}

impl Terminal {
    fn new() -> Self {
        let terminal = openpty(None, None).unwrap();
        // Not to be inherited by what other tests start at the same time.
        for end in [&terminal.master, &terminal.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let keyboard = File::from(terminal.master);
        let mut master = keyboard.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&shown);
        let screen = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(got) = master.read(&mut buffer)
                && got > 0
            {
                sent.lock().unwrap().extend(&buffer[..got]);
            }
        });
        Self {
            keyboard,
            slave: terminal.slave,
            shown,
            screen,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn end(&self) -> OwnedFd {
        self.slave.try_clone().unwrap()
    }

    /// All that was sent, once nobody has it open any more.
    fn sent(self) -> String {
        drop(self.slave);
        self.screen.join().unwrap();
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }
}

/// What a terminal is sent.
fn on_a_terminal(mut command: Command) -> Vec<u8> {
    let terminal = Terminal::new();
    command.stdout(Stdio::null()).stderr(terminal.end());
    assert_eq!(Place::status_of(command), 66);
    terminal.sent().into_bytes()
}

/// A program asks, and is answered in two parts with a pause between.
fn converse(mut command: Command) -> String {
    let mut terminal = Terminal::new();
    command.stdin(terminal.end());
    command.stdout(terminal.end());
    command.stderr(terminal.end());
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut child = command.spawn().unwrap();
    drop(command);
    // What is typed before it asks is shown before its question.
    while !terminal.shown().contains("name? ") {
        assert_eq!(child.try_wait().unwrap(), None, "{:?}", terminal.shown());
        std::thread::sleep(Duration::from_millis(5));
    }
    for keys in ["J", "o\n"] {
        // Longer than any progress would wait.
        std::thread::sleep(Duration::from_millis(1500));
        terminal.keyboard.write_all(keys.as_bytes()).unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    terminal.sent()
}

#[test]
fn a_programs_own_line_and_what_is_typed_are_left_alone() {
    let place = Place::with("prompt");
    let alone = converse(place.command(place.path("prompt")));
    assert!(alone.starts_with("name? "), "{alone:?}");
    assert!(alone.ends_with("hello Jo\r\n"), "{alone:?}");
    for progress in ["auto", "always", "never"] {
        let observed = converse(place.redhanded(["run", "--progress", progress, "./prompt"]));
        let report = observed.strip_prefix(alone.as_str());
        let report = report.unwrap_or_else(|| panic!("{progress}: {observed:?}"));
        // Nothing moves the cursor or erases.
        assert!(report.starts_with("No race caught in"), "{observed:?}");
        assert!(!report.contains('\x1b'), "{observed:?}");
        assert!(!report.replace("\r\n", "\n").contains('\r'), "{observed:?}");
    }
}

/// What is shown on stderr while a process is attached to that may have the same
/// terminal, or none.
fn attached(shared: bool, progress: &str) -> String {
    let place = Place::with("prompt");
    let terminal = Terminal::new();
    let mut process = {
        let mut process = place.command("setsid");
        process.arg(place.path("prompt")).arg("60");
        if shared {
            process.stdout(terminal.end());
        }
        process.spawn().unwrap()
    };
    let pid = process.id().to_string();
    // As `setsid` it is another program, in another session.
    let program = format!("/proc/{pid}/exe");
    while !std::fs::read_link(&program).unwrap().ends_with("prompt") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let options = ["attach", "--for", "2s", "--progress", progress, &pid];
    let mut command = place.redhanded(options);
    command.stderr(terminal.end());
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    assert_eq!(Place::status_of(command), 0);
    process.kill().unwrap();
    process.wait().unwrap();
    terminal.sent()
}

#[test]
fn progress_has_a_terminal_of_its_own_or_none() {
    let sent = attached(false, "auto");
    assert!(sent.contains("samples/s"), "{sent:?}");
    let (_, report) = sent.rsplit_once("\x1b[2K").unwrap();
    assert!(!report.contains("samples/s"), "it was left: {sent:?}");
    assert!(report.contains("No race caught in"), "{sent:?}");
    for (shared, progress) in [(false, "never"), (true, "auto")] {
        let sent = attached(shared, progress);
        assert!(sent.contains("No race caught in"), "{sent:?}");
        assert!(!sent.contains("samples/s"), "{sent:?}");
    }
}

#[test]
fn a_log_gets_whole_lines_if_it_is_asked_for() {
    let place = Place::with("prompt");
    let outcome = place.run("run --progress always ./prompt 11".split(' '));
    // The first is due after ten seconds, and comes later on a busy machine.
    let (progress, report) = outcome.stderr.split_once("No race caught").unwrap();
    assert!(!report.contains("samples/s"), "{outcome:#?}");
    let lines: Vec<&str> = progress.lines().collect();
    assert!(
        !lines.is_empty() && progress.ends_with('\n'),
        "{outcome:#?}"
    );
    for line in lines {
        let seconds = line.strip_prefix("redhanded: ").unwrap();
        let (seconds, _) = seconds.split_once(" s  ").unwrap();
        assert!(seconds.parse::<f64>().unwrap() >= 10.0, "{outcome:#?}");
        assert!(line.contains(" samples/s "), "{outcome:#?}");
    }
    assert!(!outcome.stderr.contains(['\r', '\u{1b}']), "{outcome:#?}");
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
