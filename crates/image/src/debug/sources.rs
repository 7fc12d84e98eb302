//! The source files that debug information names, read and parsed once, and what is known
//! about units.

use super::expression::walk::TextMarking;
use super::files::is_of_system;
use super::locate::DebugSearch;
use super::names;
use super::origin::SourcePosition;
use super::program::{Die, Program};
use super::scope::{Names, Scope};
use super::text::conditions::Condition;
use super::text::lexer::{Token, tokens};
use super::text::macros::{Directives, Macros};
use super::text::regions::SourceFile;
use super::text::rust::RustFile;
use super::types::{Spelling, is_standard_atomic};
use super::words::{self, Function};
use gimli::{UnitOffset, constants as dw};
use redhanded_model::{Doubt, Expression, Marking, SourceEvidence, Svma};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;
use tree_sitter::Language;

/// How many files are searched for macros.
const MAX_INCLUDED: usize = 4096;
/// Larger files are not parsed: they are generated.
const LARGEST: usize = 4 << 20;

/// A file, if it could be parsed.
type Parsed = Option<Arc<SourceFile>>;
/// The statement at these bytes of a file, seen from a function.
type StatementKey = (PathBuf, usize, Option<UnitOffset>);
/// The accesses of a statement.
type Statement = Arc<Vec<super::expression::walk::Candidate>>;

/// All that was read so far.
#[derive(Default)]
pub(super) struct Judge {
    /// Where sources are.
    search: DebugSearch,
    functions: Mutex<HashMap<String, Function>>,
    texts: Mutex<HashMap<PathBuf, Option<Arc<FileText>>>>,
    parsed: Mutex<HashMap<(PathBuf, bool), Parsed>>,
    directives: Mutex<HashMap<PathBuf, Option<Arc<Directives>>>>,
    rust: Mutex<HashMap<PathBuf, Option<Arc<RustFile>>>>,
    units: Mutex<HashMap<u32, Arc<UnitFacts>>>,
    pub(super) statements: Mutex<HashMap<StatementKey, Statement>>,
}

/// A file and its MD5 sum.
struct FileText {
    text: String,
    sum: [u8; 16],
    /// Whether it was at hand, so that no file has an age to go by.
    carried: bool,
    /// Whether a `#line` gives its lines other numbers than they have.
    renumbered: bool,
}

/// What the rules need to know about a unit.
pub(super) struct UnitFacts {
    files: Vec<(PathBuf, Option<[u8; 16]>)>,
    /// Whether its types omit C's `_Atomic`, as before DWARF 5.
    pub(super) omits_atomic: bool,
    pub(super) scope: Scope,
    exact: Option<Macros>,
    from_text: OnceLock<Macros>,
    locals: Mutex<HashMap<Die, Arc<Names>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn language(cpp: bool) -> Language {
    if cpp {
        tree_sitter_cpp::LANGUAGE.into()
    } else {
        tree_sitter_c::LANGUAGE.into()
    }
}

impl Judge {
    pub(super) fn new(search: DebugSearch) -> Self {
        Self {
            search,
            ..Self::default()
        }
    }

    /// What a function's name says.
    pub(super) fn function(&self, raw: &str) -> Function {
        let mut known = lock(&self.functions);
        if let Some(function) = known.get(raw) {
            return *function;
        }
        let function = words::function(&names::demangle(raw));
        known.insert(raw.to_owned(), function);
        function
    }

    /// What is known about a unit.
    pub(super) fn unit(&self, program: &Program<'_>, unit: u32) -> Arc<UnitFacts> {
        if let Some(facts) = lock(&self.units).get(&unit) {
            return Arc::clone(facts);
        }
        let facts = Arc::new(UnitFacts {
            files: program.files(unit),
            omits_atomic: program.unit_spelling(unit) == Some(Spelling::C)
                && program
                    .main_unit(unit)
                    .is_some_and(|(_, unit)| unit.header.version() < 5),
            scope: Scope::read(program, unit),
            exact: program.macros(unit).map(Macros::exact),
            from_text: OnceLock::new(),
            locals: Mutex::default(),
        });
        lock(&self.units).insert(unit, Arc::clone(&facts));
        facts
    }

