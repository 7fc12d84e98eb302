//! How a run is going, for as long as it goes on.

use crate::numbers::{count, percent, seconds};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redhanded_sys::write_stderr;
use std::sync::{Mutex, PoisonError};
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

/// How progress is shown on standard error.
///
/// A line that is kept up to date is erased and drawn again, and so the terminal
/// must be ours alone. Where a program writes to it or is typed to, nobody but the
/// terminal knows where its cursor is: redrawing would erase a prompt or what is
/// being typed, and the program's next output would run into the line. There is no
/// moment that is safe. Even a program that has been silent for long may write
/// between our look and our drawing, and asking the terminal for its cursor steals
/// from the program's input. So on a shared terminal nothing is ever erased:
/// there is no progress at all, or whole lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Not at all.
    Nothing,
    /// One line that is kept up to date, for a terminal that nobody else uses.
    InPlace,
    /// A whole line now and then, for logs and shared terminals.
    Lines,
}

/// Time between two whole lines.
const EVERY: Duration = Duration::from_secs(10);

/// Shows how a run is going. A line that is kept up to date goes away when this is
/// dropped.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    /// When the next whole line is due, if there are any.
    due: Option<Mutex<Duration>>,
}

impl Progress {
    /// For a run.
    #[must_use]
    pub fn new(shown: Shown) -> Self {
        Self::on(shown, ProgressDrawTarget::stderr)
    }

    /// A bar for work of a known number of bytes, such as indexing a file. It is
    /// shown in place or not at all.
    #[must_use]
    pub fn bytes(shown: Shown, task: &str, total: u64) -> Self {
        let progress = Self::on(shown, ProgressDrawTarget::stderr);
        if let Some(bar) = &progress.bar {
            let task = crate::escape::clean(task, true).into_owned();
            bar.set_length(total);
            bar.set_style(style("{msg} [{bar:30}] {bytes}/{total_bytes}"));
            bar.set_message(task);
        }
        progress
    }

    fn on(shown: Shown, target: impl FnOnce() -> ProgressDrawTarget) -> Self {
        let bar = (shown == Shown::InPlace)
            .then(|| ProgressBar::with_draw_target(None, target()).with_style(style("{wide_msg}")));
        let due = (shown == Shown::Lines).then(|| Mutex::new(EVERY));
        Self { bar, due }
    }

    /// Shows how the run stands. Cheap: the terminal is written a few times a
    /// second at most.
    pub fn update(&self, tally: &Tally) {
        if let Some(bar) = &self.bar {
            bar.set_message(line(tally));
        }
        if self.is_due(tally.elapsed) {
            // Whoever cannot hear it does not miss it.
            let _ = write_stderr(format!("redhanded: {}\n", line(tally)).as_bytes());
        }
    }

    fn is_due(&self, elapsed: Duration) -> bool {
        let Some(due) = &self.due else { return false };
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = elapsed >= *due;
        if is_due {
            *due = elapsed + EVERY;
        }
        is_due
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
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        // ASCII, because not every terminal has more.
        .progress_chars("#>-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Arc;

    /// A terminal that remembers what it was told.
    #[derive(Clone, Debug, Default)]
    struct Recorder(Arc<Mutex<String>>);

    impl Recorder {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn take(&self) -> String {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    impl TermLike for Recorder {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text)?;
            self.add("\n")
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            self.add("<clear>")
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_tells_the_tally_and_makes_way() {
        let screen = Recorder::default();
        let target = screen.clone();
        let progress = Progress::on(Shown::InPlace, || {
            ProgressDrawTarget::term_like(Box::new(target))
        });
        progress.update(&Tally {
            elapsed: Duration::from_secs(10),
            samples: 1040,
            held: 0.048,
            sites_sampled: 120,
            sites_total: 1812,
            races: 2,
        });
        let line = "10.0 s  104 samples/s  held 4.8 %  sites 120/1,812  races 2";
        let shown = screen.take();
        assert!(shown.contains(line), "{shown}");
        let during = progress.suspend(|| screen.take());
        assert!(
            during.contains("<clear>") && !during.contains(line),
            "{during}"
        );
        let after = screen.take();
        assert!(after.contains(line), "{after}");
        drop(progress);
        let end = screen.take();
        assert!(end.contains("<clear>") && !end.contains(line), "{end}");
    }

    #[test]
    fn otherwise_nothing_is_drawn() {
        for shown in [Shown::Nothing, Shown::Lines] {
            let progress = Progress::on(shown, || panic!("no target is made"));
            progress.update(&Tally::default());
            progress.advance(5);
            assert_eq!(progress.suspend(|| 7), 7);
            progress.finish();
        }
    }

    #[test]
    fn whole_lines_come_now_and_then() {
        let progress = Progress::new(Shown::Lines);
        let due: Vec<u64> = (0..35)
            .filter(|second| progress.is_due(Duration::from_secs(*second)))
            .collect();
        assert_eq!(due, [10, 20, 30]);
    }
}
