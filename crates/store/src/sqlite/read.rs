//! What is read.

use crate::{Day, Decision, Moment, RunId, StoredRace, StoredRun};
use redhanded_model::{Fingerprint, Grounds, Quote, Race, Run, State, Triage, Verdict};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

/// A column that holds JSON.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}

fn wrong(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

pub fn runs(connection: &Connection) -> rusqlite::Result<Vec<StoredRun>> {
    let mut select = connection.prepare(
        "SELECT id, started, program, told,
                (SELECT count(*) FROM sightings WHERE run = runs.id) FROM runs ORDER BY id",
    )?;
    let rows = select.query_map([], |row| {
        let told: Option<String> = row.get(3)?;
        let run = told.map(|_| json::<Run>(row, 3)).transpose()?;
        Ok(StoredRun {
            id: RunId(row.get(0)?),
            started: Moment(row.get(1)?),
            program: json(row, 2)?,
            run,
            races: row.get::<_, i64>(4)?.cast_unsigned(),
        })
    })?;
    rows.collect()
}

pub fn races(
    connection: &Connection,
    run: Option<RunId>,
    today: Day,
) -> rusqlite::Result<Vec<StoredRace>> {
    let mut select = connection.prepare(
        "SELECT races.id, told, known, total, first_seen, last_seen, runs FROM
             (SELECT race, max(run) AS latest, sum(instances) AS total, min(first) AS first_seen,
                     max(last) AS last_seen, count(*) AS runs
              FROM sightings WHERE ?1 IS NULL OR run = ?1 GROUP BY race)
             JOIN sightings USING (race) JOIN races ON races.id = race
         WHERE run = latest ORDER BY last_seen DESC, race",
    )?;
    let rows = select.query_map([run.map(|run| run.0)], |row| {
        let mut race: Race = json(row, 1)?;
        race.instances = row.get::<_, i64>(3)?.cast_unsigned();
        race.verdict = verdict(connection, row.get(0)?, run)?.or(race.verdict);
        race.triage = Some(triage(connection, row.get(0)?, row.get(2)?, today)?);
        Ok(StoredRace {
            race,
            first: Moment(row.get(4)?),
            last: Moment(row.get(5)?),
            runs: row.get::<_, i64>(6)?.cast_unsigned(),
        })
    })?;
    rows.collect()
}

/// The verdict on a race in one run, or over all.
pub fn verdict(
    connection: &Connection,
    race: i64,
    run: Option<RunId>,
) -> rusqlite::Result<Option<Verdict>> {
    let mut select = connection.prepare_cached(
        "SELECT verdict, instances FROM verdicts JOIN sightings USING (race, run)
         WHERE race = ?1 AND (?2 IS NULL OR run = ?2) ORDER BY run",
    )?;
    let rows = select.query_map(params![race, run.map(|run| run.0)], |row| {
        Ok((json(row, 0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    Ok(Verdict::over_runs(rows.collect::<Result<_, _>>()?))
}

/// How a race stands today.
fn triage(connection: &Connection, race: i64, known: bool, today: Day) -> rusqlite::Result<Triage> {
    let Some((decision, _)) = decided(connection, race)? else {
        return Ok(Triage {
            state: State::New,
            new: !known,
            because: None,
            owner: None,
            until: None,
            suppressed: None,
        });
    };
    let expired = decision.until.is_some_and(|until| until < today);
    let state = if expired { State::New } else { decision.state };
    Ok(Triage {
        state,
        new: matches!(state, State::New | State::Regression),
        because: Some(if expired {
            format!(
                "expired: {} until then: {}",
                decision.state.name(),
                decision.because
            )
        } else {
            decision.because
        }),
        owner: decision.owner,
        until: decision.until.map(|day| day.to_string()),
        suppressed: None,
    })
}

fn decision(row: &Row<'_>) -> rusqlite::Result<Decision> {
    let state: String = row.get(0)?;
    let until: Option<String> = row.get(3)?;
    Ok(Decision {
        state: State::named(&state).ok_or_else(|| wrong(0, format!("no state is {state:?}")))?,
        because: row.get(1)?,
        owner: row.get(2)?,
        until: until
            .map(|day| day.parse().map_err(|why| wrong(3, why)))
            .transpose()?,
    })
}

/// What was last decided about a race, and on which grounds.
pub fn decided(
    connection: &Connection,
    race: i64,
) -> rusqlite::Result<Option<(Decision, Grounds)>> {
    connection
        .prepare_cached(
            "SELECT state, because, owner, until, grounds FROM decisions
             WHERE race = ?1 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([race], |row| Ok((decision(row)?, json(row, 4)?)))
        .optional()
}

pub fn history(
    connection: &Connection,
    race: &Fingerprint,
) -> rusqlite::Result<Vec<(Moment, bool, Decision)>> {
    let mut select = connection.prepare(
        "SELECT state, because, owner, until, at, by_redhanded FROM decisions
         WHERE race = (SELECT id FROM races WHERE hash = ?1) ORDER BY id",
    )?;
    let rows = select.query_map([race.hash()], |row| {
        Ok((Moment(row.get(4)?), row.get(5)?, decision(row)?))
    })?;
    rows.collect()
}

pub fn notes(
    connection: &Connection,
    race: &Fingerprint,
) -> rusqlite::Result<Vec<(Moment, String)>> {
    let mut select = connection.prepare(
        "SELECT at, text FROM notes WHERE race = (SELECT id FROM races WHERE hash = ?1) ORDER BY id",
    )?;
    let rows = select.query_map([race.hash()], |row| Ok((Moment(row.get(0)?), row.get(1)?)))?;
    rows.collect()
}

pub fn exposure(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let sums = "SELECT count(*), coalesce(sum(samples), 0) FROM
                    (SELECT sum(samples) AS samples FROM exposure GROUP BY module, site)";
    connection.query_row(sums, [], |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        Ok((number(0)?, number(1)?))
    })
}

pub fn quotes(connection: &Connection, run: Option<RunId>) -> rusqlite::Result<Vec<Quote>> {
    // The latest of several, because it belongs to the latest report.
    let mut select = connection
        .prepare("SELECT file, line, text FROM quotes WHERE ?1 IS NULL OR run = ?1 ORDER BY run")?;
    let rows = select.query_map(params![run.map(|run| run.0)], |row| {
        Ok(Quote {
            file: row.get(0)?,
            line: row.get(1)?,
            text: row.get(2)?,
        })
    })?;
    rows.collect()
}
