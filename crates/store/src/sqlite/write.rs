//! What is written.

use super::read::{decided, json, verdict};
use crate::{Decision, Exposed, Moment, RunId};
use redhanded_model::{Fingerprint, Grounds, Race, Report, State};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use std::collections::HashSet;

fn text(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// A transaction that waits for other writers at its start, and not in its middle, where
/// waiting would never help.
fn transaction(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

pub fn begin(connection: &Connection, program: &[String], at: Moment) -> rusqlite::Result<RunId> {
    connection.execute(
        "INSERT INTO runs (started, program, version) VALUES (?1, ?2, ?3)",
        params![at.0, text(&program)?, env!("CARGO_PKG_VERSION")],
    )?;
    Ok(RunId(connection.last_insert_rowid()))
}

fn id_of(connection: &Connection, race: &Fingerprint) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare_cached("SELECT id FROM races WHERE hash = ?1")?;
    select.query_row([race.hash()], |row| row.get(0)).optional()
}

pub fn saw(
    connection: &mut Connection,
    run: RunId,
    race: &Race,
    at: Moment,
) -> rusqlite::Result<()> {
    let transaction = transaction(connection)?;
    let id = sighting(&transaction, run, race, at)?;
    count(&transaction, id, run, race.instances, at)?;
    transaction.commit()
}

/// Makes sure that the race and its sighting in this run are there, told in this way; the
/// race's number. What was decided may no longer hold.
fn sighting(
    transaction: &Transaction<'_>,
    run: RunId,
    race: &Race,
    at: Moment,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached("INSERT INTO races (hash, problem) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![race.fingerprint.hash(), race.problem().hash()])?;
    let id = id_of(transaction, &race.fingerprint)?.unwrap_or_default();
    // What is remembered is told when it is read.
    let told = Race {
        triage: None,
        ..race.clone()
    };
    transaction
        .prepare_cached(
            "INSERT INTO sightings (race, run, instances, first, last, told)
             VALUES (?1, ?2, ?3, ?4, ?4, ?5)
             ON CONFLICT DO UPDATE SET
                 instances = excluded.instances, last = max(last, excluded.last), told = excluded.told",
        )?
        .execute(params![
            id,
            run.0,
            race.instances.cast_signed(),
            at.0,
            text(&told)?
        ])?;
    let Some((decision, grounds)) = decided(transaction, id)? else {
        return Ok(id);
    };
    let (state, because) = match decision.state {
        State::Fixed => (
            State::Regression,
            "it was seen again after it was fixed".to_owned(),
        ),
        State::NotAProblem => match grounds.contradicted_by(race) {
            Some(why) => (
                State::New,
                format!(
                    "reopened, because {why}; it was no problem: {}",
                    decision.because
                ),
            ),
            None => return Ok(id),
        },
        _ => return Ok(id),
    };
    let reopened = Decision {
        state,
        because,
        owner: decision.owner,
        until: None,
    };
    insert_decision(transaction, id, &reopened, &Grounds::of(race), true, at)?;
    Ok(id)
}

fn count(
    transaction: &Transaction<'_>,
    race: i64,
    run: RunId,
    count: u64,
    at: Moment,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO instances (race, run, at, count) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![race, run.0, at.0, count.cast_signed()])
        .map(drop)
}

pub fn saw_again(
    connection: &mut Connection,
    run: RunId,
    races: &[(Fingerprint, u64)],
    at: Moment,
) -> rusqlite::Result<()> {
    let transaction = transaction(connection)?;
    for (race, more) in races {
        let Some(id) = id_of(&transaction, race)? else {
            continue;
        };
        count(&transaction, id, run, *more, at)?;
        transaction
            .prepare_cached(
                "UPDATE sightings SET instances = instances + ?3, last = ?4
                 WHERE race = ?1 AND run = ?2",
            )?
            .execute(params![id, run.0, more.cast_signed(), at.0])?;
    }
    transaction.commit()
}

pub fn exposed(connection: &mut Connection, run: RunId, sites: &[Exposed]) -> rusqlite::Result<()> {
    let transaction = transaction(connection)?;
    for site in sites {
        transaction
            .prepare_cached(
                "INSERT INTO exposure VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET samples = samples + excluded.samples",
            )?
            .execute(params![
                run.0,
                site.module,
                site.site.cast_signed(),
                site.samples.cast_signed()
            ])?;
    }
    transaction.commit()
}

pub fn finish(
    connection: &mut Connection,
    run: RunId,
    report: &Report,
    counts: bool,
    at: Moment,
) -> rusqlite::Result<()> {
    let transaction = transaction(connection)?;
    let mut seen = HashSet::new();
    for race in &report.races {
        let id = sighting(&transaction, run, race, at)?;
        seen.insert(id);
        if let Some(verdict) = &race.verdict {
            transaction
                .prepare_cached("INSERT OR REPLACE INTO verdicts VALUES (?1, ?2, ?3)")?
                .execute(params![id, run.0, text(verdict)?])?;
        }
    }
    forget_halves(&transaction, run, &seen)?;
    for quote in &report.quotes {
        transaction
            .prepare_cached("INSERT OR IGNORE INTO quotes VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![run.0, quote.file, quote.line, quote.text])?;
    }
    let earlier: i64 =
        transaction.query_row("SELECT count(*) FROM runs WHERE counts", [], |row| {
            row.get(0)
        })?;
    if counts && earlier == 0 {
        transaction.execute(
            "UPDATE races SET known = 1 WHERE id IN (SELECT race FROM sightings WHERE run = ?1)",
            [run.0],
        )?;
    }
    transaction.execute(
        "UPDATE runs SET ended = ?2, counts = ?3, told = ?4 WHERE id = ?1",
        params![run.0, at.0, counts, text(&report.run)?],
    )?;
    transaction.commit()
}

/// Removes what this run reported as a race of unknown origin and recognised later as a part
/// of another: its instances are counted there.
fn forget_halves(
    transaction: &Transaction<'_>,
    run: RunId,
    seen: &HashSet<i64>,
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare("SELECT race FROM sightings WHERE run = ?1")?;
    let all = select.query_map([run.0], |row| row.get::<_, i64>(0))?;
    let all: Vec<i64> = all.collect::<Result<_, _>>()?;
    for race in all.into_iter().filter(|race| !seen.contains(race)) {
        for table in ["sightings", "instances", "verdicts"] {
            let delete = format!("DELETE FROM {table} WHERE race = ?1 AND run = ?2");
            transaction.execute(&delete, params![race, run.0])?;
        }
        transaction.execute(
            "DELETE FROM races WHERE id = ?1
             AND NOT EXISTS (SELECT 1 FROM sightings WHERE race = ?1)
             AND NOT EXISTS (SELECT 1 FROM decisions WHERE race = ?1)
             AND NOT EXISTS (SELECT 1 FROM notes WHERE race = ?1)",
            [race],
        )?;
    }
    Ok(())
}

fn insert_decision(
    transaction: &Transaction<'_>,
    race: i64,
    decision: &Decision,
    grounds: &Grounds,
    by_redhanded: bool,
    at: Moment,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO decisions (race, at, by_redhanded, state, because, owner, until, grounds)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            race,
            at.0,
            by_redhanded,
            decision.state.name(),
            decision.because,
            decision.owner,
            decision.until.map(|day| day.to_string()),
            text(grounds)?
        ])
        .map(drop)
}

