//! The command line.

mod kernel;

use clap::{Args, Parser, Subcommand, ValueEnum};
use redhanded_model::Strategy;
use redhanded_process::{Follow, WatchBy};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use kernel::{Demo, DemoOf, Kernel};

const RUN_EXAMPLES: &str = "\
Examples:
  redhanded run -- ./server --port 8080       until the server ends or Ctrl-C
  redhanded run --for 30s -- ./server         look for half a minute, then let it run on
  redhanded run --for 1m -- ./unit-test       run a short test again and again
  redhanded run --function 'cache_*' -- ./app sample these functions only
  redhanded run --weight 'parse*=10' -- ./app draw sites there ten times as often
  redhanded run --json races.json -- ./app    for scripts (docs/json.md)

Exit status:
  the program's own when no race was found (128+N if signal N killed it)
  66   a race was found (--exit-code, --fail-on)
  125  Redhanded failed    126  the program cannot be run    127  no such program";

const ATTACH_EXAMPLES: &str = "\
Examples:
  redhanded attach 4711                       until the process ends or Ctrl-C
  redhanded attach --for 1m $(pidof server)   for a minute, then let it run on
  redhanded attach --safe --for 1h 4711       in production: no byte of it is written
  redhanded attach --max-races 1 4711         until a race is found

Exit status:
  0    no race was found       66   a race was found (--exit-code, --fail-on)
  125  Redhanded failed, or the process may not be traced";

/// Catches data races in programs as they are: no recompiling, no
/// instrumentation, no knowledge of their locks.
#[derive(Debug, Parser)]
#[command(version, about, after_help = "Start with: redhanded demo")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and report the data races caught in the act
    Run(Run),
    /// Observe a process that runs already, and leave it as it was
    Attach(Attach),
    /// Observe a Linux kernel in a virtual machine
    Kernel(Kernel),
    /// Print the report of an earlier session from its log
    Report(Report),
    /// List the instructions of a file that can be sampled, and why others cannot
    Sites(Sites),
    /// Watch a small built-in program being caught, or a kernel
    Demo(Demo),
    /// The program of the demo
    #[command(hide = true)]
    DemoProgram,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct Run {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,

    /// Look for this long, running the program again whenever it ends; one that
    /// has not ended then is left running
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub until: Option<Duration>,

    /// With --for or --repeat: end a run that takes longer, with the processes it
    /// has started, and begin the next. Without it, one run may use up all the time
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub each: Option<Duration>,

    /// Run the program N times and pool the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,

    /// End the program when enough was seen, instead of leaving it running
    #[arg(long)]
    pub kill: bool,

    #[command(flatten)]
    pub tracing: Tracing,

    #[command(flatten)]
    pub watch: Watch,
}

#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub struct Attach {
    /// The process
    #[arg(value_name = "PID")]
    pub pid: u32,

    /// Look for this long, then let go
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub until: Option<Duration>,

    #[command(flatten)]
    pub tracing: Tracing,

    #[command(flatten)]
    pub watch: Watch,
}

/// How a process is traced, started for it or not.
#[derive(Debug, Args)]
pub struct Tracing {
    /// How debug registers are set: by perf events, thread by thread with ptrace,
    /// or whichever is allowed
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub watch: WatchHow,

    /// Which processes that the program starts are observed too
    #[arg(long, value_enum, default_value = "all")]
    pub follow: FollowWhom,

    /// Never write a byte of the program: code breakpoints are debug registers
    /// too, so that nothing is left behind even if Redhanded is killed; far fewer
    /// samples
    #[arg(long)]
    pub safe: bool,

    /// Leave the process stopped at the first race, both threads at their
    /// accesses, for a debugger
    #[arg(long)]
    pub stop_on_race: bool,

    /// Write a core file into DIR for each race, with both threads at their
    /// accesses
    #[arg(long, value_name = "DIR")]
    pub core: Option<PathBuf>,
}

/// How a target is observed, whatever it is.
#[derive(Debug, Args)]
pub struct Watch {
    /// Write the report as JSON to FILE (docs/json.md)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Keep the session log in FILE, a new file, from which redhanded report makes
    /// the report again (docs/log.md)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Share of the threads' (or CPUs') time that they may be held; 0 does not even
    /// attach. Default: 5% of a program's, 100% of a virtual machine's
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub overhead: Option<f64>,

    /// Samples a second to aim at, as far as the overhead allows
    #[arg(long, value_name = "N", default_value_t = 1000.0, value_parser = rate)]
    pub rate: f64,

    /// The longest a thread is held; each delay is random up to it. Default: 2ms,
    /// in a kernel 15ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub delay: Option<Duration>,

    /// Stop looking after N windows
    #[arg(long, value_name = "N")]
    pub max_windows: Option<u64>,

    /// Stop looking after N distinct races
    #[arg(long, value_name = "N")]
    pub max_races: Option<u64>,

