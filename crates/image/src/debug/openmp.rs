//! `omp atomic`: the directive that makes the statement after it an atomic one.

use super::expression::walk::{Candidate, TextMarking};
use redhanded_model::Doubt;

/// How many lines may stand between a directive and its statement.
const MAX_LINES_BETWEEN: usize = 16;
/// How many bytes these lines may have.
const MAX_BYTES_BETWEEN: usize = 4096;

/// The directive before a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AtomicDirective {
    /// `read`, `write`, `capture`, …
    pub(super) clause: String,
    /// Whether it was compiled for certain: it does not depend on an `#if`.
    pub(super) certain: bool,
}

impl AtomicDirective {
    /// Reads a line such as `#pragma omp atomic read`.
    pub(super) fn of_pragma(line: &str) -> Option<Self> {
        let line = line.replace("\\\n", " ");
        let line = line.trim_start().strip_prefix('#')?;
        let mut words = line.split_whitespace();
        if (words.next()?, words.next()?, words.next()?) != ("pragma", "omp", "atomic") {
            return None;
        }
        Some(Self {
            clause: words.collect::<Vec<_>>().join(" "),
            certain: true,
        })
    }

    /// Reads an attribute such as `[[omp::directive(atomic, read)]]`. What is in a sequence of
    /// directives is not read in full.
    pub(super) fn of_attribute(text: &str) -> Option<Self> {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (before, clause) = text.split_once("atomic")?;
        if !before.contains("omp") {
            return None;
        }
        let clause = clause.split(')').next().unwrap_or_default();
        Some(Self {
            clause: clause.replace(',', " ").trim().to_owned(),
            certain: !before.contains("sequence"),
        })
    }

    /// The directive that is the last before the byte `start`, apart from comments and
    /// preprocessor lines: `#ifdef _OPENMP`, the pragma, `#endif`.
    pub(super) fn preceding(text: &str, start: usize) -> Option<Self> {
        let before = text.get(..start)?.trim_end();
        // A file is searched once for each of its statements, so not from its beginning.
        let near = before.len().saturating_sub(MAX_BYTES_BETWEEN);
        let near = (near..).find(|at| before.is_char_boundary(*at))?;
        let before = before.get(near..)?;
        let joined = before.replace("\\\n", " ");
        for line in joined.lines().rev().take(MAX_LINES_BETWEEN) {
            let line = line.trim();
            if let Some(directive) = Self::of_pragma(line) {
                return Some(Self {
                    certain: false,
                    ..directive
                });
            }
            let passed = line.is_empty()
                || line.starts_with('#')
                || line.starts_with("//")
                || (line.starts_with("/*") && line.ends_with("*/"));
            if !passed {
                return None;
            }
        }
        None
    }

    /// Marks the accesses to the object that the directive is about: with `read` that which is
    /// read, else that which is written, or, if several are, that which is read as well.
    pub(super) fn mark(&self, found: &mut [Candidate]) {
        let reads = self.clause.split([' ', ',']).any(|word| word == "read");
        let texts = |is: &dyn Fn(&Candidate) -> bool, found: &[Candidate]| -> Vec<String> {
            let places = found.iter().filter(|candidate| is(candidate));
            places
                .filter_map(|candidate| candidate.place.as_ref())
                .map(|place| place.text.clone())
                .collect()
        };
        let read = texts(&|candidate| candidate.reads, found);
        let written = texts(&|candidate| candidate.writes, found);
        let chosen: Vec<String> = if reads {
            // The pointers on the way are read, too; the object comes last.
            read.last().cloned().into_iter().collect()
        } else {
            let both: Vec<String> = written
                .iter()
                .filter(|text| read.contains(text))
                .cloned()
                .collect();
            if both.is_empty() { written } else { both }
        };
        let marking = if self.certain {
            TextMarking::Atomic("#pragma omp atomic".to_owned())
        } else {
            TextMarking::Unknown(Doubt::Ambiguous)
        };
        for candidate in found {
            let place = candidate.place.as_ref();
            if place.is_some_and(|place| chosen.contains(&place.text)) {
                candidate.marking = marking.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pragmas_and_attributes_are_read() {
        let clause = |line| AtomicDirective::of_pragma(line).map(|found| found.clause);
        assert_eq!(clause("#pragma omp atomic read"), Some("read".to_owned()));
        assert_eq!(clause(" # pragma omp atomic"), Some(String::new()));
        assert_eq!(clause("#pragma omp parallel"), None);
        let attribute = |text| AtomicDirective::of_attribute(text);
        let read = attribute("[[omp::directive(atomic, read)]]").unwrap();
        assert_eq!((read.clause.as_str(), read.certain), ("read", true));
        let using = attribute("[[using omp: directive(atomic write)]]").unwrap();
        assert_eq!(using.clause, "write");
        assert_eq!(attribute("[[omp::directive(parallel)]]"), None);
        assert_eq!(attribute("[[gnu::noinline]]"), None);
    }

    #[test]
    fn conditions_stand_between_a_pragma_and_its_statement() {
        let find = |text: &str| AtomicDirective::preceding(text, text.find("x =").unwrap());
        let found =
            find("{\n#ifdef _OPENMP\n#pragma omp atomic \\\n write\n#endif\n // y\n x = 1;");
        assert_eq!(
            found,
            Some(AtomicDirective {
                clause: "write".to_owned(),
                certain: false
            })
        );
        assert_eq!(find("#pragma omp atomic\n y = 1;\n#endif\n x = 1;"), None);
        assert_eq!(find("x = 1;"), None);
        let far = format!("#pragma omp atomic\n{}x = 1;", "// é\n".repeat(1500));
        assert_eq!(find(&far), None);
    }
}
