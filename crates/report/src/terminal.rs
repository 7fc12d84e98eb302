//! Reports for people at a terminal of 80 to 120 columns: the two places first,
//! then the value, then everything else.

mod crash;
mod race;
mod sides;
mod sites;
mod stack;
mod summary;
mod value;

use crate::format::Writer;
use crate::layout::Page;
use crate::sites::SitesReport;
use crate::style::Style;
use redhanded_model::{Race, Report};
use std::fmt;
use std::io::{self, Write};

type SourceLine = Box<dyn Fn(&str, u32) -> Option<String> + Send + Sync>;

/// Renders races, runs and sites as text.
///
/// Each call writes once, so that the program's own output cannot end up in the
/// middle of a report.
pub struct Terminal {
    style: Style,
    source: Option<SourceLine>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("style", &self.style)
            .finish_non_exhaustive()
    }
}

/// Every race in full, then the summary.
impl Writer for Terminal {
    fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.put(out, |page| {
            for (at, race) in report.races.iter().enumerate() {
                let number = (at + 1, report.races.len());
                race::full(self, page, race, number, report.run.windows);
                page.blank();
            }
            if let Some(crash) = &report.run.crash {
                crash::crash(&self.style, page, crash);
            }
            summary::summary(&self.style, page, report);
        })
    }
}

impl Terminal {
    /// Renders for a terminal of this style, without source lines.
    #[must_use]
    pub const fn new(style: Style) -> Self {
        Self {
            style,
            source: None,
        }
    }

    /// Shows the source text of each access as `line(file, line)` gives it;
    /// [`SourceFiles`](crate::SourceFiles) reads it from disk.
    #[must_use]
    pub fn with_source(
        mut self,
        line: impl Fn(&str, u32) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Box::new(line));
        self
    }

    /// The short form, for a race that has just been caught.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn race(&self, out: &mut dyn Write, race: &Race, windows: u64) -> io::Result<()> {
        self.put(out, |page| race::short(self, page, race, windows))
    }

    /// The sites of a file: totals and a table of functions, of `all` of them or
    /// of those with most sites.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn sites(&self, out: &mut dyn Write, report: &SitesReport, all: bool) -> io::Result<()> {
        self.put(out, |page| sites::table(&self.style, page, report, all))
    }

    fn put(&self, out: &mut dyn Write, render: impl FnOnce(&mut Page<'_>)) -> io::Result<()> {
        let mut page = Page::new(&self.style);
        render(&mut page);
        out.write_all(page.into_text().as_bytes())?;
        out.flush()
    }
}