    /// How a conflict is seen: by debug registers, by re-reading the bytes, or both
    #[arg(long, value_enum, default_value = "both")]
    pub detect: Detect,

    /// Seed of the random choices
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Exit status when a race was found
    #[arg(long, value_name = "N", default_value_t = crate::exit::RACE)]
    pub exit_code: u8,

    /// Which findings give that exit status; what is only possibly a race fails
    /// no run
    #[arg(long, value_enum, default_value = "any")]
    pub fail_on: FailOn,

    /// Show how the run is going, on stderr. auto: in one line, on a terminal that
    /// the program does not use; always: else in whole lines, one every ten seconds
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub progress: ShowProgress,

    /// Print nothing unless there is a race or something went wrong
    #[arg(long, short)]
    pub quiet: bool,

    // Last, because its heading would hold for all options after it.
    #[command(flatten)]
    pub select: Select,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded report races.log                   what run --log races.log found
  redhanded report --json - races.log          as JSON (docs/json.md)

Exit status:
  0    the report was printed    66   a race is in it, with --fail-on any (--exit-code)
  125  FILE is no log, or is cut short: the report then covers what is in it")]
pub struct Report {
    /// The log
    #[arg(value_name = "FILE")]
    pub log: PathBuf,

    /// Write the report as JSON to FILE as well; with - print it instead
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Which findings give another exit status
    #[arg(long, value_enum, default_value = "never")]
    pub fail_on: FailOn,

    /// That exit status
    #[arg(long, value_name = "N", default_value_t = crate::exit::RACE)]
    pub exit_code: u8,

    /// Print nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded sites ./app                        totals, and the functions with most sites
  redhanded sites --function 'cache_*' ./app   only these functions
  redhanded sites --json /usr/lib/libfoo.so    everything, for scripts (docs/json.md)")]
pub struct Sites {
    /// An x86-64 ELF program or library
    // Not `file`: that is the name of an option here.
    #[arg(value_name = "FILE")]
    pub image: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// List every function
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub select: Select,
}

/// Which sites are sampled. The other side of a race may be anywhere.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Which code is sampled")]
pub struct Select {
    /// Only modules (file names) that match; with ! those that do not. Without
    /// it: all but the C and C++ runtime libraries
    #[arg(long, value_name = "GLOB")]
    pub module: Vec<String>,

    /// Only code from source files that match; with ! all others
    #[arg(long, value_name = "GLOB")]
    pub file: Vec<String>,

    /// Only functions that match; with ! all others
    #[arg(long, value_name = "GLOB", visible_alias = "focus")]
    pub function: Vec<String>,

    /// Draw sites whose function, source file or module matches N times as often
    #[arg(long, value_name = "GLOB=N")]
    pub weight: Vec<String>,

    /// A folder of sources, where they are not at the paths of the debug
    /// information: what they call volatile or atomic (READ_ONCE) is left out
    #[arg(long, value_name = "DIR")]
    pub sources: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detect {
    /// Debug registers only
    Watch,
    /// Re-reading only
    Reread,
    /// Both
    Both,
}

impl From<Detect> for Strategy {
    fn from(detect: Detect) -> Self {
        match detect {
            Detect::Watch => Self::Watch,
            Detect::Reread => Self::Reread,
            Detect::Both => Self::Both,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WatchHow {
    /// Perf events where they are allowed, else ptrace
    Auto,
    /// Perf events
    Perf,
    /// Thread by thread with ptrace
    Ptrace,
}

impl From<WatchHow> for WatchBy {
    fn from(how: WatchHow) -> Self {
        match how {
            WatchHow::Auto => Self::Auto,
            WatchHow::Perf => Self::Perf,
            WatchHow::Ptrace => Self::Ptrace,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FollowWhom {
    /// None
    None,
    /// Those that become another program
    Exec,
    /// All
    All,
}

impl From<FollowWhom> for Follow {
    fn from(whom: FollowWhom) -> Self {
        match whom {
            FollowWhom::None => Self::None,
            FollowWhom::Exec => Self::Exec,
            FollowWhom::All => Self::All,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ShowProgress {
    /// Where it disturbs nothing
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FailOn {
    /// Any race
    Any,
    /// None: the exit status is the program's
    Never,
}

/// `5%`, `5` or `0.5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err("a percentage like 5% is expected".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a positive number of samples a second is expected".to_owned()),
    }
}

/// `100us`, `2ms`, `30s`, `5m`, `1h`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time like 500us, 2ms, 30s, 5m or 1h is expected".to_owned()),
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|n| Duration::try_from_secs_f64(n * scale).ok())
        .ok_or_else(|| "a time like 500us, 2ms, 30s, 5m or 1h is expected".to_owned())
}

/// A time in which something can be seen.
fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a time above zero is expected".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "ms", "-1s", "5 parsecs", "1e3s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages_are_shares() {
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("50"), Ok(0.5));
        assert!(percent("-1%").is_err() && percent("nan").is_err());
    }
}
