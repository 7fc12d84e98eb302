//! A program of the corpus: its first lines say how it is built, and what Redhanded
//! must and must not report about it. `docs/corpus.md` describes the grammar.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::variant::{self, Variant};
use crate::claims::{self, Claims, List};
use crate::judge::word;
use redhanded_model::Class;

/// A program with its directives.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    /// The source, relative to the repository's root.
    pub source: PathBuf,
    /// The ways to build it.
    pub variants: Vec<Variant>,
    /// More ways, for the full form.
    pub full: Vec<Variant>,
    /// More words for the compiler.
    pub flags: Vec<String>,
    /// The shared libraries it needs.
    pub libraries: Vec<Library>,
    /// What happens to the source once the program is built.
    pub after_build: Option<Change>,
    /// Classes that a never program may be reported as.
    pub allows: Vec<Allowance>,
    /// Builds in which a race may be only possibly atomic, as patterns of variants.
    pub doubts: Vec<String>,
    /// What must be reported, and what must not.
    pub claims: Claims,
}

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
}

/// What happens to the source once the program is built. The program is then built from a
/// copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is edited by this script of sed's.
    Edit(String),
    /// It is removed.
    Remove,
    /// It becomes the newer file, as if it had been saved again.
    Touch,
}

/// A class that a never program may be reported as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    class: String,
    /// The variants it is for; all if there is none.
    patterns: Vec<String>,
}

/// A shared library that is built beside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The source, relative to `corpus/`.
    pub source: PathBuf,
    /// The file name, `libNAME.so`.
    pub file: String,
    /// Linked, rather than opened at run time.
    pub linked: bool,
}

impl Program {
    /// Reads the directives of one source file.
    pub fn parse(list: List, source: &Path, text: &str) -> Result<Self> {
        let name = source
            .file_stem()
            .and_then(|stem| stem.to_str())
            .context("a program needs a file name in plain letters")?;
        let mut program = Self {
            name: name.to_owned(),
            source: source.to_owned(),
            variants: Vec::new(),
            full: Vec::new(),
            after_build: None,
            allows: Vec::new(),
            doubts: Vec::new(),
            flags: Vec::new(),
            libraries: Vec::new(),
            claims: Claims::new(list),
        };
        claims::directives(text, |key, value| program.directive(key, value))?;
        ensure!(
            !program.variants.is_empty() || !program.full.is_empty(),
            "no `build` directive, and no `full` one"
        );
        program.claims.check()?;
        Ok(program)
    }

    fn directive(&mut self, key: &str, value: &str) -> Result<()> {
        let words = value.split_whitespace();
        match key {
            "build" => {
                for word in words {
                    self.variants.push(Variant::parse(word)?);
                }
            }
            "full" => {
                for word in words {
                    self.full.push(Variant::parse(word)?);
                }
            }
            "flags" => self.flags.extend(words.map(str::to_owned)),
            "after-build" => self.after_build = Some(Change::parse(value.trim())?),
            "allow" if self.claims.list == List::Never => {
                self.allows.push(Allowance::parse(value)?);
            }
            "doubt" => self.doubts = patterns(value.split_whitespace())?,
            "lib" => self.libraries.push(Library::parse(value)?),
            _ => ensure!(
                self.claims.take(key, value)?,
                "`{key}` is no directive of this list (build, full, flags, lib, after-build, doubt, {})",
                self.claims.known()
            ),
        }
        Ok(())
    }

    /// What it is written in.
    pub fn language(&self) -> Language {
        match self.source.extension().and_then(|end| end.to_str()) {
            Some("cc") => Language::Cpp,
            Some("rs") => Language::Rust,
            Some("go") => Language::Go,
            _ => Language::C,
        }
    }

    /// Whether a race in this variant may be only possibly atomic: there are no types, or the
    /// source does not tell there.
    pub fn is_doubtful(&self, variant: &Variant) -> bool {
        let here = |pattern: &String| variant::fits(pattern, variant);
        variant.is_scant() || self.doubts.iter().any(here)
    }

    /// Whether a never program may be reported as `class` in this variant. Without debug
    /// information nothing tells a relaxed atomic access from a plain one.
    pub fn tolerates(&self, class: Class, variant: &Variant) -> bool {
        let unsure = variant.is_scant() && class == Class::PossiblyAtomic;
        unsure || self.allows.iter().any(|one| one.covers(class, variant))
    }
}

impl Change {
    fn parse(value: &str) -> Result<Self> {
        match value.split_once(' ') {
            None if value == "remove" => Ok(Self::Remove),
            None if value == "touch" => Ok(Self::Touch),
            Some(("sed", script)) => Ok(Self::Edit(script.trim().to_owned())),
            _ => bail!("`after-build` takes `sed SCRIPT`, `remove` or `touch`"),
        }
    }
}

