//! Runs the `redhanded` binary for one round and reads its report.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use redhanded_model::Report;

use crate::command;
use crate::judge;

/// The exit status of a run that found a race.
pub const FOUND: i32 = 66;
/// The exit status of a program that this machine cannot run.
pub const NOT_APPLICABLE: i32 = 77;

/// How long Redhanded may take beyond the time it was given.
const GRACE: Duration = Duration::from_secs(40);

/// What one round does.
#[derive(Clone, Debug)]
pub struct Round {
    /// The seed of the sampler.
    pub seed: u64,
    /// How long the target is looked at.
    pub time: Duration,
    /// End earlier, after this many windows.
    pub windows: Option<u64>,
    /// Sample these functions only.
    pub focus: Vec<String>,
}

impl Round {
    /// The options for this round, with the file that the report is written to.
    pub fn arguments(&self, report: &Path) -> Vec<String> {
        let mut arguments = vec![
            "--json".to_owned(),
            report.to_string_lossy().into_owned(),
            "--seed".to_owned(),
            self.seed.to_string(),
            "--for".to_owned(),
            format!("{}ms", self.time.as_millis()),
        ];
        if let Some(windows) = self.windows {
            arguments.extend(["--max-windows".to_owned(), windows.to_string()]);
        }
        for function in &self.focus {
            arguments.extend(["--function".to_owned(), function.clone()]);
        }
        arguments
    }
}

/// What came of a round.
pub struct Finding {
    /// The report.
    pub report: Report,
    /// Redhanded's exit status.
    pub status: i32,
    /// What it printed for people.
    pub text: String,
    /// The command line that repeats the round.
    pub command: String,
    /// How long it took.
    pub took: Duration,
}

/// The binary under test, and how it is run.
pub struct Redhanded {
    /// The binary.
    pub path: PathBuf,
    /// The folder for reports.
    pub reports: PathBuf,
    /// More options for every run.
    pub with: Vec<String>,
    /// The user who runs it, if another than ourselves.
    pub user: Option<u32>,
}

impl Redhanded {
    /// Runs a round and reads the report; `arguments` gets the report's file.
    pub fn run(
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
        let words = command::in_words(&self.path.to_string_lossy(), &arguments);
        let start = Instant::now();
        let mut command = Command::new(&self.path);
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
            "exit status {status}, expected 0 or {FOUND}\n$ {words}\n{}",
            outcome.stderr
        );
        let report = judge::read(&file)
            .with_context(|| format!("exit status {status}\n$ {words}\n{}", outcome.stderr))?;
        ensure!(
            judge::has_race(&report) == (status == FOUND),
            "exit status {status} does not fit the report {}\n$ {words}\n{}",
            file.display(),
            outcome.stderr
        );
        Ok(Finding {
            report,
            status,
            text: outcome.stderr,
            command: words,
            took: start.elapsed(),
        })
    }
}
