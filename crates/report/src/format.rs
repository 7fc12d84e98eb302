//! The formats of a report. A new one is a file beside `json.rs` that implements
//! [`Writer`], and a line in each list here.

use crate::json::Json;
use crate::style::Style;
use crate::terminal::Terminal;
use redhanded_model::Report;
use std::io::{self, Write};

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
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Its writer.
    #[must_use]
    pub fn writer(self) -> Box<dyn Writer> {
        match self {
            Self::Text => Box::new(Terminal::new(Style::default())),
            Self::Json => Box::new(Json),
        }
    }
}
