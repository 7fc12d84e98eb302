//! For how long the machine stood by QEMU's own account: a line with the time in a
//! log whenever its state changes. The tracer hears of a stop only later.

use std::path::{Path, PathBuf};

/// A log that QEMU is to write.
pub struct Trace(PathBuf);

impl Trace {
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.join("qemu.log"))
    }

    /// The arguments of `redhanded kernel` that have it written.
    pub fn arguments(&self) -> Vec<String> {
        let log = self.0.display().to_string();
        [
            "-msg",
            "timestamp=on",
            "-trace",
            "vm_state_notify",
            "-D",
            &log,
        ]
        .map(|argument| format!("--qemu-arg={argument}"))
        .to_vec()
    }

    /// The seconds in which no CPU ran, from when the first breakpoint was reached: it
    /// stands before that too, while its code is read. `None` if this QEMU writes no
    /// such log.
    pub fn stood(&self) -> Option<f64> {
        let log = std::fs::read_to_string(&self.0).ok()?;
        std::fs::remove_file(&self.0).ok()?;
        let changes = log.lines().filter_map(change);
        let sampling: Vec<(f64, State)> = changes
            .skip_while(|(_, state)| *state != State::StandsAtBreakpoint)
            .collect();
        let stands = sampling
            .array_windows()
            .filter(|[from, to]| from.1 != State::Runs && to.1 == State::Runs)
            .map(|[from, to]| to.0 - from.0);
        (!sampling.is_empty()).then(|| stands.sum())
    }
}

#[derive(PartialEq, Eq)]
enum State {
    Runs,
    Stands,
    /// Or at a watch.
    StandsAtBreakpoint,
}

/// When the machine began to run or to stand, from a line like
/// `123@1794812867.639438:vm_state_notify running 0 reason 0 (debug)`.
fn change(line: &str) -> Option<(f64, State)> {
    let (_, rest) = line.split_once('@')?;
    let (at, what) = rest.split_once(':')?;
    let state = match what.strip_prefix("vm_state_notify running ")? {
        runs if runs.starts_with('1') => State::Runs,
        stands if stands.ends_with("(debug)") => State::StandsAtBreakpoint,
        _ => State::Stands,
    };
    Some((at.parse().ok()?, state))
}
