//! The arguments of `redhanded record`.

use super::{ShowProgress, some_time};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  redhanded record -- ./unit-test             write unit-test.recording
  redhanded record -o r -- ./app --flag       write r
  redhanded record --for 10s --kill -- ./app  end it after ten seconds
  redhanded record --values -- ./unit-test    so that it can be replayed

Exit status:
  the program's own (128+N if signal N killed it)
  125  Redhanded failed, or not all could be written
  126  the program cannot be run    127  there is no such program";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,

    /// Where the recording goes. Default: the program's name with .recording, in the working
    /// folder
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Record for this long; the program then goes on unrecorded
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub until: Option<Duration>,

    /// With --for: end the program then
    #[arg(long, requires = "until")]
    pub kill: bool,

    /// Record the calls of the locks and allocators in FILE, too, for an analysis with the same file
    /// (docs/analyses.md)
    #[arg(long, value_name = "FILE")]
    pub annotations: Option<PathBuf>,

    /// Also record what the program reads, so that redhanded replay can run each thread again; the
    /// program is slower
    #[arg(long)]
    pub values: bool,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Show progress. auto: on a terminal
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub progress: ShowProgress,
}
