//! One line that says how a run is going, for as long as it goes.

use crate::numbers::{count, percent, seconds};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// How a run stands.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    /// Time since it began.
    pub elapsed: Duration,
    /// Samples so far.
    pub samples: u64,
    /// Time threads were held, as a share of thread time.
    pub held: f64,
    /// Sites sampled so far.
    pub sites_sampled: u64,
    /// All sites.
    pub sites_total: u64,
    /// Races so far.
    pub races: u64,
}

/// The progress line on standard error; nothing at all unless it is enabled.
///
/// It goes away, and leaves the cursor as it was, when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A line for a run, if `enabled`: if standard error is a terminal and
    /// nobody asked for quiet.
    #[must_use]
    pub fn new(enabled: bool) -> Self {
        Self::on(enabled, ProgressDrawTarget::stderr)
    }

    /// A bar for work of a known number of bytes, such as indexing a file.
    #[must_use]
    pub fn bytes(enabled: bool, task: &str, total: u64) -> Self {
        let progress = Self::on(enabled, ProgressDrawTarget::stderr);
        if let Some(bar) = &progress.bar {
            let task = crate::escape::clean(task, true).into_owned();
            bar.set_length(total);
            bar.set_style(style("{msg} [{bar:30}] {bytes}/{total_bytes}"));
            bar.set_message(task);
        }
        progress
    }

    fn on(enabled: bool, target: impl FnOnce() -> ProgressDrawTarget) -> Self {
        let bar = enabled.then(|| {
            ProgressBar::with_draw_target(None, target()).with_style(style("{spinner} {wide_msg}"))
        });
        Self { bar }
    }

    /// Shows how the run stands. Cheap: the terminal is written a few times a
    /// second at most.
    pub fn update(&self, tally: &Tally) {
        if let Some(bar) = &self.bar {
            bar.set_message(line(tally));
            bar.tick();
        }
    }

    /// Counts `bytes` more as done.
    pub fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// Takes the line away while `print` writes to the terminal.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the line away for good.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn line(tally: &Tally) -> String {
    let span = tally.elapsed.as_secs_f64();
    let rate = if span > 0.0 {
        tally.samples as f64 / span
    } else {
        0.0
    };
    format!(
        "{}  {rate:.0} samples/s  held {}  sites {}/{}  races {}",
        seconds(span),
        percent(tally.held),
        count(tally.sites_sampled),
        count(tally.sites_total),
        count(tally.races),
    )
}

fn style(template: &str) -> ProgressStyle {
    // The templates are this file's own; the fallback only spares a panic.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
