//! The label of a suite's program: whether it is racy, and which pairs of lines race.

use std::path::Path;

/// What a suite says of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Whether it has a race.
    pub racy: bool,
    /// The racing pairs, where the source names them.
    pub pairs: Vec<Pair>,
}

/// Two racing accesses, by line, the smaller line first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(pub u32, pub u32);

impl Pair {
    /// The unordered pair of two lines.
    pub fn new(a: u32, b: u32) -> Self {
        Self(a.min(b), a.max(b))
    }
}

impl Label {
    /// Reads the label from the file's name (`…-yes.c`, `…-no.c`) and its text.
    /// `None` when the name carries no label.
    pub fn read(path: &Path, text: &str) -> Option<Self> {
        let stem = path.file_stem()?.to_str()?;
        let racy = if stem.ends_with("-yes") {
            true
        } else if stem.ends_with("-no") {
            false
        } else {
            return None;
        };
        Some(Self {
            racy,
            pairs: pairs(text),
        })
    }
}

/// All pairs that follow `Data race pair:`, e.g. `a[i+1]@64:10:R vs. a[i]@64:5:W`.
/// A pair may be broken over lines of a comment; capitals, plural and colon vary.
pub fn pairs(text: &str) -> Vec<Pair> {
    let mut found = Vec::new();
    for section in text.to_ascii_lowercase().split("data race pair").skip(1) {
        // Longer than any pair; what follows is the program.
        let near: String = section.chars().take(400).collect();
        let near = near.split("*/").next().unwrap_or("");
        let mut marks = marks(near).into_iter();
        while let (Some(first), Some(second)) = (marks.next(), marks.next()) {
            // Two accesses make a pair only with `vs` between them.
            let between = near.get(first.end..second.start).unwrap_or("");
            if !between
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "vs")
            {
                break;
            }
            let pair = Pair::new(first.line, second.line);
            if !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

/// One `@line:column:R` and where it stands.
struct Mark {
    start: usize,
    end: usize,
    line: u32,
}

fn marks(text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (start, _) in text.match_indices('@') {
        let rest = &text[start + 1..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == ':'))
            .unwrap_or(rest.len());
        let mut parts = rest[..length].split(':');
        let line = parts.next().and_then(|line| line.parse().ok());
        let column = parts.next().and_then(|column| column.parse::<u32>().ok());
        let kind = parts.next().is_some_and(|kind| matches!(kind, "r" | "w"));
        if let (Some(line), Some(_), true) = (line, column, kind) {
            marks.push(Mark {
                start,
                end: start + 1 + length,
                line,
            });
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_tells_whether_there_is_a_race() {
        let racy = |name: &str| Label::read(Path::new(name), "").map(|label| label.racy);
        assert_eq!(racy("suite/antidep-orig-yes.c"), Some(true));
        assert_eq!(racy("suite/critical-no.cc"), Some(false));
        assert_eq!(racy("suite/helper.c"), None);
        assert_eq!(racy("suite/yes.c"), None);
    }

    #[test]
    fn pairs_in_both_spellings() {
        assert_eq!(
            pairs("// Data race pair: a[i+1]@64:10:R vs. a[i]@64:5:W"),
            [Pair(64, 64)]
        );
        assert_eq!(
            pairs("/* Data race pair: x@9:1:W vs y@7:3:R */"),
            [Pair(7, 9)]
        );
    }

    #[test]
    fn spellings_that_are_met_in_the_wild() {
        assert_eq!(
            pairs("Data Race Pairs, x@22:5:W vs. x@22:5:W"),
            [Pair(22, 22)]
        );
        assert_eq!(
            pairs("Data race pairs  s@61:3:W vs. s@61:8:R"),
            [Pair(61, 61)]
        );
        assert_eq!(pairs("No data race pairs. int main() {}"), []);
    }

    #[test]
    fn several_pairs_and_broken_lines() {
        let text = "/*\nData race pairs: a@1:2:W vs. a@3:4:R\n b@5:6:W vs.\n * b@5:6:W\n*/\n\
                    // Data race pair: c@8:1:R vs. c@7:1:W\n\
                    // Data race pair: c@7:9:W vs. c@8:2:R\n";
        assert_eq!(pairs(text), [Pair(1, 3), Pair(5, 5), Pair(7, 8)]);
    }

    #[test]
    fn what_is_no_pair_is_left_out() {
        for text in [
            "no label",
            "Data race pair:",
            "Data race pair: a@1:2:W and a@3:4:R",
            "Data race pair: a@1:2 vs. a@3:4",
            "Data race pair: mail@example.org vs. x@1:1:R",
            "Data race pair: a@99999999999:2:W vs. a@3:4:R",
        ] {
            assert_eq!(pairs(text), [], "in {text}");
        }
    }
}
