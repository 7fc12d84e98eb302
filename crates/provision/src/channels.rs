//! What a machine says: the workload's output, the kernel's log, and how far it is.

use super::system;
use crate::ProvisionError;
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How much of the kernel's log is kept: its end.
const LOG_BYTES: usize = 1 << 20;

/// A longer line is cut in pieces.
const LINE_BYTES: usize = 4096;

/// Where the workload's output and errors go.
pub struct Output {
    /// What it writes to its output.
    pub stdout: Box<dyn Write + Send>,
    /// What it writes to its errors.
    pub stderr: Box<dyn Write + Send>,
}

impl Output {
    /// To our own.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
        }
    }
}

/// How far a machine is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VmState {
    /// The workload has not started.
    Booting,
    /// Modules are loaded and the workload runs.
    Running,
    /// The workload ended with this status, and the machine switches itself off.
    Exited(i32),
    /// A module was refused; the workload was not started.
    NotLoaded(String),
    /// The kernel panicked, with these words.
    Panicked(String),
    /// The machine is gone, and nobody said why.
    Gone,
}

impl VmState {
    /// Whether nothing further is to be expected.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self, Self::Booting | Self::Running)
    }
}

struct Heard {
    told: Option<VmState>,
    panic: Option<String>,
    troubles: Vec<String>,
    log: VecDeque<String>,
    log_bytes: usize,
    open: usize,
}

/// What was heard so far, shared with the threads that listen.
struct Ear {
    heard: Mutex<Heard>,
    news: Condvar,
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The four serial ports of a machine, each listened to by a thread of its own.
pub struct Channels {
    ear: Arc<Ear>,
    threads: Vec<JoinHandle<()>>,
    /// The way back to who tells how far the machine is.
    back: Option<UnixStream>,
}

/// Our ends and the machine's.
///
/// Pipes, because they hold 64 KiB however it is written: sockets are full after a
/// few hundred writes of one byte, and a kernel that waits for its console for too
/// long goes on and leaves a hole in its log.
pub struct Ports {
    ours: [PipeReader; 3],
    guests: [PipeWriter; 3],
    /// The last one goes both ways, and little is said there.
    told: (UnixStream, UnixStream),
}

impl Ports {
    /// Makes the four.
    pub fn new() -> Result<Self, ProvisionError> {
        let pair = || io::pipe().map_err(system("cannot make a pipe"));
        let [a, b, c] = [pair()?, pair()?, pair()?];
        Ok(Self {
            ours: [a.0, b.0, c.0],
            guests: [a.1, b.1, c.1],
            told: UnixStream::pair().map_err(system("cannot make a socket"))?,
        })
    }

    /// The files that QEMU is to inherit.
    pub fn files(&self) -> [RawFd; 4] {
        let [a, b, c] = self.guests.each_ref().map(AsRawFd::as_raw_fd);
        [a, b, c, self.told.1.as_raw_fd()]
    }

    /// Begins to listen. The guest's ends are closed here, so that those in QEMU
    /// are the last and their end can be heard.
    pub fn listen(self, output: Output) -> Channels {
        let (told, guest) = self.told;
        drop((self.guests, guest));
        let back = told.try_clone().ok();
        let ear = Arc::new(Ear {
            heard: Mutex::new(Heard {
                told: None,
                panic: None,
                troubles: Vec::new(),
                log: VecDeque::new(),
                log_bytes: 0,
                open: 4,
            }),
            news: Condvar::new(),
        });
        let [log, stdout, stderr] = self.ours;
        let listen = |port: Box<dyn Read + Send>, what: fn(&mut Heard, &[u8])| {
            let ear = Arc::clone(&ear);
            thread::spawn(move || {
                lines(port, |line| {
                    what(&mut ear.lock(), line);
                    ear.news.notify_all();
                });
                ear.lock().open -= 1;
                ear.news.notify_all();
            })
        };
        let copy = |port: PipeReader, to: Box<dyn Write + Send>| {
            let ear = Arc::clone(&ear);
            thread::spawn(move || {
                copy(port, to);
                ear.lock().open -= 1;
                ear.news.notify_all();
            })
        };
        let threads = vec![
            copy(stdout, output.stdout),
            copy(stderr, output.stderr),
            listen(Box::new(log), Heard::log_line),
            listen(Box::new(told), Heard::told_line),
        ];
        Channels { ear, threads, back }
    }
}

impl Heard {
    fn told_line(&mut self, line: &[u8]) {
        if let Some(state) = read_told(&String::from_utf8_lossy(line)) {
            self.told = Some(state);
        }
    }

