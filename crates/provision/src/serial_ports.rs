//! The serial ports of a virtual machine.
//!
//! The guest's kernel has the first port to itself, the workload's output and errors
//! have the second and third, and the guest's init reports over the fourth.

use super::console::{Console, VmState};
use super::system;
use crate::ProvisionError;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A longer line is cut into pieces.
const LINE_BYTES: usize = 4096;

/// Where the workload's output and errors go.
pub struct Output {
    /// Takes what the workload writes to its stdout.
    pub stdout: Box<dyn Write + Send>,
    /// Takes what the workload writes to its stderr.
    pub stderr: Box<dyn Write + Send>,
}

impl Output {
    /// Our own stdout and stderr.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
        }
    }
}

/// What the guest has reported, shared with the threads that listen to it.
struct Shared {
    console: Mutex<Console>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Console> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, update: impl FnOnce(&mut Console)) {
        update(&mut self.lock());
        self.changed.notify_all();
    }
}

/// Both ends of the four ports.
///
/// Three are pipes, which hold 64 KiB even if written byte by byte. A socket is full
/// after a few hundred such writes, and a kernel that waits too long for its console
/// drops messages.
pub struct Ports {
    ours: [PipeReader; 3],
    guests: [PipeWriter; 3],
    /// The fourth goes both ways, and carries little.
    reports: (UnixStream, UnixStream),
}

impl Ports {
    /// Creates the ports.
    pub fn new() -> Result<Self, ProvisionError> {
        let pair = || io::pipe().map_err(system("cannot create a pipe"));
        let [a, b, c] = [pair()?, pair()?, pair()?];
        Ok(Self {
            ours: [a.0, b.0, c.0],
            guests: [a.1, b.1, c.1],
            reports: UnixStream::pair().map_err(system("cannot create a socket"))?,
        })
    }

    /// The files that QEMU has to inherit.
    pub fn files(&self) -> [RawFd; 4] {
        let [a, b, c] = self.guests.each_ref().map(AsRawFd::as_raw_fd);
        [a, b, c, self.reports.1.as_raw_fd()]
    }

    /// Starts a thread for each port. Our copies of the guest's ends are closed, so
    /// that the ports end when QEMU does.
    pub fn listen(self, output: Output) -> Listeners {
        let (reports, guest) = self.reports;
        drop((self.guests, guest));
        let back = reports.try_clone().ok();
        let shared = Arc::new(Shared {
            console: Mutex::new(Console::new(4)),
            changed: Condvar::new(),
        });
        let [log, stdout, stderr] = self.ours;
        let start = |listen: Box<dyn FnOnce(&Shared) + Send>| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                listen(&shared);
                shared.update(|console| console.open_ports -= 1);
            })
        };
        let threads = vec![
            start(Box::new(|_| copy(stdout, output.stdout))),
            start(Box::new(|_| copy(stderr, output.stderr))),
            start(Box::new(|shared| {
                lines(log, |line| shared.update(|console| console.log_line(line)));
            })),
            start(Box::new(|shared| {
                lines(reports, |line| {
                    shared.update(|console| console.report_line(line));
                });
            })),
        ];
        Listeners {
            shared,
            threads,
            back,
        }
    }
}

/// The threads that listen to the ports, and what they have heard.
pub struct Listeners {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The way back to the guest's init.
    back: Option<UnixStream>,
}

impl Listeners {
    /// Tells the guest's init to start the workload.
    pub fn start(&mut self) {
        // A machine that is gone is noticed by its closed ports.
        if let Some(mut back) = self.back.take() {
            drop(back.write_all(b"go\n"));
        }
    }

    /// The present state.
    pub fn state(&self) -> VmState {
        self.shared.lock().state()
    }

