//! The ways to build a program, as the `build` and `full` directives name them.

use anyhow::{Result, bail, ensure};

/// One way to build a program, e.g. `O2+clang+stripped`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// As written in the directive.
    pub name: String,
    /// What follows `-O`: a digit or `s`.
    pub level: char,
    /// Compiled by clang instead of gcc.
    pub clang: bool,
    /// Linked against musl instead of glibc.
    pub musl: bool,
    /// Optimised across files at link time.
    pub lto: bool,
    /// How addresses are bound.
    pub linkage: Linkage,
    /// How much debug information there is.
    pub debug: Debug,
    /// Its version, if not the compiler's own.
    pub dwarf: Option<char>,
    /// Where it is.
    pub place: Place,
}

/// How addresses are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// At random addresses, with shared libraries.
    Pie,
    /// At fixed addresses, with shared libraries.
    NoPie,
    /// At fixed addresses, with everything in one file.
    Static,
    /// The same at random addresses.
    StaticPie,
}

/// How much debug information a compiler writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// None; the symbols are there.
    None,
    /// Lines and inlined functions.
    Lines,
    /// Functions as well, but neither variables nor types (`-g1`).
    Limited,
    /// Everything but macros.
    Full,
    /// Macros too (`-g3`).
    Macros,
}

/// Where the debug information is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the program.
    Inside,
    /// In a `.dwo` file for each object file.
    Split,
    /// In a separate file that the stripped program links to.
    Separate,
    /// Nowhere: neither symbols nor debug information are left.
    Stripped,
}

impl Variant {
    /// Reads one word of the directive.
    pub fn parse(word: &str) -> Result<Self> {
        let mut variant = Self {
            name: word.to_owned(),
            level: ' ',
            clang: false,
            musl: false,
            lto: false,
            linkage: Linkage::Pie,
            debug: Debug::Full,
            dwarf: None,
            place: Place::Inside,
        };
        let mut seen = Vec::new();
        for flag in word.split('+') {
            let kind = variant.take(flag).ok_or_else(|| unknown(flag, word))?;
            ensure!(
                !seen.contains(&kind),
                "`{flag}` in `{word}` contradicts or repeats another word"
            );
            seen.push(kind);
        }
        ensure!(variant.level != ' ', "`{word}` names no optimisation level");
        ensure!(
            !variant.clang || !variant.musl,
            "`{word}`: there is no clang for musl, only musl-gcc"
        );
        Ok(variant)
    }

    /// Takes a flag and says which choice it makes; each choice is made once.
    fn take(&mut self, flag: &str) -> Option<&'static str> {
        let (linkage, debug, place) = (self.linkage, self.debug, self.place);
        self.linkage = match flag {
            "nopie" => Linkage::NoPie,
            "static" => Linkage::Static,
            "static-pie" => Linkage::StaticPie,
            _ => linkage,
        };
        self.debug = match flag {
            "nodebug" => Debug::None,
            "lines" => Debug::Lines,
            "g1" => Debug::Limited,
            "g3" => Debug::Macros,
            _ => debug,
        };
        self.place = match flag {
            "split" => Place::Split,
            "debugfile" => Place::Separate,
            "stripped" => Place::Stripped,
            _ => place,
        };
        match flag {
            "O0" | "O1" | "O2" | "O3" | "Os" => {
                self.level = flag.chars().nth(1)?;
                Some("level")
            }
            "clang" => {
                self.clang = true;
                Some("compiler")
            }
            "musl" => {
                self.musl = true;
                Some("library")
            }
            "lto" => {
                self.lto = true;
                Some("lto")
            }
            "dwarf4" | "dwarf5" => {
                self.dwarf = flag.chars().last();
                Some("version")
            }
            _ if self.linkage != linkage => Some("linkage"),
            _ if self.debug != debug => Some("debug"),
            _ if self.place != place => Some("place"),
            _ => None,
        }
    }

    /// Without symbols and debug information.
    pub fn is_stripped(&self) -> bool {
        self.place == Place::Stripped
    }

    /// Whether variables and their types are not described, or where Redhanded does not
    /// look. A relaxed atomic access then looks like a plain one.
    pub fn is_scant(&self) -> bool {
        let inside = matches!(self.place, Place::Inside | Place::Separate);
        !inside || !matches!(self.debug, Debug::Full | Debug::Macros)
    }
}

fn unknown(flag: &str, word: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "`{flag}` in `{word}` is none of O0..O3, Os, clang, musl, lto, static, static-pie, nopie, \
         nodebug, lines, g1, g3, dwarf4, dwarf5, split, debugfile, stripped, or it contradicts \
         another word"
    )
}

/// Whether a word of a directive is a pattern that fits this variant: the variant's name,
/// or one of its words after a `*+`.
pub fn fits(pattern: &str, variant: &Variant) -> bool {
    match pattern.strip_prefix("*+") {
        Some(wanted) => variant.name.split('+').any(|word| word == wanted),
        None => pattern == variant.name,
    }
}

/// Fails unless `pattern` is one that [`fits`] understands.
pub fn check_pattern(pattern: &str) -> Result<()> {
    let variant = match pattern.strip_prefix("*+") {
        Some(word) => format!("O2+{word}"),
        None => pattern.to_owned(),
    };
    if pattern.starts_with("*+O") {
        return Ok(());
    }
    match Variant::parse(&variant) {
        Ok(_) => Ok(()),
        Err(error) => bail!("`{pattern}` is no variant and no `*+WORD`: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_a_variant() {
        let all = Variant::parse("Os+clang+lto+static-pie+lines+dwarf4+stripped").unwrap();
        assert_eq!((all.level, all.dwarf), ('s', Some('4')));
        assert!(all.clang && all.lto && all.is_stripped() && all.is_scant());
        assert_eq!(all.linkage, Linkage::StaticPie);
        assert_eq!(all.debug, Debug::Lines);
        for (word, scant) in [
            ("O0", false),
            ("O2+g3", false),
            ("O2+split", true),
            ("O2+debugfile", false),
            ("O2+g1", true),
            ("O2+nodebug", true),
            ("O2+lines", true),
        ] {
            let variant = Variant::parse(word).unwrap();
            assert_eq!(variant.is_scant(), scant, "{word}");
            assert!(!variant.is_stripped());
        }
    }

    #[test]
    fn words_that_contradict_each_other_are_an_error() {
        for wrong in [
            "static",
            "O0+O2",
            "O2+static+nopie",
            "O2+g1+g3",
            "O2+split+stripped",
            "O2+dwarf4+dwarf5",
            "O2+clang+musl",
            "O2+fast",
        ] {
            assert!(Variant::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_names_a_variant_or_a_word_of_it() {
        let variant = Variant::parse("O2+clang+g1").unwrap();
        assert!(fits("*+g1", &variant) && fits("O2+clang+g1", &variant));
        assert!(fits("*+O2", &variant));
        assert!(!fits("O2", &variant) && !fits("*+g", &variant));
        assert!(check_pattern("*+g1").is_ok() && check_pattern("*+O2").is_ok());
        assert!(check_pattern("*+g7").is_err() && check_pattern("*").is_err());
    }
}
