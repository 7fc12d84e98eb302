//! What a whole run came to.

use crate::{Frame, Losses, Race, ThreadName};
use serde::{Deserialize, Serialize};

/// How many sites there were and what was done with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SiteCounts {
    /// In the sampling set of all loaded modules.
    pub total: u64,
    /// Armed at some time.
    pub armed: u64,
    /// Fired at some time.
    pub sampled: u64,
}

/// For how long nobody ran at all, where stopping one stops all.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Standstill {
    /// In sum, in seconds.
    pub total_s: f64,
    /// Because of a window: the median, where windows were watched.
    pub window_s: Option<f64>,
}

/// Something the run could not look at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unseen {
    /// What: a module, a child process, …
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A window before a crash.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashWindow {
    /// How long before the crash it ended, in seconds.
    pub ago_s: f64,
    /// The thread that was held in it.
    pub tid: u32,
    /// Where.
    pub at: Frame,
    /// For how long, in seconds.
    pub held_s: f64,
    /// Whether somebody was caught in it.
    pub caught: bool,
}

/// A signal that killed the program, and what was done to it just before.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Crash {
    /// The signal.
    pub signal: i32,
    /// The thread that got it.
    pub thread: ThreadName,
    /// Where it was.
    pub stack: Vec<Frame>,
    /// The last windows, the latest last.
    pub windows: Vec<CrashWindow>,
}

/// Everything there is to say about a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How often it was run.
    pub runs: u64,
    /// How many of these runs were ended because they took too long.
    #[serde(default)]
    pub cut_off: u64,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// Samples: firings of armed sites.
    pub samples: u64,
    /// Windows: samples at which the thread was held and the bytes observed.
    pub windows: u64,
    /// Time threads were held, in seconds.
    pub held_s: f64,
    /// Thread time in seconds the budget is measured against.
    pub thread_s: f64,
    /// Where stopping one stops all.
    pub standstill: Option<Standstill>,
    /// The sites.
    pub sites: SiteCounts,
    /// The losses.
    pub losses: Losses,
    /// What was not looked at.
    pub unseen: Vec<Unseen>,
    /// Whether the tracer was lost before the end.
    pub cut_short: bool,
    /// What killed the program, if a mistake did.
    pub crash: Option<Crash>,
    /// How the program ended, in words, and its status if it ended.
    pub ending: Option<String>,
    /// The races, most certain and most often seen first.
    pub races: Vec<Race>,
}

impl RunReport {
    /// Samples per second of wall-clock time.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        ratio(self.samples as f64, self.wall_s)
    }

    /// Time held as a share of thread time.
    #[must_use]
    pub fn overhead_estimate(&self) -> f64 {
        ratio(self.held_s, self.thread_s)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