    /// Waits until the state is no longer `state`, or `limit` has passed.
    pub fn wait_beyond(&self, state: &VmState, limit: Duration) -> VmState {
        let deadline = Instant::now() + limit;
        let mut console = self.shared.lock();
        loop {
            let now = console.state();
            let left = deadline.saturating_duration_since(Instant::now());
            if now != *state || left.is_zero() {
                return now;
            }
            let waited = self.shared.changed.wait_timeout(console, left);
            console = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The end of the kernel's log.
    pub fn log(&self) -> Vec<String> {
        self.shared.lock().log.iter().cloned().collect()
    }

    /// Lines of the log that report a fault of the kernel.
    pub fn troubles(&self) -> Vec<String> {
        self.shared.lock().troubles.clone()
    }

    /// Waits until all ports are closed and read, which is when QEMU has ended.
    pub fn finish(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread panics only if the caller's writer does.
            drop(thread.join());
        }
    }
}

/// Copies until the port is closed. If the output cannot be written, the guest must
/// not stop: the rest is read and dropped.
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

/// Takes these bytes for what a guest sends: its kernel's log and its init's reports. Gives the
/// state that it seems to be in, and how much text is kept. For the fuzzer.
#[must_use]
pub fn hear_forged(log: &[u8], reports: &[u8]) -> (VmState, usize) {
    let mut console = Console::new(1);
    lines(log, |line| console.log_line(line));
    lines(reports, |line| console.report_line(line));
    let kept = console.log.iter().chain(&console.troubles);
    let kept = kept.map(String::len).sum();
    (console.state(), kept)
}

/// Passes on lines until the port is closed.
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

/// QEMU's options for the ports.
pub fn arguments(files: [RawFd; 4]) -> Vec<String> {
    let mut arguments = Vec::new();
    // The ports of a PC share two interrupts. In QEMU a shared one gets lost when
    // one port clears it for the other, so each port gets its own.
    for ((index, irq), file) in [(0, 4), (1, 3), (2, 5), (3, 7)].into_iter().zip(files) {
        if index == 3 {
            arguments.push("-chardev".to_owned());
            arguments.push(format!("socket,id=redhanded{index},fd={file}"));
        } else {
            // Append, because a pipe cannot be truncated. Sets are counted from 1.
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
        let mut reports = ports.reports.1.try_clone().unwrap();
        let (out, err) = (Kept::default(), Kept::default());
        let mut listeners = ports.listen(Output {
            stdout: Box::new(out.clone()),
            stderr: Box::new(err.clone()),
        });
        let limit = Duration::from_secs(60);
        assert_eq!(listeners.state(), VmState::Booting);
        reports.write_all(b"ready\n").unwrap();
        let state = listeners.wait_beyond(&VmState::Booting, limit);
        assert_eq!(state, VmState::Running);
        guest[1].write_all(b"out\0\xff").unwrap();
        guest[2].write_all(b"err").unwrap();
        guest[0].write_all(b"[ 1.0] BUG: odd\r\nfine\r\n").unwrap();
        listeners.start();
        let mut go = [0; 3];
        reports.read_exact(&mut go).unwrap();
        assert_eq!(&go, b"go\n");
        reports.write_all(b"exit 3\n").unwrap();
        let state = listeners.wait_beyond(&VmState::Running, limit);
        assert_eq!(state, VmState::Exited(3));
        drop((guest, reports));
        listeners.finish();
        assert_eq!(*out.0.lock().unwrap(), b"out\0\xff");
        assert_eq!(*err.0.lock().unwrap(), b"err");
        assert_eq!(listeners.log(), ["[ 1.0] BUG: odd", "fine"]);
        assert_eq!(listeners.troubles(), ["[ 1.0] BUG: odd"]);
        assert_eq!(
            listeners.state(),
            VmState::Exited(3),
            "it was reported before"
        );
    }

    #[test]
    fn an_end_without_a_report_is_not_taken_for_a_panic() {
        let limit = Duration::from_secs(60);
        for (said, state) in [
            ("[ 2.0] Booted\n", VmState::Gone),
            (
                "[ 2.0] Kernel panic - not syncing: odd\r\n",
                VmState::Panicked("Kernel panic - not syncing: odd".to_owned()),
            ),
        ] {
            let ports = Ports::new().unwrap();
            let mut log = ports.guests[0].try_clone().unwrap();
            let listeners = ports.listen(Output {
                stdout: Box::new(io::sink()),
                stderr: Box::new(io::sink()),
            });
            log.write_all(said.as_bytes()).unwrap();
            drop(log);
            assert_eq!(listeners.wait_beyond(&VmState::Booting, limit), state);
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let mut lengths = Vec::new();
        let text = [&[b'x'; 10_000][..], b"\n\nend"].concat();
        lines(&*text, |line| lengths.push(line.len()));
        assert_eq!(
            lengths,
            [LINE_BYTES, LINE_BYTES, 10_000 - 2 * LINE_BYTES, 0, 3]
        );
    }
}
