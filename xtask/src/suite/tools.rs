//! Runs one program of a suite under Redhanded or another detector and reads the answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use redhanded_model::{Class, Race, RaceStanding, Report};

use super::label::Pair;
use crate::command;
use crate::judge;
use crate::packages::on_path;

/// A data-race detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// This project.
    Redhanded,
    /// This project's `redhanded check`: a recording, its analysis, and a hunt.
    Check,
    /// ThreadSanitizer of gcc, for which the program is built anew.
    Tsan,
    /// Valgrind's helgrind.
    Helgrind,
    /// Valgrind's drd, watching stack variables too.
    Drd,
}

/// What a detector said of one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it reported a race.
    pub racy: bool,
    /// Pairs of lines that it named.
    pub pairs: Vec<Pair>,
    /// Lines it named without the other side.
    pub lines: Vec<u32>,
    /// How many races are only suspected, which is not enough to call a program racy.
    pub suspects: u64,
    /// The number of windows, if the detector has windows.
    pub windows: Option<u64>,
}

impl Answer {
    /// Whether one of the labelled pairs was named, or one of its lines where the
    /// tool names one side only.
    pub fn names(&self, labelled: &[Pair]) -> bool {
        labelled.iter().any(|pair| {
            self.pairs.contains(pair)
                || self
                    .lines
                    .iter()
                    .any(|line| *line == pair.0 || *line == pair.1)
        })
    }
}

impl Tool {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redhanded => "redhanded",
            Self::Check => "check",
            Self::Tsan => "tsan",
            Self::Helgrind => "helgrind",
            Self::Drd => "drd",
        }
    }

    /// Whether it needs the redhanded binary.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Redhanded | Self::Check)
    }

    /// Whether it can be used here; else why not.
    pub fn unavailable(self) -> Option<&'static str> {
        match self {
            Self::Helgrind | Self::Drd if !on_path("valgrind") => Some("valgrind is not installed"),
            _ => None,
        }
    }
}

/// One program to be asked about.
pub struct Question<'a> {
    /// The redhanded binary.
    pub redhanded: &'a Path,
    /// The program, built for the tool.
    pub program: &'a Path,
    /// The file name of its source, which a line must belong to.
    pub source: &'a str,
    /// For how long to repeat it.
    pub budget: Duration,
    /// How many OpenMP threads it gets.
    pub threads: u32,
}

impl Question<'_> {
    /// Runs the program under the tool until it answers or the budget is spent.
    pub fn ask(&self, tool: Tool) -> Result<Answer> {
        if matches!(tool, Tool::Redhanded | Tool::Check) {
            return self.ask_redhanded(tool);
        }
        let start = Instant::now();
        loop {
            let mut command = match tool {
                Tool::Helgrind => self.valgrind(&["--tool=helgrind"]),
                Tool::Drd => self.valgrind(&["--tool=drd", "--check-stack-var=yes"]),
                Tool::Tsan | Tool::Redhanded | Tool::Check => {
                    // TSan's shadow memory does not fit every layout of the address space.
                    let mut command = Command::new("setarch");
                    command.arg("-R").arg(self.program);
                    command
                }
            };
            command.env("OMP_NUM_THREADS", self.threads.to_string());
            let outcome =
                command::captured(&mut command, self.budget * 10 + Duration::from_secs(20))?;
            let answer = match tool {
                Tool::Tsan => tsan(&outcome.stderr, self.source),
                _ => valgrind(&outcome.stderr, self.source),
            };
            if answer.racy || start.elapsed() >= self.budget {
                return Ok(answer);
            }
        }
    }

    fn ask_redhanded(&self, tool: Tool) -> Result<Answer> {
        let file: PathBuf = self.program.with_extension("json");
        let _ = fs::remove_file(&file);
        let mut command = Command::new(self.redhanded);
        let (words, patience): (&[&str], _) = match tool {
            // To record and to analyse takes longer than to hunt.
            Tool::Check => (&["check", "--hunt"], Duration::from_secs(600)),
            _ => (
                &["run", "--seed", "1", "--kill", "--for"],
                Duration::from_secs(40),
            ),
        };
        command
            .args(words)
            .arg(format!("{}ms", self.budget.as_millis()))
            .arg("--json")
            .arg(&file)
            .arg("--")
            .arg(self.program)
            .env("OMP_NUM_THREADS", self.threads.to_string());
        command::captured(&mut command, self.budget + patience)?;
        let report = judge::read(&file)?;
        Ok(redhanded(&report, self.source))
    }

    fn valgrind(&self, options: &[&str]) -> Command {
        let mut command = Command::new("valgrind");
        command.args(options).arg(self.program);
        command
    }
}

/// Whether something is missing for a race.
fn is_suspect(race: &Race) -> bool {
    let standing = race.analysed.as_ref().map(|known| known.standing);
    standing == Some(RaceStanding::Suspect)
}

fn redhanded(report: &Report, source: &str) -> Answer {
    let (suspects, races): (Vec<&Race>, Vec<&Race>) =
        report.races.iter().partition(|race| is_suspect(race));
    let mut answer = Answer {
        racy: races.iter().any(|race| race.class == Class::Race),
        suspects: suspects.len() as u64,
        windows: Some(report.run.windows),
        ..Answer::default()
    };
    for pair in races.iter().flat_map(|race| &race.lines) {
        let lines: Vec<u32> = pair
            .iter()
            .filter(|place| {
                place
                    .file
                    .as_deref()
                    .is_some_and(|file| file.ends_with(source))
            })
            .filter_map(|place| place.line)
            .collect();
        if let [a, b] = lines[..] {
            answer.pairs.push(Pair::new(a, b));
        }
    }
    answer
}

