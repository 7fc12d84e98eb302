//! What is made of the findings: the options that all commands with a report share.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How much is printed about each race.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Detail {
    /// Say why each finding has its class, and what was seen and is no race
    /// (docs/evidence.md)
    #[arg(long)]
    pub explain: bool,

    /// Show the instruction of each access
    #[arg(long)]
    pub asm: bool,

    /// Show whole stacks, instructions, addresses and fingerprints
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// How races are judged, and which of them are told in full.
#[derive(Clone, Debug, Default, Args)]
pub struct Verdicts {
    /// Use the annotations in FILE, about functions, variables and fields, to judge races
    /// (docs/verdicts.md)
    #[arg(long, value_name = "FILE")]
    pub annotations: Option<PathBuf>,

    /// Show likely benign races in full instead of in three lines
    #[arg(long, value_enum, value_name = "WHICH")]
    pub show: Option<Show>,
}

/// What is made of the findings: what is told of each, and which exit status they give.
#[derive(Clone, Debug, Args)]
pub struct Findings {
    /// Which findings give another exit status. Default: any, or never for a report of earlier
    /// runs
    #[arg(long, value_enum, value_name = "WHICH")]
    pub fail_on: Option<FailOn>,

    /// That exit status
    #[arg(long, value_name = "N", default_value_t = crate::exit::RACE)]
    pub exit_code: u8,

    #[command(flatten)]
    pub verdicts: Verdicts,

    #[command(flatten)]
    pub detail: Detail,
}

/// What is told in full on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Show {
    /// Races that are likely benign
    Benign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum FailOn {
    /// Any race that is neither suppressed nor decided to stay; what may be atomic is none
    #[default]
    Any,
    /// Those among them that are new (--store, --baseline)
    New,
    /// What is likely harmful, by its verdict
    Harmful,
    /// What a replay proved to be harmful: some orders fail, and others do not
    Proven,
    /// None: the exit status is the program's
    Never,
}
