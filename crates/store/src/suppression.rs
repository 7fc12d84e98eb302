//! Races that need no attention, listed in a file of the user's repository.
//!
//! ```toml
//! [[suppress]]
//! function = "stats_*"        # globs; all that is given must match
//! file = "src/net/*"
//! field = "server.counters.*"
//! class = "possibly-atomic"
//! sides = "both"              # or "either", which is the default
//! because = "approximate counters, read for display only"
//! owner = "net team"
//! until = "2027-03-31"
//! ```

use crate::{Day, Pattern, PatternError};
use redhanded_model::{Race, State, Suppressed, Triage};
use redhanded_sys::read_regular_text;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What people write by hand is shorter.
const MOST_TEXT: u64 = 64 << 20;

/// Why a file of suppressions cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuppressionsError {
    /// It cannot be read.
    #[error("cannot read the suppressions in {}: {why}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// It is not as it should be.
    #[error("the suppressions in {} cannot be used: {why}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Which sides must match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sides {
    #[default]
    Either,
    Both,
}

/// An entry, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    function: Option<String>,
    file: Option<String>,
    field: Option<String>,
    frame: Option<String>,
    class: Option<String>,
    #[serde(default)]
    sides: Sides,
    because: Option<String>,
    owner: Option<String>,
    until: Option<Day>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    suppress: Vec<Written>,
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which races it is about.
    pattern: Pattern,
    /// What it says, for people.
    pub words: String,
    /// Why.
    pub because: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// The last day on which it holds.
    pub until: Option<Day>,
}

/// What became of an entry in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Used {
    /// It matched so many races.
    Matched(u64),
    /// It matched none.
    Unused,
    /// It no longer holds; it would have matched so many.
    Expired(u64),
}

/// The entries of a file.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    entries: Vec<Entry>,
}

impl Suppressions {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or an entry has no reason or names nothing.
    pub fn read(path: &Path) -> Result<Self, SuppressionsError> {
        let text = read_regular_text(path, MOST_TEXT).map_err(|error| SuppressionsError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Self::parse(&text).map_err(|why| SuppressionsError::Wrong {
            path: path.to_owned(),
            why,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let entries = (1..).zip(document.suppress).map(|(number, written)| {
            entry(written).map_err(|why| format!("entry {number}: {why}"))
        });
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Marks the races that need no attention; what became of each entry.
    pub fn apply(&self, races: &mut [Race], today: Day) -> Vec<(&Entry, Used)> {
        let mut matched = vec![0; self.entries.len()];
        for race in races {
            for (entry, count) in self.entries.iter().zip(&mut matched) {
                if !entry.pattern.matches(race) {
                    continue;
                }
                *count += 1;
                if !entry.expired(today) && !race.is_suppressed() {
                    // With nothing remembered, each race is new.
                    let new = race.is_new();
                    let triage = race.triage.get_or_insert(Triage {
                        state: State::New,
                        new,
                        because: None,
                        owner: None,
                        until: None,
                        suppressed: None,
                    });
                    triage.suppressed = Some(entry.suppressed());
                }
            }
        }
        let used = |(entry, count): (_, u64)| (entry, Entry::used(entry, count, today));
        self.entries.iter().zip(matched).map(used).collect()
    }
}

impl Entry {
    fn expired(&self, today: Day) -> bool {
        self.until.is_some_and(|until| until < today)
    }

    fn used(&self, count: u64, today: Day) -> Used {
        match count {
            count if self.expired(today) => Used::Expired(count),
            0 => Used::Unused,
            count => Used::Matched(count),
        }
    }

    fn suppressed(&self) -> Suppressed {
        Suppressed {
            because: self.because.clone(),
            owner: self.owner.clone(),
            until: self.until.map(|day| day.to_string()),
        }
    }
}

fn entry(written: Written) -> Result<Entry, String> {
    let told = |error: PatternError| error.to_string();
    let mut pattern = Pattern::default().both(written.sides == Sides::Both);
    let mut words = Vec::new();
    type With = fn(Pattern, &str) -> Result<Pattern, PatternError>;
    let parts: [(&str, &Option<String>, With); 5] = [
        ("function", &written.function, Pattern::function),
        ("file", &written.file, Pattern::file),
        ("field", &written.field, Pattern::field),
        ("frame", &written.frame, Pattern::frame),
        ("class", &written.class, Pattern::class),
    ];
    for (name, text, with) in parts {
        if let Some(text) = text {
            pattern = with(pattern, text).map_err(told)?;
            words.push(format!("{name} {text}"));
        }
    }
    let because = written.because.unwrap_or_default();
    if because.trim().is_empty() {
        return Err("it has no reason: add because = \"…\"".to_owned());
    }
    Ok(Entry {
        pattern: pattern.checked().map_err(told)?,
        words: words.join(", "),
        because,
        owner: written.owner,
        until: written.until,
    })
}

/// Suppressions in TSan's format as a file in ours: the lines `race:` and `race_top:`; and how
/// many other lines there are, which say nothing about races.
#[must_use]
pub fn import_tsan(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut comment = String::new();
    let mut others = 0;
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix('#') {
            words.trim().clone_into(&mut comment);
            continue;
        }
        let entry = match line.split_once(':') {
            Some(("race", pattern)) => Some(("frame", pattern)),
            Some(("race_top", pattern)) => Some(("function", pattern)),
            _ => None,
        };
        match entry {
            Some((key, pattern)) => {
                let because = if comment.is_empty() {
                    "imported from a suppression file of TSan".to_owned()
                } else {
                    std::mem::take(&mut comment)
                };
                let glob = toml::Value::from(tsan_glob(pattern));
                let because = toml::Value::from(because);
                out.push_str(&format!(
                    "[[suppress]]\n{key} = {glob}\nbecause = {because}\n\n"
                ));
            }
            None if line.is_empty() => comment.clear(),
            None => others += 1,
        }
    }
    (out, others)
}

/// TSan's patterns match anywhere, unless `^` or `$` bind them.
fn tsan_glob(pattern: &str) -> String {
    let (front, pattern) = match pattern.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("*", pattern),
    };
    let (pattern, back) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None => (pattern, "*"),
    };
    let mut glob = front.to_owned();
    for character in pattern.chars() {
        if "?[]{}\\".contains(character) {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob + back
}