    fn text(&self, path: &Path) -> Option<Arc<FileText>> {
        if let Some(text) = lock(&self.texts).get(path) {
            return text.clone();
        }
        let is_assembly = path
            .extension()
            .is_some_and(|is| ["s", "S", "asm"].iter().any(|of| is == *of));
        let text = (!is_assembly)
            .then(|| self.search.source(path))
            .flatten()
            .filter(|found| found.bytes.len() <= LARGEST)
            .map(|found| {
                let text = String::from_utf8_lossy(&found.bytes).into_owned();
                Arc::new(FileText {
                    sum: md5::compute(&found.bytes).0,
                    carried: found.carried,
                    renumbered: is_renumbered(path, &text),
                    text,
                })
            });
        lock(&self.texts).insert(path.to_owned(), text.clone());
        text
    }

    /// The file, if it is the one that was compiled as far as can be told: by its MD5 sum in
    /// the line table, else by its age.
    fn compiled(
        &self,
        path: &Path,
        facts: &UnitFacts,
        built: Option<SystemTime>,
    ) -> Result<Arc<FileText>, Doubt> {
        let text = self.text(path).ok_or(Doubt::NoSource)?;
        let sum = facts
            .files
            .iter()
            .find(|(file, _)| file == path)
            .and_then(|(_, sum)| *sum);
        let changed = match sum {
            Some(sum) => sum != text.sum,
            None if text.carried => false,
            None => built.is_some_and(|built| {
                std::fs::metadata(path)
                    .and_then(|about| about.modified())
                    .is_ok_and(|modified| modified > built)
            }),
        };
        if changed {
            return Err(Doubt::SourceChanged);
        }
        Ok(text)
    }

    /// A source of C or C++.
    pub(super) fn source(
        &self,
        path: &Path,
        cpp: bool,
        facts: &UnitFacts,
        built: Option<SystemTime>,
    ) -> Result<Arc<SourceFile>, Doubt> {
        let text = self.compiled(path, facts, built)?;
        if text.renumbered {
            return Err(Doubt::SourceChanged);
        }
        self.parsed(path, cpp, &text).ok_or(Doubt::NoSource)
    }

    fn parsed(&self, path: &Path, cpp: bool, text: &FileText) -> Option<Arc<SourceFile>> {
        let key = (path.to_owned(), cpp);
        if let Some(file) = lock(&self.parsed).get(&key) {
            return file.clone();
        }
        let file = SourceFile::read(&language(cpp), text.text.clone()).map(Arc::new);
        lock(&self.parsed).insert(key, file.clone());
        file
    }

    fn directives(&self, path: &Path) -> Option<Arc<Directives>> {
        if let Some(directives) = lock(&self.directives).get(path) {
            return directives.clone();
        }
        let directives = self
            .text(path)
            .map(|text| Arc::new(Directives::read(&text.text)));
        lock(&self.directives).insert(path.to_owned(), directives.clone());
        directives
    }

    /// Judges code of Rust none of whose frames is atomic: it is plain, unless it is
    /// assembly.
    pub(super) fn rust(
        &self,
        program: &Program<'_>,
        svma: Svma,
        place: &SourcePosition,
        built: Option<SystemTime>,
    ) -> SourceEvidence {
        let path = Path::new(&place.file);
        // The library's sources may have come with a later package.
        let built = built.filter(|_| !place.library);
        let facts = program.unit_at(svma).map(|unit| self.unit(program, unit));
        let mut evidence = SourceEvidence {
            marking: Marking::Plain,
            expression: None,
            declared: None,
            covers: None,
        };
        let doubt = match facts {
            None => Some(Doubt::NoDebugInformation),
            Some(facts) => match self.compiled(path, &facts, built) {
                // The library has assembly only in functions that make no shared access.
                Err(Doubt::NoSource) if place.library => None,
                Err(doubt) => Some(doubt),
                Ok(text) => match self.rust_file(path, &text) {
                    None => Some(Doubt::NoSource),
                    Some(file) => {
                        evidence.expression =
                            file.quote(place.line, place.column).map(|text| Expression {
                                text,
                                file: place.file.clone(),
                                line: place.line,
                                column: place.column,
                            });
                        file.doubt(place.line, place.column, &|name| {
                            self.rust_macros(&facts, name)
                        })
                    }
                },
            },
        };
        if let Some(why) = doubt {
            evidence.marking = Marking::Unknown { why };
        }
        evidence
    }

