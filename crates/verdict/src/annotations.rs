//! What a user says of functions, variables and fields without touching the source: of races, and
//! of functions that are locks or allocators, which analyses of recordings must know.

use redhanded_model::Race;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;
use thiserror::Error;

/// A file of annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    entries: Vec<Entry>,
}

/// Why a file of annotations cannot be used.
#[derive(Debug, Error)]
#[error("cannot use the annotations in {file}: {why}")]
pub struct AnnotationError {
    file: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    annotation: Vec<Entry>,
}

/// One annotation: whom it is about, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Entry {
    function: Option<String>,
    variable: Option<String>,
    field: Option<String>,
    ignore: bool,
    benign: Option<String>,
    protected_by: Option<String>,
    reused: bool,
    locks: Option<Of>,
    read_locks: Option<Of>,
    unlocks: Option<Of>,
    allocates: Option<Of>,
    frees: Option<Of>,
}

/// What a function locks, allocates or frees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// What this argument of its calls has, counted from 1: the address of a lock or a block, or
    /// a size in bytes.
    Argument(usize),
    /// The lock of this name, which no argument tells.
    Name(String),
    /// So many bytes.
    Bytes(u64),
}

/// What a function of the program's own does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// It takes a lock that nobody else holds then.
    Locks,
    /// It takes a lock that readers hold together.
    ReadLocks,
    /// It gives a lock back.
    Unlocks,
    /// It hands out memory.
    Allocates,
    /// It takes memory back.
    Frees,
}

impl Does {
    const ALL: [Self; 5] = [
        Self::Locks,
        Self::ReadLocks,
        Self::Unlocks,
        Self::Allocates,
        Self::Frees,
    ];

    /// Whether it can be said of this.
    fn takes(self, of: &Of) -> bool {
        match of {
            Of::Argument(number) => (1..=MOST_ARGUMENTS).contains(number),
            Of::Name(name) => {
                matches!(self, Self::Locks | Self::ReadLocks | Self::Unlocks) && !name.is_empty()
            }
            Of::Bytes(bytes) => self == Self::Allocates && *bytes > 0,
        }
    }
}

/// So many arguments of a call are recorded.
const MOST_ARGUMENTS: usize = 3;

/// What an annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says<'a> {
    /// Not worth looking at.
    Ignore,
    /// Benign, for this reason.
    Benign(&'a str),
    /// Only accessed with this lock held.
    ProtectedBy(&'a str),
    /// The memory is used again for other objects.
    Reused,
}

impl Annotations {
    /// Reads annotations; `file` is what they are called in messages.
    ///
    /// # Errors
    /// When they are no TOML, or an entry is about nothing or says nothing.
    pub fn parse(text: &str, file: &Path) -> Result<Self, AnnotationError> {
        let error = |why: String| AnnotationError {
            file: file.display().to_string(),
            why,
        };
        let document: Document = toml::from_str(text).map_err(|problem| {
            let before = problem.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            error(format!(
                "line {line}: {}",
                problem.message().replace('\n', " ")
            ))
        })?;
        for (number, entry) in (1..).zip(&document.annotation) {
            entry
                .check()
                .map_err(|why| error(format!("annotation {number} {why}")))?;
        }
        let annotations = Self {
            entries: document.annotation,
        };
        let mut known = HashSet::new();
        for (function, ..) in annotations.functions() {
            if !known.insert(function) {
                return Err(error(format!(
                    "two annotations say what {function} does: a function locks, unlocks, \
                     allocates or frees, and does one of these"
                )));
            }
        }
        Ok(annotations)
    }

    /// What is said of a race.
    pub fn of<'a>(&'a self, race: &'a Race) -> impl Iterator<Item = Says<'a>> {
        self.entries
            .iter()
            .filter(|entry| entry.role().is_none() && entry.fits(race))
            .map(Entry::says)
    }

    /// The functions that are said to be locks or allocators, by their symbols.
    pub fn functions(&self) -> impl Iterator<Item = (&str, Does, &Of)> {
        self.entries.iter().filter_map(|entry| {
            let (does, of) = entry.role()?;
            Some((entry.function.as_deref()?, does, of))
        })
    }
}

impl Entry {
    fn of(&self, does: Does) -> Option<&Of> {
        match does {
            Does::Locks => self.locks.as_ref(),
            Does::ReadLocks => self.read_locks.as_ref(),
            Does::Unlocks => self.unlocks.as_ref(),
            Does::Allocates => self.allocates.as_ref(),
            Does::Frees => self.frees.as_ref(),
        }
    }

    /// What it says that its function does.
    fn role(&self) -> Option<(Does, &Of)> {
        let mut all = Does::ALL.into_iter();
        all.find_map(|does| Some((does, self.of(does)?)))
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.function.is_none() && self.variable.is_none() && self.field.is_none() {
            return Err("is about nothing: function, variable or field is expected");
        }
        let says = [
            self.ignore,
            self.benign.is_some(),
            self.protected_by.is_some(),
            self.reused,
        ];
        let roles = Does::ALL.map(|does| self.of(does).is_some());
        if let Some((does, of)) = self.role() {
            if self.variable.is_some() || self.field.is_some() {
                return Err("is about more than a function, which alone can lock or allocate");
            }
            if self.function.as_ref().is_some_and(|name| !is_symbol(name)) {
                return Err("is about no single function: its symbol is expected, without *");
            }
            if !does.takes(of) {
                return Err(
                    "does not say what: { argument = N } from 1 to 3 is expected, for locks \
                            also { name = \"…\" }, and for allocates also { bytes = N }",
                );
            }
        }
        match says.iter().chain(&roles).filter(|said| **said).count() {
            0 => Err(
                "says nothing: ignore, benign, protected-by, reused, locks, read-locks, unlocks, \
                      allocates or frees is expected",
            ),
            1 if self
                .benign
                .as_deref()
                .is_some_and(|why| why.trim().is_empty()) =>
            {
                Err("gives no reason: benign = \"because…\" is expected")
            }
            1 => Ok(()),
            _ => Err("says two things: give each an annotation of its own"),
        }
    }

    fn says(&self) -> Says<'_> {
        match (&self.benign, &self.protected_by) {
            (Some(reason), _) => Says::Benign(reason),
            (None, Some(lock)) => Says::ProtectedBy(lock),
            (None, None) if self.reused => Says::Reused,
            (None, None) => Says::Ignore,
        }
    }

    /// Whether it is about this race: everything that it names must be so.
    fn fits(&self, race: &Race) -> bool {
        let function = |wanted: &String| {
            race.accesses.iter().any(|access| {
                let inlined = access.stack.iter().take_while(|frame| frame.inlined);
                let names = inlined.filter_map(|frame| frame.function.as_ref());
                let mut names = names.chain(&access.function);
                names.any(|name| matches(wanted, name))
            })
        };
        let variable = |wanted: &String| {
            let name = race.what.name.as_deref();
            name.is_some_and(|name| matches(wanted, name))
        };
        let field = |wanted: &String| {
            crate::subject::member(race).is_some_and(|member| matches(wanted, member))
        };
        self.function.as_ref().is_none_or(function)
            && self.variable.as_ref().is_none_or(variable)
            && self.field.as_ref().is_none_or(field)
    }
}