impl Allowance {
    fn parse(value: &str) -> Result<Self> {
        let mut words = value.split_whitespace();
        let class = words.next().context("`allow` names a class")?;
        ensure!(
            class == word(Class::PossiblyAtomic) || class == word(Class::Special),
            "`{class}` cannot be allowed: only possibly-atomic and special can"
        );
        let patterns: Vec<_> = match words.next() {
            None => Vec::new(),
            Some("in") => patterns(words)?,
            Some(_) => bail!("`allow` takes `CLASS` or `CLASS in VARIANTS`"),
        };
        Ok(Self {
            class: class.to_owned(),
            patterns,
        })
    }

    fn covers(&self, class: Class, variant: &Variant) -> bool {
        let anywhere = self.patterns.is_empty();
        let here = |pattern: &String| variant::fits(pattern, variant);
        self.class == word(class) && (anywhere || self.patterns.iter().any(here))
    }
}

/// Patterns of variants.
fn patterns<'w>(words: impl Iterator<Item = &'w str>) -> Result<Vec<String>> {
    let known = |word: &str| variant::check_pattern(word).map(|()| word.to_owned());
    words.map(known).collect()
}

impl Library {
    fn parse(value: &str) -> Result<Self> {
        let words: Vec<_> = value.split_whitespace().collect();
        let [source, "as", file, how @ ("linked" | "dlopen")] = words[..] else {
            bail!("`lib` takes `SOURCE as libNAME.so linked|dlopen`");
        };
        ensure!(
            file.starts_with("lib") && file.ends_with(".so"),
            "`{file}` is not of the form libNAME.so"
        );
        Ok(Self {
            source: source.into(),
            file: file.to_owned(),
            linked: how == "linked",
        })
    }
}

