//! An access kernel: a small program whose first lines say how it is built and
//! what Redhanded must, and must not, report about it. The grammar is described
//! in `docs/corpus.md`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// Which list a kernel is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Its races must be found.
    Expected,
    /// Nothing may be reported; its twin's races must be found.
    Never,
}

/// One kernel with its directives.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// File name without extension.
    pub name: String,
    /// Which list it is on.
    pub list: List,
    /// The source, relative to the repository's root.
    pub source: PathBuf,
    /// Ways to build it.
    pub variants: Vec<Variant>,
    /// More words for the compiler.
    pub flags: Vec<String>,
    /// Shared libraries it needs.
    pub libraries: Vec<Library>,
    /// What must be reported: about the kernel if expected, about its twin if never.
    pub expects: Vec<Expectation>,
    /// What must not be reported, beside an expected race.
    pub silent: Vec<String>,
    /// Functions whose accesses are to the guarded memory.
    pub focus: Vec<String>,
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

/// One race that must be in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Beginning of the variable with its field path; `None` for anything.
    pub what: Option<String>,
    /// A word of the region it lies in: `heap`, `stack`, `shared`.
    pub region: Option<String>,
    /// The functions of the accesses, in either order.
    pub functions: Vec<FunctionName>,
    /// Whether the other side is unknown.
    pub unknown_origin: bool,
    /// The system call of the other side.
    pub system_call: Option<String>,
}

/// A function that an access must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Its last path segment, without arguments.
    pub name: String,
    /// Whether it may be anywhere on the stack (`~name`), as a caller of memcpy is.
    pub anywhere: bool,
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
            list,
            source: source.to_owned(),
            variants: Vec::new(),
            flags: Vec::new(),
            libraries: Vec::new(),
            expects: Vec::new(),
            silent: Vec::new(),
            focus: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            if let Some(directive) = line.strip_prefix("//@") {
                kernel
                    .directive(directive.trim())
                    .with_context(|| format!("line {}: `{line}`", index + 1))?;
            }
        }
        kernel.check()?;
        Ok(kernel)
    }

    fn directive(&mut self, directive: &str) -> Result<()> {
        let (key, value) = directive
            .split_once(':')
            .context("a directive is written `key: value`")?;
        let words = value.split_whitespace();
        match (key, self.list) {
            ("build", _) => {
                for word in words {
                    self.variants.push(Variant::parse(word)?);
                }
            }
            ("flags", _) => self.flags.extend(words.map(str::to_owned)),
            ("lib", _) => self.libraries.push(Library::parse(value)?),
            ("expect", List::Expected) | ("twin-expect", List::Never) => {
                self.expects.push(Expectation::parse(value)?);
            }
            ("silent", List::Expected) => {
                let what = value.trim().strip_prefix("what=");
                self.silent
                    .push(what.context("`silent` takes `what=NAME`")?.to_owned());
            }
            ("focus", List::Never) => self.focus.extend(words.map(str::to_owned)),
            (_, List::Expected) => bail!(
                "`{key}` is no directive of an expected kernel (build, flags, lib, expect, silent)"
            ),
            (_, List::Never) => bail!(
                "`{key}` is no directive of a never kernel (build, flags, lib, focus, twin-expect)"
            ),
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.variants.is_empty(), "no `build` directive");
        match self.list {
            List::Expected => ensure!(!self.expects.is_empty(), "no `expect` directive"),
            List::Never => {
                ensure!(!self.expects.is_empty(), "no `twin-expect` directive");
                ensure!(!self.focus.is_empty(), "no `focus` directive");
            }
        }
        Ok(())
    }

    /// Whether it is written in Rust.
    pub fn is_rust(&self) -> bool {
        self.source.extension().is_some_and(|end| end == "rs")
    }

    /// Functions to sample in the twin: the guarded ones, and those of its races.
    pub fn twin_focus(&self) -> Vec<String> {
        let mut focus = self.focus.clone();
        for expectation in &self.expects {
            for function in &expectation.functions {
                if !focus.contains(&function.name) {
                    focus.push(function.name.clone());
                }
            }
        }
        focus
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

impl Expectation {
    fn parse(value: &str) -> Result<Self> {
        let mut what = None;
        let mut expectation = Self {
            what: None,
            region: None,
            functions: Vec::new(),
            unknown_origin: false,
            system_call: None,
        };
        for word in value.split_whitespace() {
            match word.split_once('=') {
                Some(("what", name)) => what = Some(name),
                Some(("functions", names)) => {
                    expectation.functions = names.split(',').map(FunctionName::parse).collect();
                }
                Some(("region", word)) => expectation.region = Some(word.to_owned()),
                Some(("origin", "unknown")) => expectation.unknown_origin = true,
                Some(("system_call", name)) => expectation.system_call = Some(name.to_owned()),
                _ => bail!(
                    "`{word}` is none of what=, region=, functions=, origin=unknown, system_call="
                ),
            }
        }
        expectation.what = match what {
            Some("*") => None,
            Some(name) => Some(name.to_owned()),
            None => bail!("say what is raced on: what=NAME, or what=* for memory without a name"),
        };
        let one_sided = expectation.unknown_origin || expectation.system_call.is_some();
        ensure!(
            expectation.functions.len() == if one_sided { 1 } else { 2 },
            "two functions are needed, or one where the other side is unknown or a system call"
        );
        Ok(expectation)
    }
}

/// As it is written in a directive.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unknown_origin {
            f.write_str("origin=unknown ")?;
        }
        write!(f, "what={}", self.what.as_deref().unwrap_or("*"))?;
        if let Some(region) = &self.region {
            write!(f, " region={region}")?;
        }
        for (index, function) in self.functions.iter().enumerate() {
            f.write_str(if index == 0 { " functions=" } else { "," })?;
            f.write_str(if function.anywhere { "~" } else { "" })?;
            f.write_str(&function.name)?;
        }
        match &self.system_call {
            Some(call) => write!(f, " system_call={call}"),
            None => Ok(()),
        }
    }
}

