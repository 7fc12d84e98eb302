//! The command line.

mod findings;
mod kernel;
mod record;
mod recording;
mod store;

use clap::{Args, Parser, Subcommand, ValueEnum};
use redhanded_model::Strategy;
use redhanded_process::{Follow, WatchBy};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use findings::{Detail, FailOn, Findings, Show, Verdicts};
pub use kernel::{Demo, DemoOf, Kernel};
pub use record::Record;
pub use recording::{Analyze, Check, Telling};
pub use store::{Enough, Remembering, Report, Triage};

const RUN_EXAMPLES: &str = "\
Examples:
  redhanded run -- ./server --port 8080       observe it until it ends or you press Ctrl-C
  redhanded run --for 30s -- ./server         observe it for 30 seconds, then leave it running
  redhanded run --for 1m -- ./unit-test       run a short test again and again for a minute
  redhanded run --function 'cache_*' -- ./app sample only these functions
  redhanded run --weight 'parse*=10' -- ./app sample this code ten times as often
  redhanded run --json races.json -- ./app    write a report for scripts (docs/json.md)
  redhanded run --html races.html -- ./app    write a page for a browser
  redhanded run --stop-on-race -- ./app       stop at the first race, for gdb
  redhanded run --suspects list -- ./test     hold threads where a list of pairs says

Exit status:
  the program's own if no race was found (128+N if signal N killed it)
  66   a race was found (--exit-code, --fail-on)
  67   too little was looked at (--min-samples, --min-coverage), and no race was found
  125  Redhanded or its store failed, or no code matched the globs
  126  the program cannot be run    127  there is no such program";

const ATTACH_EXAMPLES: &str = "\
Examples:
  redhanded attach 4711                       observe it until it ends or you press Ctrl-C
  redhanded attach --for 1m $(pidof server)   observe it for a minute, then let it go
  redhanded attach --safe --for 1h 4711       in production: never write to its code
  redhanded attach --max-races 1 4711         stop when a race is found

Exit status:
  0    no race was found
  66   a race was found (--exit-code, --fail-on)
  67   too little was looked at (--min-samples, --min-coverage), and no race was found
  125  Redhanded or its store failed, may not trace the process, or no code matched the globs";

const REPLAY_EXAMPLES: &str = "\
Examples:
  redhanded run --scenarios races -- ./app    keep what may be harmful
  redhanded replay races/ab12.scenario        both threads side by side, line by line
  redhanded replay --order b FILE             with the other thread first
  redhanded replay --gdb /tmp/race FILE       step through it with gdb, also backwards
  redhanded record --values -o test.rec -- ./test
  redhanded replay test.rec                   run each thread again, alone
  redhanded replay --thread 4711 --at 120 test.rec
                                              what that thread ran after sequencer 120

Exit status:
  0    it was replayed
  1    threads of a recording went astray: something else came out than when the program ran
  125  FILE cannot be replayed";

