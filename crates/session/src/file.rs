//! The log as a file.

use crate::record::{FORMAT, Header, Record};
use redhanded_detect::{Collision, Folded, Folder};
use redhanded_model::{Counts, Crash, Quote, Report, Run, Unseen};
use redhanded_sys::{self as sys, folder_of, remedy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the numbers are kept: more often tells nothing new, and would be most
/// of the file.
const COUNTS_EVERY: Duration = Duration::from_secs(1);

/// The mode of a log, less the umask.
const MODE: u32 = 0o666;

/// Why a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file `-` was asked for.
    #[error("cannot write the log to '-': standard output belongs to the program; name a file")]
    Stdout,
    /// There is such a file.
    #[error("cannot write the log to {}: it exists, and a log is not overwritten", .0.display())]
    Exists(PathBuf),
    /// It cannot be created, or not to its end.
    #[error("cannot write the log to {}: {source}{}", .path.display(), remedy(.source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It does not begin as a log does.
    #[error("{} is not a session log, a store or a report in JSON, which run --log, --store and --json write", .0.display())]
    NotALog(PathBuf),
    /// It ends too early.
    #[error("{} is cut short ({why}); the report covers what is in it", .path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// How.
        why: String,
    },
    /// Another version of the format.
    #[error("{} is a log of format {format}; this Redhanded reads {FORMAT}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        format: String,
    },
}

/// A log that is being written.
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// When the numbers were last kept.
    counted: Option<Instant>,
    /// What stopped the writing.
    failed: Option<io::Error>,
}

impl LogFile {
    /// Creates the file, which must not exist: following somebody else's link or
    /// writing over an earlier log would both be wrong.
    ///
    /// # Errors
    /// When it exists or cannot be written.
    pub fn create(path: &Path, header: Header) -> Result<Self, LogError> {
        if path == Path::new("-") {
            return Err(LogError::Stdout);
        }
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AlreadyExists => LogError::Exists(path.to_owned()),
            _ => LogError::Write {
                path: path.to_owned(),
                source,
            },
        };
        let name = path.file_name().unwrap_or_default();
        let folder = sys::Folder::open(folder_of(path)).map_err(failed)?;
        let file = folder.create_new(name, MODE).map_err(failed)?;
        let mut log = Self {
            path: path.to_owned(),
            file,
            counted: None,
            failed: None,
        };
        log.keep(&Record::Header(header));
        if let Err(error) = log.finish() {
            // It is no log, and the next try would be refused because of it.
            folder.remove(name);
            return Err(error);
        }
        Ok(log)
    }

    /// Keeps a record, at once. After a failure the rest is dropped: half a record
    /// must be the last.
    pub fn keep(&mut self, record: &Record) {
        if matches!(record, Record::Counts(_)) {
            if self.counted.is_some_and(|at| at.elapsed() < COUNTS_EVERY) {
                return;
            }
            self.counted = Some(Instant::now());
        }
        if self.failed.is_none() {
            let line = serde_json::to_vec(record).map_err(io::Error::from);
            let written = line.and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            });
            self.failed = written.err();
        }
    }

    /// Whether all of it was written.
    ///
    /// # Errors
    /// What stopped the writing.
    pub fn finish(&mut self) -> Result<(), LogError> {
        let path = self.path.clone();
        let failed = self.failed.take();
        failed.map_or(Ok(()), |source| Err(LogError::Write { path, source }))
    }
}

/// What a log tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoggedReport {
    /// The report.
    pub report: Report,
    /// What is wrong with the log, if it ends too early.
    pub cut_short: Option<String>,
}

