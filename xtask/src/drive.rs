//! Driving the `redhanded` binary over one program, round after round.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use redhanded_model::Report;

use crate::command;
use crate::compile::Program;
use crate::judge;

/// The exit status of a run that found a race.
pub const FOUND: i32 = 66;
/// The exit status of a kernel that this machine cannot run.
pub const NOT_APPLICABLE: i32 = 77;

/// How long Redhanded may take beyond the time it was given.
const GRACE: Duration = Duration::from_secs(40);

/// What one round shall do.
#[derive(Clone, Debug)]
pub struct Round {
    /// The seed of the sampler.
    pub seed: u64,
    /// How long to repeat the program.
    pub time: Duration,
    /// End after so many windows.
    pub windows: Option<u64>,
    /// Sample only these functions.
    pub focus: Vec<String>,
}

/// What one round gave.
pub struct Finding {
    /// The report.
    pub report: Report,
    /// Redhanded's exit status.
    pub status: i32,
    /// What it said to people.
    pub told: String,
    /// How to do the same again by hand.
    pub command: String,
    /// How long it took.
    pub took: Duration,
}

/// The binary under test.
pub struct Driver {
    /// Where it is.
    pub redhanded: PathBuf,
    /// Where reports are put.
    pub reports: PathBuf,
    /// More options for every run.
    pub with: Vec<String>,
    /// Who runs it, if not we.
    pub user: Option<u32>,
}

impl Driver {
    /// Runs one round on one program.
    pub fn run(&self, program: &Program, round: &Round) -> Result<Finding> {
        self.observe(&program.title(), round, |file| {
            let mut arguments = arguments(&program.path, file, round);
            arguments.splice(1..1, self.with.iter().cloned());
            arguments
        })
    }

    /// Runs Redhanded with arguments that name the file of its report, and reads it.
    pub fn observe(
        &self,
        title: &str,
        round: &Round,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Result<Finding> {
        fs::create_dir_all(&self.reports)
            .with_context(|| format!("cannot create {}", self.reports.display()))?;
        if self.user.is_some() {
            fs::set_permissions(&self.reports, Permissions::from_mode(0o777))
                .with_context(|| format!("cannot open {} to all", self.reports.display()))?;
        }
        let name = title.replace(['/', ' '], "-");
        let file = self.reports.join(format!("{name}-{}.json", round.seed));
        let _ = fs::remove_file(&file);
        let arguments = arguments(&file);
        let redhanded = self.redhanded.to_string_lossy();
        let words = command::in_words(&redhanded, &arguments);
        let start = Instant::now();
        let mut command = Command::new(&self.redhanded);
        command.args(&arguments);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let outcome = command::captured(&mut command, round.time + GRACE)
            .with_context(|| format!("$ {words}"))?;
        let Some(status) = outcome.status.and_then(|status| status.code()) else {
            bail!(
                "redhanded {}\n$ {words}\n{}",
                outcome.status_in_words(),
                outcome.stderr
            );
        };
        ensure!(
            [0, FOUND, NOT_APPLICABLE].contains(&status),
            "exit status {status}, where 0 or {FOUND} was due\n$ {words}\n{}",
            outcome.stderr
        );
        let report = judge::read(&file)
            .with_context(|| format!("exit status {status}\n$ {words}\n{}", outcome.stderr))?;
        let due = if judge::has_race(&report) {
            status == FOUND
        } else {
            status != FOUND
        };
        ensure!(
            due,
            "exit status {status} does not fit the report {}\n$ {words}\n{}",
            file.display(),
            outcome.stderr
        );
        Ok(Finding {
            report,
            status,
            told: outcome.stderr,
            command: words,
            took: start.elapsed(),
        })
    }
}

fn arguments(program: &Path, report: &Path, round: &Round) -> Vec<String> {
    let mut arguments = vec![
        "run".to_owned(),
        "--json".to_owned(),
        report.to_string_lossy().into_owned(),
        "--seed".to_owned(),
        round.seed.to_string(),
        "--for".to_owned(),
        format!("{}ms", round.time.as_millis()),
        // Bounds a program that hangs: it must not outlive its round.
        "--kill".to_owned(),
    ];
    if let Some(windows) = round.windows {
        arguments.push("--max-windows".to_owned());
        arguments.push(windows.to_string());
    }
    for function in &round.focus {
        arguments.push("--function".to_owned());
        arguments.push(function.clone());
    }
    arguments.push("--".to_owned());
    arguments.push(program.to_string_lossy().into_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_becomes_a_command_line() {
        let round = Round {
            seed: 7,
            time: Duration::from_millis(1500),
            windows: Some(150),
            focus: vec!["bump".to_owned(), "*::look".to_owned()],
        };
        let words = arguments(Path::new("k"), Path::new("r.json"), &round).join(" ");
        assert_eq!(
            words,
            "run --json r.json --seed 7 --for 1500ms --kill --max-windows 150 \
             --function bump --function *::look -- k"
        );
    }
}
