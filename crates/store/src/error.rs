//! What can be wrong with a store.

use std::io;
use std::path::PathBuf;

/// Why a store cannot be used. Whatever the reason, its file was left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none.
    #[error("there is no store {}: a run with --store or --remember makes one", .0.display())]
    Missing(PathBuf),
    /// The file is something else.
    #[error("{} is not a store of Redhanded; it was left as it is", .0.display())]
    NotAStore(PathBuf),
    /// It is damaged.
    #[error("the store {} is damaged ({why}); it was left as it is: put a copy in its place, or name another with --store", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        why: String,
    },
    /// A later version made it.
    #[error("the store {} has version {version}, and this Redhanded knows {known}: use the newer one, or name another store", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The latest that is known.
        known: i64,
    },
    /// Somebody else writes to it and does not end.
    #[error("the store {} is locked by another process; try again when that has ended", .0.display())]
    Locked(PathBuf),
    /// It may only be read.
    #[error("the store {} cannot be written: it is read-only; make it writable, or name another with --store", .0.display())]
    ReadOnly(PathBuf),
    /// No file can be made or changed where it is.
    #[error("the store {} cannot be written: {why}; name a file elsewhere with --store", .path.display())]
    Closed {
        /// The file.
        path: PathBuf,
        /// Why, which names the folder.
        why: String,
    },
    /// What was written last is in a log beside it, which can only be read where files can be
    /// made.
    #[error("the store {path} cannot be read where it is: a run that did not end left {path}-wal beside it, and no file can be made there; copy both to another folder", path = .0.display())]
    Unread(PathBuf),
    /// There is no room for more.
    #[error("the store {} cannot be written: the disk is full; make room there, or name another with --store", .0.display())]
    Full(PathBuf),
    /// The system does not take what is written.
    #[error("the store {} cannot be written ({why}): see that its disk has room and that files may grow (ulimit -f), or name another with --store", .path.display())]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// It is where others could exchange it.
    #[error("cannot use the store {}: {why}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It cannot be reached.
    #[error("cannot use the store {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It has no such race.
    #[error("the store {} has no race {race}", .path.display())]
    NoRace {
        /// The file.
        path: PathBuf,
        /// The race that was asked for.
        race: String,
    },
    /// SQLite refuses for another reason.
    #[error("cannot use the store {}: {why}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
}
