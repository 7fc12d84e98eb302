//! What happens in a run as it happens, for programs: one line of JSON each (`--events`).
//! `docs/json.md` describes them.

use crate::exit::Failure;
use crate::screen;
use redhanded_model::{Counts, Race, Run};
use redhanded_report::open_stream;
use redhanded_sys::write_some;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the numbers are told.
const COUNTS_EVERY: Duration = Duration::from_secs(1);

/// So many bytes are kept for a reader that is slower than what happens.
const MOST_KEPT: usize = 4 << 20;
/// At the end, a reader that takes nothing for this long has gone without saying so.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where events are written. Who stops reading them stops nothing else.
pub struct Events {
    path: PathBuf,
    file: Option<File>,
    /// What the reader has not taken yet.
    kept: VecDeque<u8>,
    /// How many events there was no room for since the last that is kept.
    dropped: u64,
    counted: Instant,
    /// What stopped the writing, other than the reader.
    failed: Option<Failure>,
}

impl Events {
    /// Opens a pipe or device, or makes a file, which must not exist.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = open_stream(path).map_err(|error| unwritten(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
            kept: VecDeque::new(),
            dropped: 0,
            counted: Instant::now(),
            failed: None,
        })
    }

    fn tell(&mut self, event: &Value) {
        if self.file.is_none() {
            return;
        }
        self.write(Duration::ZERO);
        if self.dropped > 0 && self.kept.len() < MOST_KEPT {
            self.keep(&json!({ "event": "dropped", "events": self.dropped }));
            self.dropped = 0;
        }
        if self.kept.len() < MOST_KEPT {
            self.keep(event);
            self.write(Duration::ZERO);
        } else {
            self.dropped += 1;
        }
    }

    fn keep(&mut self, event: &Value) {
        self.kept.extend(format!("{event}\n").as_bytes());
    }

    /// Writes what the reader takes now, or begins to take within `limit`; whether it took
    /// anything.
    fn write(&mut self, limit: Duration) -> bool {
        let before = self.kept.len();
        let mut limit = limit;
        while let Some(file) = self.file.as_ref().filter(|_| !self.kept.is_empty()) {
            match write_some(file.as_fd(), self.kept.as_slices().0, limit) {
                Ok(0) => break,
                Ok(written) => drop(self.kept.drain(..written)),
                Err(error) => self.fail(error),
            }
            limit = Duration::ZERO;
        }
        self.kept.len() < before
    }

    /// Writes the rest, as long as somebody takes it.
    fn wait_for_reader(&mut self) {
        let mut taken = Instant::now();
        while !self.kept.is_empty() && taken.elapsed() < PATIENCE {
            if self.write(LOOK_EVERY) {
                taken = Instant::now();
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.file = None;
        self.kept.clear();
        if error.kind() != ErrorKind::BrokenPipe {
            let failure = unwritten(&self.path, error);
            screen::say(&format!(
                "redhanded: {failure}; the run goes on, and tells of no more events"
            ));
            self.failed = Some(failure);
        }
    }

    /// The program runs.
    pub fn started(&mut self, program: &[String], pid: u32) {
        let version = env!("CARGO_PKG_VERSION");
        self.tell(&json!({
            "event": "started", "schema": "redhanded-events/1", "version": version,
            "program": program, "pid": pid,
        }));
    }

    /// A race was found.
    pub fn race(&mut self, race: &Race, after: Duration) {
        let after = redhanded_model::rounded(after.as_secs_f64());
        self.tell(&json!({ "event": "race", "after_s": after, "race": race }));
    }

    /// A race was seen again.
    pub fn again(&mut self, race: &Race) {
        self.tell(&json!({
            "event": "again", "id": race.id(), "hash": race.fingerprint.hash(),
            "instances": race.instances,
        }));
    }

    /// The numbers so far, now and then.
    pub fn counts(&mut self, counts: &Counts) {
        if self.counted.elapsed() < COUNTS_EVERY {
            return;
        }
        self.counted = Instant::now();
        self.tell(&json!({
            "event": "progress", "wall_s": redhanded_model::rounded(counts.wall.as_secs_f64()),
            "samples": counts.samples, "windows": counts.windows, "sites": counts.sites,
        }));
    }

    /// It is over; whether all was written that somebody would read.
    pub fn finished(mut self, run: &Run, races: usize) -> Result<(), Failure> {
        let finished = json!({ "event": "finished", "races": races, "run": run });
        self.tell(&finished);
        self.wait_for_reader();
        if self.kept.is_empty() && self.dropped > 0 {
            // There was no room for it, and now there is.
            self.dropped -= 1;
            self.tell(&finished);
            self.wait_for_reader();
        }
        if !self.kept.is_empty() {
            let path = self.path.display();
            screen::say(&format!(
                "redhanded: nobody reads {path}, so the last events were dropped"
            ));
        }
        self.failed.map_or(Ok(()), Err)
    }
}

fn unwritten(path: &Path, source: io::Error) -> Failure {
    Failure::File {
        what: "events",
        path: path.to_owned(),
        source,
    }
}
