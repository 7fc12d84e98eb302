//! A pseudo-terminal as a user's: the program is in the foreground of a session.

use crate::row::Row;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing takes this long but what hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// A command that has a terminal, and the user in front of it.
struct Session {
    keyboard: File,
    /// Open until the end, so that a resize has something to act on.
    terminal: Option<File>,
    screen: Receiver<Vec<u8>>,
    seen: String,
    /// How much of it was waited for.
    read: usize,
    child: Child,
}

impl Session {
    fn new(command: &Command) -> Self {
        // Not to be inherited by what other tests start at the same time.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname_r(&master).unwrap();
        let terminal = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(path)
            .unwrap();
        resize(&terminal, "rows", "37");
        resize(&terminal, "cols", "101");
        // It makes the terminal that of a new session.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program());
        session.args(command.get_args());
        session.current_dir(command.get_current_dir().unwrap());
        session.stdin(terminal.try_clone().unwrap());
        session.stdout(terminal.try_clone().unwrap());
        session.stderr(Stdio::null());
        let child = session.spawn().unwrap();
        let keyboard = File::from(OwnedFd::from(master));
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            keyboard,
            terminal: Some(terminal),
            screen,
            seen: String::new(),
            read: 0,
            child,
        }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is shown behind what was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let start = Instant::now();
        let found = loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                break at;
            }
            if let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(50)) {
                self.seen += &String::from_utf8_lossy(&bytes);
                continue;
            }
            let (ended, seen) = (self.child.try_wait().unwrap(), &self.seen);
            let hangs = start.elapsed() > HANGS_AFTER;
            assert!(
                ended.is_none() && !hangs,
                "no '{text}' ({ended:?}): {seen:?}"
            );
        };
        self.read += found + text.len();
    }

    /// All that was shown, and the exit status.
    #[track_caller]
    fn end(mut self) -> (String, Option<i32>) {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
                _ => assert!(start.elapsed() < HANGS_AFTER, "it hangs: {:?}", self.seen),
            }
            thread::sleep(Duration::from_millis(5));
        };
        // All was shown when nobody has the terminal open any more.
        self.terminal = None;
        while let Ok(bytes) = self.screen.recv_timeout(HANGS_AFTER) {
            self.seen += &String::from_utf8_lossy(&bytes);
        }
        (std::mem::take(&mut self.seen), status)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Of a failed test only: the terminal hangs up, and all of the session
        // with it, as soon as its last descriptor is closed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One change, so that there is one signal.
fn resize(terminal: &File, which: &str, size: &str) {
    let status = Command::new("stty")
        .args([which, size])
        .stdin(terminal.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_terminal_in_raw_and_in_cooked_mode() {
    let row = Row::new("tty");
    let converse = |command: &Command| {
        let mut session = Session::new(command);
        session.shows("raw");
        for key in ["a", CTRL_C, CTRL_Z, "\r", "\x1b", "q"] {
            session.types(key);
            session.shows(&format!("key {:02x}", key.as_bytes()[0]));
        }
        session.shows("cooked\r\n");
        session.types("0 hello\n");
        session.shows("line 0 hello");
        resize(session.terminal.as_ref().unwrap(), "cols", "80");
        session.types("0 size\n");
        session.shows("size 37 80");
        session.types("0 end\n");
        session.end()
    };
    let alone = converse(&row.alone(&[]));
    assert!(alone.0.contains("terminal 1 1, foreground 1"), "{alone:?}");
    assert!(alone.0.contains("1 resizes, line 0 end"), "{alone:?}");
    assert_eq!(alone.1, Some(17), "{alone:?}");
    assert_eq!(converse(&row.observed(&[])), alone);
    assert!(row.report()["run"]["windows"].as_u64() > Some(0));
}

#[test]
fn keys_that_are_signals_come_once() {
    let row = Row::new("tty");
    let converse = |command: &Command| {
        let mut session = Session::new(command);
        session.shows("raw");
        session.types("q");
        session.shows("cooked\r\n");
        session.types(CTRL_C);
        // The terminal shows the key once its signal is sent.
        session.shows("^C");
        session.types("1 one\n");
        session.shows("line 1 one\r\n");
        session.types(CTRL_BACKSLASH);
        session.shows("^\\");
        session.types("2 end\n");
        session.end()
    };
    let alone = converse(&row.alone(&[]));
    let told = "1 interrupts, 1 quits, 0 resizes, line 2 end";
    assert!(alone.0.contains(told), "{alone:?}");
    let observed = converse(&row.observed(&[]));
    assert_eq!(observed, alone);
}

/// A job of a shell is stopped and goes on in the foreground, three times.
#[track_caller]
fn same_as_a_job(arguments: &[&str], keys: &str, told: &str) {
    let row = Row::new("stopped_at_tty");
    let shell = row.compile("job", "job", &[]);
    let converse = |job: &Command| {
        let mut command = row.place.command(&shell);
        command.arg(job.get_program()).args(job.get_args());
        let mut session = Session::new(&command);
        for round in 0..3 {
            session.shows(&format!("ready {round}\r\n"));
            session.types(keys);
            session.shows(&format!("continued {}", round + 1));
            session.types("on\n");
            session.shows("line on");
        }
        session.end()
    };
    let alone = converse(&row.alone(arguments));
    assert_eq!(alone.1, Some(0), "{alone:?}");
    assert!(alone.0.contains(told), "{alone:?}");
    assert!(alone.0.contains("job ended with 6"), "{alone:?}");
    assert_eq!(converse(&row.observed(arguments)), alone);
    assert!(row.report()["run"]["windows"].as_u64() > Some(0));
}

#[test]
fn a_job_is_stopped_by_a_key() {
    same_as_a_job(&[], CTRL_Z, "job stopped by 20");
}

#[test]
fn a_job_stops_itself() {
    same_as_a_job(&["19"], "", "job stopped by 19");
    same_as_a_job(&["20"], "", "job stopped by 20");
}

/// In an interactive shell the tool says where the program stands and waits in the
/// foreground. Ctrl-Z gives the prompt back, and the program stays where it is.
#[test]
fn a_job_is_left_stopped_at_a_race() {
    let row = Row::new("job");
    row.place.build("server", "server", &[]);
    let mut shell = row.place.command("bash");
    shell.args(["--norc", "-i"]);
    let mut session = Session::new(&shell);
    session.types("exec 2>&1\n./redhanded run --stop-on-race -- ./server\n");
    session.shows("redhanded: process ");
    session.shows("gdb -p ");
    session.shows(" ");
    let told = session.seen[..session.read].trim_end();
    let pid: i32 = told.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(!session.seen.contains("Stopped"), "{}", session.seen);
    let state = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let is_left_stopped = || state().contains("State:\tT") && state().contains("TracerPid:\t0\n");
    // A thread that slept needs a processor to stop.
    let start = Instant::now();
    while !is_left_stopped() {
        assert!(start.elapsed() < HANGS_AFTER, "{}", state());
        thread::sleep(Duration::from_millis(5));
    }
    session.types(CTRL_Z);
    session.shows("Stopped");
    assert!(is_left_stopped(), "{}", state());
    session.types("fg\n");
    while is_left_stopped() {
        thread::sleep(Duration::from_millis(5));
    }
    session.types(CTRL_C);
    session.shows("killed by signal 2");
    session.types("exit\n");
    session.end();
}