impl FunctionName {
    fn parse(word: &str) -> Self {
        let (name, anywhere) = match word.strip_prefix('~') {
            Some(name) => (name, true),
            None => (word, false),
        };
        Self {
            name: name.to_owned(),
            anywhere,
        }
    }
}

/// Reads all kernels of a corpus folder that lies below `root`, sorted by name.
pub fn read_all(root: &Path, corpus: &Path) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for (list, folder) in [(List::Expected, "expected"), (List::Never, "never")] {
        let folder = corpus.join(folder);
        let entries = fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let source = folder.join(entry?.file_name());
            let known = ["c", "cc", "rs"];
            if !source
                .extension()
                .is_some_and(|end| known.iter().any(|k| end == *k))
            {
                continue;
            }
            let text = fs::read_to_string(root.join(&source))
                .with_context(|| format!("cannot read {}", source.display()))?;
            let kernel = Kernel::parse(list, &source, &text)
                .map_err(|error| anyhow!("{}: {error:#}", source.display()))?;
            kernels.push(kernel);
        }
    }
    kernels.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(kernels)
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
        assert_eq!(kernel.silent, ["guarded"]);
        let expectation = &kernel.expects[0];
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
        assert!(kernel.expects[0].unknown_origin);
        assert_eq!(kernel.expects[0].what, None);
        assert_eq!(kernel.expects[1].system_call.as_deref(), Some("read"));
        assert_eq!(
            kernel.expects[0].to_string(),
            "origin=unknown what=* functions=step"
        );
        assert_eq!(
            kernel.expects[1].to_string(),
            "what=buffer functions=use system_call=read"
        );
    }

    #[test]
    fn a_twin_is_sampled_where_its_races_are() {
        let kernel = Kernel::parse(
            List::Never,
            Path::new("k.c"),
            "//@ build: O0\n//@ focus: bump\n//@ twin-expect: what=n functions=bump,look\n",
        )
        .unwrap();
        assert_eq!(kernel.twin_focus(), ["bump", "look"]);
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
        assert!(other_list.contains("`expect` is no directive of a never kernel"));
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
