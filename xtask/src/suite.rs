//! `cargo xtask suite`: measures detectors on a labelled suite of programs.

mod label;
mod tools;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use globset::Glob;

use crate::{command, paths};
use label::Label;
use tools::{Answer, Question, Tool};

/// Options of `cargo xtask suite`.
#[derive(Args, Debug)]
pub struct Options {
    /// The folder of the suite: C and C++ programs named …-yes.c, …-no.c
    folder: PathBuf,
    /// How long to repeat each program, e.g. 3s or 500ms
    #[arg(long = "for", value_name = "TIME", default_value = "3s", value_parser = duration)]
    budget: Duration,
    /// The detectors to ask
    #[arg(long, value_delimiter = ',', default_value = "redhanded")]
    tools: Vec<Tool>,
    /// Write one line per program and tool to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// More words for the compiler, e.g. --cflags='-O2 -Iinclude'
    #[arg(
        long,
        value_name = "FLAGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    cflags: String,
    /// Only programs whose file name fits
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// OpenMP threads of each program
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
}

/// What one tool got right and wrong.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    true_positives: u32,
    false_negatives: u32,
    true_negatives: u32,
    false_positives: u32,
    /// Racy programs with a labelled pair, and how many of those pairs were named.
    labelled: u32,
    named: u32,
    /// Programs that were not called racy, but in which something was suspected: those that are
    /// racy, and the others.
    suspected: [u32; 2],
}

impl Score {
    fn add(&mut self, label: &Label, answer: &Answer) {
        *match (label.racy, answer.racy) {
            (true, true) => &mut self.true_positives,
            (true, false) => &mut self.false_negatives,
            (false, false) => &mut self.true_negatives,
            (false, true) => &mut self.false_positives,
        } += 1;
        if !answer.racy && answer.suspects > 0 {
            self.suspected[usize::from(!label.racy)] += 1;
        }
        if label.racy && !label.pairs.is_empty() {
            self.labelled += 1;
            self.named += u32::from(answer.names(&label.pairs));
        }
    }

    fn line(&self, tool: Tool) -> String {
        let right = self.true_positives + self.true_negatives;
        let racy = self.true_positives + self.false_negatives;
        let clean = self.true_negatives + self.false_positives;
        let suspected = match self.suspected {
            [0, 0] => String::new(),
            [racy, clean] => {
                format!("  only suspects in {racy} racy and {clean} race-free programs")
            }
        };
        format!(
            "{:<10} recall {}  specificity {}  accuracy {}  exact pair {}{suspected}",
            tool.name(),
            ratio(self.true_positives, racy),
            ratio(self.true_negatives, clean),
            ratio(right, racy + clean),
            ratio(self.named, self.labelled),
        )
    }
}

fn ratio(part: u32, whole: u32) -> String {
    if whole == 0 {
        return "none".to_owned();
    }
    format!("{:.2} ({part}/{whole})", f64::from(part) / f64::from(whole))
}

