//! Stores that cannot be used: one sentence, and the file is as it was.

use crate::fixtures::{Place, reader_and_writer, report};
use redhanded_store::{Access, Moment, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

const NOW: Moment = Moment(1_800_000_000_000);

fn filled() -> Place {
    let place = Place::new();
    let mut store = place.open();
    let run = store.begin(&[], NOW).unwrap();
    let races = (0..200).map(|n| reader_and_writer(&format!("v{n}")));
    store
        .finish(run, &report(races.collect()), true, NOW)
        .unwrap();
    place
}

/// Opens it both ways; what it says, if it is as it was afterwards.
#[track_caller]
fn refused(place: &Place, sentence: &str) {
    let before = fs::read(place.path()).unwrap();
    for access in [Access::Read, Access::Write] {
        let opened = SqliteStore::open(&place.path(), access);
        let told = opened.and_then(|store| store.races(None, NOW.day()));
        let error = told.expect_err("it cannot be used").to_string();
        assert!(error.contains(sentence), "{access:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("races.db"), "{error}");
    }
    assert!(fs::read(place.path()).unwrap() == before, "it was changed");
}

#[test]
fn another_file_is_not_a_store() {
    let place = Place::new();
    fs::write(place.path(), "my thesis").unwrap();
    refused(&place, "is not a store of Redhanded");
    fs::remove_file(place.path()).unwrap();
    let other = Connection::open(place.path()).unwrap();
    other
        .execute_batch("CREATE TABLE thesis (chapter)")
        .unwrap();
    drop(other);
    refused(&place, "is not a store of Redhanded");
}

#[test]
fn a_damaged_store_is_left_alone() {
    let place = filled();
    let mut bytes = fs::read(place.path()).unwrap();
    for at in (4096..bytes.len()).step_by(64) {
        bytes[at] ^= 0x55;
    }
    fs::write(place.path(), bytes).unwrap();
    refused(&place, "is damaged");
    let place = filled();
    let bytes = fs::read(place.path()).unwrap();
    fs::write(place.path(), &bytes[..bytes.len() / 2]).unwrap();
    refused(&place, "is damaged");
}

#[test]
fn a_store_of_a_later_version_is_left_alone() {
    let place = filled();
    let store = Connection::open(place.path()).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    refused(&place, "has version 99, and this Redhanded knows 1");
}

#[test]
fn a_store_that_somebody_writes_to_without_end_is_locked() {
    let place = filled();
    let holder = Connection::open(place.path()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = place.open();
    let error = store.begin(&[], NOW).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error}");
    // Who only reads need not wait.
    let reader = SqliteStore::open(&place.path(), Access::Read).unwrap();
    assert_eq!(reader.races(None, NOW.day()).unwrap().len(), 200);
    holder.execute_batch("COMMIT").unwrap();
    store.begin(&[], NOW).unwrap();
}

#[test]
fn a_missing_store_is_made_for_writing_only() {
    let place = Place::new();
    let missing = SqliteStore::open(&place.path(), Access::Read);
    assert!(
        matches!(missing, Err(StoreError::Missing(_))),
        "{missing:?}"
    );
    assert!(!place.path().exists());
    let nowhere = place.folder.path().join("no/races.db");
    let error = SqliteStore::open(&nowhere, Access::Write).unwrap_err();
    assert!(error.to_string().contains("there is no folder"), "{error}");
    drop(place.open());
    assert!(place.path().exists());
}

#[test]
fn links_and_folders_of_others_are_refused() {
    let place = filled();
    let link = place.folder.path().join("link.db");
    symlink("races.db", &link).unwrap();
    let error = SqliteStore::open(&link, Access::Write)
        .unwrap_err()
        .to_string();
    assert!(error.contains("it is a symbolic link"), "{error}");
    fs::set_permissions(place.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let error = SqliteStore::open(&place.path(), Access::Write)
        .unwrap_err()
        .to_string();
    assert!(error.contains("other users may write to"), "{error}");
    // Sticky: nobody can move the store, but anybody can plant a journal beside it.
    fs::set_permissions(place.folder.path(), Permissions::from_mode(0o1777)).unwrap();
    let error = SqliteStore::open(&place.path(), Access::Write)
        .unwrap_err()
        .to_string();
    assert!(error.contains("other users may write to"), "{error}");
    let below = place.folder.path().join("below");
    fs::create_dir(&below).unwrap();
    // Whatever the umask is.
    fs::set_permissions(&below, Permissions::from_mode(0o700)).unwrap();
    drop(SqliteStore::open(&below.join("races.db"), Access::Write).unwrap());
}

#[test]
fn a_log_that_cannot_be_read_is_named_with_what_to_do() {
    let place = filled();
    let mut store = place.open();
    store.begin(&[], NOW).unwrap();
    let log = place.folder.path().join("races.db-wal");
    assert!(
        fs::metadata(&log).unwrap().len() > 0,
        "nothing is in the log"
    );
    // As a run leaves them that is killed; where no file can be made, there is no index.
    let copy = Place::new();
    fs::copy(place.path(), copy.path()).unwrap();
    fs::copy(&log, copy.folder.path().join("races.db-wal")).unwrap();
    symlink("races.db-shm", copy.folder.path().join("races.db-shm")).unwrap();
    let error = SqliteStore::open(&copy.path(), Access::Read).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("races.db-wal beside it"), "{told}");
    assert!(told.contains("copy both to another folder"), "{told}");
}
