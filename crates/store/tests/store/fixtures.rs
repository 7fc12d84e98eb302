//! Races to keep.

use redhanded_model::{
    AccessKind, AccessReport, Class, Fingerprint, Frame, Line, Race, Region, Report, Run, SeenBy,
    ThreadName, UNKNOWN_ORIGIN, Values, What,
};
use redhanded_store::{Access, SqliteStore};
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with a store in it.
pub struct Place {
    pub folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("races.db")
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path(), Access::Write).unwrap()
    }
}

/// One side: `kind` in `function` of `file`, with the frames that called it.
pub fn side(
    kind: AccessKind,
    function: &str,
    file: &str,
    callers: &[(&str, &str)],
) -> AccessReport {
    let frame = |module: &str, function: &str| Frame {
        module: Some(module.to_owned()),
        function: Some(function.to_owned()),
        ..Frame::default()
    };
    let module = if function == "memcpy" {
        "libc.so.6"
    } else {
        "app"
    };
    let callers = callers
        .iter()
        .map(|(module, function)| frame(module, function));
    AccessReport {
        thread: ThreadName::default(),
        kind,
        size: 4,
        pc: 0x1000,
        instruction: None,
        atomic: false,
        function: Some(function.to_owned()),
        file: Some(file.to_owned()),
        line: Some(12),
        system_call: None,
        freed_by: None,
        pointee: None,
        value: None,
        created: None,
        stack: std::iter::once(frame(module, function))
            .chain(callers)
            .collect(),
    }
}

/// A race on `variable.field` between these sides.
pub fn race(variable: &str, accesses: Vec<AccessReport>) -> Race {
    let places = accesses.iter().filter_map(|side| side.function.clone());
    let mut places: Vec<String> = places.collect();
    if accesses.len() < 2 {
        places.push(UNKNOWN_ORIGIN.to_owned());
    }
    Race {
        fingerprint: Fingerprint::new(places, variable),
        class: Class::Race,
        rule: None,
        evidence: None,
        what: What {
            name: Some(variable.to_owned()),
            type_name: None,
            field: Some(".flags[3].x".to_owned()),
            field_in_full: None,
            bit_fields: Vec::new(),
            address: 0x5000,
            size: 4,
            region: Region::Heap,
            pointee: None,
            sides_differ: false,
            frame: None,
            block: None,
            allocated: None,
        },
        seen_by: SeenBy::Watch,
        analysed: None,
        values: Values::default(),
        instances: 1,
        lines: vec![accesses.iter().map(Line::from).collect()],
        suspects: Vec::new(),
        special: None,
        usage: Vec::new(),
        history: None,
        pairs: Vec::new(),
        verdict: None,
        triage: None,
        accesses,
    }
}

/// A reader and a writer of a variable.
pub fn reader_and_writer(variable: &str) -> Race {
    race(
        variable,
        vec![
            side(AccessKind::Read, "poll", "/build/app/src/net/poll.c", &[]),
            side(AccessKind::Write, "serve", "/build/app/src/serve.c", &[]),
        ],
    )
}

pub fn report(races: Vec<Race>) -> Report {
    Report {
        run: Run {
            program: vec!["./app".to_owned()],
            samples: 500,
            ..Run::default()
        },
        races,
        ..Report::default()
    }
}
