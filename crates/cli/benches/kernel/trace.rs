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

    /// The seconds in which no CPU ran, once sampling had begun. `None` if this QEMU
    /// writes no such log.
    pub fn stood(&self) -> Option<f64> {
        let log = std::fs::read_to_string(&self.0).ok()?;
        std::fs::remove_file(&self.0).ok()?;
        let changes: Vec<(f64, bool)> = log.lines().filter_map(change).collect();
        let stands = changes.array_windows().filter_map(|[from, to]| {
            let stood = to.0 - from.0;
            // The first one is the preparation.
            (!from.1 && to.1).then_some(stood)
        });
        let stands: Vec<f64> = stands.skip(1).collect();
        (!stands.is_empty()).then(|| stands.iter().sum())
    }
}

/// When the machine began to run or to stand, from a line like
/// `123@1794812867.639438:vm_state_notify running 1 reason 9 (running)`.
fn change(line: &str) -> Option<(f64, bool)> {
    let (_, rest) = line.split_once('@')?;
    let (at, what) = rest.split_once(':')?;
    let runs = what.strip_prefix("vm_state_notify running ")?;
    Some((at.parse().ok()?, runs.starts_with('1')))
}
