//! What a run has to do with earlier ones: the store it is kept in, what is known from
//! before, and what needs no attention.

use crate::arguments::{Enough, FailOn, Remembering};
use crate::documents::repository;
use crate::exit::Failure;
use crate::screen;
use log::{debug, info};
use redhanded_detect::Exposure;
use redhanded_model::{Fingerprint, Race, Report, Run, State, Triage};
use redhanded_store::{
    Access, Exposed, Moment, RunId, SqliteStore, Standings, Store, StoreError, Suppressions, Used,
    is_store, project_store,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often further instances of known races are written. A race itself is written at once.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// What is remembered, resolved and read before anything runs.
#[derive(Default)]
pub struct Memory {
    /// Where the run is kept.
    pub store: Option<PathBuf>,
    /// How races of an earlier report or store stand.
    baseline: Option<Standings>,
    suppressions: Suppressions,
    min_samples: u64,
    min_coverage: f64,
}

impl Memory {
    /// What is asked for. What cannot be used is an error now, and not after the run.
    pub fn of(asked: &Remembering, enough: Enough, fail_on: FailOn) -> Result<Self, Failure> {
        let store = match &asked.store {
            Some(path) => Some(path.clone()),
            None if asked.remember => Some(default_store()?),
            None => None,
        };
        if let Some(path) = &store {
            drop(SqliteStore::open(path, Access::Write)?);
            info!("the store is {}", path.display());
        }
        let baseline = asked.baseline.as_deref();
        if fail_on == FailOn::New && store.is_none() && baseline.is_none() {
            return Err(Failure::Usage(
                "--fail-on new needs to know what is old: add --store, --remember or --baseline"
                    .to_owned(),
            ));
        }
        Ok(Self {
            store,
            baseline: baseline.map(standings).transpose()?,
            suppressions: match &asked.suppressions {
                Some(path) => Suppressions::read(path)?,
                None => Suppressions::default(),
            },
            min_samples: enough.min_samples.unwrap_or(0),
            min_coverage: enough.min_coverage.unwrap_or(0.0),
        })
    }

    /// Keeps a run that is over, if runs are kept, and says of each race how it stands. A run that
    /// does not `count` does not make its races known. Nothing may be forked after this.
    pub fn keep(&self, report: &mut Report, began: Moment, counts: bool) -> Result<(), Failure> {
        let Some(path) = &self.store else {
            return Ok(());
        };
        let mut recorder = Recorder::new(path, report.run.program.clone())?;
        recorder.begin(began);
        for race in &report.races {
            recorder.saw(race);
        }
        recorder.finish(report, counts)
    }

    /// Says of each race what is known and decided; what there is to say about the entries
    /// of the suppression file.
    pub fn annotate(&self, report: &mut Report) -> Vec<String> {
        if let Some(known) = &self.baseline {
            for race in &mut report.races {
                race.triage = Some(standing(known, race));
            }
        }
        suppress(&self.suppressions, report)
    }

    /// Why a run says nothing about the program, if it looked at too little of it.
    pub fn too_little(&self, run: &Run) -> Option<String> {
        if run.samples < self.min_samples {
            return Some(format!(
                "{} samples are too few to say anything: --min-samples asks for {}",
                run.samples, self.min_samples
            ));
        }
        let coverage = run.sites.sampled as f64 / run.sites.total.max(1) as f64;
        (coverage < self.min_coverage).then(|| {
            format!(
                "{:.2}% of the sites were sampled, too few to say anything: --min-coverage asks \
                 for {}%",
                coverage * 100.0,
                self.min_coverage * 100.0
            )
        })
    }
}

/// Marks what a suppression file lists; unused and expired entries in words.
pub fn suppress(suppressions: &Suppressions, report: &mut Report) -> Vec<String> {
    let used = suppressions.apply(&mut report.races, Moment::now().day());
    let told = used.into_iter().filter_map(|(entry, used)| match used {
        Used::Matched(_) => None,
        Used::Unused => Some(format!(
            "suppression of {} matched no race of this run",
            entry.words
        )),
        Used::Expired(matched) => Some(format!(
            "suppression of {} expired on {}; it would have matched {matched} {}",
            entry.words,
            entry.until.map_or_else(String::new, |day| day.to_string()),
            if matched == 1 { "race" } else { "races" },
        )),
    });
    told.collect()
}

/// The project's store.
pub fn default_store() -> Result<PathBuf, Failure> {
    project_store(&repository()).ok_or_else(|| {
        Failure::Usage("no home folder to keep a store in: name a file with --store".to_owned())
    })
}

/// How the races of a report or a store stand.
fn standings(path: &Path) -> Result<Standings, Failure> {
    if is_store(path) {
        let store = SqliteStore::open(path, Access::Read)?;
        let races = store.races(None, Moment::now().day())?;
        let races = races.iter().map(|stored| &stored.race);
        let decided = races.filter_map(|race| Some((race, race.triage.clone()?)));
        return Ok(Standings::of(decided));
    }
    let report = crate::report::read_json(path)?;
    Ok(Standings::of(
        report.races.iter().map(|race| (race, known(race))),
    ))
}

/// How a race of an earlier report stands, which may say what was decided.
pub fn known(race: &Race) -> Triage {
    Triage {
        new: false,
        suppressed: None,
        ..race.triage.clone().unwrap_or(undecided())
    }
}

/// How a race stands, if others are known.
pub fn standing(known: &Standings, race: &Race) -> Triage {
    known.get(race).unwrap_or(undecided())
}

const fn undecided() -> Triage {
    Triage {
        state: State::New,
        new: true,
        because: None,
        owner: None,
        until: None,
        suppressed: None,
    }
}

/// Writes a run into its store while it goes on.
pub struct Recorder {
    store: Box<dyn Store>,
    path: PathBuf,
    program: Vec<String>,
    run: Option<RunId>,
    /// Whether it is the store's first run.
    first: bool,
    /// Instances that were not written yet.
    pending: HashMap<Fingerprint, u64>,
    flushed: Instant,
    /// What stopped the writing.
    failed: Option<StoreError>,
}

impl Recorder {
    /// A recorder for a run of `program`, which has not begun.
    pub fn new(path: &Path, program: Vec<String>) -> Result<Self, Failure> {
        let store = Box::new(SqliteStore::open(path, Access::Write)?);
        Ok(Self {
            first: store.runs()?.is_empty(),
            store,
            path: path.to_owned(),
            program,
            run: None,
            pending: HashMap::new(),
            flushed: Instant::now(),
            failed: None,
        })
    }

    /// The program was started at this moment.
    pub fn begin(&mut self, at: Moment) {
        if self.run.is_none() {
            match self.store.begin(&self.program, at) {
                Ok(run) => self.run = Some(run),
                Err(error) => self.fail(error),
            }
        }
    }

    /// A race was found.
    pub fn saw(&mut self, race: &Race) {
        debug!("into the store: race {} {}", race.id(), race.fingerprint.0);
        self.attempt(|store, run| store.saw(run, race, Moment::now()));
    }

    /// How often sites were sampled.
    pub fn exposed(&mut self, exposure: &[Exposure]) {
        let sites: Vec<Exposed> = exposure
            .iter()
            .map(|site| Exposed {
                module: site.module.clone(),
                site: site.site.0,
                samples: site.samples,
            })
            .collect();
        self.attempt(|store, run| store.exposed(run, &sites));
    }

    /// A race was seen again.
    pub fn saw_again(&mut self, race: &Race) {
        *self.pending.entry(race.fingerprint.clone()).or_default() += 1;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let pending: Vec<_> = self.pending.drain().collect();
        self.flushed = Instant::now();
        if !pending.is_empty() {
            self.attempt(|store, run| store.saw_again(run, &pending, Moment::now()));
        }
    }

    /// Writes the end of the run, and says of each race how it stands. A run that does not
    /// `count` does not make its races known.
    pub fn finish(mut self, report: &mut Report, counts: bool) -> Result<(), Failure> {
        self.flush();
        let now = Moment::now();
        self.attempt(|store, run| store.finish(run, report, counts, now));
        if let Some(run) = self.run
            && self.failed.is_none()
        {
            let stored = self.store.races(Some(run), now.day())?;
            let stored = stored.iter().map(|stored| &stored.race);
            let known = Standings::of(stored.filter_map(|race| Some((race, race.triage.clone()?))));
            for race in &mut report.races {
                race.triage = Some(standing(&known, race));
            }
            if self.first && counts && !report.races.is_empty() {
                screen::say(&format!(
                    "redhanded: the store {} is new: the races of this run are known from now on",
                    self.path.display()
                ));
            }
        }
        self.failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn attempt(&mut self, act: impl FnOnce(&mut dyn Store, RunId) -> Result<(), StoreError>) {
        if let (Some(run), None) = (self.run, &self.failed)
            && let Err(error) = act(&mut *self.store, run)
        {
            self.fail(error);
        }
    }

    /// Says so at once; the run itself goes on, and its report is written as ever.
    fn fail(&mut self, error: StoreError) {
        screen::say(&format!(
            "redhanded: {error}; the run goes on, and is not remembered from here on"
        ));
        self.failed = Some(error);
    }
}
