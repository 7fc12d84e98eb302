//! The tables, and how older ones become these.

use rusqlite::{Connection, TransactionBehavior};

/// The version of the tables that is written. A store of a later one is refused.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// What tells a store from other SQLite files: `RHst`.
const APPLICATION: i64 = 0x5248_7374;

/// What makes each version out of the one before it. One that was released is never changed.
const MIGRATIONS: [&str; 1] = ["
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    started INTEGER NOT NULL,
    ended INTEGER,
    counts INTEGER NOT NULL DEFAULT 0,
    program TEXT NOT NULL,
    version TEXT NOT NULL,
    told TEXT
) STRICT;
CREATE TABLE races (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    problem TEXT NOT NULL,
    known INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE sightings (
    id INTEGER PRIMARY KEY,
    race INTEGER NOT NULL REFERENCES races,
    run INTEGER NOT NULL REFERENCES runs,
    instances INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    told TEXT NOT NULL,
    UNIQUE (race, run)
) STRICT;
CREATE INDEX sightings_of_run ON sightings (run);
CREATE TABLE instances (
    race INTEGER NOT NULL REFERENCES races,
    run INTEGER NOT NULL REFERENCES runs,
    at INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX instances_of_race ON instances (race, run);
CREATE TABLE verdicts (
    race INTEGER NOT NULL REFERENCES races,
    run INTEGER NOT NULL REFERENCES runs,
    verdict TEXT NOT NULL,
    PRIMARY KEY (race, run)
) STRICT, WITHOUT ROWID;
CREATE TABLE exposure (
    run INTEGER NOT NULL REFERENCES runs,
    module TEXT NOT NULL,
    site INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    PRIMARY KEY (run, module, site)
) STRICT, WITHOUT ROWID;
CREATE TABLE quotes (
    run INTEGER NOT NULL REFERENCES runs,
    file TEXT NOT NULL,
    line INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, file, line)
) STRICT, WITHOUT ROWID;
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    race INTEGER NOT NULL REFERENCES races,
    at INTEGER NOT NULL,
    by_redhanded INTEGER NOT NULL,
    state TEXT NOT NULL,
    because TEXT NOT NULL,
    owner TEXT,
    until TEXT,
    grounds TEXT NOT NULL
) STRICT;
CREATE INDEX decisions_of_race ON decisions (race);
CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    race INTEGER NOT NULL REFERENCES races,
    at INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX notes_of_race ON notes (race);
"];

/// The version of the tables: 0 if there are none yet, `None` if they are somebody else's.
pub fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    // One statement sees one state of the file, whatever another process does to it meanwhile.
    let (application, version, tables) = connection.query_row(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id, pragma_user_version",
        [],
        |row| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, i64>(2)?)),
    )?;
    Ok(if application == APPLICATION {
        Some(version)
    } else {
        (tables == 0).then_some(0)
    })
}

/// Brings the tables up to date, in one step.
pub fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    if version(connection)? == Some(VERSION) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    let from = usize::try_from(version(&transaction)?.unwrap_or(0)).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(from) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
