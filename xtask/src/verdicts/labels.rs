//! The labels of a program: which variables it races on, and whether that does harm.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::claims::directives;

/// A program with labelled races.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its source.
    pub source: PathBuf,
    /// Its races.
    pub labels: Vec<Label>,
    /// What is said of its variables, as a file of annotations.
    pub annotations: String,
}

/// The truth about the races on one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The variable, with the path to the member.
    pub what: String,
    /// Whether they do harm.
    pub harmful: bool,
    /// The row of the papers' tables that they belong to.
    pub category: String,
}

impl Program {
    /// Its path in the corpus.
    pub fn path(&self) -> String {
        let from = self.source.to_string_lossy();
        let (_, path) = from.rsplit_once("corpus/verdicts/").unwrap_or(("", &from));
        path.to_owned()
    }

    fn parse(source: PathBuf, text: &str) -> Result<Self> {
        let mut program = Self {
            source,
            labels: Vec::new(),
            annotations: String::new(),
        };
        let mut reason = false;
        directives(text, |key, value| {
            match key {
                "race" => program.labels.push(Label::parse(value)?),
                "reason" => reason = true,
                "annotate" => program.annotate(value)?,
                _ => bail!("`{key}` is no directive here: race, reason, annotate"),
            }
            Ok(())
        })?;
        ensure!(
            !program.labels.is_empty() && reason,
            "a race and a reason are expected"
        );
        Ok(program)
    }

    /// `variable=hint benign="where the search begins"`.
    fn annotate(&mut self, value: &str) -> Result<()> {
        let (about, says) = value
            .split_once(" benign=")
            .context("`benign=\"…\"` is expected")?;
        self.annotations.push_str("[[annotation]]\n");
        for word in about.split_whitespace() {
            let (key, name) = word
                .split_once('=')
                .context("`variable=NAME` is expected")?;
            writeln!(self.annotations, "{key} = \"{name}\"")?;
        }
        writeln!(self.annotations, "benign = {says}")?;
        Ok(())
    }
}

impl Label {
    /// Reads `what=NAME truth=benign|harmful category=ROW`.
    pub fn parse(value: &str) -> Result<Self> {
        let of = |key: &str| {
            let mut words = value.split_whitespace();
            let found = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            found.with_context(|| format!("`{key}=` is missing"))
        };
        Ok(Self {
            what: of("what")?.to_owned(),
            harmful: match of("truth")? {
                "harmful" => true,
                "benign" => false,
                other => bail!("`{other}` is no truth: benign or harmful"),
            },
            category: of("category")?.to_owned(),
        })
    }
}

/// All programs below `folder`, by path.
pub fn read_all(folder: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|end| ["c", "cc", "rs"].iter().any(|it| end == *it))
            {
                let text = fs::read_to_string(&path)?;
                let program = Program::parse(path.clone(), &text);
                programs.push(program.with_context(|| path.display().to_string())?);
            }
        }
    }
    programs.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_as_large_as_promised() {
        let programs = read_all(&crate::paths::root().join("corpus/verdicts")).unwrap();
        let labels = |held_out: bool| {
            let those = programs
                .iter()
                .filter(|it| it.path().starts_with("held-out/") == held_out);
            those.map(|program| program.labels.len()).sum::<usize>()
        };
        assert_eq!(labels(true), 20);
        assert!(labels(false) + labels(true) >= 60);
        let has = |category: &str| {
            let mut labels = programs.iter().flat_map(|program| &program.labels);
            labels.any(|label| label.category == category)
        };
        for category in [
            // PLDI 2007, Table 2.
            "user-constructed-synchronisation",
            "double-check",
            "both-values-valid",
            "redundant-write",
            "safe-flag-update",
            "approximate-computation",
            // DataCollider, Figure 7.
            "statistics-counter",
            "special-variable",
            "volatile",
        ] {
            assert!(has(category), "{category}");
        }
    }

    #[test]
    fn labels_are_read() {
        let label = Label::parse("what=a.b truth=harmful category=torn-value").unwrap();
        assert!(label.harmful && label.what == "a.b");
        assert!(Label::parse("what=a truth=maybe category=x").is_err());
        assert!(Label::parse("truth=benign category=x").is_err());
    }
}
