//! The formats of a report. A new one is a file beside `json.rs` that implements
//! [`Writer`], and a line in each list here.

use crate::html::Html;
use crate::json::Json;
use crate::sarif::Sarif;
use crate::style::Style;
use crate::terminal::Terminal;
use redhanded_model::Report;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Gives the text of a line of a source file, if it is at hand: `line(file, line)`.
pub type SourceLine = Arc<dyn Fn(&str, u32) -> Option<String> + Send + Sync>;

/// Writes reports in one format.
pub trait Writer {
    /// Writes a whole report.
    ///
    /// # Errors
    /// When `out` cannot be written.
    fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}

/// A format that a report can be written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text for people, as on a terminal without colours.
    Text,
    /// JSON for programs: `redhanded-report/1`.
    Json,
    /// SARIF for code scanning.
    Sarif,
    /// A page for a browser.
    Html,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Sarif, Self::Html];

    /// Its writer. Formats that name files relative to a repository take those below
    /// `root`, which is an absolute path; formats that quote the source take it from
    /// `source`. Those that offer commands to decide about a race name `store` in them.
    #[must_use]
    pub fn writer(self, root: &Path, source: &SourceLine, store: Option<&Path>) -> Box<dyn Writer> {
        match self {
            Self::Text => Box::new(Terminal::new(Style::default())),
            Self::Json => Box::new(Json),
            Self::Sarif => Box::new(Sarif::below(root)),
            Self::Html => Box::new(Html::new(root, Arc::clone(source), store)),
        }
    }
}
