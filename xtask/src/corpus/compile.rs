//! Compiles the programs. Each build has its own folder and is redone only when something changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};

use super::program::{Program, Variant};
use crate::{command, paths};

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
            .stripped
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

    /// The commands that build it, in order.
    fn commands(&self) -> Vec<Vec<String>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut commands = Vec::new();
        let mut link = Vec::new();
        for library in &self.program.libraries {
            let output = folder.join(&library.file);
            let mut build = words(&["gcc", "-g", "-Wall", "-Wextra", "-fPIC", "-shared"]);
            build.push(format!("-O{}", self.variant.level));
            build.push("-o".to_owned());
            build.push(text(&output));
            build.push(text(&Path::new("corpus").join(&library.source)));
            commands.push(build);
            if self.variant.stripped {
                commands.push(vec!["strip".to_owned(), text(&output)]);
            }
            if library.linked {
                let name = library
                    .file
                    .trim_start_matches("lib")
                    .trim_end_matches(".so");
                link.push(format!("-L{}", text(folder)));
                link.push(format!("-l{name}"));
            }
        }
        if !self.program.libraries.is_empty() {
            link.push("-Wl,-rpath,$ORIGIN".to_owned());
        }
        commands.push(if self.program.is_rust() {
            self.rustc()
        } else {
            self.gcc(link)
        });
        if let Some(symbols) = &self.symbols {
            commands.push(vec!["cp".to_owned(), text(&self.path), text(symbols)]);
            commands.push(vec!["strip".to_owned(), text(&self.path)]);
        }
        commands
    }

    fn gcc(&self, link: Vec<String>) -> Vec<String> {
        let cpp = self
            .program
            .source
            .extension()
            .is_some_and(|end| end == "cc");
        let compiler = if cpp { "g++" } else { "gcc" };
        let mut command = words(&[compiler, "-g", "-Wall", "-Wextra", "-pthread"]);
        command.push(format!("-O{}", self.variant.level));
        command.extend(if self.variant.fixed {
            words(&["-static", "-fno-pie", "-no-pie"])
        } else if self.variant.fixed_pie {
            words(&["-static-pie", "-fPIE"])
        } else if self.variant.nopie {
            words(&["-fno-pie", "-no-pie"])
        } else {
            words(&["-fPIE", "-pie"])
        });
        if self.twin {
            command.push("-DTWIN".to_owned());
        }
        command.push("-o".to_owned());
        command.push(text(&self.path));
        command.push(text(&self.program.source));
        command.extend(self.program.flags.iter().cloned());
        command.extend(link);
        command
    }

    fn rustc(&self) -> Vec<String> {
        let mut command = words(&[
            "rustc",
            "--edition",
            "2024",
            "-g",
            "--check-cfg",
            "cfg(twin)",
        ]);
        command.push("-C".to_owned());
        command.push(format!("opt-level={}", self.variant.level));
        if self.variant.nopie {
            command.extend(words(&["-C", "relocation-model=static"]));
        }
        if self.variant.fixed || self.variant.fixed_pie {
            command.extend(words(&["-C", "target-feature=+crt-static"]));
        }
        if self.variant.fixed {
            command.extend(words(&["-C", "relocation-model=static"]));
        }
        if self.twin {
            command.extend(words(&["--cfg", "twin"]));
        }
        command.extend(self.program.flags.iter().cloned());
        command.push("-o".to_owned());
        command.push(text(&self.path));
        command.push(text(&self.program.source));
        command
    }

    /// Compiles it if it is out of date; true if it was.
    fn compile(&self, newest_shared: SystemTime) -> Result<bool> {
        let commands = self.commands();
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
    let next = AtomicUsize::new(0);
    let built = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(build) = builds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match build.compile(shared) {
                        Ok(true) => drop(built.fetch_add(1, Ordering::Relaxed)),
                        Ok(false) => {}
                        Err(error) => {
                            if let Ok(mut failures) = failures.lock() {
                                failures.push(error);
                            }
                        }
                    }
                }
            });
        }
    });
    let failures = failures
        .into_inner()
        .map_err(|_| anyhow!("a build thread panicked"))?;
    if let Some(first) = failures.into_iter().next() {
        return Err(first);
    }
    Ok(built.into_inner())
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

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;

    fn never(source: &str, directives: &str, twin: bool) -> Build {
        let text = format!("{directives}\n//@ focus: f\n//@ twin-expect: what=x functions=f,f\n");
        let program = Program::parse(List::Never, Path::new(source), &text).unwrap();
        let variant = program.variants[0].clone();
        Build::new(&program, &variant, twin)
    }

    #[test]
    fn a_twin_is_the_same_source_without_its_guard() {
        let c = never("corpus/never/k.c", "//@ build: O2+nopie", true).commands();
        assert!(c[0].contains(&"-DTWIN".to_owned()) && c[0].contains(&"-no-pie".to_owned()));
        let rust = never("corpus/never/k.rs", "//@ build: O0", true).commands();
        assert!(rust[0].join(" ").contains("--cfg twin"));
        let plain = never("corpus/never/k.c", "//@ build: O2", false).commands();
        assert!(!plain[0].contains(&"-DTWIN".to_owned()));
    }

    #[test]
    fn libraries_come_first_and_are_found_beside_the_program() {
        let directives = "//@ build: O2+stripped\n//@ lib: lib/tally.c as libtally.so linked";
        let commands = never("corpus/never/k.c", directives, false).commands();
        let programs: Vec<_> = commands.iter().map(|command| command[0].as_str()).collect();
        assert_eq!(programs, ["gcc", "strip", "gcc", "cp", "strip"]);
        assert!(commands[2].contains(&"-ltally".to_owned()));
        assert!(commands[2].contains(&"-Wl,-rpath,$ORIGIN".to_owned()));
    }
}
