//! The log: every record survives being written and read, and what is left of a
//! damaged log is used.

use proptest::prelude::*;
use redhanded_detect::{
    Budget, CREDIT, Collision, Finding, Folder, Options, Outcome, Random, Sink, Start, watch,
};
use redhanded_image::Selected;
use redhanded_model::{
    AccessKind, Counts, Crash, CrashWindow, Delays, Frame, Report, Run, SiteCounts, Standstill,
    Strategy, ThreadName, Unseen,
};
use redhanded_session::{Finished, Header, ImageFile, LogError, LogFile, LoggedReport, Record};
use redhanded_target::driver::Driver;
use redhanded_target::fake::{Fake, Step};
use redhanded_target::{Ending, Module};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Keeps what a session finds.
#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    folder: Folder,
    told: bool,
}

impl Sink for Kept {
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]) {
        if !std::mem::replace(&mut self.told, true) {
            let modules = modules.iter().map(|module| Record::Module {
                module: Module::clone(module),
                file: None,
            });
            self.records.extend(modules);
        }
        let finding = self.folder.judge(&collision, modules);
        self.folder.fold_instance(finding.clone(), &collision);
        self.records.push(Record::Collision {
            windows: collision.record.id.0,
            collision: Box::new(collision),
        });
        self.records.push(Record::Finding(finding));
    }

    fn progress(&mut self, _counts: &Counts) {}
}

/// A session on a scripted target: two tasks that bump two counters.
fn session(seed: u64) -> (Kept, Counts) {
    let mut fake = Fake::new();
    let steps: Vec<Step> = [0x5_0000_0000, 0x5_0000_1000]
        .into_iter()
        .flat_map(|at| {
            let site = fake.site(AccessKind::Update, 8, false);
            let access = Step::Access { site, at, value: 1 };
            [Step::Work(Duration::from_micros(20)), access]
        })
        .collect();
    fake.task(steps.clone(), u64::MAX);
    fake.task(steps, u64::MAX);
    let selected = Arc::new(Selected {
        sites: Arc::new(fake.sampling_set()),
        ..Selected::default()
    });
    let options = Options {
        rate: 1000.0,
        delay: Delays::of_tasks(Duration::from_millis(1)),
        budget: Budget {
            overhead: 10.0,
            credit: CREDIT,
        },
        strategy: Strategy::Both,
        until: Some(Duration::from_millis(50)),
        max_windows: Some(20),
        start: Start::AtOnce,
    };
    let mut kept = Kept::default();
    let sites = |_: &Module| Some(Arc::clone(&selected));
    let mut driver = Driver::new(fake);
    let (_, counts) = watch(&mut driver, &sites, options, Random::new(seed), &mut kept).unwrap();
    (kept, counts)
}

/// A log of such a session, and the report that belongs to it.
fn log(path: &Path) -> Report {
    let (kept, counts) = session(1);
    let mut log = LogFile::create(path, Header::new(vec!["fake".to_owned()])).unwrap();
    log.keep(&Record::Started { pid: 1 });
    for record in &kept.records {
        log.keep(record);
    }
    log.keep(&Record::Counts(counts.clone()));
    let run = Run {
        program: vec!["fake".to_owned()],
        ..Run::from(counts)
    };
    log.keep(&Record::Run(Box::new(run.clone())));
    log.finish().unwrap();
    let (races, set_aside) = kept.folder.into_races();
    assert!(races.len() == 2 && races[0].instances > 1);
    Report {
        run,
        set_aside,
        races,
        quotes: Vec::new(),
    }
}

/// The log in a file.
fn read(path: &Path) -> Result<LoggedReport, LogError> {
    redhanded_session::read(&redhanded_session::open(path)?, path)
}

#[test]
fn a_log_gives_the_report_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let report = log(&path);
    let session = read(&path).unwrap();
    assert_eq!(session.report, report);
    assert!(session.cut_short.is_none());
}

#[test]
fn a_log_that_is_cut_anywhere_gives_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let full = log(&whole);
    let text = fs::read(&whole).unwrap();
    let cut = folder.path().join("cut");
    let ends = (1..text.len()).filter(|at| text[at - 1] == b'\n');
    let mut before = 0;
    for (number, end) in (1..).zip(ends) {
        // At the end of a line, in it, and before its line end.
        for at in [end, usize::midpoint(before, end), end - 1] {
            fs::write(&cut, &text[..at]).unwrap();
            let session = match read(&cut) {
                Err(LogError::NotALog(_)) if number == 1 && at < end - 1 => continue,
                read => read.unwrap(),
            };
            assert!(session.cut_short.is_some());
            assert!(session.report.run.cut_short);
            assert_eq!(session.report.run.program, full.run.program);
            let told = session.report.run.unseen.last().unwrap();
            assert!(told.why.contains("cut short"), "{told:?}");
            let instances = |report: &Report| report.races.iter().map(|r| r.instances).sum();
            let (some, all): (u64, u64) = (instances(&session.report), instances(&full));
            let kept = text[..at].split(|byte| *byte == b'\n');
            let kept = kept.filter(|line| serde_json::from_slice::<Record>(line).is_ok());
            let findings = kept
                .filter(|line| line.starts_with(b"{\"finding\":{"))
                .count();
            assert_eq!(some, findings as u64, "line {number}");
            assert!(some <= all);
        }
        before = end;
    }
    fs::write(
        &cut,
        [&text[..before], b"{\"finding\":7}\n".as_slice()].concat(),
    )
    .unwrap();
    let damaged = read(&cut).unwrap().cut_short.unwrap();
    assert!(damaged.contains("is damaged"), "{damaged}");
}

