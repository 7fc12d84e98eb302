//! Hunting suspects: where the list comes from, what it may cost, and which of them were
//! caught.

use crate::arguments::{Tracing, Watch};
use crate::check::{Steps, analysis, last_words};
use crate::exit::Failure;
use crate::observe::{Observation, Subject};
use crate::report::{Source, read_json};
use crate::screen;
use redhanded_image::fit_of_race;
use redhanded_model::{Candidate, Delays, Fit, HuntOutcome, Hunted, Pursuit, Race, Report, Run};
use redhanded_recording::is_recording;
use redhanded_report::open_private;
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
        let suspects = load(path, watch, &observation.signals)?;
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
fn load(path: &Path, watch: &Watch, signals: &Signals) -> Result<Suspects, Failure> {
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
        return of_report(&analysed(path, watch, signals)?).map_err(why);
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
fn analysed(path: &Path, watch: &Watch, signals: &Signals) -> Result<Report, Failure> {
    // Other processes are told of it by its path.
    let folder = tempfile::tempdir_in(temporary_place())?;
    let found = folder.path().join("analysed.json");
    let said = folder.path().join("said");
    let annotations = watch.findings.verdicts.annotations.as_deref();
    let mut analyse = analysis(path, &watch.select.sources, annotations, &found);
    analyse.stderr(open_private(&said)?);
    Steps::new(signals).run(analyse)?;
    if !found.exists() {
        let why = last_words(&said).unwrap_or_else(|| "the analysis ended unexpectedly".to_owned());
        return Err(Failure::Usage(format!(
            "cannot take suspects from it: {why}"
        )));
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
    /// The first race in the functions of each, on other lines than were named, and how well it
    /// fits.
    nearby: Vec<Option<(String, [Fit; 2])>>,
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
            nearby: vec![None; candidates.len()],
        }
    }

    /// An instance of a race was caught; whether the last suspect was with it.
    pub fn caught(&mut self, race: &Race) -> bool {
        let mut news = false;
        let suspects = self.hunted.iter_mut().zip(&mut self.nearby);
        for (hunted, nearby) in suspects.filter(|(one, _)| one.race.is_none()) {
            let Some(fits) = fit_of_race(race, &hunted.sides) else {
                continue;
            };
            let mut sides = hunted.sides.iter().zip(fits);
            if sides.all(|(side, fit)| side.is_met_by(fit)) {
                hunted.race = Some(race.id());
                news = true;
            } else {
                nearby.get_or_insert((race.id(), fits));
            }
        }
        news && self.hunted.iter().all(|one| one.race.is_some())
    }

    /// What came of all, with what was done to catch them.
    pub fn conclude(self, pursuits: Vec<Pursuit>) -> Vec<Hunted> {
        let pursuits = pursuits
            .into_iter()
            .chain(std::iter::repeat(Pursuit::default()));
        let suspects = self.hunted.into_iter().zip(self.nearby);
        suspects
            .zip(pursuits)
            .map(|((mut one, nearby), pursuit)| {
                // If no code is on a line that was named, its function was meant as a whole.
                let is_meant = |(_, fits): &(String, [Fit; 2])| {
                    let sides = one.sides.iter().zip(fits).zip(pursuit.fits);
                    sides.into_iter().all(|((side, fit), best)| {
                        side.is_met_by(*fit) || best <= Some(Fit::Function)
                    })
                };
                let caught = nearby.filter(is_meant).map(|(race, _)| race);
                one.race = one.race.or(caught);
                one.pursued(pursuit)
            })
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::race;
    use redhanded_model::Spot;

    fn spot(function: &str, line: Option<u32>) -> Spot {
        Spot {
            function: Some(function.to_owned()),
            file: line.map(|_| "words.c".to_owned()),
            line,
        }
    }

    fn outcomes(suspects: &[(u32, u32)], races: &[Race], best: Fit) -> Vec<Option<String>> {
        let candidates: Vec<Candidate> = suspects
            .iter()
            .map(|(put, get)| [spot("put", Some(*put)), spot("get", Some(*get))])
            .map(Candidate::new)
            .collect();
        let mut hunting = Hunting::new(&candidates);
        for race in races {
            hunting.caught(race);
        }
        let pursuit = Pursuit {
            sites: [1, 1],
            fits: [Some(best); 2],
            ..Pursuit::default()
        };
        let hunted = hunting.conclude(vec![pursuit; suspects.len()]);
        hunted.into_iter().map(|one| one.race).collect()
    }

    /// Two races of the same functions are two suspects.
    #[test]
    fn a_suspect_is_caught_on_its_own_lines() {
        let [first, second] = [race("first", [8, 16]), race("second", [10, 18])];
        let suspects = [(8, 16), (10, 18)];
        let one = outcomes(&suspects, std::slice::from_ref(&first), Fit::Both);
        assert_eq!(one, [Some(first.id()), None]);
        let both = outcomes(&suspects, &[second.clone(), first.clone()], Fit::Both);
        assert_eq!(both, [Some(first.id()), Some(second.id())]);
        let crossed = outcomes(&[(8, 18)], &[first, second], Fit::Both);
        assert_eq!(crossed, [None]);
    }

    /// A list may be of an earlier version of the source.
    #[test]
    fn a_function_is_meant_as_a_whole_where_its_line_is_not_found() {
        let first = race("first", [8, 16]);
        let races = [first.clone()];
        let told = outcomes(&[(108, 116)], &races, Fit::Function);
        assert_eq!(told, [Some(first.id())]);
        assert_eq!(outcomes(&[(108, 116)], &races, Fit::Line), [None]);
    }

    #[test]
    fn functions_without_lines_are_caught_wherever_they_meet() {
        let mut hunting = Hunting::new(&[Candidate::new([spot("get", None), spot("put", None)])]);
        assert!(hunting.caught(&race("first", [8, 16])));
    }
}
