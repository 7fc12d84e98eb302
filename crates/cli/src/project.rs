//! The project's own settings: `redhanded.toml` in the root of its repository.

use crate::arguments::{FailOn, Findings, Remembering};
use crate::documents::repository;
use crate::exit::Failure;
use crate::screen;
use clap::ValueEnum;
use log::info;
use redhanded_sys::{effective_user, open_regular};
use serde::Deserialize;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "redhanded.toml";

/// What the file says. Options on the command line come first.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Project {
    /// Keep runs in this store.
    pub store: Option<PathBuf>,
    /// Keep them in the user's state folder.
    #[serde(default)]
    pub remember: bool,
    /// What is not new.
    pub baseline: Option<PathBuf>,
    /// What needs no attention.
    pub suppressions: Option<PathBuf>,
    /// How many samples mean anything.
    pub min_samples: Option<u64>,
    /// Which share of the sites means anything, from 0 to 1.
    pub min_coverage: Option<f64>,
    /// Which findings fail a run.
    fail_on: Option<String>,
    /// Which code is sampled: globs.
    #[serde(default)]
    pub module: Vec<String>,
    #[serde(default)]
    pub file: Vec<String>,
    #[serde(default)]
    pub function: Vec<String>,
    /// Where source files are.
    #[serde(default)]
    pub sources: Vec<PathBuf>,
}

impl Project {
    /// The settings of the repository that we are in.
    pub fn here() -> Result<Self, Failure> {
        Self::of(&repository())
    }

    /// Takes from the settings what the command line leaves open of these: which findings fail a
    /// run, what is remembered, and where source files are. Gives the settings, for the rest.
    pub fn settle(
        findings: &mut Findings,
        asked: &mut Remembering,
        sources: &mut Vec<PathBuf>,
    ) -> Result<Self, Failure> {
        if asked.no_project {
            return Ok(Self::default());
        }
        let mut project = Self::here()?;
        findings.fail_on = findings.fail_on.or(project.fail_on()?);
        if asked.store.is_none() && !asked.remember {
            (asked.store, asked.remember) = (project.store.take(), project.remember);
        }
        asked.baseline = asked.baseline.take().or(project.baseline.take());
        asked.suppressions = asked.suppressions.take().or(project.suppressions.take());
        if sources.is_empty() {
            *sources = std::mem::take(&mut project.sources);
        }
        Ok(project)
    }

    /// Which findings fail a run, if it says so.
    fn fail_on(&self) -> Result<Option<FailOn>, Failure> {
        let name = self.fail_on.as_deref();
        let which = name.map(|name| {
            let unknown = |_| {
                let all = FailOn::value_variants().iter();
                let names =
                    all.filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()));
                let names = names.collect::<Vec<_>>().join(", ");
                Failure::Usage(format!(
                    "{NAME} cannot be used: fail-on is {name:?}, and may be {names}"
                ))
            };
            FailOn::from_str(name, false).map_err(unknown)
        });
        which.transpose()
    }

    fn of(root: &Path) -> Result<Self, Failure> {
        let path = root.join(NAME);
        let is_foreign = |about: &std::fs::Metadata| ![0, effective_user()].contains(&about.uid());
        let ignored = || {
            screen::say(&format!(
                "redhanded: {} is ignored: another user can write to it",
                path.display()
            ));
            Ok(Self::default())
        };
        let unread = |error: std::io::Error| {
            Failure::Usage(format!("cannot read {}: {error}", path.display()))
        };
        // Another user's may be a pipe, which would make us wait.
        let mut file = match open_regular(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            // Nobody stops others from working in a folder by planting something there.
            Err(_) if std::fs::symlink_metadata(&path).is_ok_and(|about| is_foreign(&about)) => {
                return ignored();
            }
            file => file.map_err(unread)?,
        };
        let about = file.metadata().map_err(unread)?;
        // Its owner decides which files are written.
        if is_foreign(&about) || about.mode() & 0o002 != 0 {
            return ignored();
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unread)?;
        let mut project: Self = toml::from_str(&text).map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().to_owned();
            Failure::Usage(format!("{} cannot be used: {why}", path.display()))
        })?;
        // On the command line it is a percentage.
        if let Some(share) = project.min_coverage.filter(|it| !(0.0..=1.0).contains(it)) {
            return Err(Failure::Usage(format!(
                "{NAME} cannot be used: min-coverage is {share}, and may be from 0 to 1"
            )));
        }
        for named in [
            &mut project.store,
            &mut project.baseline,
            &mut project.suppressions,
        ] {
            *named = named.take().map(|path| root.join(path));
        }
        for named in &mut project.sources {
            *named = root.join(&*named);
        }
        info!("settings of {}: {project:?}", path.display());
        Ok(project)
    }
}
