//! What a guest reports: its state, and the kernel's log.
//!
//! Everything here comes from the guest, which may write as much as it likes. The
//! memory for it is bounded.

use std::collections::VecDeque;

/// How much memory the kernel's log may take. The end of the log is kept.
const LOG_BYTES: usize = 1 << 20;

/// What a line takes besides its text.
const LINE_OVERHEAD: usize = 2 * size_of::<String>();

/// How many lines about faults of the kernel are kept.
const TROUBLES: usize = 64;

/// The state of a virtual machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VmState {
    /// The workload has not started.
    Booting,
    /// Modules are loaded and the workload runs.
    Running,
    /// The workload ended with this status, and the machine powers off.
    Exited(i32),
    /// This module was refused, and the workload was not started.
    NotLoaded(String),
    /// The kernel panicked, with this message.
    Panicked(String),
    /// The machine is gone, for no known reason.
    Gone,
}

impl VmState {
    /// Whether the state will not change any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self, Self::Booting | Self::Running)
    }
}

/// What a guest has reported so far.
pub struct Console {
    reported: Option<VmState>,
    panic: Option<String>,
    /// Lines of the log that report a fault of the kernel.
    pub troubles: Vec<String>,
    /// The end of the kernel's log.
    pub log: VecDeque<String>,
    log_bytes: usize,
    /// How many serial ports are still open.
    pub open_ports: usize,
}

impl Console {
    /// A guest that has not said anything yet.
    pub const fn new(open_ports: usize) -> Self {
        Self {
            reported: None,
            panic: None,
            troubles: Vec::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            open_ports,
        }
    }

    /// Takes a line of the guest's init.
    pub fn report_line(&mut self, line: &[u8]) {
        if let Some(state) = parse_report(&String::from_utf8_lossy(line)) {
            self.reported = Some(state);
        }
    }

    /// Takes a line of the kernel's log.
    pub fn log_line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r').to_owned();
        if let Some(message) = panic_message(&line) {
            self.panic.get_or_insert_with(|| message.to_owned());
        }
        if is_trouble(&line) && self.troubles.len() < TROUBLES {
            self.troubles.push(line.clone());
        }
        self.log_bytes += line.len() + LINE_OVERHEAD;
        self.log.push_back(line);
        while self.log_bytes > LOG_BYTES {
            let first = self.log.pop_front().unwrap_or_default();
            self.log_bytes -= first.len() + LINE_OVERHEAD;
        }
    }

    /// The present state.
    pub fn state(&self) -> VmState {
        match (&self.reported, &self.panic) {
            (Some(state), _) if state.is_over() => state.clone(),
            (_, Some(message)) => VmState::Panicked(message.clone()),
            _ if self.open_ports == 0 => VmState::Gone,
            (state, None) => state.clone().unwrap_or(VmState::Booting),
        }
    }
}

/// A line of the guest's init.
fn parse_report(line: &str) -> Option<VmState> {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match word {
        "ready" => Some(VmState::Running),
        "exit" => Some(VmState::Exited(rest.parse().ok()?)),
        "module" => Some(VmState::NotLoaded(rest.to_owned())),
        _ => None,
    }
}

/// The message of a panic, without the time in front of it.
fn panic_message(line: &str) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_whatever_its_lines_are() {
        for line in [&[][..], b"\r", b"short", &[b'x'; 4096], &[0xff; 4096]] {
            let mut console = Console::new(1);
            for _ in 0..(8 << 20) / (line.len() + size_of::<String>()) {
                console.log_line(line);
            }
            console.log_line(b"end");
            let text: usize = console.log.iter().map(String::capacity).sum();
            let lines = console.log.capacity() * size_of::<String>();
            assert!(text + lines <= 3 * LOG_BYTES, "{text} and {lines}");
            assert_eq!(console.log.back().unwrap(), "end");
        }
    }

    #[test]
    fn faults_and_panics_are_kept_only_as_far_as_needed() {
        let mut console = Console::new(1);
        for number in 0..10_000 {
            console.log_line(format!("[ 1.0] Kernel panic - number {number}\r").as_bytes());
        }
        let first = VmState::Panicked("Kernel panic - number 0".to_owned());
        assert_eq!(console.state(), first);
        assert_eq!(console.troubles.len(), TROUBLES);
    }

    #[test]
    fn malformed_reports_are_ignored() {
        for line in ["", "exit", "exit x", "exit 99999999999", "odd", "\u{0}"] {
            assert_eq!(parse_report(line), None, "{line:?}");
        }
        assert_eq!(parse_report("exit 0\r"), Some(VmState::Exited(0)));
    }
}
