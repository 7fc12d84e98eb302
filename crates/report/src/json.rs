//! Reports for programs: the schemas `redhanded-report/1` and
//! `redhanded-sites/1`, described key by key in `docs/json.md`.
//!
//! The documents are a stable interface. Their keys are those of the model's
//! types; `version-1.json` among the tests holds them to what they were.

mod formatter;

use crate::format::Writer;
use crate::sites::SitesReport;
use formatter::Safe;
use redhanded_model::Report;
use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use std::io::{self, Write};

/// The schema of a run's report.
pub const REPORT_SCHEMA: &str = "redhanded-report/1";
/// The schema of a file's sites.
pub const SITES_SCHEMA: &str = "redhanded-sites/1";

/// Writes a report as one document, with a line end after it.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Writer for Json {
    fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        write_document(REPORT_SCHEMA, report, out)
    }
}

/// Writes the sites of a file as one document, with a line end after it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_sites(report: &SitesReport, out: &mut dyn Write) -> io::Result<()> {
    write_document(SITES_SCHEMA, report, out)
}

fn write_document(
    schema: &'static str,
    content: &impl Serialize,
    out: &mut dyn Write,
) -> io::Result<()> {
    /// What wrote it.
    #[derive(Serialize)]
    struct Tool {
        name: &'static str,
        version: &'static str,
    }
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: &'static str,
        tool: Tool,
        #[serde(flatten)]
        content: &'a T,
    }
    let tool = Tool {
        name: "redhanded",
        version: env!("CARGO_PKG_VERSION"),
    };
    let document = Document {
        schema,
        tool,
        content,
    };
    write_value(&document, out)
}

/// Writes a document so that no text in it can affect a terminal.
pub(crate) fn write_value(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    document.serialize(&mut Serializer::with_formatter(&mut *out, Safe::default()))?;
    out.write_all(b"\n")
}

/// Why a text could not be read as a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text ends too soon.
    #[error("it is cut off: the document has no end")]
    Truncated,
    /// The text is something else.
    #[error("it is not a report of Redhanded: {0}")]
    NotAReport(String),
    /// A later version of Redhanded wrote it.
    #[error("its version, {0}, is newer than this Redhanded, which reads {REPORT_SCHEMA}")]
    Newer(String),
    /// It says that it is a report, and it is damaged.
    #[error("it is a damaged report: {0}")]
    Damaged(serde_json::Error),
}

/// Reads a report. Keys and losses that are not known are passed over. Reports
/// from before `run.ended`, `what.memory` and `suspected` had only words for
/// these, which are not read: they come back as unknown.
///
/// # Errors
/// When the text is not a whole report of a known version.
pub fn read(text: &[u8]) -> Result<Report, ReadError> {
    /// What every document has, whatever its version.
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof if !text.trim_ascii().is_empty() => ReadError::Truncated,
        _ => ReadError::NotAReport(error.to_string()),
    })?;
    if head.schema == REPORT_SCHEMA {
        return serde_json::from_slice(text).map_err(ReadError::Damaged);
    }
    let version = |schema: &str| {
        schema
            .strip_prefix("redhanded-report/")?
            .parse::<u64>()
            .ok()
    };
    Err(if version(&head.schema) > version(REPORT_SCHEMA) {
        ReadError::Newer(head.schema)
    } else {
        ReadError::NotAReport(format!("its schema is {:?}", head.schema))
    })
}
