//! `redhanded triage`: what people decide about races.

use crate::arguments::Triage;
use crate::exit::Failure;
use crate::memory::default_store;
use crate::project::Project;
use crate::screen;
use crate::verdicts::MOST_TEXT;
use redhanded_model::{Fingerprint, Race, State};
use redhanded_store::{
    Access, Decision, Moment, Pattern, SqliteStore, Store, StoredRace, import_tsan,
};
use redhanded_sys::read_regular_text;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes a decision or a note into the store.
pub fn triage(arguments: &Triage) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.import_tsan {
        return import(path);
    }
    let decision = decision(arguments)?;
    if decision.is_none() && arguments.note.is_none() {
        return Err(Failure::Usage(
            "nothing to write: give --state with --because, or --note".to_owned(),
        ));
    }
    let mut store = SqliteStore::open(&chosen(arguments.store.as_ref())?, Access::Read)?;
    let all = store.races(None, Moment::now().day())?;
    let meant = meant(arguments, &all)?;
    let races: Vec<Fingerprint> = meant.iter().map(|race| race.fingerprint.clone()).collect();
    store = SqliteStore::open(&chosen(arguments.store.as_ref())?, Access::Write)?;
    if let Some(decision) = &decision {
        store.decide(&races, decision, Moment::now())?;
    }
    if let Some(note) = &arguments.note {
        store.note(&races, note, Moment::now())?;
    }
    let done = decision.map_or_else(
        || "noted".to_owned(),
        |decision| format!("now {}", decision.state.name()),
    );
    let mut text = String::new();
    for race in meant {
        let what = redhanded_report::object_name(race);
        text.push_str(&format!("{} {what}: {done}\n", race.id()));
    }
    screen::print(screen::cleaned(&text).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The store that is named, or the project's.
pub fn chosen(named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    match named {
        Some(path) => Ok(path.clone()),
        None => Project::here()?.store.map_or_else(default_store, Ok),
    }
}

fn decision(arguments: &Triage) -> Result<Option<Decision>, Failure> {
    let Some(state) = arguments.state else {
        return Ok(None);
    };
    let because = arguments.because.clone().unwrap_or_default();
    if because.trim().is_empty() {
        return Err(Failure::Usage(
            "a decision needs a reason: --because".to_owned(),
        ));
    }
    if State::from(state) == State::Regression {
        return Err(Failure::Usage(
            "only Redhanded calls a race a regression, when it sees a fixed one again".to_owned(),
        ));
    }
    let today = Moment::now().day();
    if let Some(until) = arguments.until
        && until < today
    {
        return Err(Failure::Usage(format!(
            "--until {until} is over (today is {today}): the race would be new at once"
        )));
    }
    Ok(Some(Decision {
        state: state.into(),
        because,
        owner: arguments.owner.clone(),
        until: arguments.until,
    }))
}

/// The races that are asked for: at least one.
fn meant<'a>(arguments: &Triage, all: &'a [StoredRace]) -> Result<Vec<&'a Race>, Failure> {
    if !arguments.races.is_empty() {
        let ids = arguments.races.iter();
        return ids
            .map(|id| by_id(all.iter().map(|stored| &stored.race), id))
            .collect();
    }
    let wrong = |error: redhanded_store::PatternError| Failure::Usage(error.to_string());
    let mut pattern = Pattern::default();
    if let Some(glob) = &arguments.function {
        pattern = pattern.function(glob).map_err(wrong)?;
    }
    if let Some(glob) = &arguments.file {
        pattern = pattern.file(glob).map_err(wrong)?;
    }
    if let Some(glob) = &arguments.field {
        pattern = pattern.field(glob).map_err(wrong)?;
    }
    if let Some(class) = &arguments.class {
        pattern = pattern.class(class).map_err(wrong)?;
    }
    let pattern = pattern.checked().map_err(|_| {
        Failure::Usage("name races, or choose them by function, file, field or class".to_owned())
    })?;
    let races = all.iter().map(|stored| &stored.race);
    let meant: Vec<&Race> = races.filter(|race| pattern.matches(race)).collect();
    if meant.is_empty() {
        return Err(Failure::Usage("no race in the store matches".to_owned()));
    }
    Ok(meant)
}

/// The one race whose id or hash begins like this.
pub fn by_id<'a>(races: impl Iterator<Item = &'a Race>, id: &str) -> Result<&'a Race, Failure> {
    let found: Vec<&Race> = races
        .filter(|race| !id.is_empty() && race.fingerprint.hash().starts_with(id))
        .collect();
    match found.as_slice() {
        [race] => Ok(*race),
        [] => Err(Failure::Usage(format!("there is no race {id}"))),
        several => Err(Failure::Usage(format!(
            "{} races begin with {id}: give more digits of the hash, which --json shows",
            several.len()
        ))),
    }
}

fn import(path: &Path) -> Result<ExitCode, Failure> {
    let text = read_regular_text(path, MOST_TEXT)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let (ours, others) = import_tsan(&text);
    screen::print(screen::cleaned(&ours).as_bytes())?;
    if others > 0 {
        screen::say(&format!(
            "redhanded: {others} {} not about races and left out",
            if others == 1 { "line is" } else { "lines are" }
        ));
    }
    Ok(ExitCode::SUCCESS)
}