#[test]
fn what_is_no_log_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string()
    };
    for text in [
        "",
        "\n",
        "{}",
        "text",
        "{\"schema\":\"redhanded-report/1\"}",
        "[1]\n",
    ] {
        assert!(refused(text).contains("is not a session log"), "{text}");
    }
    let newer = refused("{\"header\":{\"format\":\"redhanded-log/2\",\"machine\":1}}\n");
    assert!(newer.contains("format redhanded-log/2"), "{newer}");
    let missing = read(&folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("cannot read"), "{missing}");
}

#[test]
fn nothing_is_written_over_or_through() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("log"), folder.path().join("link"));
    let create = |path: &Path| LogFile::create(path, Header::new(Vec::new())).err();
    assert!(matches!(create(Path::new("-")), Some(LogError::Stdout)));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(create(&link), Some(LogError::Exists(_))));
    assert!(!path.exists());
    assert!(create(&path).is_none());
    assert!(matches!(create(&path), Some(LogError::Exists(_))));
    let nowhere = create(&folder.path().join("no/log")).unwrap();
    assert!(nowhere.to_string().contains("No such file"), "{nowhere}");
}

/// One record of each kind, of what a target may say.
fn records(
    text: &str,
    path: Vec<u8>,
    number: u64,
    microseconds: u64,
    (mut kept, mut counts): (Kept, Counts),
) -> Vec<Record> {
    let text = || text.to_owned();
    let path = PathBuf::from(OsString::from_vec(path));
    counts.wall = Duration::from_micros(microseconds);
    let real = counts.wall.as_secs_f64();
    // The scripted target counts nanoseconds.
    (counts.held, counts.thread_time) = (counts.wall, counts.wall);
    counts.standstill = Some(Standstill {
        total_s: real,
        window_s: Some(-real),
    });
    counts.sites = SiteCounts {
        total: number,
        armed: 1,
        sampled: 0,
    };
    let at = Frame {
        function: Some(text()),
        address: number,
        ..Frame::default()
    };
    let crash = Crash {
        signal: 11,
        thread: ThreadName {
            name: text(),
            ..ThreadName::default()
        },
        stack: vec![at.clone()],
        windows: vec![CrashWindow {
            ago_s: real,
            tid: 7,
            at,
            held_s: -real,
            caught: true,
        }],
    };
    let unseen = vec![Unseen {
        what: text(),
        why: text(),
    }];
    let run = Run {
        unseen: unseen.clone(),
        crash: Some(crash.clone()),
        ending: Some(Ending::Exited { status: 1 }),
        ..Run::from(counts.clone())
    };
    let finished = Finished {
        counts: counts.clone(),
        unseen,
        pursuits: Vec::new(),
        outcome: Outcome::Interrupted {
            signal: 2,
            by_process: true,
        },
        ending: Ending::Killed {
            signal: 6,
            core: true,
        },
    };
    let live = format!("[[{number},\"00ff{:02x}\"]]", number % 256);
    let file = ImageFile {
        path: path.clone(),
        build_id: Some("0123".to_owned()),
        live: serde_json::from_str(&live).unwrap(),
    };
    if let Some(Record::Module { module, .. }) = kept.records.first().cloned() {
        let file = Some(file);
        kept.records.push(Record::Module { module, file });
    }
    kept.records.extend([
        Record::Header(Header::new(vec![text()])),
        Record::Started { pid: 1 },
        Record::Finding(Finding::Synchronised),
        Record::Source {
            file: text(),
            line: 1,
            text: text(),
        },
        Record::Crash {
            crash,
            modules: Vec::new(),
        },
        Record::Core(Ok(path)),
        Record::Core(Err(text())),
        Record::Counts(counts),
        Record::Finished(Box::new(finished)),
        Record::Failed {
            code: 125,
            message: text(),
        },
        Record::Run(Box::new(run)),
    ]);
    kept.records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The debug form has every field, and prints every number exactly.
    #[test]
    fn every_record_is_read_as_it_was_written(
        text in any::<String>(),
        path in prop::collection::vec(1..=u8::MAX, 0..20),
        number in any::<u64>(),
        // Reports tell times to the microsecond.
        microseconds in 0..1u64 << 40,
        seed in 0..8u64,
    ) {
        let all = records(&text, path, number, microseconds, session(seed));
        let mut kinds = std::collections::BTreeSet::new();
        for record in all {
            let line = serde_json::to_string(&record).unwrap();
            prop_assert!(!line.contains('\n'));
            let again: Record = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(format!("{:?}", again), format!("{:?}", record));
            kinds.insert(line.split('"').nth(1).unwrap().to_owned());
        }
        prop_assert_eq!(kinds.len(), 12, "{:?}", kinds);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(lines in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let header = serde_json::to_vec(&Record::Header(Header::new(Vec::new()))).unwrap();
        fs::write(&path, [header, lines.concat()].join(&b'\n')).unwrap();
        prop_assert!(read(&path).unwrap().cut_short.is_some());
    }
}
