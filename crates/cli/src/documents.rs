//! The documents that a report is written to, each in its format.

use crate::arguments::Documents;
use crate::exit::{self, Failure};
use redhanded_model::Report;
use redhanded_report::{Format, SourceLine, Writer, check, write_file};
use std::path::{Path, PathBuf};

impl Documents {
    fn each(&self) -> impl Iterator<Item = (Format, &Path)> {
        let Self { json, sarif, html } = self;
        [
            (Format::Json, json),
            (Format::Sarif, sarif),
            (Format::Html, html),
        ]
        .into_iter()
        .filter_map(|(format, path)| Some((format, path.as_deref()?)))
    }

    /// What can be known to be wrong with them before anything is done.
    pub fn check(&self) -> Result<(), Failure> {
        let mut taken: Vec<&Path> = Vec::new();
        for (_, path) in self.each() {
            // The second would replace the first. A device takes both.
            if taken.contains(&path) && !path.starts_with("/dev") {
                return Err(Failure::Usage(format!(
                    "{} is named for two documents; give each a file of its own",
                    path.display()
                )));
            }
            taken.push(path);
            check(path)?;
        }
        Ok(())
    }

    /// Writes them all, with lines quoted from `source` and commands for `store`. One that
    /// cannot be written costs the others nothing.
    pub fn write(
        &self,
        report: &Report,
        source: &SourceLine,
        store: Option<&Path>,
    ) -> Result<(), Failure> {
        self.write_each(|format, path| {
            Ok(write_file(&*writer(format, source, store), report, path)?)
        })
    }

    /// Writes them, those for `-` to `text`.
    pub fn write_or_print(
        &self,
        report: &Report,
        source: &SourceLine,
        store: Option<&Path>,
        text: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.write_each(|format, path| {
            let writer = writer(format, source, store);
            if path == Path::new("-") {
                return Ok(writer.write(report, text)?);
            }
            Ok(write_file(&*writer, report, path)?)
        })
    }

    /// Says of each that fails why; the last of them is for the caller to say.
    fn write_each(
        &self,
        mut write: impl FnMut(Format, &Path) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut failed = None;
        for (format, path) in self.each() {
            if let Err(failure) = write(format, path) {
                exit::fail(&mut failed, failure);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

fn writer(format: Format, source: &SourceLine, store: Option<&Path>) -> Box<dyn Writer> {
    format.writer(&repository(), source, store)
}

/// The repository that we are in, or else the working folder.
pub fn repository() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let repository = here.ancestors().find(|folder| folder.join(".git").exists());
    repository.unwrap_or(&here).to_owned()
}
