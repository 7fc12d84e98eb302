//! What is remembered between runs: races, when they were seen, and what people decided
//! about them.
//!
//! Takes the model's races as they are reported, and gives them back with their history. The
//! rest of Redhanded knows the trait [`Store`]; [`SqliteStore`] keeps it in one file, and a
//! database that many machines share would be another implementation. [`Pattern`] and
//! [`Suppressions`] say which races are meant by words of the source: functions, files,
//! fields and classes.
//!
//! A store is never repaired, emptied or replaced: what cannot be used is left as it is.

mod day;
mod error;
mod pattern;
mod place;
mod sqlite;
mod standing;
mod suppression;

pub use day::Day;
pub use error::StoreError;
pub use pattern::{Pattern, PatternError};
pub use place::{project_store, state_folder};
pub use sqlite::{Access, SqliteStore, is_store};
pub use standing::Standings;
pub use suppression::{Entry, Suppressions, SuppressionsError, Used, import_tsan};

use redhanded_model::{Fingerprint, Quote, Race, Report, Run, State};
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Moment(pub i64);

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(since.map_or(0, |since| since.as_millis() as i64))
    }

    /// The day it is on, in UTC.
    #[must_use]
    pub const fn day(self) -> Day {
        Day::from_days(self.0.div_euclid(86_400_000))
    }
}

/// The number of a run in its store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunId(pub i64);

/// A run, as the store has it.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its number.
    pub id: RunId,
    /// When it began.
    pub started: Moment,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// What was done, if it came to its end.
    pub run: Option<Run>,
    /// How many races it saw.
    pub races: u64,
}

/// A race, as the store has it. Its triage is that of today.
#[derive(Clone, Debug)]
pub struct StoredRace {
    /// The race as its last run told it, with the instances of all runs that were asked for.
    pub race: Race,
    /// When it was first seen.
    pub first: Moment,
    /// When it was last seen.
    pub last: Moment,
    /// In how many runs it was seen.
    pub runs: u64,
}

/// What somebody decides about a race.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The new state.
    pub state: State,
    /// Why.
    pub because: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// The last day on which it holds.
    pub until: Option<Day>,
}

/// How often one site was sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// The file name of its module.
    pub module: String,
    /// Its address in the module's file.
    pub site: u64,
    /// How often.
    pub samples: u64,
}

/// What is remembered between runs.
///
/// Each call is done when it returns: a caller that dies afterwards loses nothing of it.
pub trait Store {
    /// Begins a run.
    ///
    /// # Errors
    /// As every call: when the store cannot be read or written.
    fn begin(&mut self, program: &[String], at: Moment) -> Result<RunId, StoreError>;

    /// A race was reported in a run for the first time.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn saw(&mut self, run: RunId, race: &Race, at: Moment) -> Result<(), StoreError>;

    /// More instances of races that were reported in this run.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn saw_again(
        &mut self,
        run: RunId,
        races: &[(Fingerprint, u64)],
        at: Moment,
    ) -> Result<(), StoreError>;

    /// How often sites were sampled in a run; several calls add up.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn exposed(&mut self, run: RunId, sites: &[Exposed]) -> Result<(), StoreError>;

    /// How many sites were sampled in all runs, and how often.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn exposure(&self) -> Result<(u64, u64), StoreError>;

    /// A run came to its end with this report. The first run of a store that `counts` makes its
    /// races known: what it found was there before anybody asked.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn finish(
        &mut self,
        run: RunId,
        report: &Report,
        counts: bool,
        at: Moment,
    ) -> Result<(), StoreError>;

    /// All runs, the latest last.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn runs(&self) -> Result<Vec<StoredRun>, StoreError>;

    /// The races of one run, or of all; those seen last come first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn races(&self, run: Option<RunId>, today: Day) -> Result<Vec<StoredRace>, StoreError>;

    /// The source lines that the races of a run, or of all, quote.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn quotes(&self, run: Option<RunId>) -> Result<Vec<Quote>, StoreError>;

    /// Decides about races, all of them or none. Those that the store does not have are an
    /// error.
    ///
    /// # Errors
    /// When the store cannot be written, or has no such race.
    fn decide(
        &mut self,
        races: &[Fingerprint],
        decision: &Decision,
        at: Moment,
    ) -> Result<(), StoreError>;

    /// What was decided about a race, the latest last; with when, and whether Redhanded did it.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn history(&self, race: &Fingerprint) -> Result<Vec<(Moment, bool, Decision)>, StoreError>;

    /// Adds a note to races.
    ///
    /// # Errors
    /// When the store cannot be written, or has no such race.
    fn note(&mut self, races: &[Fingerprint], text: &str, at: Moment) -> Result<(), StoreError>;

    /// The notes on a race, the latest last.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn notes(&self, race: &Fingerprint) -> Result<Vec<(Moment, String)>, StoreError>;
}
