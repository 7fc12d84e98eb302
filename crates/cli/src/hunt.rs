//! Hunting suspects: where the list comes from, what it may cost, and which of them were
//! caught.

use crate::arguments::{Tracing, Watch};
use crate::check::Steps;
use crate::exit::Failure;
use crate::observe::{Observation, Subject};
use crate::report::{Source, read_json};
use crate::screen;
use redhanded_image::is_race_at;
use redhanded_model::{Candidate, Delays, HuntOutcome, Hunted, Pursuit, Race, Report, Run};
use redhanded_recording::is_recording;
use redhanded_store::is_store;
use redhanded_suspects::{ReadError, Suspects, of_report, read};
use redhanded_sys::{open_regular, temporary_place};
use redhanded_target::Signals;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest a thread is held, unless told otherwise. Two accesses that a test keeps apart
/// are usually apart by a sleep of up to a second.
const DELAY: Duration = Duration::from_secs(2);
/// What is held of a program's time, unless told otherwise: on average one of its threads may
/// be held all the time. Less would cut the holds short, and whoever names suspects wants to
/// know about them.
const OVERHEAD: f64 = 1.0;
/// A program that has run for less is treated as if it had run this long: a test that takes a
/// moment must have time for several holds.
const CREDIT: Duration = Duration::from_secs(30);
/// A longer list was not meant to be one.
const LARGEST: u64 = 64 << 20;
/// So many suspects are named in one sentence.
const NAMED: usize = 3;

impl Tracing {
    /// With the hunt that is asked for, if one is.
    pub fn hunt(
        &self,
        watch: &Watch,
        mut observation: Observation,
    ) -> Result<Observation, Failure> {
        let Some(path) = &self.suspects else {
            return Ok(observation);
        };
        let suspects = load(path, &watch.select.sources, &observation.signals)?;
        if suspects.one_sided > 0 && !watch.quiet {
            screen::say(&format!(
                "redhanded: {} of the races in {} have only one side with a name and cannot be \
                 hunted",
                suspects.one_sided,
                path.display()
            ));
        }
        let options = &mut observation.options;
        options.delay = Delays::of_tasks(watch.delay.unwrap_or(DELAY));
        options.budget.overhead = watch.overhead.unwrap_or(OVERHEAD);
        if matches!(observation.subject, Subject::Program(_)) {
            options.budget.credit = CREDIT;
        }
        observation.selecting.suspect(&suspects.candidates);
        observation.suspects = suspects.candidates;
        Ok(observation)
    }
}

/// The suspects in a file.
fn load(path: &Path, sources: &[PathBuf], signals: &Signals) -> Result<Suspects, Failure> {
    let why = |error: ReadError| {
        let name = path.display();
        Failure::Usage(format!("cannot take suspects from {name}: {error}"))
    };
    if is_store(path) {
        return of_report(&document(path)?).map_err(why);
    }
    let failed =
        |error: std::io::Error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
    let mut file = open_regular(path).map_err(failed)?;
    let mut start = [0; 16];
    if file.read_exact(&mut start).is_ok() && is_recording(&start) {
        return of_report(&analysed(path, sources, signals)?).map_err(why);
    }
    file.rewind().map_err(failed)?;
    let mut bytes = Vec::new();
    let mut part = file.take(LARGEST + 1);
    part.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(why(ReadError::TooMany));
    }
    // A report or a log; no tool prints this first, and no function is called so.
    if bytes.trim_ascii_start().starts_with(b"{") {
        return of_report(&document(path)?).map_err(why);
    }
    let text = String::from_utf8_lossy(&bytes);
    read(text.trim_start_matches('\u{feff}')).map_err(why)
}

/// What `redhanded analyze` finds in a recording.
fn analysed(path: &Path, sources: &[PathBuf], signals: &Signals) -> Result<Report, Failure> {
    // Other processes are told of it by its path.
    let folder = tempfile::tempdir_in(temporary_place())?;
    let found = folder.path().join("analysed.json");
    Steps::new(signals).analyse(path, sources, &found)?;
    if !found.exists() {
        let name = path.display();
        return Err(Failure::Usage(format!("{name} cannot be analysed")));
    }
    read_json(&found)
}

fn document(path: &Path) -> Result<Report, Failure> {
    Ok(Source::open(Some(&PathBuf::from(path)), None)?.report)
}

/// The suspects, and which of them were caught.
#[derive(Default)]
pub struct Hunting {
    hunted: Vec<Hunted>,
}

impl Hunting {
    /// The hunt for these.
    pub fn new(candidates: &[Candidate]) -> Self {
        let hunted = candidates.iter().map(|candidate| Hunted {
            sides: candidate.sides.clone(),
            ..Hunted::default()
        });
        Self {
            hunted: hunted.collect(),
        }
    }

    /// An instance of a race was caught; whether the last suspect was with it.
    pub fn caught(&mut self, race: &Race) -> bool {
        let mut news = false;
        for hunted in self.hunted.iter_mut().filter(|one| one.race.is_none()) {
            if is_race_at(race, &hunted.sides) {
                hunted.race = Some(race.id());
                news = true;
            }
        }
        news && self.hunted.iter().all(|one| one.race.is_some())
    }

    /// What came of all, with what was done to catch them.
    pub fn conclude(self, pursuits: Vec<Pursuit>) -> Vec<Hunted> {
        let pursuits = pursuits
            .into_iter()
            .chain(std::iter::repeat(Pursuit::default()));
        let hunted = self.hunted.into_iter().zip(pursuits);
        hunted.map(|(one, pursuit)| one.pursued(pursuit)).collect()
    }
}

/// Why a hunt that found none of its suspects has failed.
pub fn nothing_found(run: &Run) -> Option<Failure> {
    let missing = |one: &&Hunted| one.outcome() == HuntOutcome::NotFound;
    let number = run.candidates.iter().filter(missing).count();
    if number == 0 || number < run.candidates.len() {
        return None;
    }
    let name = |one: &Hunted| format!("{} | {}", one.sides[0], one.sides[1]);
    let mut names: Vec<String> = run.candidates.iter().take(NAMED).map(name).collect();
    if number > NAMED {
        names.push(format!("and {} more", number - NAMED));
    }
    Some(Failure::Usage(format!(
        "no suspect was found: no code that was loaded and can be sampled is at {}",
        names.join(", ")
    )))
}