/// Catches data races in unmodified programs and kernels: no recompiling, no
/// instrumentation, no knowledge of their locks.
#[derive(Debug, Parser)]
#[command(version, about, after_help = "Start with: redhanded demo")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// Use colours. auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        // It is one of every command, and would stand among the first few of each.
        display_order = 1000
    )]
    pub color: Colors,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Colors {
    /// Where they can be seen
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

/// What is made from the command line's own description.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Generated {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
    /// The man pages
    Man,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and report its data races, caught as they happen
    Run(Run),
    /// Record a test program, find its races in the recording, and catch them: the place to start
    Check(Box<Check>),
    /// Observe a running process, and leave it as it was
    Attach(Attach),
    /// Observe a Linux kernel in a virtual machine
    Kernel(Kernel),
    /// Run a program and write everything that its threads do into a recording
    Record(Record),
    /// Replay a race that was kept by --scenarios, in any order
    Replay(Replay),
    /// Find the races in a recording that redhanded record made
    Analyze(Box<Analyze>),
    /// List, show and compare what earlier runs found: from a store, a report or a log
    Report(Box<Report>),
    /// Decide about races in a store: confirmed, fixed, not a problem, deferred
    Triage(Triage),
    /// List the instructions of a file that can be sampled, and why others cannot be
    Sites(Sites),
    /// See Redhanded catch the races of a small built-in program, or of a kernel
    Demo(Demo),
    /// Print completions for a shell, or the man pages
    Generate {
        /// What to make; man needs a folder
        #[arg(value_enum, value_name = "WHAT")]
        what: Generated,
        /// Where the pages go
        folder: Option<PathBuf>,
    },
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

    /// Observe for this long, and start the program again whenever it ends; if it
    /// still runs then, leave it running
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub until: Option<Duration>,

    /// With --for or --repeat: end a run that takes longer, with the processes it
    /// has started, and begin the next; the last one is ended too. Without it, one run may
    /// use up all the time
    #[arg(long, value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub each: Option<Duration>,

    /// Run the program N times and combine the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,

    /// Kill the program and its followed children at the end instead of leaving
    /// them running
    #[arg(long)]
    pub kill: bool,

    #[command(flatten)]
    pub tracing: Tracing,

    #[command(flatten)]
    pub watch: Watch,
}

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct Replay {
    /// The file that --scenarios kept, or that record --values wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Of a recording: only the thread with this number
    #[arg(long, value_name = "N")]
    pub thread: Option<u32>,

    /// Of a recording: list what the thread ran after the sequencer with this number
    #[arg(long, value_name = "SEQUENCER", requires = "thread")]
    pub at: Option<u64>,

    /// Which thread comes first: a or b; or a:N, which lets B run after A has accessed shared
    /// bytes N times; or a~N, in which A's Nth store to them arrives last. Default: an order that
    /// makes a difference
    #[arg(long, value_name = "ORDER", value_parser = crate::replay::parse_order)]
    pub order: Option<redhanded_replay::Order>,

    /// Try orders that only a weaker memory model allows, too: a store arrives late (a~1)
    #[arg(long)]
    pub weak_memory: bool,

    /// Show every line, not only those around shared bytes
    #[arg(long)]
    pub all: bool,

    /// Wait for a debugger at SOCKET, a new file, and serve it both threads
    #[arg(long, value_name = "SOCKET", conflicts_with = "all")]
    pub gdb: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub struct Attach {
    /// The process
    #[arg(value_name = "PID", value_parser = process_number)]
    pub pid: u32,

    /// Observe for this long, then let go
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub until: Option<Duration>,

    #[command(flatten)]
    pub tracing: Tracing,

    #[command(flatten)]
    pub watch: Watch,
}

/// How a process is traced, started for it or not.
#[derive(Debug, Args)]
pub struct Tracing {
    /// Hunt the pairs of code places in FILE, for seconds at each if need be: a report, a recording,
    /// what ThreadSanitizer or Helgrind printed, or lines like `put | get` and `a.c:3 | b.c:7`.
    /// Nothing else is sampled. Default then: --delay 2s, --overhead 100%
    #[arg(long, value_name = "FILE")]
    pub suspects: Option<PathBuf>,

    /// How to set debug registers: with perf events, with ptrace thread by thread,
    /// or with whichever is allowed
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub watch: WatchHow,

    /// Which child processes to observe as well
    #[arg(long, value_enum, default_value = "all", value_name = "WHICH")]
    pub follow: FollowWhom,

    /// Never write to the program's code: use debug registers as breakpoints, so that
    /// nothing is left behind even if Redhanded is killed. Takes far fewer samples
    #[arg(long)]
    pub safe: bool,

    /// Tell who allocated the block that is raced on. Every call of malloc, free and the like
    /// stops its thread, which takes many times as long as the call itself; --overhead does not
    /// count it
    #[arg(long)]
    pub alloc: bool,

    /// Leave the process stopped at the first race, with both threads at their
    /// accesses, and print the command for gdb
    #[arg(long)]
    pub stop_on_race: bool,

    /// Keep what replaying it needs of each race that may be harmful, as a file in DIR for
    /// redhanded replay
    #[arg(long, value_name = "DIR", conflicts_with = "no_replay")]
    pub scenarios: Option<PathBuf>,

    /// Write a core file into DIR for each race, with both threads at their
    /// accesses
    #[arg(long, value_name = "DIR")]
    pub core: Option<PathBuf>,
}

/// The documents that a report is written to.
#[derive(Clone, Debug, Default, Args)]
pub struct Documents {
    /// Write the report as JSON to FILE (docs/json.md)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the report as SARIF to FILE, for code scanning
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,

    /// Write the report as a page for a browser to FILE, which needs no other file
    /// (docs/reading-a-report.md)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How a target is observed, whatever it is.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    pub documents: Documents,

    /// Keep the session log in FILE, a new file, from which redhanded report makes
    /// the report again (docs/log.md)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Write what happens to FILE as it happens, a line of JSON each (docs/json.md)
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,

    /// The share of their time for which threads (or CPUs) may be held; with 0 nothing
    /// is observed. Default: 5% for a program, 100% for a virtual machine
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub overhead: Option<f64>,

    /// How many samples a second to aim for, as far as the overhead allows
    #[arg(long, value_name = "N", default_value_t = 1000.0, value_parser = rate,
          allow_hyphen_values = true)]
    pub rate: f64,

    /// The longest time to hold a thread; each delay is random up to this. Default: 2ms
    /// for a program, 15ms for a kernel
    #[arg(long, value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub delay: Option<Duration>,

    /// Stop after N windows
    #[arg(long, value_name = "N")]
    pub max_windows: Option<u64>,

    /// Stop when N distinct races were found. Others that were being found then are reported, too
    #[arg(long, value_name = "N")]
    pub max_races: Option<u64>,

    /// Do not replay both threads in every order to find out whether the race matters
    #[arg(long)]
    pub no_replay: bool,

    /// How to see a conflict: with debug registers, by reading the bytes again, or both
    #[arg(long, value_enum, default_value = "both", value_name = "HOW")]
    pub detect: Detect,

    /// The seed for all random choices
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub findings: Findings,

    /// Show how the run is going, on stderr. auto: in one line, on a terminal that
    /// the program does not use; always: else in whole lines, one every ten seconds
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub progress: ShowProgress,

    /// Print nothing unless a race is found or something goes wrong
    #[arg(long, short)]
    pub quiet: bool,

    // Last, because their headings would hold for all options after them.
    #[command(flatten)]
    pub remembering: Remembering,

    #[command(flatten)]
    pub enough: Enough,

    #[command(flatten)]
    pub select: Select,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redhanded sites ./app                        totals, and the functions with the most sites
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
#[derive(Clone, Debug, Args, Default)]
#[command(next_help_heading = "Which code is sampled")]
pub struct Select {
    /// Sample only modules (programs and libraries) that match, or with ! only those
    /// that do not. Default: all but the C and C++ runtime libraries
    #[arg(long, value_name = "GLOB")]
    pub module: Vec<String>,

