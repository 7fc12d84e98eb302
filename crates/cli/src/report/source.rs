//! Where a report comes from.

use crate::exit::Failure;
use crate::namer::ask_log;
use crate::triage::chosen;
use redhanded_model::{Race, Report, Run};
use redhanded_report::json;
use redhanded_session::{Answer, LogError, open};
use redhanded_store::{Access, Day, Moment, RunId, SqliteStore, Store, is_store};
use redhanded_sys::{read_regular, total_memory};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A report, and what else its file tells.
pub struct Source {
    /// The report.
    pub report: Report,
    /// What is wrong with the file, if it ends too early.
    pub cut_short: Option<LogError>,
    /// The store that it comes from.
    pub store: Option<(PathBuf, SqliteStore)>,
    /// Whether it is a session log.
    pub is_log: bool,
    /// When races were first and last seen, and in how many runs.
    seen: HashMap<String, (Moment, Moment, u64)>,
}

impl Source {
    /// Reads a file, or the project's store; of a store one run, or all.
    pub fn open(path: Option<&PathBuf>, run: Option<i64>) -> Result<Self, Failure> {
        let path = match path {
            Some(path) if !is_store(path) => {
                if run.is_some() {
                    return Err(Failure::Usage(
                        "only a store has several runs: --run needs one".to_owned(),
                    ));
                }
                return from_file(path);
            }
            path => chosen(path)?,
        };
        let store = SqliteStore::open(&path, Access::Read)?;
        from_store(path, store, run)
    }

    /// Whether it is a store's.
    pub const fn is_store(&self) -> bool {
        self.store.is_some()
    }

    /// Whether a race was seen on this day or later.
    pub fn seen_since(&self, race: &Race, day: Day) -> bool {
        let seen = self.seen.get(&race.fingerprint.hash());
        seen.is_some_and(|(_, last, _)| *last >= day.start())
    }

    /// When a race was seen, in words.
    pub fn when(&self, race: &Race) -> Option<String> {
        let (first, last, runs) = self.seen.get(&race.fingerprint.hash())?;
        let (first, last) = (first.day(), last.day());
        Some(match runs {
            1 => format!("on {last}"),
            runs if first == last => format!("on {last} in {runs} runs"),
            runs => format!("from {first} to {last} in {runs} runs"),
        })
    }

    /// What was decided about a race and noted, in lines.
    pub fn history(&self, race: &Race) -> Result<String, Failure> {
        let Some((_, store)) = &self.store else {
            return Ok(String::new());
        };
        let mut text = String::new();
        if let Some(when) = self.when(race) {
            text.push_str(&format!("  seen      {when}\n"));
        }
        for (at, by_redhanded, decision) in store.history(&race.fingerprint)? {
            let by = match (&decision.owner, by_redhanded) {
                (_, true) => " (by Redhanded)".to_owned(),
                (Some(owner), false) => format!(" ({owner})"),
                (None, false) => String::new(),
            };
            let until = decision
                .until
                .map_or_else(String::new, |day| format!(" until {day}"));
            text.push_str(&format!(
                "  {}{by} {}{until}: {}\n",
                at.day(),
                decision.state.name(),
                decision.because
            ));
        }
        for (at, note) in store.notes(&race.fingerprint)? {
            text.push_str(&format!("  {} note: {note}\n", at.day()));
        }
        Ok(text)
    }
}

fn from_store(path: PathBuf, store: SqliteStore, run: Option<i64>) -> Result<Source, Failure> {
    let runs = store.runs()?;
    let told = match run {
        Some(number) => {
            let found = runs.iter().find(|known| known.id == RunId(number));
            let none =
                || Failure::Usage(format!("the store {} has no run {number}", path.display()));
            Some(found.ok_or_else(none)?)
        }
        None => runs.last(),
    };
    let told = told.map(|told| {
        // One that did not come to its end has only a beginning.
        told.run.clone().unwrap_or_else(|| Run {
            program: told.program.clone(),
            cut_short: true,
            ..Run::default()
        })
    });
    let run = run.map(RunId);
    let mut seen = HashMap::new();
    let stored = store.races(run, Moment::now().day())?;
    let races = stored.into_iter().map(|stored| {
        let when = (stored.first, stored.last, stored.runs);
        seen.insert(stored.race.fingerprint.hash(), when);
        stored.race
    });
    let races = races.collect();
    // The latest of several texts belongs to the latest report.
    let quotes: BTreeMap<_, _> = store
        .quotes(run)?
        .into_iter()
        .map(|quote| ((quote.file.clone(), quote.line), quote))
        .collect();
    Ok(Source {
        report: Report {
            run: told.unwrap_or_default(),
            races,
            set_aside: Vec::new(),
            quotes: quotes.into_values().collect(),
        },
        cut_short: None,
        is_log: false,
        seen,
        store: Some((path, store)),
    })
}

/// The runs of a store, a line for each.
pub fn runs(path: Option<&PathBuf>) -> Result<String, Failure> {
    let store = SqliteStore::open(&chosen(path)?, Access::Read)?;
    let mut text = String::new();
    for run in store.runs()? {
        let samples = run.run.as_ref().map_or_else(
            || "did not come to its end".to_owned(),
            |told| match &told.recorded {
                Some(recorded) => format!("{} entries recorded", recorded.entries),
                None => format!("{} samples", told.samples),
            },
        );
        text.push_str(&format!(
            "{:>4}  {}  {:>4} {:<5}  {samples}  {}\n",
            run.id.0,
            run.started.day(),
            run.races,
            if run.races == 1 { "race" } else { "races" },
            run.program.join(" ")
        ));
    }
    let (sites, samples) = store.exposure()?;
    text.push_str(&format!(
        "In all runs together, {samples} samples were taken at {sites} sites.\n"
    ));
    Ok(crate::screen::cleaned(&text))
}

fn from_file(path: &Path) -> Result<Source, Failure> {
    let file = open(path)?;
    let nothing = Source {
        report: Report::default(),
        cut_short: None,
        is_log: false,
        store: None,
        seen: HashMap::new(),
    };
    if is_report(&file) {
        let report = read_json(path)?;
        return Ok(Source { report, ..nothing });
    }
    match ask_log(open(path)?, path.to_owned())? {
        Some(Answer::Log(Ok(told))) => Ok(Source {
            report: told.report,
            is_log: true,
            cut_short: told.cut_short.map(|why| LogError::CutShort {
                path: path.to_owned(),
                why,
            }),
            ..nothing
        }),
        Some(Answer::Log(Err(why))) => Err(Failure::Usage(why)),
        _ => Err(Failure::Namer("answered something else".to_owned())),
    }
}

/// Whether a file begins as a report does: its first key is the schema.
fn is_report(mut file: &File) -> bool {
    let mut start = Vec::new();
    let read = file.by_ref().take(64).read_to_end(&mut start);
    let start = String::from_utf8_lossy(&start);
    let mut words = start.split_ascii_whitespace().collect::<String>();
    words.truncate(10);
    read.is_ok() && words.starts_with("{\"schema\"")
}

/// A report up to this length is read on any machine.
const LEAST_REPORT: u64 = 128 << 20;

/// A longer report is not read: what it says takes several times its length in memory. Ten
/// thousand races are some 460 MB.
fn most_report() -> u64 {
    (total_memory() / 8).max(LEAST_REPORT)
}

/// Reads a JSON report.
pub fn read_json(path: &Path) -> Result<Report, Failure> {
    let failed = |why: String| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    let text = read_regular(path, most_report()).map_err(|error| failed(error.to_string()))?;
    json::read(&text).map_err(|error| failed(error.to_string()))
}