    fn log_line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r').to_owned();
        if let Some(words) = panic_words(&line) {
            self.panic.get_or_insert(words.to_owned());
        }
        if is_trouble(&line) && self.troubles.len() < 64 {
            self.troubles.push(line.clone());
        }
        self.log_bytes += line.len();
        self.log.push_back(line);
        while self.log_bytes > LOG_BYTES {
            self.log_bytes -= self.log.pop_front().map_or(self.log_bytes, |l| l.len());
        }
    }

    fn state(&self) -> VmState {
        match (&self.told, &self.panic) {
            (Some(told), _) if told.is_over() => told.clone(),
            (_, Some(words)) => VmState::Panicked(words.clone()),
            _ if self.open == 0 => VmState::Gone,
            (told, None) => told.clone().unwrap_or(VmState::Booting),
        }
    }
}

impl Channels {
    /// Tells the workload to start.
    pub fn start(&mut self) {
        // A machine that is gone is noticed otherwise.
        if let Some(mut back) = self.back.take() {
            drop(back.write_all(b"go\n"));
        }
    }

    /// How far the machine is.
    pub fn state(&self) -> VmState {
        self.ear.lock().state()
    }

    /// Waits until the state is another, or `limit` has passed.
    pub fn wait_beyond(&self, state: &VmState, limit: Duration) -> VmState {
        let deadline = Instant::now() + limit;
        let mut heard = self.ear.lock();
        loop {
            let now = heard.state();
            let left = deadline.saturating_duration_since(Instant::now());
            if now != *state || left.is_zero() {
                return now;
            }
            let waited = self.ear.news.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The end of the kernel's log.
    pub fn log(&self) -> Vec<String> {
        self.ear.lock().log.iter().cloned().collect()
    }

    /// Lines of the log that tell of a fault of the kernel.
    pub fn troubles(&self) -> Vec<String> {
        self.ear.lock().troubles.clone()
    }

    /// Waits until everything was heard, which is when QEMU has ended.
    pub fn finish(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked was writing to a writer that did.
            drop(thread.join());
        }
    }
}

/// Copies until the port is closed. A reader of ours that went away must not stop
/// the guest: the rest is then read and dropped.
fn copy(mut from: PipeReader, to: Box<dyn Write + Send>) {
    let mut to = Some(to);
    let mut buffer = [0; 4096];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let written = to.as_mut().map(|to| {
            to.write_all(&buffer[..count])?;
            to.flush()
        });
        if let Some(Err(_)) = written {
            to = None;
        }
    }
}

/// Hands out lines until the port is closed.
fn lines(mut from: impl Read, mut each: impl FnMut(&[u8])) {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        for &byte in &buffer[..count] {
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() == LINE_BYTES {
                each(&line);
                line.clear();
            }
        }
        if count == 0 {
            if !line.is_empty() {
                each(&line);
            }
            return;
        }
    }
}

/// A line of the guest's init.
fn read_told(line: &str) -> Option<VmState> {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match word {
        "ready" => Some(VmState::Running),
        "exit" => Some(VmState::Exited(rest.parse().ok()?)),
        "module" => Some(VmState::NotLoaded(rest.to_owned())),
        _ => None,
    }
}

/// What a line of the log says after its time and the like.
fn panic_words(line: &str) -> Option<&str> {
    let at = line.find("Kernel panic - ")?;
    Some(&line[at..])
}

/// Whether a line of the log begins the report of a fault.
fn is_trouble(line: &str) -> bool {
    let signs = [
        "Kernel panic",
        "BUG: ",
        "Oops: ",
        "general protection fault",
    ];
    signs.iter().any(|sign| line.contains(sign))
}

