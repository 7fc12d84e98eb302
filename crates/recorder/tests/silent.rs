//! A recorder that does not start: an error, and never an unrecorded run.
//!
//! Needs DynamoRIO, which `cargo xtask recorder` builds.

use redhanded_process::Program;
use redhanded_recorder::{Engine, Options, RecordError, record};
use redhanded_recording::{Header, Writer};
use redhanded_target::Signals;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

/// DynamoRIO, as it is placed beside the binaries of this profile.
fn library() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let library = own.parent()?.parent()?.join("recorder/libdynamorio.so");
    library.exists().then_some(library)
}

#[test]
fn a_client_that_cannot_be_loaded_is_an_error() {
    let Some(library) = library() else {
        eprintln!("skipped: this test needs `cargo xtask recorder`");
        return;
    };
    let signals = Signals::hold();
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client.so");
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(&client)
        .unwrap();
    file.write_all(b"no library").unwrap();
    let engine = Engine { library, client };
    let program = Program::find(&["true".into()]).unwrap();
    let writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let outcome = record(
        &program,
        &engine,
        Options::default(),
        &signals,
        writer,
        |_| {},
    );
    let failure = outcome.unwrap_err();
    assert!(matches!(failure, RecordError::Silent(_)), "{failure}");
}
