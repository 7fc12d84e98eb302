//! What is remembered between runs: the options of a run, and the commands that look at it.

use super::{Documents, Findings, percent};
use clap::{Args, ValueEnum};
use redhanded_model::State;
use redhanded_store::Day;
use std::path::PathBuf;

/// What is remembered, what is new, and what needs no attention.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "What is remembered")]
pub struct Remembering {
    /// Keep what is found in the store FILE, which is made if there is none
    /// (docs/store.md)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// Keep it in the project's own store, in your state folder
    #[arg(long, conflicts_with = "store")]
    pub remember: bool,

    /// The races in this report or store are not new
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Races that need no attention, each with its reason (docs/store.md)
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,

    /// Take no settings from redhanded.toml
    #[arg(long)]
    pub no_project: bool,
}

/// How much a run must have sampled.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "What is remembered")]
pub struct Enough {
    /// A run with fewer samples says nothing: its exit status is 67 if it finds no race
    #[arg(long, value_name = "N")]
    pub min_samples: Option<u64>,

    /// The same for a run that samples a smaller share of the sites
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub min_coverage: Option<f64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded report                             what the project's store has
  redhanded report --new races.db              what nobody has decided about yet
  redhanded report --race d3ee6081 races.db    one race in full
  redhanded report --run 7 --compare 6 races.db
                                               what changed from one run to the next
  redhanded report races.log                   what run --log races.log found
  redhanded report --json - races.log          as JSON (docs/json.md), printed
  redhanded report --html races.html races.log for a browser
  redhanded report --sarif races.sarif races.log
                                               for code scanning

Exit status:
  0    the report was printed    66   a race is in it, with --fail-on (--exit-code)
  125  FILE cannot be read, or is cut short: the report then covers what is in it")]
pub struct Report {
    /// A store, a JSON report or a session log. Default: the project's store
    #[arg(value_name = "FILE")]
    pub source: Option<PathBuf>,

    #[command(flatten)]
    pub documents: Documents,

    /// Only this race, in full: the first digits of its id
    #[arg(long, value_name = "ID")]
    pub race: Option<String>,

    /// Only races that are new or back after they were fixed
    #[arg(long)]
    pub new: bool,

    /// Only races that do harm, as far as is known
    #[arg(long)]
    pub harmful: bool,

    /// Only races with a side in source files that match
    #[arg(long = "in", value_name = "GLOB")]
    pub within: Option<String>,

    /// Only races in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub state: Option<StateName>,

    /// From a store: only races seen since this day, or in the last N days (30d)
    #[arg(long, value_name = "DAY", value_parser = since)]
    pub since: Option<Day>,

    /// From a store: only this run
    #[arg(long, value_name = "N")]
    pub run: Option<i64>,

    /// From a store: list its runs
    #[arg(long, conflicts_with_all = ["run", "race", "compare"])]
    pub runs: bool,

    /// What is new and what is gone since another run of this store, or another file
    #[arg(long, value_name = "RUN|FILE", conflicts_with = "race")]
    pub compare: Option<String>,

    /// Show each race in full, and not one entry for each problem; logs and reports always do
    #[arg(long)]
    pub full: bool,

    /// Races that need no attention, each with its reason
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,

    #[command(flatten)]
    pub findings: Findings,

    /// Print nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded triage d3ee6081 --state confirmed --because 'flags lose an update'
  redhanded triage --function 'stats_*' --state not-a-problem --because 'approximate'
  redhanded triage d3ee --state deferred --because 'after the release' --until 2027-03-31
  redhanded triage --import-tsan tsan.supp > suppressions.toml

Exit status:
  0    it was written    125  no race matches, or the store cannot be written")]
pub struct Triage {
    /// The races: the first digits of their ids
    #[arg(value_name = "RACE", conflicts_with_all = ["function", "file", "field", "class"])]
    pub races: Vec<String>,

    /// All races with a side in functions that match
    #[arg(long, value_name = "GLOB")]
    pub function: Option<String>,

    /// All races with a side in source files that match
    #[arg(long, value_name = "GLOB")]
    pub file: Option<String>,

    /// All races on variables and fields that match
    #[arg(long, value_name = "GLOB")]
    pub field: Option<String>,

    /// All races of this class: race, possibly-atomic, special
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,

    /// The new state
    #[arg(long, value_enum, value_name = "STATE", requires = "because")]
    pub state: Option<StateName>,

    /// Why
    #[arg(long, value_name = "TEXT")]
    pub because: Option<String>,

    /// Who answers for it
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,

    /// The last day on which it holds: 2026-12-31
    #[arg(long, value_name = "DAY")]
    pub until: Option<Day>,

    /// Add a note
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,

    /// The store. Default: the project's
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// Print the race: lines of a TSan suppression file as suppressions of Redhanded
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub import_tsan: Option<PathBuf>,
}

/// A state that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StateName {
    /// Nothing was decided
    New,
    /// It is a bug
    Confirmed,
    /// The program was mended; it becomes a regression if it is seen again
    Fixed,
    /// It may stay; reopened when it turns out to be worse than it looked
    NotAProblem,
    /// For later
    Deferred,
    /// It came back after it was fixed; Redhanded says so by itself
    Regression,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::New => Self::New,
            StateName::Confirmed => Self::Confirmed,
            StateName::Fixed => Self::Fixed,
            StateName::NotAProblem => Self::NotAProblem,
            StateName::Deferred => Self::Deferred,
            StateName::Regression => Self::Regression,
        }
    }
}

/// `2026-11-01`, or `30d` for the last thirty days.
fn since(text: &str) -> Result<Day, String> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<i64>().ok());
    match days.filter(|days| (0..=36_500).contains(days)) {
        Some(days) => Ok(redhanded_store::Moment::now().day().plus(-days)),
        None => text.parse(),
    }
}
