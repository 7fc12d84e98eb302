//! How text may look: colours, width, and which characters may be used.

/// What the terminal or file that the text goes to can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns; lines are broken between names, never inside one.
    pub width: usize,
    /// Whether characters outside ASCII can be shown; otherwise they are
    /// escaped, and arrows and dots are spelled in ASCII.
    pub unicode: bool,
}

impl Default for Style {
    /// Eighty columns of text without colours.
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            unicode: true,
        }
    }
}

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Plain,
    /// The headline of a race.
    Race,
    /// The headline of what may be none.
    Doubt,
    /// The two sides.
    Held,
    Caught,
    /// What is raced on.
    Name,
    /// File and line.
    Place,
    /// What an access is in its source line.
    Accessed,
    /// Bits, fields and values that changed.
    Changed,
    /// Details for completeness.
    Dim,
    Good,
    Heading,
}

impl Role {
    const fn sgr(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Race => "1;31",
            Self::Doubt | Self::Changed => "1;33",
            Self::Accessed => "4",
            Self::Held => "1;36",
            Self::Caught => "1;35",
            Self::Name | Self::Heading => "1",
            Self::Place => "36",
            Self::Dim => "2",
            Self::Good => "32",
        })
    }
}

impl Style {
    /// How many columns to use on standard error: as many as `COLUMNS` says or the terminal
    /// has, and eighty if there is neither.
    #[must_use]
    pub fn width_of_stderr() -> usize {
        width(&console::Term::stderr())
    }

    /// The same for standard output.
    #[must_use]
    pub fn width_of_stdout() -> usize {
        width(&console::Term::stdout())
    }

    /// The columns to fill. A report in fewer than forty is unreadable, so a
    /// width that claims less (0 from a terminal that does not know) is not
    /// believed.
    pub(crate) const fn columns(&self) -> usize {
        if self.width < 40 { 40 } else { self.width }
    }

    /// `text`, which must be clean already, in the colour of `role`.
    pub(crate) fn paint(&self, role: Role, text: &str) -> String {
        match role.sgr() {
            Some(sgr) if self.color && !text.is_empty() => format!("\x1b[{sgr}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    const fn choose(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }

    pub(crate) const fn arrow(&self) -> &'static str {
        self.choose("→", "->")
    }

    pub(crate) const fn ellipsis(&self) -> &'static str {
        self.choose("…", "...")
    }

    pub(crate) const fn to(&self) -> &'static str {
        self.choose("–", "-")
    }

    pub(crate) const fn bar(&self) -> &'static str {
        self.choose("│", "|")
    }
}

fn width(terminal: &console::Term) -> usize {
    let wanted = std::env::var("COLUMNS").ok();
    let wanted = wanted.and_then(|columns| columns.parse().ok());
    wanted.filter(|columns| *columns > 0).unwrap_or_else(|| {
        let size = terminal.size_checked();
        size.map_or(80, |(_, columns)| usize::from(columns))
    })
}