/// Decides about all of the races, or about none if one of them is missing, which is returned.
pub fn decide(
    connection: &mut Connection,
    races: &[Fingerprint],
    decision: &Decision,
    at: Moment,
) -> rusqlite::Result<Option<Fingerprint>> {
    let transaction = transaction(connection)?;
    for race in races {
        let Some(id) = id_of(&transaction, race)? else {
            return Ok(Some(race.clone()));
        };
        let mut told: Race = transaction
            .prepare_cached("SELECT told FROM sightings WHERE race = ?1 ORDER BY run DESC LIMIT 1")?
            .query_row([id], |row| json(row, 0))?;
        // People decide about what the store tells.
        told.verdict = verdict(&transaction, id, None)?.or(told.verdict);
        insert_decision(&transaction, id, decision, &Grounds::of(&told), false, at)?;
    }
    transaction.commit()?;
    Ok(None)
}

/// Adds a note to all of the races, or to none, as [`decide`] does.
pub fn note(
    connection: &mut Connection,
    races: &[Fingerprint],
    note: &str,
    at: Moment,
) -> rusqlite::Result<Option<Fingerprint>> {
    let transaction = transaction(connection)?;
    for race in races {
        let Some(id) = id_of(&transaction, race)? else {
            return Ok(Some(race.clone()));
        };
        transaction.execute(
            "INSERT INTO notes (race, at, text) VALUES (?1, ?2, ?3)",
            params![id, at.0, note],
        )?;
    }
    transaction.commit()?;
    Ok(None)
}
