//! Reports for programs: the schemas `redhanded-report/1` and
//! `redhanded-sites/1`, described field by field in `docs/json.md`.
//!
//! The documents are a stable interface, so they are spelled out here instead of
//! following whatever the model's types happen to be called.

mod document;
mod formatter;

use crate::file::{self, ReportError};
use crate::sites::{FunctionSites, SitesReport};
use document::{Document, round};
use formatter::Safe;
use redhanded_model::{Exclusions, RunReport};
use serde::Serialize;
use serde_json::{Serializer, Value};
use std::io::{self, Write};
use std::path::Path;

/// The schema of a run's report.
pub const REPORT_SCHEMA: &str = "redhanded-report/1";
/// The schema of a file's sites.
pub const SITES_SCHEMA: &str = "redhanded-sites/1";

/// Writes `report` as one document, with a line end after it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(report: &RunReport, out: &mut impl Write) -> io::Result<()> {
    write_document(&Document::of(report), out)
}

/// `report` as a value.
#[must_use]
pub fn to_value(report: &RunReport) -> Value {
    // Only a map with keys that are no strings could fail, and there is none.
    serde_json::to_value(Document::of(report)).unwrap_or(Value::Null)
}

/// Writes `report` to the file `path`: whole, or not at all where that can be
/// had. A regular file is replaced in one step; a pipe or a device, or what
/// `/dev/stderr` and `/dev/fd/N` stand for, is written directly.
///
/// # Errors
/// When the file cannot be written, or `path` is `-`: standard output belongs to
/// the program.
pub fn write_file(report: &RunReport, path: impl AsRef<Path>) -> Result<(), ReportError> {
    let path = path.as_ref();
    let mut text = Vec::new();
    write(report, &mut text).map_err(|source| ReportError::write(path, source))?;
    file::write(path, &text)
}

/// Writes the sites of a file as one document, with a line end after it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_sites(report: &SitesReport, out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Sites<'a> {
        schema: &'static str,
        file: &'a str,
        text_bytes: u64,
        functions: u64,
        sites: u64,
        excluded: &'a Exclusions,
        by_function: Vec<&'a FunctionSites>,
        seconds: f64,
    }
    write_document(
        &Sites {
            schema: SITES_SCHEMA,
            file: &report.file,
            text_bytes: report.text_bytes,
            functions: report.functions,
            sites: report.sites,
            excluded: &report.excluded,
            by_function: report.sorted(),
            seconds: round(report.seconds),
        },
        out,
    )
}

fn write_document(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    document.serialize(&mut Serializer::with_formatter(&mut *out, Safe::default()))?;
    out.write_all(b"\n")
}
