//! The commands that are about recordings.

use super::{Documents, Findings, Remembering, ShowProgress, duration};
use clap::{Args, ValueEnum};
use redhanded_model::Analysis;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How what a recording has is told.
#[derive(Debug, Args)]
pub struct Telling {
    #[command(flatten)]
    pub documents: Documents,

    /// Where the source files are, if not at the paths in the debug information
    #[arg(long, value_name = "DIR")]
    pub sources: Vec<PathBuf>,

    #[command(flatten)]
    pub findings: Findings,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded record -o test.rec -- ./test       record it
  redhanded analyze test.rec                   what happens-before and lockset find
  redhanded analyze --by lockset test.rec      what lockset alone finds
  redhanded analyze --json races.json test.rec as JSON (docs/json.md)
  redhanded run --suspects races.json -- ./test
                                               catch what it found

Exit status:
  0    nothing is unordered; suspects may be listed
  66   a race is: nothing in the recorded execution kept its accesses apart
  125  FILE cannot be read, or is cut short: the report then covers what is in it")]
pub struct Analyze {
    /// The recording
    #[arg(value_name = "FILE")]
    pub recording: PathBuf,

    /// How: one analysis, or several after commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "happens-before,lockset",
        value_name = "HOW"
    )]
    pub by: Vec<By>,

    #[command(flatten)]
    pub telling: Telling,

    /// Show how far it is
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub progress: ShowProgress,

    /// Print nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,

    // Last, because its heading would hold for all options after it.
    #[command(flatten)]
    pub remembering: Remembering,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded check -- ./unit-test               record it, find its races, catch them
  redhanded check --hunt 0 -- ./unit-test      do not run it again to catch them
  redhanded check --json races.json -- ./test  write a report for scripts (docs/json.md)
  redhanded check --store races.db --fail-on new -- ./test
                                               fail for new races only (docs/store.md)

Each race is caught (both threads stopped at their accesses), unordered (nothing kept the two apart
in the recorded execution) or a suspect.

Exit status:
  the program's own if there is no race, or only suspects (128+N if signal N killed it)
  66   a race was caught, or is unordered (--exit-code, --fail-on)
  125  Redhanded failed
  126  the program cannot be run    127  there is no such program")]
pub struct Check {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,

    /// Run the program again, as often as this time allows, to catch what was found; 0: do not
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration,
          allow_hyphen_values = true)]
    pub hunt: Duration,

    /// Keep the recording in FILE
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,

    #[command(flatten)]
    pub telling: Telling,

    /// Print only races and what went wrong
    #[arg(long, short)]
    pub quiet: bool,

    // Last, because its heading would hold for all options after it.
    #[command(flatten)]
    pub remembering: Remembering,
}

/// An analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum By {
    /// What no synchronisation ordered
    HappensBefore,
    /// What overlapped between two synchronising instructions
    Sequencers,
    /// What no lock protects consistently
    Lockset,
}

impl From<By> for Analysis {
    fn from(by: By) -> Self {
        match by {
            By::HappensBefore => Self::HappensBefore,
            By::Sequencers => Self::Sequencers,
            By::Lockset => Self::Lockset,
        }
    }
}