/// Opens a log.
///
/// # Errors
/// When it cannot be opened.
pub fn open(path: &Path) -> Result<File, LogError> {
    sys::open_regular(path).map_err(|source| LogError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads a log, which is called `path`. Where it is cut short, what is there is used.
///
/// # Errors
/// When it cannot be read, or is no log of this format.
pub fn read(file: &File, path: &Path) -> Result<LoggedReport, LogError> {
    let unreadable = |source| LogError::Read {
        path: path.to_owned(),
        source,
    };
    let mut lines = BufReader::new(file).split(b'\n');
    let first = lines.next().transpose().map_err(unreadable)?;
    let mut told = Told {
        program: header(path, &first.unwrap_or_default())?.program,
        ..Told::default()
    };
    let mut quotes = BTreeMap::new();
    let mut cut_short = None;
    let mut why = "it has no end".to_owned();
    let mut ended = None;
    for (number, line) in (2..).zip(lines) {
        match serde_json::from_slice(&line.map_err(unreadable)?) {
            Ok(Record::Source { file, line, text }) => {
                quotes.insert((file, line), text);
            }
            Ok(Record::Run(run)) => {
                ended = Some(*run);
                break;
            }
            Ok(Record::Failed { message, .. }) => {
                why = format!("the run failed: {message}");
                break;
            }
            Ok(record) => told.take(record),
            Err(_) => {
                why = format!("line {number} is damaged");
                break;
            }
        }
    }
    let mut report = match ended {
        Some(run) => report(run, told.folder),
        None => {
            let so_far = told.so_far(&why);
            cut_short = Some(why);
            so_far
        }
    };
    report.quotes = quotes
        .into_iter()
        .map(|((file, line), text)| Quote { file, line, text })
        .collect();
    Ok(LoggedReport { report, cut_short })
}

fn header(path: &Path, line: &[u8]) -> Result<Header, LogError> {
    if let Ok(Record::Header(header)) = serde_json::from_slice(line)
        && header.format == FORMAT
    {
        return Ok(header);
    }
    // Another version may have other keys.
    let found: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    let format = found["header"]["format"].as_str().unwrap_or_default();
    Err(if format.starts_with("redhanded-log/") {
        LogError::Version {
            path: path.to_owned(),
            format: format.to_owned(),
        }
    } else {
        LogError::NotALog(path.to_owned())
    })
}

fn report(run: Run, folder: Folder) -> Report {
    let (races, set_aside) = folder.into_races();
    Report {
        run,
        races,
        set_aside,
        quotes: Vec::new(),
    }
}

/// What was told so far, for a log without an end.
#[derive(Default)]
struct Told {
    program: Vec<String>,
    folder: Folder,
    /// What became of the last finding.
    last: Option<Folded>,
    counts: Counts,
    unseen: Vec<Unseen>,
    crash: Option<Crash>,
    /// The collision that the next finding is about.
    collision: Option<Box<Collision>>,
}

impl Told {
    fn take(&mut self, record: Record) {
        match record {
            Record::Finding(finding) => {
                self.last = Some(match self.collision.take() {
                    Some(collision) => self.folder.fold_instance(finding, &collision),
                    None => self.folder.fold(finding),
                });
            }
            Record::Replayed(tally) => {
                if let Some(folded) = self.last {
                    self.folder.replayed(folded, tally);
                }
            }
            Record::Collision { windows, collision } => {
                self.counts.windows = self.counts.windows.max(windows);
                self.collision = Some(collision);
            }
            Record::Counts(counts) => self.counts = counts,
            Record::Crash { crash, .. } => self.crash = Some(crash),
            Record::Finished(finished) => {
                self.counts = finished.counts;
                self.unseen = finished.unseen;
            }
            _ => {}
        }
    }

    fn so_far(self, why: &str) -> Report {
        let mut run = Run {
            program: self.program,
            unseen: self.unseen,
            cut_short: true,
            crash: self.crash,
            ..Run::from(self.counts)
        };
        run.runs = run.runs.max(1);
        run.unseen.push(Unseen {
            what: "the rest of the run".to_owned(),
            why: format!("the log is cut short: {why}"),
        });
        report(run, self.folder)
    }
}
