//! What a whole run came to. Together with `race.rs` these types are a report's
//! document: see `docs/json.md`.

use crate::notation::{self, object, rounded};
use crate::{Frame, Hunted, Loss, Losses, Race, ThreadName};
use serde::de::IntoDeserializer;
use serde::de::value::Error as Unknown;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

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
    #[serde(rename = "stopped_s")]
    pub total_s: f64,
    /// Because of a window: the median, where windows were watched.
    #[serde(rename = "stopped_per_window_s")]
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
    #[serde(with = "notation::seconds")]
    pub ago_s: f64,
    /// The thread that was held in it.
    pub tid: u32,
    /// Where.
    pub at: Frame,
    /// For how long, in seconds.
    #[serde(with = "notation::seconds")]
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

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Ending {
    /// It exited.
    Exited {
        /// Its status.
        status: i32,
    },
    /// A signal killed it.
    Killed {
        /// The signal.
        signal: i32,
        /// Whether it dumped core.
        core: bool,
    },
    /// Redhanded ended it, because the user asked for that.
    #[serde(rename = "ended-by-redhanded")]
    EndedByUs,
    /// It lives on.
    LeftRunning,
    /// It lives on, stopped at a race.
    LeftStopped,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { status } => write!(f, "exited with status {status}"),
            Self::Killed { signal, core } => {
                let dumped = if *core { ", core dumped" } else { "" };
                write!(f, "killed by signal {signal}{dumped}")
            }
            Self::EndedByUs => f.write_str("ended by redhanded"),
            Self::LeftRunning => f.write_str("left running"),
            Self::LeftStopped => f.write_str("left stopped at the race"),
        }
    }
}

/// Everything there is to say about a run: what was done, and what was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was done.
    pub run: Run,
    /// Collisions that are no races, each with the rule that says so.
    #[serde(default)]
    pub set_aside: Vec<Race>,
    /// The races, most certain and most often seen first.
    pub races: Vec<Race>,
    /// The source lines of the races' accesses, as far as they could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Quote>,
}

/// A line of source that a report quotes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Quote {
    /// The file, as the debug information names it.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Its text.
    pub text: String,
}

/// What was done in a run, and at what cost.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Run {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How often it was run.
    pub runs: u64,
    /// How many of these runs were ended because they took too long.
    #[serde(default)]
    pub cut_off: u64,
    /// How the program ended.
    #[serde(rename = "ended", default)]
    pub ending: Option<Ending>,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// Thread time in seconds the budget is measured against.
    pub thread_s: f64,
    /// Where stopping one stops all.
    #[serde(flatten)]
    pub standstill: Option<Standstill>,
    /// Samples: firings of armed sites.
    pub samples: u64,
    /// Windows: samples at which the thread was held and the bytes observed.
    pub windows: u64,
    /// Time threads were held, in seconds.
    pub held_s: f64,
    /// The sites.
    pub sites: SiteCounts,
    /// The losses.
    #[serde(deserialize_with = "known_losses")]
    pub losses: Losses,
    /// What was not looked at.
    pub unseen: Vec<Unseen>,
    /// Whether the tracer was lost before the end.
    #[serde(default)]
    pub cut_short: bool,
    /// What killed the program, if a mistake did.
    #[serde(default)]
    pub crash: Option<Crash>,
    /// The pairs that were hunted, if it was a hunt.
    #[serde(default)]
    pub candidates: Vec<Hunted>,
    /// What was recorded and analysed, if that was done.
    #[serde(default)]
    pub recorded: Option<Recorded>,
}

/// A recording that was analysed, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Processes with more than one thread, which alone can race.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// What these did, entry by entry.
    pub entries: u64,
    /// How many of the entries are sequencers.
    pub sequencers: u64,
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let standstill = self.standstill;
        object!(out, {
            "program": self.program,
            "runs": self.runs,
            some "cut_off": (self.cut_off > 0).then_some(self.cut_off),
            "ending": self.ending.map(|ending| ending.to_string()),
            "ended": self.ending,
            "wall_s": rounded(self.wall_s),
            "thread_s": rounded(self.thread_s),
            some "stopped_s": standstill.map(|all| rounded(all.total_s)),
            some "stopped_per_window_s": standstill.and_then(|all| all.window_s.map(rounded)),
            "samples": self.samples,
            "samples_per_s": rounded(self.samples_per_s()),
            "windows": self.windows,
            "held_s": rounded(self.held_s),
            "overhead_estimate": rounded(self.overhead_estimate()),
            "sites": self.sites,
            "losses": self.losses,
            "cut_short": self.cut_short,
            "unseen": self.unseen,
            some "crash": self.crash,
            some "candidates": (!self.candidates.is_empty()).then_some(&self.candidates),
            some "recorded": self.recorded,
        })
    }
}

/// Reads losses. Later versions may count reasons that this one does not know.
fn known_losses<'de, D: Deserializer<'de>>(from: D) -> Result<Losses, D::Error> {
    let all = BTreeMap::<String, u64>::deserialize(from)?;
    let known = all.into_iter().filter_map(|(reason, count)| {
        let loss: Result<_, Unknown> = Loss::deserialize(reason.into_deserializer());
        Some((loss.ok()?, count))
    });
    Ok(Losses(known.collect()))
}

impl Run {
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