/// Runs the suite and prints the scores.
pub fn run(options: &Options) -> Result<()> {
    let mut tools = Vec::new();
    for &tool in &options.tools {
        match tool.unavailable() {
            Some(why) => println!("{} left out: {why}", tool.name()),
            None => tools.push(tool),
        }
    }
    ensure!(!tools.is_empty(), "no tool to ask");
    let redhanded = match &options.redhanded {
        None if !tools.iter().any(|tool| tool.is_ours()) => PathBuf::new(),
        named => paths::redhanded(named.as_deref())?,
    };
    let mut csv =
        "file,label,tool,answer,pair_labelled,pair_named,windows,seconds,suspects\n".to_owned();
    let mut scores: Vec<Score> = tools.iter().map(|_| Score::default()).collect();
    let mut asked = 0;
    for source in sources(options)? {
        let name = file_name(&source);
        let label = match read_label(&source) {
            Ok(label) => label,
            Err(why) => {
                println!("{name}: skipped, {why}");
                continue;
            }
        };
        asked += 1;
        for (tool, score) in tools.iter().zip(&mut scores) {
            let program = match build(&source, *tool, &options.cflags) {
                Ok(program) => program,
                Err(why) => {
                    println!("{name}: skipped for {}, {why:#}", tool.name());
                    continue;
                }
            };
            let question = Question {
                redhanded: &redhanded,
                program: &program,
                source: &name,
                budget: options.budget,
                threads: options.threads,
            };
            let start = Instant::now();
            let answer = match question.ask(*tool) {
                Ok(answer) => answer,
                Err(why) => {
                    println!("{name}: {} failed, {why:#}", tool.name());
                    continue;
                }
            };
            score.add(&label, &answer);
            let row = Row {
                name: &name,
                label: &label,
                tool: *tool,
                answer: &answer,
            };
            println!("{}", row.line());
            row.csv(&mut csv, start.elapsed())?;
        }
    }
    ensure!(
        asked > 0,
        "no labelled C or C++ program in {}",
        options.folder.display()
    );
    println!();
    for (tool, score) in tools.iter().zip(&scores) {
        println!("{}", score.line(*tool));
    }
    if let Some(file) = &options.csv {
        fs::write(file, csv).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

struct Row<'a> {
    name: &'a str,
    label: &'a Label,
    tool: Tool,
    answer: &'a Answer,
}

impl Row<'_> {
    fn line(&self) -> String {
        let word = |racy| if racy { "racy" } else { "clean" };
        let mark = if self.label.racy == self.answer.racy {
            ""
        } else {
            "  WRONG"
        };
        let pair = match (
            self.label.pairs.is_empty(),
            self.answer.names(&self.label.pairs),
        ) {
            (true, _) => "",
            (false, true) => ", labelled pair named",
            (false, false) => ", labelled pair not named",
        };
        format!(
            "{:<48} {:<10} is {:<5} said {}{pair}{mark}",
            self.name,
            self.tool.name(),
            word(self.label.racy),
            word(self.answer.racy)
        )
    }

    fn csv(&self, csv: &mut String, took: Duration) -> Result<()> {
        let word = |yes| if yes { "yes" } else { "no" };
        writeln!(
            csv,
            "{},{},{},{},{},{},{},{:.1},{}",
            quoted(self.name),
            word(self.label.racy),
            self.tool.name(),
            word(self.answer.racy),
            word(!self.label.pairs.is_empty()),
            word(self.answer.names(&self.label.pairs)),
            self.answer
                .windows
                .map(|windows| windows.to_string())
                .unwrap_or_default(),
            took.as_secs_f64(),
            self.answer.suspects
        )?;
        Ok(())
    }
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn sources(options: &Options) -> Result<Vec<PathBuf>> {
    let filter = match &options.filter {
        Some(glob) => Some(Glob::new(glob)?.compile_matcher()),
        None => None,
    };
    let entries = fs::read_dir(&options.folder)
        .with_context(|| format!("cannot read the suite {}", options.folder.display()))?;
    let mut sources = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let wanted = filter
            .as_ref()
            .is_none_or(|filter| filter.is_match(file_name(&path)));
        if path.is_file() && wanted {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

fn read_label(source: &Path) -> Result<Label> {
    let end = source
        .extension()
        .and_then(|end| end.to_str())
        .unwrap_or("");
    if !["c", "cc", "cpp", "cxx", "C"].contains(&end) {
        bail!("not C or C++");
    }
    let bytes = fs::read(source).context("it cannot be read")?;
    let text = String::from_utf8_lossy(&bytes);
    Label::read(source, &text).ok_or_else(|| anyhow!("its name ends neither in -yes nor in -no"))
}

fn build(source: &Path, tool: Tool, cflags: &str) -> Result<PathBuf> {
    let folder = paths::target().join("suite").join(match tool {
        Tool::Tsan => "tsan",
        Tool::Redhanded | Tool::Check | Tool::Helgrind | Tool::Drd => "plain",
    });
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let program = folder.join(source.file_stem().unwrap_or_default());
    let c = source.extension().is_some_and(|end| end == "c");
    let mut command = Command::new(if c { "gcc" } else { "g++" });
    command.args(["-g", "-fopenmp", "-w"]);
    if tool == Tool::Tsan {
        command.arg("-fsanitize=thread");
    }
    command.arg("-o").arg(&program).arg(source);
    command.args(cflags.split_whitespace()).arg("-lm");
    let outcome = command::captured(&mut command, Duration::from_secs(120))?;
    let reason = outcome.stderr.lines().find(|line| line.contains("error"));
    ensure!(
        outcome.success(),
        "it does not build: {}",
        reason.unwrap_or("no reason given")
    );
    Ok(program)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err("a time is written 3s or 500ms".to_owned()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{number}` is no number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use label::Pair;

    #[test]
    fn scores_count_what_was_right_and_which_pairs_were_named() {
        let racy = Label {
            racy: true,
            pairs: vec![Pair(7, 9)],
        };
        let clean = Label {
            racy: false,
            pairs: Vec::new(),
        };
        let named = Answer {
            racy: true,
            pairs: vec![Pair(7, 9)],
            ..Answer::default()
        };
        let elsewhere = Answer {
            racy: true,
            pairs: vec![Pair(1, 2)],
            ..Answer::default()
        };
        let silent = Answer::default();
        let mut score = Score::default();
        for (label, answer) in [
            (&racy, &named),
            (&racy, &elsewhere),
            (&racy, &silent),
            (&clean, &silent),
            (&clean, &elsewhere),
        ] {
            score.add(label, answer);
        }
        assert_eq!(
            score.line(Tool::Redhanded),
            "redhanded  recall 0.67 (2/3)  specificity 0.50 (1/2)  accuracy 0.60 (3/5)  exact pair 0.33 (1/3)"
        );
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("3").is_err() && duration("xs").is_err() && duration("-1s").is_err());
    }

    #[test]
    fn the_projects_own_suite_is_labelled() {
        let folder = paths::root().join("corpus/suite");
        let mut labels = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            labels.push(read_label(&entry.unwrap().path()).unwrap());
        }
        assert!(labels.iter().any(|label| !label.racy));
        assert!(
            labels
                .iter()
                .filter(|label| label.racy)
                .all(|label| !label.pairs.is_empty())
        );
    }
}
