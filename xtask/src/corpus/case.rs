//! A compiled program of the corpus as a case for a trial.

use std::path::Path;

use anyhow::Result;
use redhanded_model::Class;

use super::compile::Build;
use super::program::Language;
use crate::claims::Claims;
use crate::judge::{Circumstances, Symbols};
use crate::redhanded::{Finding, Redhanded, Round};
use crate::trial::Case;

/// A build, and the detector that runs it.
pub struct ProgramCase<'a> {
    /// Runs the build.
    pub redhanded: &'a Redhanded,
    /// What is run.
    pub build: &'a Build,
}

impl Case for ProgramCase<'_> {
    fn title(&self) -> String {
        self.build.title()
    }

    fn claims(&self) -> &Claims {
        &self.build.program.claims
    }

    fn is_twin(&self) -> bool {
        self.build.twin
    }

    fn circumstances(&self) -> Result<Circumstances> {
        let symbols = self.build.symbols.as_deref();
        Ok(Circumstances {
            stripped: symbols.map(Symbols::read).transpose()?,
            scant: self.build.program.is_doubtful(&self.build.variant),
            // A watch through ptrace does not see accesses by the kernel.
            unprivileged: self.redhanded.user.is_some()
                || self.redhanded.with.iter().any(|word| word == "ptrace")
                || !nix::unistd::geteuid().is_root(),
        })
    }

    /// A C function's symbol is its name; symbols of other languages contain it.
    fn globs(&self, functions: &[String]) -> Vec<String> {
        let program = &self.build.program;
        // Without symbols no function can be selected by its name.
        if self.build.variant.is_stripped() {
            return Vec::new();
        }
        let glob = |name: &String| match program.language() {
            // Functions and closures of this crate. The standard library is in the
            // same file and has many names.
            Language::Rust => format!("{}::{name}*", program.name),
            Language::Go => format!("main.{name}*"),
            Language::Cpp => format!("*{name}*"),
            Language::C => name.clone(),
        };
        functions.iter().map(glob).collect()
    }

    fn tolerates(&self, class: Class) -> bool {
        self.build.program.tolerates(class, &self.build.variant)
    }

    fn run(&self, round: &Round) -> Result<Finding> {
        self.redhanded.run(&self.title(), round, |report| {
            let mut arguments = arguments(&self.build.path, report, round);
            arguments.splice(1..1, self.redhanded.with.iter().cloned());
            arguments
        })
    }
}

fn arguments(program: &Path, report: &Path, round: &Round) -> Vec<String> {
    let mut arguments = vec!["run".to_owned()];
    arguments.extend(round.arguments(report));
    // A program that hangs must not outlive its round.
    arguments.extend(["--kill", "--"].map(str::to_owned));
    arguments.push(program.to_string_lossy().into_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
            "run --json r.json --seed 7 --for 1500ms --max-windows 150 \
             --function bump --function *::look --kill -- k"
        );
    }
}
