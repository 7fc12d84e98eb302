//! The store as one SQLite file.
//!
//! Runs write at the same time: SQLite's write-ahead log lets readers go on meanwhile, and
//! who finds another writing waits for [`PATIENCE`]. Each call is one transaction, on disk
//! when it is over.

mod read;
mod schema;
mod write;

use crate::place::{make_folders, safe};
use crate::{
    Day, Decision, Exposed, Moment, RunId, Standings, Store, StoreError, StoredRace, StoredRun,
};
use redhanded_model::{Fingerprint, Quote, Race, Report};
use redhanded_sys::{folder_of, open_regular, takes_files};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, ffi};
use std::ffi::c_int;
use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a store is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read what is there.
    Read,
    /// To write; it is made if there is none.
    Write,
}

/// A store in one file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
}

/// Whether a file begins as SQLite's do.
#[must_use]
pub fn is_store(path: &Path) -> bool {
    let mut start = [0; 16];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"SQLite format 3\0"
}

impl SqliteStore {
    /// Opens a store, and brings an older one up to date if it is to be written.
    ///
    /// # Errors
    /// When it cannot be used; its file is then as it was.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        if access == Access::Write {
            make_folders(path)?;
        }
        let missing = path
            .symlink_metadata()
            .is_err_and(|error| error.kind() == NotFound);
        if access == Access::Read && missing {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let real = safe(path)?;
        // SQLite takes an empty file for an empty database.
        let about = real.metadata().ok();
        let exists = about.as_ref().is_some_and(|about| about.len() > 0);
        if !exists && access == Access::Read {
            return Err(StoreError::Missing(path.to_owned()));
        }
        if exists && open_regular(&real).is_ok() && !is_store(&real) {
            return Err(StoreError::NotAStore(path.to_owned()));
        }
        let mut store = Self {
            connection: connect(path, &real, access)?,
            path: path.to_owned(),
        };
        store.prepare(access)?;
        Ok(store)
    }

    fn prepare(&mut self, access: Access) -> Result<(), StoreError> {
        let version = self.of(schema::version(&self.connection))?;
        match version {
            Some(version) if version > schema::VERSION => {
                return Err(StoreError::Newer {
                    path: self.path.clone(),
                    version,
                    known: schema::VERSION,
                });
            }
            None => return Err(StoreError::NotAStore(self.path.clone())),
            Some(0) if access == Access::Read => {
                return Err(StoreError::NotAStore(self.path.clone()));
            }
            Some(_) => {}
        }
        if access == Access::Read {
            return Ok(());
        }
        // SQLite opens a file that may not be written for reading, and says nothing.
        if self.of(self.connection.is_readonly(MAIN_DB))? {
            let closed = unopened(&self.path);
            return Err(closed.unwrap_or_else(|| StoreError::ReadOnly(self.path.clone())));
        }
        self.keep_a_log()?;
        let migrated = schema::migrate(&mut self.connection);
        self.of(migrated)?;
        // Before more is added to it.
        let sound = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match self.of(sound)? {
            sound if sound == "ok" => Ok(()),
            // The first line is a heading.
            why => Err(StoreError::Damaged {
                path: self.path.clone(),
                why: why.lines().last().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Sets the write-ahead log, once, in the file itself.
    ///
    /// SQLite does not wait for the others that make the same file when it changes to a log.
    fn keep_a_log(&self) -> Result<(), StoreError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let set = self
                .connection
                .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
            match self.of(set) {
                Err(StoreError::Locked(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    fn of<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| told(&self.path, &error))
    }
}

fn connect(path: &Path, real: &Path, access: Access) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let ways = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let open = || {
        let connection = Connection::open_with_flags(real, flags | ways)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Nothing in a file may make SQLite do more than read and write it.
        connection.pragma_update(None, "trusted_schema", false)?;
        // Reads the file.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    match open() {
        // A log beside the file cannot be made on a read-only medium or a full disk; without
        // one, the file is all there is.
        Err(error) if access == Access::Read && !has_log(real) && needs_log(&error) => {
            let uri = format!("file:{}?immutable=1", encoded(real));
            let flags = flags | ways | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri, flags).map_err(|error| told(path, &error))
        }
        Err(error) if access == Access::Read && needs_log(&error) => {
            Err(unreadable(path).unwrap_or_else(|| StoreError::Unread(path.to_owned())))
        }
        opened => opened.map_err(|error| told(path, &error)),
    }
}

/// Why a file that is there cannot be opened at all.
fn unreadable(path: &Path) -> Option<StoreError> {
    let source = open_regular(path).err()?;
    (source.kind() != NotFound).then(|| StoreError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Why SQLite opens no file here, of which it says no more than that.
fn unopened(path: &Path) -> Option<StoreError> {
    if let Some(unreadable) = unreadable(path) {
        return Some(unreadable);
    }
    let folder = folder_of(path);
    let error = takes_files(folder).err()?;
    let folder = folder.display();
    let why = match error.kind() {
        ReadOnlyFilesystem => format!("the file system of {folder} is mounted read-only"),
        PermissionDenied => format!("you may not write to the folder {folder}"),
        _ => format!("nothing can be written to the folder {folder} ({error})"),
    };
    Some(StoreError::Closed {
        path: path.to_owned(),
        why,
    })
}

fn needs_log(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::CannotOpen, ErrorCode::ReadOnly];
    let refused = error
        .sqlite_error_code()
        .is_some_and(|code| codes.contains(&code));
    refused || is_one_of(error, &NO_INDEX)
}

/// Whether there is a log with anything in it. SQLite makes an empty one before it finds
/// that there is no room for the index of the log.
fn has_log(real: &Path) -> bool {
    let mut name = real.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
        .metadata()
        .is_ok_and(|about| about.len() > 0)
}

/// The index of the log, which is a file of its own, cannot be made.
const NO_INDEX: [c_int; 3] = [
    ffi::SQLITE_IOERR_SHMOPEN,
    ffi::SQLITE_IOERR_SHMSIZE,
    ffi::SQLITE_IOERR_SHMMAP,
];

/// Something cannot be written. SQLite takes a file that may not grow, and a quota that is
/// used up, for a failure of the disk.
const UNWRITTEN: [c_int; 4] = [
    ffi::SQLITE_IOERR_WRITE,
    ffi::SQLITE_IOERR_FSYNC,
    ffi::SQLITE_IOERR_DIR_FSYNC,
    ffi::SQLITE_IOERR_TRUNCATE,
];

fn is_one_of(error: &rusqlite::Error, codes: &[c_int]) -> bool {
    let failure = error.sqlite_error();
    failure.is_some_and(|failure| codes.contains(&failure.extended_code))
}

/// A path as part of a URI.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(|&byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        })
        .collect()
}

/// An error in the words of the store.
fn told(path: &Path, error: &rusqlite::Error) -> StoreError {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
        && let Some(why) = unopened(path)
    {
        return why;
    }
    let path = path.to_owned();
    if let rusqlite::Error::FromSqlConversionFailure(_, _, why) = error {
        let why = why.to_string();
        return StoreError::Damaged { path, why };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        Some(ErrorCode::ReadOnly) => unopened(&path).unwrap_or(StoreError::ReadOnly(path)),
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore(path),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
            path,
            why: "SQLite cannot read it".to_owned(),
        },
        _ if is_one_of(error, &UNWRITTEN) || is_one_of(error, &NO_INDEX) => StoreError::Unwritten {
            path,
            why: error.to_string(),
        },
        _ => StoreError::Database {
            path,
            why: error.to_string(),
        },
    }
}

impl Store for SqliteStore {
    fn begin(&mut self, program: &[String], at: Moment) -> Result<RunId, StoreError> {
        let begun = write::begin(&self.connection, program, at);
        self.of(begun)
    }

    fn saw(&mut self, run: RunId, race: &Race, at: Moment) -> Result<(), StoreError> {
        let saw = write::saw(&mut self.connection, run, race, at);
        self.of(saw)
    }

    fn saw_again(
        &mut self,
        run: RunId,
        races: &[(Fingerprint, u64)],
        at: Moment,
    ) -> Result<(), StoreError> {
        let saw = write::saw_again(&mut self.connection, run, races, at);
        self.of(saw)
    }

    fn exposed(&mut self, run: RunId, sites: &[Exposed]) -> Result<(), StoreError> {
        let exposed = write::exposed(&mut self.connection, run, sites);
        self.of(exposed)
    }

    fn exposure(&self) -> Result<(u64, u64), StoreError> {
        self.of(read::exposure(&self.connection))
    }

    fn finish(
        &mut self,
        run: RunId,
        report: &Report,
        counts: bool,
        at: Moment,
    ) -> Result<(), StoreError> {
        let finished = write::finish(&mut self.connection, run, report, counts, at);
        self.of(finished)
    }

    fn runs(&self) -> Result<Vec<StoredRun>, StoreError> {
        self.of(read::runs(&self.connection))
    }

    fn races(&self, run: Option<RunId>, today: Day) -> Result<Vec<StoredRace>, StoreError> {
        let mut races = self.of(read::races(&self.connection, run, today))?;
        if races.iter().any(|stored| stored.race.is_new()) {
            let all = match run {
                Some(_) => self.of(read::races(&self.connection, None, today))?,
                None => races.clone(),
            };
            let known = all.iter().map(|stored| &stored.race);
            let standings =
                Standings::of(known.filter_map(|race| Some((race, race.triage.clone()?))));
            for race in races.iter_mut().map(|stored| &mut stored.race) {
                race.triage = standings.get(race).or(race.triage.take());
            }
        }
        Ok(races)
    }

    fn quotes(&self, run: Option<RunId>) -> Result<Vec<Quote>, StoreError> {
        self.of(read::quotes(&self.connection, run))
    }

    fn decide(
        &mut self,
        races: &[Fingerprint],
        decision: &Decision,
        at: Moment,
    ) -> Result<(), StoreError> {
        let missing = write::decide(&mut self.connection, races, decision, at);
        self.of(missing)?.map_or(Ok(()), |race| self.no_race(&race))
    }

    fn history(&self, race: &Fingerprint) -> Result<Vec<(Moment, bool, Decision)>, StoreError> {
        self.of(read::history(&self.connection, race))
    }

    fn note(&mut self, races: &[Fingerprint], text: &str, at: Moment) -> Result<(), StoreError> {
        let missing = write::note(&mut self.connection, races, text, at);
        self.of(missing)?.map_or(Ok(()), |race| self.no_race(&race))
    }

    fn notes(&self, race: &Fingerprint) -> Result<Vec<(Moment, String)>, StoreError> {
        self.of(read::notes(&self.connection, race))
    }
}

impl SqliteStore {
    fn no_race(&self, race: &Fingerprint) -> Result<(), StoreError> {
        Err(StoreError::NoRace {
            path: self.path.clone(),
            race: race.id(),
        })
    }
}
