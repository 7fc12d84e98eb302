//! What a session did, in numbers: the same type in the sampling loop, in the
//! session log and, once, on its way into the report.

use crate::{Losses, Run, SiteCounts, Standstill, rounded};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The numbers of one run, or of several added up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Runs that have ended.
    pub runs: u64,
    /// Those among them that were ended because they took too long.
    pub cut_off: u64,
    /// Wall-clock time since the first run began.
    pub wall: Duration,
    /// Firings of armed sites.
    pub samples: u64,
    /// Windows that were opened.
    pub windows: u64,
    /// Time threads were held.
    pub held: Duration,
    /// Thread time of the program.
    pub thread_time: Duration,
    /// For how long nobody ran, where stopping one CPU stops all.
    pub standstill: Option<Standstill>,
    /// The sites.
    pub sites: SiteCounts,
    /// What was lost.
    pub losses: Losses,
}

impl Counts {
    /// Adds what another run did. The sites are those of the same program, so
    /// the larger number stands; a machine is observed once. Runs and wall-clock
    /// time are for the caller to count.
    pub fn add(&mut self, run: &Self) {
        self.samples += run.samples;
        self.windows += run.windows;
        self.held += run.held;
        self.thread_time += run.thread_time;
        self.standstill = run.standstill.or(self.standstill);
        self.losses.merge(&run.losses);
        self.sites.total = self.sites.total.max(run.sites.total);
        self.sites.armed = self.sites.armed.max(run.sites.armed);
        self.sites.sampled = self.sites.sampled.max(run.sites.sampled);
    }
}

impl From<Counts> for Run {
    fn from(counts: Counts) -> Self {
        Self {
            runs: counts.runs,
            cut_off: counts.cut_off,
            wall_s: seconds(counts.wall),
            samples: counts.samples,
            windows: counts.windows,
            held_s: seconds(counts.held),
            thread_s: seconds(counts.thread_time),
            standstill: counts.standstill,
            sites: counts.sites,
            losses: counts.losses,
            ..Self::default()
        }
    }
}

/// In the precision of the documents, so that ratios of these are the same when they
/// are computed from a document again.
fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64())
}