/// What QEMU has to be told about the ports.
pub fn arguments(files: [RawFd; 4]) -> Vec<String> {
    let mut arguments = Vec::new();
    // Ports of a PC share two interrupts, and a shared one gets lost in QEMU when
    // one port clears it for the other.
    for ((index, irq), file) in [(0, 4), (1, 3), (2, 5), (3, 7)].into_iter().zip(files) {
        if index == 3 {
            arguments.push("-chardev".to_owned());
            arguments.push(format!("socket,id=redhanded{index},fd={file}"));
        } else {
            // Appended to, because a pipe cannot be made empty; and there is no set 0.
            let set = index + 1;
            arguments.push("-add-fd".to_owned());
            arguments.push(format!("fd={file},set={set}"));
            arguments.push("-chardev".to_owned());
            arguments.push(format!(
                "file,id=redhanded{index},path=/dev/fdset/{set},append=on"
            ));
        }
        arguments.push("-device".to_owned());
        arguments.push(format!(
            "isa-serial,index={index},irq={irq},chardev=redhanded{index}"
        ));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn ports_are_kept_apart_and_states_follow_each_other() {
        let ports = Ports::new().unwrap();
        let mut guest = ports
            .guests
            .each_ref()
            .map(|port| port.try_clone().unwrap());
        let mut told = ports.told.1.try_clone().unwrap();
        let (out, err) = (Kept::default(), Kept::default());
        let mut channels = ports.listen(Output {
            stdout: Box::new(out.clone()),
            stderr: Box::new(err.clone()),
        });
        let limit = Duration::from_secs(10);
        assert_eq!(channels.state(), VmState::Booting);
        told.write_all(b"ready\n").unwrap();
        let state = channels.wait_beyond(&VmState::Booting, limit);
        assert_eq!(state, VmState::Running);
        guest[1].write_all(b"out\0\xff").unwrap();
        guest[2].write_all(b"err").unwrap();
        guest[0].write_all(b"[ 1.0] BUG: odd\r\nfine\r\n").unwrap();
        channels.start();
        let mut go = [0; 3];
        told.read_exact(&mut go).unwrap();
        assert_eq!(&go, b"go\n");
        told.write_all(b"exit 3\n").unwrap();
        let state = channels.wait_beyond(&VmState::Running, limit);
        assert_eq!(state, VmState::Exited(3));
        drop((guest, told));
        channels.finish();
        assert_eq!(*out.0.lock().unwrap(), b"out\0\xff");
        assert_eq!(*err.0.lock().unwrap(), b"err");
        assert_eq!(channels.log(), ["[ 1.0] BUG: odd", "fine"]);
        assert_eq!(channels.troubles(), ["[ 1.0] BUG: odd"]);
        assert_eq!(channels.state(), VmState::Exited(3), "it was told before");
    }

    #[test]
    fn an_end_without_words_is_told_from_a_panic() {
        let limit = Duration::from_secs(10);
        for (said, state) in [
            ("[ 2.0] Booted\n", VmState::Gone),
            (
                "[ 2.0] Kernel panic - not syncing: odd\r\n",
                VmState::Panicked("Kernel panic - not syncing: odd".to_owned()),
            ),
        ] {
            let ports = Ports::new().unwrap();
            let mut log = ports.guests[0].try_clone().unwrap();
            let channels = ports.listen(Output {
                stdout: Box::new(io::sink()),
                stderr: Box::new(io::sink()),
            });
            log.write_all(said.as_bytes()).unwrap();
            drop(log);
            assert_eq!(channels.wait_beyond(&VmState::Booting, limit), state);
        }
    }

    #[test]
    fn the_log_is_bounded_however_long_its_lines_are() {
        let (port, mut guest) = io::pipe().unwrap();
        let writer = thread::spawn(move || {
            for _ in 0..800 {
                guest.write_all(&[b'x'; 4000]).unwrap();
            }
            guest.write_all(b"\nend").unwrap();
        });
        let mut heard = Heard {
            told: None,
            panic: None,
            troubles: Vec::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            open: 1,
        };
        lines(port, |line| {
            assert!(line.len() <= LINE_BYTES);
            heard.log_line(line);
        });
        writer.join().unwrap();
        assert!(heard.log.iter().map(String::len).sum::<usize>() <= LOG_BYTES);
        assert_eq!(heard.log.back().unwrap(), "end");
    }

    #[test]
    fn lies_of_the_guest_change_nothing() {
        for line in ["", "exit", "exit x", "exit 99999999999", "odd", "\u{0}"] {
            assert_eq!(read_told(line), None, "{line:?}");
        }
        assert_eq!(read_told("exit 0\r"), Some(VmState::Exited(0)));
    }
}