/// `#0 f /path/x.c:12 (x+0x…)` below `Write of size` and `Previous read of size`.
fn tsan(text: &str, source: &str) -> Answer {
    let mut answer = Answer::default();
    for report in text.split("WARNING: ThreadSanitizer: data race").skip(1) {
        answer.racy = true;
        let innermost = report
            .lines()
            .filter(|line| line.trim_start().starts_with("#0 "));
        let lines: Vec<u32> = innermost
            .take(2)
            .filter_map(|line| line_of(line, source))
            .collect();
        if let [a, b] = lines[..] {
            answer.pairs.push(Pair::new(a, b));
        }
    }
    answer
}

/// `at 0x…: f (x.c:12)` below `Possible data race` and `This conflicts with`
/// (helgrind, both sides), or below `Conflicting store` (drd, one side).
fn valgrind(text: &str, source: &str) -> Answer {
    let mut answer = Answer::default();
    let mut lines = text
        .lines()
        .map(|line| line.splitn(3, "==").last().unwrap_or(line).trim());
    let mut first = None;
    while let Some(line) = lines.next() {
        let helgrind = line.starts_with("Possible data race during");
        let other_side = line.starts_with("This conflicts with a previous");
        let drd =
            line.starts_with("Conflicting store by") || line.starts_with("Conflicting load by");
        if !(helgrind || other_side || drd) {
            continue;
        }
        answer.racy = true;
        let at = lines.by_ref().find(|line| line.starts_with("at 0x"));
        let at = at.and_then(|line| line_of(line, source));
        match (helgrind, other_side, first, at) {
            (true, ..) => first = at,
            (_, true, Some(a), Some(b)) => answer.pairs.push(Pair::new(a, b)),
            (false, false, _, Some(line)) => answer.lines.push(line),
            _ => {}
        }
    }
    answer
}

/// The number after `source:` in a line of a stack.
fn line_of(line: &str, source: &str) -> Option<u32> {
    let after = &line[line.find(&format!("{source}:"))? + source.len() + 1..];
    let end = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    after[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::sample;

    #[test]
    fn tsan_names_both_sides() {
        let text = "WARNING: ThreadSanitizer: data race (pid=1)\n\
            \x20 Write of size 4 at 0x55 by main thread:\n    #0 f /s/x-yes.c:9 (x+0x1)\n    #1 main /s/x-yes.c:20 (x+0x2)\n\
            \x20 Previous read of size 4 at 0x55 by thread T1:\n    #0 g /s/x-yes.c:7:3 (x+0x3)\n";
        let answer = tsan(text, "x-yes.c");
        assert!(answer.racy);
        assert_eq!(answer.pairs, [Pair(7, 9)]);
    }

    #[test]
    fn helgrind_names_both_sides_and_drd_one() {
        let helgrind = "==7== Possible data race during write of size 4 at 0x1 by thread #1\n\
            ==7== Locks held: none\n==7==    at 0x10: f (x-yes.c:9)\n==7==    by 0x11: main (x-yes.c:20)\n==7== \n\
            ==7== This conflicts with a previous read of size 4 by thread #2\n\
            ==7== Locks held: none\n==7==    at 0x12: g (x-yes.c:7)\n";
        let answer = valgrind(helgrind, "x-yes.c");
        assert_eq!(answer.pairs, [Pair(7, 9)]);
        let drd =
            "==7== Conflicting store by thread 1 at 0x1 size 4\n==7==    at 0x10: f (x-yes.c:9)\n";
        let answer = valgrind(drd, "x-yes.c");
        assert!(answer.racy && answer.pairs.is_empty());
        assert!(answer.names(&[Pair(3, 9)]) && !answer.names(&[Pair(3, 4)]));
    }

    #[test]
    fn silence_is_an_answer() {
        assert_eq!(tsan("all fine", "x.c"), Answer::default());
        assert_eq!(
            valgrind("==7== ERROR SUMMARY: 0 errors", "x.c"),
            Answer::default()
        );
    }

    #[test]
    fn redhanded_is_read_from_its_report() {
        let race = sample::race(
            r#"{"what":{"name":"x"},"accesses":[{"function":"f"},{"function":"g"}],"lines":[
            [{"function":"f","file":"/s/x-yes.c","line":9,"kind":"write"},
            {"function":"g","file":"/s/x-yes.c","line":7,"kind":"read"}]]}"#,
        );
        let report = sample::report(9, vec![race]);
        let answer = redhanded(&report, "x-yes.c");
        assert!(answer.racy && answer.names(&[Pair(7, 9)]));
        assert_eq!(answer.windows, Some(9));
        assert!(redhanded(&report, "other.c").pairs.is_empty());
    }

    #[test]
    fn suspects_are_counted_apart() {
        let race = |standing: &str| {
            sample::race(&format!(
                r#"{{"standing":"{standing}","found_by":["happens-before"],"lines":[
                [{{"function":"f","file":"/s/x.c","line":9,"kind":"write"}},
                {{"function":"g","file":"/s/x.c","line":7,"kind":"read"}}]]}}"#
            ))
        };
        let answer = redhanded(&sample::report(0, vec![race("suspect")]), "x.c");
        assert_eq!((answer.racy, answer.suspects), (false, 1));
        assert!(!answer.names(&[Pair(7, 9)]));
        let answer = redhanded(
            &sample::report(0, vec![race("suspect"), race("unordered")]),
            "x.c",
        );
        assert_eq!((answer.racy, answer.suspects), (true, 1));
        assert!(answer.names(&[Pair(7, 9)]));
    }
}