    /// Sample only code from source files that match, or with ! only other code
    #[arg(long, value_name = "GLOB")]
    pub file: Vec<String>,

    /// Sample only functions that match, or with ! only other functions
    #[arg(long, value_name = "GLOB", visible_alias = "focus")]
    pub function: Vec<String>,

    /// Sample code N times as often if its function, source file or module matches
    #[arg(long, value_name = "GLOB=N")]
    pub weight: Vec<String>,

    /// Where the source files are, if not at the paths in the debug information; they
    /// tell which accesses are meant to be atomic (volatile, READ_ONCE)
    #[arg(long, value_name = "DIR")]
    pub sources: Vec<PathBuf>,
}

impl Select {
    /// The options that narrow the choice, as they were given.
    pub fn globs(&self) -> String {
        let options = [
            ("--module", &self.module),
            ("--file", &self.file),
            ("--function", &self.function),
        ];
        let given = options
            .into_iter()
            .flat_map(|(option, globs)| globs.iter().map(move |glob| format!("{option} '{glob}'")));
        given.collect::<Vec<_>>().join(" ")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Detect {
    /// Debug registers only
    Watch,
    /// Reading the bytes again only
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
    /// Those that run another program (exec)
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

/// `5%`, `5` or `0.5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage from 0% to 100% is expected".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a positive number of samples a second is expected".to_owned()),
    }
}

fn process_number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|pid| *pid > 0);
    number.ok_or_else(|| {
        "the number of a process is expected; `pidof NAME` or `pgrep NAME` prints it".to_owned()
    })
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
    fn every_option_names_its_value_and_what_all_commands_have_comes_last() {
        fn check(command: &clap::Command) {
            for option in command.get_arguments().filter(|it| !it.is_positional()) {
                let named = option.get_value_names().is_some();
                let takes = option.get_action().takes_values();
                assert!(
                    named || !takes,
                    "{} {}",
                    command.get_name(),
                    option.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        let mut command = Arguments::command();
        check(&command);
        command.build();
        let report = command.find_subcommand_mut("report").unwrap();
        let help = report.render_help().to_string();
        let place = |option: &str| help.find(option).unwrap();
        assert!(place("--sarif") < place("--html") && place("--quiet") < place("--color"));
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
        for wrong in ["-1%", "nan", "200%", "inf"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
