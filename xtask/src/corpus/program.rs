//! A program of the corpus: its first lines say how it is built, and what Redhanded
//! must and must not report about it. `docs/corpus.md` describes the grammar.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::claims::{self, Claims, List};

/// A program with its directives.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    /// The source, relative to the repository's root.
    pub source: PathBuf,
    /// The ways to build it.
    pub variants: Vec<Variant>,
    /// More words for the compiler.
    pub flags: Vec<String>,
    /// The shared libraries it needs.
    pub libraries: Vec<Library>,
    /// What must be reported, and what must not.
    pub claims: Claims,
}

/// One way to build a program, e.g. `O2+stripped+nopie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// As written in the directive.
    pub name: String,
    /// The digit of the optimisation level.
    pub level: char,
    /// Linked statically.
    pub fixed: bool,
    /// Linked statically, but position-independent.
    pub fixed_pie: bool,
    /// Not position-independent.
    pub nopie: bool,
    /// Without symbols and debug information.
    pub stripped: bool,
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
            flags: Vec::new(),
            libraries: Vec::new(),
            claims: Claims::new(list),
        };
        claims::directives(text, |key, value| program.directive(key, value))?;
        ensure!(!program.variants.is_empty(), "no `build` directive");
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
            "flags" => self.flags.extend(words.map(str::to_owned)),
            "lib" => self.libraries.push(Library::parse(value)?),
            _ => ensure!(
                self.claims.take(key, value)?,
                "`{key}` is no directive of this list (build, flags, lib, {})",
                self.claims.known()
            ),
        }
        Ok(())
    }

    /// Whether it is written in Rust.
    pub fn is_rust(&self) -> bool {
        self.source.extension().is_some_and(|end| end == "rs")
    }
}

impl Variant {
    fn parse(word: &str) -> Result<Self> {
        let mut variant = Self {
            name: word.to_owned(),
            level: ' ',
            fixed: false,
            fixed_pie: false,
            nopie: false,
            stripped: false,
        };
        for flag in word.split('+') {
            match flag {
                "O0" | "O1" | "O2" | "O3" if variant.level == ' ' => {
                    variant.level = flag.chars().nth(1).unwrap_or('0');
                }
                "static" => variant.fixed = true,
                "static-pie" => variant.fixed_pie = true,
                "nopie" => variant.nopie = true,
                "stripped" => variant.stripped = true,
                _ => {
                    bail!(
                        "`{flag}` in `{word}` is none of O0..O3 (once), static, static-pie, nopie, stripped"
                    )
                }
            }
        }
        ensure!(variant.level != ' ', "`{word}` names no optimisation level");
        ensure!(
            !(variant.fixed_pie && (variant.fixed || variant.nopie)),
            "`{word}` is position-independent and not"
        );
        Ok(variant)
    }
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
    let sources = claims::sources(root, corpus, &["c", "cc", "rs"])?;
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
        assert!(program.variants[1].stripped && program.variants[1].nopie);
        assert!(!program.variants[1].fixed && !program.variants[0].stripped);
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
        assert!(twice.contains("`O2` in `O0+O2`"));
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
}