/// Whether the name can be that of one symbol.
fn is_symbol(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == '*' || c.is_whitespace())
}

/// Whether a name fits a pattern, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter()
                .any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Annotations, String> {
        Annotations::parse(text, Path::new("notes.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bad_entry_gives_one_sentence() {
        let why = |text: &str| parse(text).unwrap_err();
        let start = "cannot use the annotations in notes.toml: ";
        assert_eq!(
            why("[[annotation]]\nignore = true"),
            format!(
                "{start}annotation 1 is about nothing: function, variable or field is expected"
            )
        );
        let says = why("[[annotation]]\nvariable = \"x\"");
        assert!(says.contains("annotation 1 says nothing"), "{says}");
        let both = why("[[annotation]]\nvariable = \"x\"\nignore = true\nreused = true");
        assert!(both.contains("says two things"), "{both}");
        let reason = why("[[annotation]]\nvariable = \"x\"\nbenign = \" \"");
        assert!(reason.contains("gives no reason"), "{reason}");
        let unknown = why("[[annotation]]\nvariable = \"x\"\nbenin = \"y\"");
        assert!(
            unknown.contains("line 3") && unknown.contains("benin"),
            "{unknown}"
        );
        assert!(!unknown.contains('\n'));
        assert!(why("[[annotation").contains("line 1"));
    }

    #[test]
    fn functions_are_said_to_be_locks_and_allocators() {
        let about =
            |name: &str, says: &str| format!("[[annotation]]\nfunction = \"{name}\"\n{says}\n");
        let text = [
            about("take", "locks = { argument = 1 }"),
            about("enter", "read-locks = { name = \"big\" }"),
            about("get", "allocates = { bytes = 64 }"),
            about("other", "ignore = true"),
        ];
        let annotations = parse(&text.concat()).unwrap();
        let functions: Vec<_> = annotations.functions().collect();
        assert_eq!(
            functions,
            [
                ("take", Does::Locks, &Of::Argument(1)),
                ("enter", Does::ReadLocks, &Of::Name("big".to_owned())),
                ("get", Does::Allocates, &Of::Bytes(64)),
            ]
        );
        for (name, says, why) in [
            ("take", "locks = { argument = 4 }", "from 1 to 3"),
            ("take", "locks = { bytes = 4 }", "does not say what"),
            ("get", "allocates = { name = \"x\" }", "does not say what"),
            ("ta*", "unlocks = { argument = 1 }", "no single function"),
            (
                "f",
                "variable = \"v\"\nfrees = { argument = 1 }",
                "more than a function",
            ),
            (
                "f",
                "ignore = true\nfrees = { argument = 1 }",
                "says two things",
            ),
            ("f", "locks = { argument = 1, name = \"x\" }", "line 3"),
            (
                "f",
                "locks = { argument = 1 }\n[[annotation]]\nfunction = \"f\"\nunlocks = { argument = 1 }",
                "two annotations say what f does",
            ),
        ] {
            let refused = parse(&about(name, says)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains('\n'), "{refused}");
        }
    }

    #[test]
    fn nothing_is_no_annotation() {
        assert_eq!(parse(""), Ok(Annotations::default()));
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, fits) in [
            ("now", "now", true),
            ("now", "nowhere", false),
            ("now*", "nowhere", true),
            ("*_count", "hit_count", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
