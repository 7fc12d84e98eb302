//! Verdicts on races of kernel modules, from the reports that the kernel corpus left.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::labels::Label;
use super::tables::Judged;
use crate::claims::directives;
use crate::judge as report;

/// What the reports in a folder say of the labelled modules.
pub fn judged(reports: &Path, modules: &Path) -> Result<Vec<Judged>> {
    let mut files: Vec<_> = fs::read_dir(reports)
        .with_context(|| format!("cannot list {}", reports.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let mut judged = Vec::new();
    for file in files {
        let Some((module, seed)) = file.file_stem().and_then(|stem| named(stem.to_str()?)) else {
            continue;
        };
        let source = modules.join(format!("{module}.c"));
        let races = report::read(&file)?.races;
        for label in labels(&fs::read_to_string(&source).unwrap_or_default())? {
            let title = format!("{module} seed {seed}");
            judged.push(super::judge(title, &label, &races));
        }
    }
    ensure!(!judged.is_empty(), "no report on a labelled module");
    Ok(judged)
}

/// The module and the seed of a report: `expected-list_push-1`.
fn named(stem: &str) -> Option<(&str, u64)> {
    let (module, seed) = stem.strip_prefix("expected-")?.rsplit_once('-')?;
    Some((module, seed.parse().ok()?))
}

/// The labels in a module's source.
fn labels(text: &str) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    directives(text, |key, value| {
        if key == "race" {
            labels.push(Label::parse(value)?);
        }
        Ok(())
    })?;
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_named_after_its_module() {
        assert_eq!(named("expected-list_push-3"), Some(("list_push", 3)));
        assert_eq!(named("never-mutex-1"), None);
        assert_eq!(named("expected-list_push"), None);
    }

    #[test]
    fn modules_have_labels_of_either_kind() {
        let folder = crate::paths::root().join("corpus/kernel/expected");
        let sources = fs::read_dir(folder).unwrap();
        let of = |path: &Path| labels(&fs::read_to_string(path).unwrap()).unwrap();
        let all: Vec<Label> = sources.flat_map(|it| of(&it.unwrap().path())).collect();
        for category in ["statistics-counter", "safe-flag-update", "double-check"] {
            assert!(all.iter().any(|it| !it.harmful && it.category == category));
        }
        assert!(all.iter().filter(|it| it.harmful).count() >= 10);
    }
}