    /// The conditions around a position, innermost first.
    pub(super) fn conditions(
        &self,
        program: &Program<'_>,
        unit: u32,
        path: &Path,
        (line, column): (u32, Option<u32>),
    ) -> Vec<Condition> {
        let facts = self.unit(program, unit);
        let Ok(text) = self.compiled(path, &facts, None) else {
            return Vec::new();
        };
        let found = match program.unit_spelling(unit) {
            Some(Spelling::Rust) => self
                .rust_file(path, &text)
                .map(|file| file.conditions(line, column)),
            Some(spelling @ (Spelling::C | Spelling::Cpp)) => self
                .parsed(path, spelling == Spelling::Cpp, &text)
                .map(|file| file.conditions(line, column)),
            _ => None,
        };
        found.unwrap_or_default()
    }

    fn rust_file(&self, path: &Path, text: &FileText) -> Option<Arc<RustFile>> {
        if let Some(file) = lock(&self.rust).get(path) {
            return file.clone();
        }
        let file = RustFile::read(text.text.clone()).map(Arc::new);
        lock(&self.rust).insert(path.to_owned(), file.clone());
        file
    }

    fn rust_macros(&self, facts: &UnitFacts, name: &str) -> Vec<String> {
        facts
            .files
            .iter()
            .filter_map(|(path, _)| {
                let text = self.text(path)?;
                self.rust_file(path, &text)
            })
            .flat_map(|file| file.definitions(name))
            .collect()
    }

    /// What the text of a declaration says that DWARF before version 5 does not: whether it
    /// has `_Atomic`.
    pub(super) fn declared_as(
        &self,
        program: &Program<'_>,
        facts: &UnitFacts,
        die: Die,
        dereferenced: usize,
    ) -> TextMarking {
        let doubt = TextMarking::Unknown(Doubt::UnknownType);
        let mut die = die;
        let mut stars_wanted = dereferenced;
        for _ in 0..super::program::MAX_HOPS {
            let Some((path, line)) = program.declared(die) else {
                return doubt;
            };
            let Some(text) = self.text(&path) else {
                return doubt;
            };
            let Some(text) = self
                .parsed(&path, false, &text)
                .and_then(|file| file.declaration(line, program.name(die).as_deref()))
            else {
                return doubt;
            };
            let (words, unsure) = facts
                .macros(self)
                .expand(&tokens(&text, (1, 2)), &|_| false);
            if !unsure.is_empty() || !declares(&words, program.name(die)) {
                return doubt;
            }
            let stars = words
                .iter()
                .filter(|token| token.is("*") || token.is("["))
                .count();
            let atomic = |text: &str| text == "_Atomic" || is_standard_atomic(text);
            if words.iter().any(|token| atomic(&token.text)) {
                // The qualifier is that of what the declaration ends in.
                return if stars == stars_wanted {
                    TextMarking::Atomic("_Atomic".to_owned())
                } else {
                    doubt
                };
            }
            // Through typedefs: their text may have it.
            let mut next = program.link(die, dw::DW_AT_type);
            let typedef = loop {
                let Some(entry) = next.and_then(|next| program.entry(next)) else {
                    break None;
                };
                match entry.tag() {
                    dw::DW_TAG_typedef => break next,
                    dw::DW_TAG_pointer_type | dw::DW_TAG_array_type => {
                        stars_wanted = stars_wanted.saturating_sub(1);
                    }
                    dw::DW_TAG_const_type | dw::DW_TAG_volatile_type | dw::DW_TAG_restrict_type => {
                    }
                    // GCC makes a base type of a typedef that is `_Atomic`.
                    dw::DW_TAG_base_type => {
                        if !is_number(&next.and_then(|next| program.name(next)).unwrap_or_default())
                        {
                            return doubt;
                        }
                        break None;
                    }
                    _ => break None,
                }
                next = next.and_then(|next| program.link(next, dw::DW_AT_type));
            };
            // GCC leaves out a typedef along with the `_Atomic` in it, if there is also `const`.
            let written = program.name(die).and_then(|name| type_name(&words, &name));
            let described = typedef.and_then(|typedef| program.name(typedef));
            if written.is_some() && written != described.as_deref() {
                return doubt;
            }
            match typedef {
                Some(typedef) => die = typedef,
                None => return TextMarking::Plain,
            }
        }
        doubt
    }

