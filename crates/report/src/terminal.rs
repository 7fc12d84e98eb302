//! Reports for people at a terminal of 80 to 120 columns: the two places first,
//! then the value, then everything else.

mod crash;
mod explain;
mod list;
mod race;
mod sides;
mod sites;
mod stack;
mod summary;
mod value;
mod verdict;

use crate::format::{SourceLine, Writer};
use crate::layout::{Line, Page};
use crate::names;
use crate::problems::{Problem, problems};
use crate::sites::SitesReport;
use crate::style::{Role, Style};
use race::Title;
use redhanded_model::{Race, Report};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use verdict::replayed;

/// Renders races, runs and sites as text.
///
/// Each call writes once, so that the program's own output cannot end up in the
/// middle of a report.
pub struct Terminal {
    style: Style,
    source: Option<SourceLine>,
    explains: bool,
    verbose: bool,
    assembly: bool,
    shows_benign: bool,
    lists: bool,
    base: PathBuf,
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
            let shown = report.races.iter().filter(|race| !race.is_suppressed());
            let problems = problems(shown);
            let of = problems.iter().map(Problem::races).sum();
            let mut number = 0;
            for problem in &problems {
                let first = number + 1;
                for race in problem.all() {
                    number += 1;
                    let title = Title {
                        number,
                        of,
                        same: (number > first).then(|| (first, problem.common())),
                    };
                    if verdict::is_brief(self, race) {
                        race::brief(self, page, race, &title);
                    } else {
                        race::full(self, page, race, &title, report.run.windows);
                    }
                    page.blank();
                }
            }
            if self.explains {
                explain::set_aside(&self.style, page, report);
            }
            if let Some(crash) = &report.run.crash {
                crash::crash(self, page, crash);
            }
            summary::summary(self, page, report);
        })
    }
}

impl Terminal {
    /// Renders for a terminal of this style, without source lines.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self {
            style,
            source: None,
            explains: false,
            verbose: false,
            assembly: false,
            shows_benign: false,
            lists: true,
            base: PathBuf::new(),
        }
    }

    /// Shows everything: whole stacks, instructions, addresses, fingerprints.
    #[must_use]
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.verbose = verbose;
        self
    }

    /// Shows the instruction of each access.
    #[must_use]
    pub const fn with_assembly(mut self, assembly: bool) -> Self {
        self.assembly = assembly;
        self
    }

    /// Shows races that are likely benign in full, too.
    #[must_use]
    pub const fn showing_benign(mut self, shows_benign: bool) -> Self {
        self.shows_benign = shows_benign;
        self
    }

    /// Leaves out the list at the end, for who has one that says more.
    pub const fn leave_out_list(&mut self) {
        self.lists = false;
    }

    /// Names files below this folder relative to it.
    #[must_use]
    pub fn with_base(mut self, base: impl Into<PathBuf>) -> Self {
        self.base = base.into();
        self
    }

    /// `file:line`, the file relative to the base.
    fn place(&self, file: Option<&str>, line: Option<u32>) -> Option<String> {
        let file = file?;
        let below = Path::new(file).strip_prefix(&self.base).ok();
        names::place(below.and_then(Path::to_str).or(Some(file)), line)
    }

    /// Shows the source text of each access as `line(file, line)` gives it.
    #[must_use]
    pub fn with_source(mut self, line: SourceLine) -> Self {
        self.source = Some(line);
        self
    }

    /// Says why each collision has its class, and which were set aside.
    #[must_use]
    pub const fn explaining(mut self, explains: bool) -> Self {
        self.explains = explains;
        self
    }

    /// The short form, for a race that has just been caught: `after` this much time.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn race(&self, out: &mut dyn Write, race: &Race, after: Duration) -> io::Result<()> {
        self.put(out, |page| race::short(self, page, race, after))
    }

    /// One entry for each problem: a line for its first race, with what `when` says of it, and
    /// one that names the others.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn list(
        &self,
        out: &mut dyn Write,
        report: &Report,
        when: &dyn Fn(&Race) -> Option<String>,
    ) -> io::Result<()> {
        self.put(out, |page| {
            if report.races.is_empty() {
                let none = "No race is there, or none that was asked for.";
                page.put(0, 0, Line::new(&self.style).words(Role::Good, none));
            }
            list::list(&self.style, page, &report.races, when);
        })
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
