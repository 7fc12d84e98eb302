//! Reports for a browser: one file that loads nothing else.
//!
//! The page is whole without its script, which only sorts, filters and copies. Names, sources
//! and arguments come from the target and may be hostile: they enter as text
//! ([`markup::Markup`]), and the page's own policy lets the browser run this one script and
//! nothing else.

mod command;
mod list;
mod markup;
mod plot;
mod race;
mod summary;
mod value;
mod verdict;

use crate::format::{SourceLine, Writer};
use crate::names;
use crate::problems::problems;
use markup::Markup;
use redhanded_model::Report;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// Up to this many races are shown open. More are opened one by one.
const OPEN: usize = 20;

/// Writes a report as one HTML file.
pub struct Html {
    root: PathBuf,
    source: SourceLine,
    store: Option<PathBuf>,
}

impl fmt::Debug for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Html")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Writer for Html {
    fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Markup::default();
        self.head(&mut page, report);
        page.tag("<body>\n<header>\n<h1>");
        summary::headline(&mut page, report);
        page.tag("</h1>\n</header>\n<main>\n");
        summary::summary(&mut page, report);
        let problems = problems(&report.races);
        list::list(self, &mut page, report, &problems);
        out.write_all(page.into_text().as_bytes())?;
        // One after the other: a report of ten thousand races is large.
        let mut number = 0;
        for problem in &problems {
            for race in problem.all() {
                number += 1;
                let mut page = Markup::default();
                let open = report.races.len() <= OPEN;
                race::section(self, &mut page, report, (race, problem), number, open);
                out.write_all(page.into_text().as_bytes())?;
            }
        }
        let mut page = Markup::default();
        summary::set_aside(&mut page, report);
        if let Some(crash) = &report.run.crash {
            summary::crash(self, &mut page, crash);
        }
        page.tag("</main>\n<footer>Redhanded ")
            .tag(env!("CARGO_PKG_VERSION"))
            .tag("</footer>\n<script>")
            .tag(SCRIPT)
            .tag("</script>\n</body>\n</html>\n");
        out.write_all(page.into_text().as_bytes())?;
        out.flush()
    }
}

impl Html {
    /// A writer that names files below `root` relative to it, and quotes lines as `source`
    /// gives them. `store` is where decisions are kept, if they are.
    #[must_use]
    pub fn new(root: &Path, source: SourceLine, store: Option<&Path>) -> Self {
        Self {
            root: root.to_owned(),
            source,
            store: store.map(Path::to_owned),
        }
    }

    fn head(&self, page: &mut Markup, report: &Report) {
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        );
        page.tag("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
            .tag("<meta http-equiv=\"Content-Security-Policy\" content=\"")
            .text(&policy)
            .tag("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
            .tag("<meta name=\"color-scheme\" content=\"light dark\">\n")
            .tag("<meta name=\"referrer\" content=\"no-referrer\">\n<title>")
            .text(&summary::title(report))
            .tag("</title>\n<style>")
            .tag(STYLE)
            .tag("</style>\n</head>\n");
    }

    /// `file:line`, the file relative to the root.
    fn place(&self, file: Option<&str>, line: Option<u32>) -> Option<String> {
        let file = file?;
        let below = Path::new(file).strip_prefix(&self.root).ok();
        names::place(below.and_then(Path::to_str).or(Some(file)), line)
    }
}

/// The name by which a policy allows this text: `'sha256-…'`.
fn digest(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hash = Sha256::digest(text.as_bytes());
    let mut encoded = String::new();
    for bytes in hash.chunks(3) {
        let all = bytes
            .iter()
            .fold(0u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - bytes.len()));
        for digit in 0..4 {
            let value = all >> (18 - 6 * digit) & 63;
            let used = digit <= bytes.len();
            encoded.push(if used {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    format!("'sha256-{encoded}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_as_browsers_compute_it() {
        // sha256sum of nothing, in base64.
        let of_nothing = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert_eq!(digest(""), of_nothing);
    }

    #[test]
    fn neither_script_nor_style_ends_its_element() {
        for text in [SCRIPT, STYLE] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