    /// The macros in the files of a unit and in those that they include.
    fn macros_in(&self, files: &[(PathBuf, Option<[u8; 16]>)]) -> Macros {
        let mut open: VecDeque<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        let folders: Vec<PathBuf> = {
            let mut seen = HashSet::new();
            files
                .iter()
                .filter_map(|(path, _)| path.parent().map(Path::to_owned))
                .filter(|folder| seen.insert(folder.clone()))
                .collect()
        };
        let mut seen: HashSet<PathBuf> = open.iter().cloned().collect();
        let mut found = Vec::new();
        while let Some(path) = open.pop_front()
            && found.len() < MAX_INCLUDED
        {
            let Some(directives) = self.directives(&path) else {
                continue;
            };
            for name in &directives.includes {
                if let Some(included) = self.included(&path, name, &folders)
                    && seen.insert(included.clone())
                {
                    open.push_back(included);
                }
            }
            found.push((directives, is_of_system(&path)));
        }
        Macros::of_files(&found)
    }

    /// The file that an `#include` means: beside the one that includes it, or below a folder
    /// of the unit.
    fn included(&self, by: &Path, name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
        let name = Path::new(name);
        let first = name.parent().unwrap_or(Path::new(""));
        let beside = by.parent().map(|folder| folder.join(name));
        let below = folders
            .iter()
            .filter(|folder| !first.as_os_str().is_empty() && folder.ends_with(first))
            .filter_map(|folder| Some(folder.join(name.file_name()?)));
        let within = folders.iter().map(|folder| folder.join(name));
        let system = ["/usr/include", "/usr/include/x86_64-linux-gnu"].map(Path::new);
        beside
            .into_iter()
            .chain(below)
            .chain(within)
            .chain(system.iter().map(|folder| folder.join(name)))
            .find(|path| self.text(path).is_some())
    }
}

/// The typedef that the declaration of `name` is written with, if it is.
fn type_name<'w>(words: &'w [Token], name: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word.is(name))?;
    let nested = |at: usize| words.get(at + 1).is_some_and(|next| next.is("*"));
    let begins = |at: usize| match words.get(at).map(|word| word.text.as_str()) {
        Some("(") => !nested(at),
        Some("," | ";" | "{" | ")") => true,
        _ => false,
    };
    let start = (0..at).rev().find(|at| begins(*at)).map_or(0, |at| at + 1);
    let own = words.get(start..at)?;
    if own.iter().any(Token::is_word) {
        return typedef_among(own);
    }
    // Another of several declarators, or one behind an attribute.
    let ends = |word: &Token| {
        ["*", "(", ",", "=", ";", "["]
            .iter()
            .any(|end| word.is(end))
    };
    let end = words.iter().position(ends)?;
    let pointer = words
        .get(end)
        .is_some_and(|word| word.is("*") || word.is("(") && nested(end));
    typedef_among(words.get(..if pointer { end } else { end.saturating_sub(1) })?)
}