/// Reads all programs of a corpus folder that lies below `root`, sorted by name.
pub fn read_all(root: &Path, corpus: &Path) -> Result<Vec<Program>> {
    let sources = claims::sources(root, corpus, &["c", "cc", "rs", "go"])?;
    let parsed = sources.iter().map(|source| {
        Program::parse(source.list, &source.path, &source.text)
            .map_err(|error| anyhow!("{}: {error:#}", source.path.display()))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    fn expected(text: &str) -> Result<Program> {
        Program::parse(List::Expected, Path::new("corpus/expected/k.c"), text)
    }

    fn error(list: List, text: &str) -> String {
        let parsed = Program::parse(list, Path::new("k.c"), text);
        format!("{:#}", parsed.expect_err("the directives are wrong"))
    }

    #[test]
    fn an_expected_program() {
        let program = expected(
            "// prose: that looks like a directive\n\
             //@ build: O0 O2+stripped+nopie\n\
             //@ flags: -fopenmp -lm\n\
             //@ lib: lib/tally.c as libtally.so dlopen\n\
             //@ expect: what=st.flags functions=set,~copy\n\
             //@ silent: what=guarded\n\
             int main(void) {}\n",
        )
        .unwrap();
        assert_eq!(program.name, "k");
        assert_eq!(program.variants[1].name, "O2+stripped+nopie");
        assert_eq!(program.variants[1].level, '2');
        assert!(program.variants[1].is_stripped() && !program.variants[0].is_stripped());
        assert_eq!(program.flags, ["-fopenmp", "-lm"]);
        assert_eq!(program.libraries[0].file, "libtally.so");
        assert!(!program.libraries[0].linked);
        assert_eq!(program.claims.silent, ["guarded"]);
        let expectation = &program.claims.expects[0];
        assert_eq!(expectation.what.as_deref(), Some("st.flags"));
        assert!(!expectation.functions[0].anywhere);
        assert_eq!(expectation.functions[1].name, "copy");
        assert!(expectation.functions[1].anywhere);
    }

    #[test]
    fn one_sided_expectations() {
        let program = expected(
            "//@ build: O0\n\
             //@ expect: origin=unknown what=* functions=step\n\
             //@ expect: what=buffer functions=use system_call=read\n",
        )
        .unwrap();
        assert!(program.claims.expects[0].unknown_origin);
        assert_eq!(program.claims.expects[0].what, None);
        assert_eq!(
            program.claims.expects[1].system_call.as_deref(),
            Some("read")
        );
    }

    #[test]
    fn mistakes_are_named() {
        let misspelt = error(
            List::Expected,
            "//@ build: O0\n//@ expct: what=* functions=a,b\n",
        );
        assert!(misspelt.contains("line 2") && misspelt.contains("`expct` is no directive"));
        let level = error(List::Expected, "//@ build: static\n");
        assert!(level.contains("names no optimisation level"));
        let twice = error(List::Expected, "//@ build: O0+O2\n");
        assert!(twice.contains("`O2` in `O0+O2` contradicts"));
        let one = error(
            List::Expected,
            "//@ build: O0\n//@ expect: what=x functions=a\n",
        );
        assert!(one.contains("two functions are needed"));
        let nothing = error(List::Expected, "//@ build: O0\n//@ expect: functions=a,b\n");
        assert!(nothing.contains("say what is raced on"));
        let other_list = error(
            List::Never,
            "//@ build: O0\n//@ expect: what=x functions=a,b\n",
        );
        assert!(other_list.contains("`expect` is no directive of this list"));
        let no_focus = error(
            List::Never,
            "//@ build: O0\n//@ twin-expect: what=x functions=a,b\n",
        );
        assert!(no_focus.contains("no `focus`"));
    }

    #[test]
    fn builds_that_tell_too_little() {
        let text = "//@ build: O2 O2+g1 O2+clang\n//@ full: O3+clang\n//@ doubt: O2+clang\n\
                    //@ expect: what=x functions=a,b\n";
        let program = Program::parse(List::Expected, Path::new("k.c"), text).unwrap();
        let variants = program.variants.iter().chain(&program.full);
        let doubtful: Vec<_> = variants.map(|one| program.is_doubtful(one)).collect();
        assert_eq!(doubtful, [false, true, true, false]);
        assert!(error(List::Expected, "//@ doubt: clang\n").contains("no variant"));
    }

    #[test]
    fn what_a_never_program_may_be_reported_as() {
        let text = "//@ build: O2 O2+g1 O2+clang\n//@ full: O3\n\
                    //@ allow: possibly-atomic in *+clang\n\
                    //@ focus: f\n//@ twin-expect: what=x functions=f,f\n";
        let program = Program::parse(List::Never, Path::new("k.c"), text).unwrap();
        let tolerates = |class| -> Vec<bool> {
            let variants = program.variants.iter().chain(&program.full);
            variants.map(|one| program.tolerates(class, one)).collect()
        };
        assert_eq!(
            tolerates(Class::PossiblyAtomic),
            [false, true, true, false],
            "g1 knows no types, and clang is allowed it"
        );
        assert_eq!(tolerates(Class::Race), [false; 4]);
        let race = error(List::Never, "//@ allow: race\n");
        assert!(race.contains("cannot be allowed"), "{race}");
    }

    #[test]
    fn a_source_can_change_after_the_build() {
        let parsed = |words: &str| {
            let text = format!(
                "//@ build: O0\n//@ expect: what=x functions=f,f\n//@ after-build: {words}\n"
            );
            expected(&text).map(|program| program.after_build)
        };
        assert_eq!(parsed("remove").unwrap(), Some(Change::Remove));
        assert_eq!(parsed("touch").unwrap(), Some(Change::Touch));
        assert_eq!(
            parsed("sed s/a b/c/").unwrap(),
            Some(Change::Edit("s/a b/c/".to_owned()))
        );
        assert!(parsed("rename").is_err());
    }

    #[test]
    fn every_program_of_the_corpus_is_well_formed() {
        let programs = read_all(paths::root(), Path::new("corpus")).unwrap();
        for name in [
            "bitfields",
            "two_mappings",
            "static_mut",
            "spinlock",
            "extract",
        ] {
            assert!(
                programs.iter().any(|program| program.name == name),
                "{name} is missing"
            );
        }
    }

    #[test]
    fn the_programs_that_test_a_heuristic_exist() {
        let programs = read_all(paths::root(), Path::new("corpus")).unwrap();
        let text = std::fs::read_to_string(paths::root().join("docs/evidence.md")).unwrap();
        let (_, table) = text.split_once("### Their tests\n").unwrap();
        let (table, _) = table.split_once("\n### ").unwrap();
        let mut named = 0;
        for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<&str> = row.split('|').collect();
            for (list, cell) in [(List::Never, cells[2]), (List::Expected, cells[3])] {
                // The build that matters follows in brackets.
                let cell = cell.replace("(`lines`)", "").replace("(`split`)", "");
                for name in cell.split('`').skip(1).step_by(2) {
                    let is_it = |one: &Program| one.name == name && one.claims.list == list;
                    assert!(programs.iter().any(is_it), "{name}, in {row}");
                    named += 1;
                }
            }
        }
        assert!(named > 20);
    }
}
