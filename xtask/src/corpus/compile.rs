//! Compiles the programs. Each build has its own folder and is redone only when something changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::commands;
use super::program::Program;
use super::variant::Variant;
use crate::{command, jobs, paths};

/// More than any compiler needs for a small file.
const LIMIT: Duration = Duration::from_secs(120);

/// A program in one variant, or the twin of that.
#[derive(Clone, Debug)]
pub struct Build {
    /// What is built.
    pub program: Program,
    /// How it is built.
    pub variant: Variant,
    /// Whether it is built without its guard.
    pub twin: bool,
    /// The executable.
    pub path: PathBuf,
    /// A copy with symbols, where the executable itself has none.
    pub symbols: Option<PathBuf>,
}

impl Build {
    /// A build of `program`, whose paths are known before it is compiled.
    pub fn new(program: &Program, variant: &Variant, twin: bool) -> Self {
        let list = if twin { "twin" } else { "plain" };
        let folder = paths::target()
            .join("corpus")
            .join(
                program
                    .source
                    .parent()
                    .and_then(Path::file_name)
                    .unwrap_or_default(),
            )
            .join(&program.name)
            .join(format!("{}-{list}", variant.name));
        let symbols = variant
            .is_stripped()
            .then(|| folder.join("symbols").join(&program.name));
        Self {
            program: program.clone(),
            variant: variant.clone(),
            twin,
            path: folder.join(&program.name),
            symbols,
        }
    }

    /// `never/mutex O2 twin`.
    pub fn title(&self) -> String {
        let source = self.program.source.with_extension("");
        let short = source.strip_prefix("corpus").unwrap_or(&source);
        let twin = if self.twin { " twin" } else { "" };
        format!("{} {}{twin}", short.display(), self.variant.name)
    }

    /// Compiles it if it is out of date; true if it was.
    fn compile(&self, newest_shared: SystemTime) -> Result<bool> {
        let commands = commands::commands(self);
        let recipe: String = commands
            .iter()
            .map(|command| command.join(" ") + "\n")
            .collect();
        let stamp = self.path.with_extension("recipe");
        let source_time = modified(&paths::root().join(&self.program.source))?;
        let fresh = modified(&stamp)
            .is_ok_and(|built| built > source_time && built > newest_shared)
            && fs::read_to_string(&stamp).is_ok_and(|old| old == recipe);
        if fresh {
            return Ok(false);
        }
        let folder = self.path.parent().context("a build has a folder")?;
        // Starts from nothing, because an old stamp must not vouch for half a build.
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        let symbols = folder.join("symbols");
        fs::create_dir_all(if self.symbols.is_some() {
            &symbols
        } else {
            folder
        })
        .with_context(|| format!("cannot create {}", folder.display()))?;
        for words in &commands {
            let (program, arguments) = words.split_first().context("an empty command")?;
            let mut command = Command::new(program);
            command.args(arguments).current_dir(paths::root());
            let outcome = command::captured(&mut command, LIMIT)?;
            ensure!(
                outcome.success(),
                "{} does not build\n$ {}\n{}",
                self.title(),
                command::in_words(program, arguments),
                outcome.stderr
            );
        }
        fs::write(&stamp, recipe).with_context(|| format!("cannot write {}", stamp.display()))?;
        Ok(true)
    }
}

/// Compiles what has changed, on all processors; returns how many were compiled.
pub fn compile_all(builds: &[Build]) -> Result<usize> {
    let shared = newest_in(&paths::root().join("corpus/lib"))?;
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let results = jobs::run(builds, workers, |build| build.compile(shared))?;
    let compiled: Vec<bool> = results.into_iter().collect::<Result<_>>()?;
    Ok(compiled.into_iter().filter(|compiled| *compiled).count())
}

fn newest_in(folder: &Path) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        newest = newest.max(modified(&entry?.path())?);
    }
    Ok(newest)
}

fn modified(path: &Path) -> Result<SystemTime> {
    let facts = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok(facts.modified()?)
}
