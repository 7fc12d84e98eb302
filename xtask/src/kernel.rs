//! An access kernel: a small program whose first lines say how it is built and
//! what Redhanded must, and must not, report about it. The grammar is described
//! in `docs/corpus.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::claims::{self, Claims, List};

/// One kernel with its directives.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// File name without extension.
    pub name: String,
    /// The source, relative to the repository's root.
    pub source: PathBuf,
    /// Ways to build it.
    pub variants: Vec<Variant>,
    /// More words for the compiler.
    pub flags: Vec<String>,
    /// Shared libraries it needs.
    pub libraries: Vec<Library>,
    /// What must be reported, and what must not.
    pub claims: Claims,
}

/// One way to build a kernel, e.g. `O2+stripped+nopie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// As written in the directive.
    pub name: String,
    /// The digit of the optimisation level.
    pub level: char,
    /// Linked statically.
    pub fixed: bool,
    /// Linked statically and yet position-independent.
    pub fixed_pie: bool,
    /// Not position-independent.
    pub nopie: bool,
    /// Without symbols and debug information.
    pub stripped: bool,
}

/// A shared library that is built beside the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The source, relative to `corpus/`.
    pub source: PathBuf,
    /// The file name, `libNAME.so`.
    pub file: String,
    /// Linked, rather than opened at run time.
    pub linked: bool,
}

impl Kernel {
    /// Reads the directives of one source file.
    pub fn parse(list: List, source: &Path, text: &str) -> Result<Self> {
        let name = source
            .file_stem()
            .and_then(|stem| stem.to_str())
            .context("a kernel needs a file name in plain letters")?;
        let mut kernel = Self {
            name: name.to_owned(),
            source: source.to_owned(),
            variants: Vec::new(),
            flags: Vec::new(),
            libraries: Vec::new(),
            claims: Claims::new(list),
        };
        claims::directives(text, |key, value| kernel.directive(key, value))?;
        ensure!(!kernel.variants.is_empty(), "no `build` directive");
        kernel.claims.check()?;
        Ok(kernel)
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

/// Reads all kernels of a corpus folder that lies below `root`, sorted by name.
pub fn read_all(root: &Path, corpus: &Path) -> Result<Vec<Kernel>> {
    let sources = claims::sources(root, corpus, &["c", "cc", "rs"])?;
    let parsed = sources.iter().map(|source| {
        Kernel::parse(source.list, &source.path, &source.text)
            .map_err(|error| anyhow!("{}: {error:#}", source.path.display()))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place;

    fn expected(text: &str) -> Result<Kernel> {
        Kernel::parse(List::Expected, Path::new("corpus/expected/k.c"), text)
    }

    fn error(list: List, text: &str) -> String {
        let parsed = Kernel::parse(list, Path::new("k.c"), text);
        format!("{:#}", parsed.expect_err("the directives are wrong"))
    }

    #[test]
    fn an_expected_kernel() {
        let kernel = expected(
            "// prose: that looks like a directive\n\
             //@ build: O0 O2+stripped+nopie\n\
             //@ flags: -fopenmp -lm\n\
             //@ lib: lib/tally.c as libtally.so dlopen\n\
             //@ expect: what=st.flags functions=set,~copy\n\
             //@ silent: what=guarded\n\
             int main(void) {}\n",
        )
        .unwrap();
        assert_eq!(kernel.name, "k");
        assert_eq!(kernel.variants[1].name, "O2+stripped+nopie");
        assert_eq!(kernel.variants[1].level, '2');
        assert!(kernel.variants[1].stripped && kernel.variants[1].nopie);
        assert!(!kernel.variants[1].fixed && !kernel.variants[0].stripped);
        assert_eq!(kernel.flags, ["-fopenmp", "-lm"]);
        assert_eq!(kernel.libraries[0].file, "libtally.so");
        assert!(!kernel.libraries[0].linked);
        assert_eq!(kernel.claims.silent, ["guarded"]);
        let expectation = &kernel.claims.expects[0];
        assert_eq!(expectation.what.as_deref(), Some("st.flags"));
        assert!(!expectation.functions[0].anywhere);
        assert_eq!(expectation.functions[1].name, "copy");
        assert!(expectation.functions[1].anywhere);
    }

    #[test]
    fn one_sided_expectations() {
        let kernel = expected(
            "//@ build: O0\n\
             //@ expect: origin=unknown what=* functions=step\n\
             //@ expect: what=buffer functions=use system_call=read\n",
        )
        .unwrap();
        assert!(kernel.claims.expects[0].unknown_origin);
        assert_eq!(kernel.claims.expects[0].what, None);
        assert_eq!(
            kernel.claims.expects[1].system_call.as_deref(),
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
    fn every_kernel_of_the_corpus_is_well_formed() {
        let kernels = read_all(place::root(), Path::new("corpus")).unwrap();
        for name in [
            "bitfields",
            "two_mappings",
            "static_mut",
            "spinlock",
            "extract",
        ] {
            assert!(
                kernels.iter().any(|kernel| kernel.name == name),
                "{name} is missing"
            );
        }
    }
}
