//! A program of the corpus, ready to be put on trial.

use anyhow::Result;
use redhanded_model::Class;

use crate::claims::Claims;
use crate::compile::Program;
use crate::drive::{Driver, Finding, Round};
use crate::judge::{Circumstances, Symbols};
use crate::trial::Case;

/// A program that is built, and who runs it.
pub struct Tried<'a> {
    /// Runs it.
    pub driver: &'a Driver,
    /// It.
    pub program: &'a Program,
}

impl Case for Tried<'_> {
    fn title(&self) -> String {
        self.program.title()
    }

    fn claims(&self) -> &Claims {
        &self.program.kernel.claims
    }

    fn is_twin(&self) -> bool {
        self.program.twin
    }

    fn circumstances(&self) -> Result<Circumstances> {
        let stripped = self
            .program
            .symbols
            .as_deref()
            .map(Symbols::read)
            .transpose()?;
        Ok(Circumstances {
            stripped,
            // Through ptrace nobody sees what the kernel accesses.
            unprivileged: self.driver.user.is_some()
                || self.driver.with.iter().any(|word| word == "ptrace")
                || !nix::unistd::geteuid().is_root(),
        })
    }

    /// Names of C are whole symbols; those of C++ and Rust have more around them.
    fn globs(&self, functions: &[String]) -> Vec<String> {
        let kernel = &self.program.kernel;
        // Without symbols no function has a name to select it by.
        if self.program.variant.stripped {
            return Vec::new();
        }
        let glob = |name: &String| match kernel.source.extension().and_then(|end| end.to_str()) {
            // The crate's own, with its closures: the standard library is in the
            // same file and has many names.
            Some("rs") => format!("{}::{name}*", kernel.name),
            Some("cc") => format!("*{name}*"),
            _ => name.clone(),
        };
        functions.iter().map(glob).collect()
    }

    fn tolerates(&self, class: Class) -> bool {
        self.program.variant.stripped && class == Class::PossiblyAtomic
    }

    fn run(&self, round: &Round) -> Result<Finding> {
        self.driver.run(self.program, round)
    }
}