/// The first word that is neither one of C's own nor the name of a structure.
fn typedef_among(words: &[Token]) -> Option<&str> {
    let mut before = "";
    words
        .iter()
        .filter(|word| word.is_word())
        .find(|word| {
            let tag = matches!(before, "struct" | "union" | "enum");
            before = &word.text;
            !tag && !is_number(&word.text) && !words::is_specifier(&word.text)
        })
        .map(|word| word.text.as_str())
}

/// Whether every word of a base type's name is one of C's own.
fn is_number(name: &str) -> bool {
    const WORDS: [&str; 16] = [
        "char",
        "short",
        "int",
        "long",
        "unsigned",
        "signed",
        "float",
        "double",
        "_Bool",
        "bool",
        "complex",
        "__int128",
        "_Float128",
        "_Float16",
        "wchar_t",
        "_Complex",
    ];
    name.split_whitespace().all(|word| WORDS.contains(&word))
}

impl UnitFacts {
    pub(super) fn locals(
        &self,
        program: &Program<'_>,
        unit: u32,
        function: Option<Die>,
    ) -> Arc<Names> {
        let Some(function) = function else {
            return Arc::default();
        };
        if let Some(names) = lock(&self.locals).get(&function) {
            return Arc::clone(names);
        }
        let names = Arc::new(Scope::locals(program, unit, function.offset()));
        lock(&self.locals).insert(function, Arc::clone(&names));
        names
    }

    /// The macros of the unit: by its debug information, else by its files.
    pub(super) fn macros(&self, judge: &Judge) -> &Macros {
        match &self.exact {
            Some(exact) => exact,
            None => self.from_text.get_or_init(|| judge.macros_in(&self.files)),
        }
    }
}

/// Whether a declaration is that of `name`, and says itself of which type it is. A line may
/// have several.
fn declares(words: &[Token], name: Option<String>) -> bool {
    const ELSEWHERE: [&str; 5] = ["typeof", "__typeof__", "__typeof", "__auto_type", "auto"];
    let has = |text: &str| words.iter().any(|token| token.is(text));
    name.is_some_and(|name| has(&name)) && !ELSEWHERE.into_iter().any(has)
}

/// Whether a `#line` gives lines of this file other numbers than they have. Generated files,
/// which name the right ones, or those of another file, do not.
fn is_renumbered(path: &Path, text: &str) -> bool {
    let own = path.file_name();
    (2_u64..).zip(text.lines()).any(|(next, line)| {
        let Some(words) = line.trim_start().strip_prefix('#') else {
            return false;
        };
        let words = words.trim_start();
        let words = words.strip_prefix("line").unwrap_or(words);
        let mut words = words.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
            return false;
        };
        let names_another = words
            .next()
            .is_some_and(|file| Path::new(file.trim_matches('"')).file_name() != own);
        !names_another && number != next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_names_its_variable_and_its_type() {
        let declares =
            |text: &str, name: &str| declares(&tokens(text, (1, 1)), Some(name.to_owned()));
        assert!(declares("_Atomic int turn;", "turn"));
        assert!(!declares("int first, *second;", "turn"));
        assert!(!declares("__typeof__(other) *turn;", "turn"));
        assert!(!super::declares(&tokens("int turn;", (1, 1)), None));
    }

    #[test]
    fn lines_that_a_directive_renumbers() {
        let renumbered = |text: &str| is_renumbered(Path::new("src/a.c"), text);
        assert!(renumbered("int x;\n#line 7\nint y;\n"));
        assert!(renumbered("int x;\n # line 7 \"a.c\"\n"));
        // A generated file that comes back to itself, and one that tells where it is from.
        assert!(!renumbered("int x;\n#line 3 \"a.c\"\nint y;\n"));
        assert!(!renumbered("int x;\n#line 70 \"grammar.y\"\nint y;\n"));
        assert!(!renumbered("#if 1\nint x;\n#endif\n"));
    }
}
