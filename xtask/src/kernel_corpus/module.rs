//! A module of the kernel corpus, as its source describes it. `docs/kernel-corpus.md`
//! describes the grammar.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use crate::claims::{self, Claims, List};
use crate::verdicts::Label;

/// A module, or the twin of one.
#[derive(Clone, Debug)]
pub struct Module {
    /// The kernel's name for it.
    pub name: String,
    /// The built file, relative to the folder of all modules.
    pub file: PathBuf,
    /// Whether it is built without its guard.
    pub twin: bool,
    /// Commands to run before the workload, in this order.
    pub setup: Vec<String>,
    /// Commands that run side by side while it is observed.
    pub workload: Vec<String>,
    /// Commands to run afterwards.
    pub cleanup: Vec<String>,
    /// More options for Redhanded.
    pub options: Vec<String>,
    /// What must be reported, and what must not.
    pub claims: Claims,
}

impl Module {
    /// Reads the directives of one source file.
    fn parse(source: &claims::Source) -> Result<Self> {
        let name = source.path.file_stem().and_then(|stem| stem.to_str());
        let name = name.context("a module needs a file name in plain letters")?;
        let mut module = Self {
            name: name.to_owned(),
            file: PathBuf::new(),
            twin: false,
            setup: Vec::new(),
            workload: Vec::new(),
            cleanup: Vec::new(),
            options: Vec::new(),
            claims: Claims::new(source.list),
        };
        claims::directives(&source.text, |key, value| module.directive(key, value))?;
        module.claims.check()?;
        Ok(module.named(name.to_owned()))
    }

    fn directive(&mut self, key: &str, value: &str) -> Result<()> {
        let commands = match key {
            "setup" => &mut self.setup,
            "workload" => &mut self.workload,
            "cleanup" => &mut self.cleanup,
            "options" => {
                let words = value.split_whitespace().map(str::to_owned);
                self.options.extend(words);
                return Ok(());
            }
            // The truth about its races, which `cargo xtask verdicts` reads.
            "race" => {
                Label::parse(value)?;
                return Ok(());
            }
            _ => {
                ensure!(
                    self.claims.take(key, value)?,
                    "`{key}` is no directive of this list (setup, workload, cleanup, options, race, {})",
                    self.claims.known()
                );
                return Ok(());
            }
        };
        commands.push(value.trim().to_owned());
        Ok(())
    }

    fn named(self, name: String) -> Self {
        Self {
            file: Path::new(self.list()).join(format!("{name}.ko")),
            name,
            ..self
        }
    }

    /// The same module without its guard.
    fn twin(&self) -> Self {
        let twin = Self {
            twin: true,
            ..self.clone()
        };
        twin.named(format!("{}_twin", self.name))
    }

    const fn list(&self) -> &'static str {
        match self.claims.list {
            List::Expected => "expected",
            List::Never => "never",
        }
    }

    /// `never/mutex_twin`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.list(), self.name)
    }
}

/// Reads all modules of a corpus folder that lies below `root`, each never module
/// followed by its twin.
pub fn read_all(root: &Path, corpus: &Path) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    for source in claims::sources(root, corpus, &["c"])? {
        let module = Module::parse(&source)
            .map_err(|error| anyhow!("{}: {error:#}", source.path.display()))?;
        let twin = (source.list == List::Never).then(|| module.twin());
        modules.push(module);
        modules.extend(twin);
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Source;

    fn module(list: List, text: &str) -> Result<Module> {
        Module::parse(&Source {
            list,
            path: "corpus/kernel/x/k.c".into(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn commands_are_kept_in_their_order() {
        let module = module(
            List::Expected,
            "//@ setup: mkdir -p /mnt && mount -t k none /mnt\n\
             //@ workload: while :; do echo 1 > /mnt/a; done\n\
             //@ workload: while :; do : < /mnt/a; done\n\
             //@ cleanup: umount /mnt\n\
             //@ options: --delay 60ms\n\
             //@ expect: what=k functions=a,b contexts=task,hardirq\n",
        )
        .unwrap();
        assert_eq!(module.setup, ["mkdir -p /mnt && mount -t k none /mnt"]);
        assert_eq!(module.workload.len(), 2);
        assert!(module.workload[1].contains(": < /mnt/a"));
        assert_eq!(module.cleanup, ["umount /mnt"]);
        assert_eq!(module.options, ["--delay", "60ms"]);
        assert_eq!(module.file, Path::new("expected/k.ko"));
        assert_eq!(module.claims.expects[0].context(1), "hardirq");
    }

    #[test]
    fn a_twin_is_a_module_of_its_own() {
        let text = "//@ focus: bump\n//@ twin-expect: what=n functions=bump,bump\n";
        let twin = module(List::Never, text).unwrap().twin();
        assert_eq!(twin.title(), "never/k_twin");
        assert_eq!(twin.file, Path::new("never/k_twin.ko"));
        assert!(twin.twin);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text| format!("{:#}", module(List::Expected, text).unwrap_err());
        let build = error("//@ build: O2\n");
        assert!(build.contains("line 1") && build.contains("`build` is no directive"));
        assert!(error("//@ setup: true\n").contains("no `expect`"));
    }
}
