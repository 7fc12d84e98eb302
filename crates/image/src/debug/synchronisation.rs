//! Decides from the source whether an access synchronises.
//!
//! An atomic load or store is a plain move in the binary. What reveals it, from the most to
//! the least certain:
//! - the library function that contains it, inlined or not (`std::atomic`,
//!   `core::sync::atomic`, `read_volatile`; in a kernel those of `linux.rs`);
//! - the type of the variable at a fixed address;
//! - the statement at its line: a builtin, a `volatile` cast, a macro that
//!   expands to one, `#pragma omp atomic`;
//! - names in that statement that the unit declares as volatile or atomic.
//!
//! If the source shows none of these, the access is plain. Without source, or if the source
//! may mean something else, the answer is unknown.

use super::Inner;
use super::identifiers::{Declared, Identifiers, Names};
use super::linux;
use super::marking::{Call, Marking};
use super::names;
use super::program::{Die, Program};
use super::source::{Source, Statement, is_identifier};
use super::types::{How, Spelling};
use super::words::{self, Function};
use crate::{Access, Instruction};
use gimli::UnitOffset;
use redhanded_model::Svma;
use redhanded_sys::read_source;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// How deep nested macros are followed.
const MAX_EXPANSION: usize = 4;

/// How many folders of a path are tried.
const MAX_FOLDERS: usize = 64;

/// What the source says about the access of one instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceSync {
    /// It is an atomic or volatile access, because of these words.
    Marked(String),
    /// It is neither.
    Plain,
    /// There is no source, or it does not tell.
    Unknown,
}

/// The answers so far.
#[derive(Default)]
pub(super) struct Judge {
    /// Trees of sources.
    trees: Vec<PathBuf>,
    functions: Mutex<HashMap<String, Function>>,
    sources: Mutex<HashMap<PathBuf, Option<Arc<Source>>>>,
    units: Mutex<HashMap<u32, Arc<UnitNames>>>,
    markings: Mutex<HashMap<SourcePosition, Option<Judged>>>,
}

/// The unit of a position, and what each of the statements there says.
type Judged = (u32, Vec<Marking>);

/// What the rules need to know about a unit.
struct UnitNames {
    files: Vec<PathBuf>,
    /// Whether its types omit C's `_Atomic`, as before DWARF 5.
    omits_atomic: bool,
    identifiers: Identifiers,
    macros: Mutex<HashMap<String, bool>>,
    functions: Mutex<HashMap<UnitOffset, Arc<Names>>>,
}

/// A position in the source, and the function whose names are in scope there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SourcePosition {
    function: Option<UnitOffset>,
    file: String,
    line: u32,
    column: Option<u32>,
}

/// What the frames at an address say.
enum Frames {
    Settled(SourceSync),
    At(SourcePosition),
}

impl Inner {
    pub(super) fn synchronisation(self: &Arc<Self>, svma: Svma) -> SourceSync {
        let told = self.ask(|program| {
            Some(match self.judge_frames(program, svma)? {
                Frames::Settled(answer) => answer,
                Frames::At(place) => self.judge_place(program, svma, place)?,
            })
        });
        match told {
            // Without debug information, the symbol still reveals a guard.
            None if self.accesses_guard(svma) => SourceSync::Marked("guard of a static".to_owned()),
            told => told.unwrap_or(SourceSync::Unknown),
        }
    }

    fn judge_frames(&self, program: &Program<'_>, svma: Svma) -> Option<Frames> {
        program.about(svma, |context| {
            let mut frames = context.find_frames(svma.0).skip_all_loads().ok()?;
            let mut place = None;
            let mut spelling = None;
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else {
                    break;
                };
                let raw = function.raw_name().ok()?;
                let judged = self.judge.function(&raw);
                if judged == Function::Synchronising {
                    let answer = SourceSync::Marked(names::demangle(&raw));
                    return Some(Frames::Settled(answer));
                }
                if self.kernel
                    && let Some(how) = linux::synchronises(&raw, spelling.is_none())
                {
                    return Some(Frames::Settled(SourceSync::Marked(how)));
                }
                if spelling.is_none() {
                    spelling = Some(Spelling::of(function.language));
                    place = frame.location.and_then(|location| {
                        Some(SourcePosition {
                            function: frame.dw_die_offset,
                            file: location.file?.to_owned(),
                            line: location.line.filter(|line| *line != 0)?,
                            column: location.column.filter(|column| *column != 0),
                        })
                    });
                }
                // In a kernel an enclosing function may be a lock's.
                if judged != Function::Library && !self.kernel {
                    break;
                }
            }
            // Merged code has no position, and no frame that tells what it was.
            let place = place?;
            match spelling? {
                // In Rust only functions synchronise, and none of them is among the frames.
                Spelling::Rust => Some(Frames::Settled(SourceSync::Plain)),
                Spelling::C | Spelling::Cpp => Some(Frames::At(place)),
            }
        })
    }

    fn judge_place(
        self: &Arc<Self>,
        program: &Program<'_>,
        svma: Svma,
        place: SourcePosition,
    ) -> Option<SourceSync> {
        let (unit, markings) = self.judge.markings(place, |place| {
            let unit = program.unit_at(svma)?;
            // Only C and C++ sources are read.
            program.unit_spelling(unit)?;
            let markings = self.judge.judge_text(program, unit, place, self.built());
            Some((unit, markings))
        })?;
        let access = self.access_at(svma);
        let fixed = access.and_then(|access| self.fixed_variable(program, access, unit));
        let mut answers = markings
            .into_iter()
            .map(|marking| self.answer(marking, access, fixed.as_ref()));
        // If there are several statements at the position, they must agree.
        let first = answers.next()?;
        let same =
            |other: SourceSync| std::mem::discriminant(&other) == std::mem::discriminant(&first);
        answers.all(same).then_some(first)
    }

    /// What a marking means for one access.
    fn answer(
        &self,
        marking: Marking,
        access: Option<Access>,
        fixed: Option<&Fixed>,
    ) -> SourceSync {
        let marking = match marking {
            Marking::Marked(how) => return SourceSync::Marked(how),
            Marking::Called(call) => {
                let variable = fixed.map(|fixed| fixed.name.as_str());
                if call.speaks_of(access.map(|access| access.kind), variable) {
                    return SourceSync::Marked(call.word);
                }
                *call.otherwise
            }
            marking => marking,
        };
        // A variable at a fixed address is certain; names are not.
        match (fixed, marking) {
            (
                Some(Fixed {
                    part,
                    how: Some(how),
                    ..
                }),
                _,
            ) => SourceSync::Marked(format!("{part} is {}", adjective(*how))),
            // A member may be `_Atomic` although the types do not say so.
            (Some(_), Marking::Plain | Marking::Mixed(_)) => SourceSync::Plain,
            (_, Marking::Marked(how) | Marking::Declared(how)) => SourceSync::Marked(how),
            // This access has no fixed address, so it is not to one of the globals.
            (None, Marking::Mixed(Some(how))) if self.program => SourceSync::Marked(how),
            (_, Marking::Plain) => SourceSync::Plain,
            (_, Marking::Mixed(_) | Marking::Called(_) | Marking::Unknown) => SourceSync::Unknown,
        }
    }

    fn access_at(&self, svma: Svma) -> Option<Access> {
        let instruction = Instruction::decode(self.code_at(svma)?, svma.0)?;
        instruction.accesses().first().copied()
    }

    /// The variable at the constant address of an access.
    fn fixed_variable(
        self: &Arc<Self>,
        program: &Program<'_>,
        access: Access,
        unit: u32,
    ) -> Option<Fixed> {
        let at = access.operand.constant()?;
        let variable = self.variable_at(Svma(at))?;
        let part = variable.part(at - variable.svma.0, u64::from(access.size));
        let mut how = part.synchronising;
        if how.is_none() && !variable.is_typed() {
            return None;
        }
        if how.is_none()
            && self.judge.unit(program, unit).omits_atomic
            && self.judge.is_declared_atomic(variable.declared)
        {
            how = Some(How::Atomic);
        }
        Some(Fixed {
            part: format!("{}{}", variable.name, part.path),
            name: variable.name,
            how,
        })
    }

    /// Whether the instruction accesses a guard of a C++ function static.
    fn accesses_guard(self: &Arc<Self>, svma: Svma) -> bool {
        self.access_at(svma)
            .and_then(|access| self.variable_at(Svma(access.operand.constant()?)))
            .is_some_and(|variable| variable.part(0, 1).synchronising == Some(How::Guard))
    }
}

/// A variable whose address is a constant in an instruction.
struct Fixed {
    name: String,
    /// Its name, with the path to the accessed part.
    part: String,
    how: Option<How>,
}

impl Judge {
    pub(super) fn new(trees: Vec<PathBuf>) -> Self {
        Self {
            trees,
            ..Self::default()
        }
    }

    fn function(&self, raw: &str) -> Function {
        let mut known = lock(&self.functions);
        if let Some(function) = known.get(raw) {
            return *function;
        }
        let function = words::function(&names::demangle(raw));
        known.insert(raw.to_owned(), function);
        function
    }

    fn markings(
        &self,
        place: SourcePosition,
        judge: impl FnOnce(&SourcePosition) -> Option<Judged>,
    ) -> Option<Judged> {
        if let Some(known) = lock(&self.markings).get(&place) {
            return known.clone();
        }
        let judged = judge(&place);
        lock(&self.markings).insert(place, judged.clone());
        judged
    }

    /// What each of the statements at a position says.
    fn judge_text(
        &self,
        program: &Program<'_>,
        unit: u32,
        place: &SourcePosition,
        built: Option<SystemTime>,
    ) -> Vec<Marking> {
        let Some(source) = self.source(Path::new(&place.file), built) else {
            return vec![Marking::Unknown];
        };
        source
            .statements(place.line, place.column)
            .into_iter()
            .map(|statement| self.judge_statement(program, unit, place, &statement))
            .collect()
    }

    fn judge_statement(
        &self,
        program: &Program<'_>,
        unit: u32,
        place: &SourcePosition,
        statement: &Statement<'_>,
    ) -> Marking {
        if statement.omp_atomic {
            return Marking::Marked("#pragma omp atomic".to_owned());
        }
        if statement.tokens.iter().any(|word| words::is_assembly(word)) {
            return Marking::Unknown;
        }
        match Call::find(statement) {
            Some(Err(word)) => Marking::Marked(word),
            Some(Ok(mut call)) => {
                *call.otherwise = self.judge_names(program, unit, place, statement);
                Marking::Called(call)
            }
            None => self.judge_names(program, unit, place, statement),
        }
    }

    /// Judges by macros and declared names.
    fn judge_names(
        &self,
        program: &Program<'_>,
        unit: u32,
        place: &SourcePosition,
        statement: &Statement<'_>,
    ) -> Marking {
        // Link-time optimisation puts code and declarations into different units.
        let function = place.function.map(|offset| Die::new(unit, offset));
        let declared = function.and_then(|function| program.declaring_unit(function));
        let names = self.unit(program, declared.unwrap_or(unit));
        let expands = |word: &&&str| {
            is_identifier(word)
                && !words::marks(word)
                && self.is_marking_macro(&names, word, MAX_EXPANSION)
        };
        if let Some(name) = statement.tokens.iter().find(expands) {
            return Marking::Marked(format!("macro {name}"));
        }
        let locals = names.locals(program, unit, place.function);
        names.judge(&locals, &statement.tokens, &|die| {
            names.omits_atomic && self.is_declared_atomic(program.declared(die))
        })
    }

    /// Whether the text of a declaration says `_Atomic`.
    fn is_declared_atomic(&self, declared: Option<(PathBuf, u32)>) -> bool {
        let Some((file, line)) = declared else {
            return false;
        };
        self.source(&file, None).is_some_and(|source| {
            let mut statements = source.statements(line, None).into_iter();
            statements.any(|statement| {
                let mut words = statement.tokens.iter();
                words.any(|word| *word == "_Atomic" || word.starts_with("atomic_"))
            })
        })
    }

    fn unit(&self, program: &Program<'_>, unit: u32) -> Arc<UnitNames> {
        if let Some(names) = lock(&self.units).get(&unit) {
            return Arc::clone(names);
        }
        let names = Arc::new(UnitNames {
            files: program.files(unit),
            omits_atomic: program.unit_spelling(unit) == Some(Spelling::C)
                && program
                    .main_unit(unit)
                    .is_some_and(|(_, unit)| unit.header.version() < 5),
            identifiers: Identifiers::read(program, unit),
            macros: Mutex::default(),
            functions: Mutex::default(),
        });
        lock(&self.units).insert(unit, Arc::clone(&names));
        names
    }

    /// Whether a macro in the unit's files expands to a marking word.
    fn is_marking_macro(&self, unit: &UnitNames, name: &str, depth: usize) -> bool {
        if let Some(known) = lock(&unit.macros).get(name) {
            return *known;
        }
        // Preliminary answer, so that a recursive macro ends: it adds nothing.
        lock(&unit.macros).insert(name.to_owned(), false);
        let marks = unit
            .files
            .iter()
            .filter_map(|file| self.source(file, None))
            .filter_map(|source| source.macro_words(name).map(<[String]>::to_vec))
            .any(|body| {
                let assembly = |at: usize| {
                    let before = at.checked_sub(1).and_then(|at| body.get(at));
                    before.is_some_and(|word| words::is_assembly(word))
                };
                body.iter().enumerate().any(|(at, word)| {
                    // Volatile assembly only means that it is not optimised away.
                    (words::marks(word) && !assembly(at))
                        || (depth > 1 && self.is_marking_macro(unit, word, depth - 1))
                })
            });
        lock(&unit.macros).insert(name.to_owned(), marks);
        marks
    }

    /// The text of a file, unless it is newer than the program.
    fn source(&self, path: &Path, built: Option<SystemTime>) -> Option<Arc<Source>> {
        if let Some(built) = built
            && std::fs::metadata(path)
                .and_then(|about| about.modified())
                .is_ok_and(|modified| modified > built)
        {
            return None;
        }
        if let Some(source) = lock(&self.sources).get(path) {
            return source.clone();
        }
        let source = read(path)
            .or_else(|| self.in_trees(path).find_map(|path| read(&path)))
            .map(|text| Arc::new(Source::read(&text)));
        lock(&self.sources).insert(path.to_owned(), source.clone());
        source
    }
}

impl Judge {
    /// Where in the source trees a file may be that the debug information names by a path of
    /// another machine: the path's tails, longest first. A bare file name could be any file,
    /// so a folder is required; the name of the tree counts as one.
    fn in_trees(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let parts: Vec<&OsStr> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let ends = (0..parts.len().min(MAX_FOLDERS))
            .filter_map(|start| parts.get(start..))
            .filter(|end| end.len() > 1 || parts.len() == 1)
            .map(|end| end.iter().collect::<PathBuf>())
            .collect::<Vec<_>>();
        self.trees.iter().flat_map(move |tree| {
            let in_tree = |end: &PathBuf| match tree.file_name() {
                Some(own) if end.starts_with(own) && !says_nothing(own) => {
                    let below = end.strip_prefix(own).unwrap_or(end);
                    vec![tree.join(end), tree.join(below)]
                }
                _ => vec![tree.join(end)],
            };
            ends.iter().flat_map(in_tree).collect::<Vec<_>>()
        })
    }
}

/// Whether many projects have a folder with this name.
fn says_nothing(folder: &OsStr) -> bool {
    ["src", "source", "sources", "lib", "include"]
        .iter()
        .any(|common| folder == *common)
}

impl UnitNames {
    fn locals(&self, program: &Program<'_>, unit: u32, function: Option<UnitOffset>) -> Arc<Names> {
        let Some(function) = function else {
            return Arc::default();
        };
        if let Some(names) = lock(&self.functions).get(&function) {
            return Arc::clone(names);
        }
        let names = Arc::new(Identifiers::locals(program, unit, function));
        lock(&self.functions).insert(function, Arc::clone(&names));
        names
    }

    /// Judges by the names in a statement: those declared volatile or atomic against all
    /// others that may access memory.
    fn judge(
        &self,
        locals: &Names,
        tokens: &[&str],
        declared_atomic: &dyn Fn(Die) -> bool,
    ) -> Marking {
        let mut declared = None;
        let mut plain = false;
        let mut plain_global = false;
        let mut ambiguous = false;
        for (at, name) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| tokens.get(at)).copied();
            let after = tokens.get(at + 1).copied();
            if !is_identifier(name) || after == Some("(") {
                continue;
            }
            let is_member = matches!(before, Some("." | "->"));
            let local = locals.get(*name).filter(|_| !is_member);
            let names = if is_member {
                &self.identifiers.members
            } else {
                &self.identifiers.globals
            };
            let mut known = local
                .or_else(|| names.get(*name))
                .copied()
                .unwrap_or_default();
            if known.plain.is_some_and(declared_atomic) {
                known = Declared {
                    synchronising: Some(How::Atomic),
                    ..Declared::default()
                };
            }
            let followed = matches!(after, Some("->" | "["));
            let dereferenced = followed || (!is_member && before == Some("*"));
            let how = known
                .synchronising
                .or_else(|| known.points_to.filter(|_| dereferenced));
            if let Some(how) = how {
                ambiguous |= known.plain.is_some();
                declared.get_or_insert_with(|| format!("{name} is {}", adjective(how)));
                continue;
            }
            // A member is an access by itself. A variable is one only if it is dereferenced,
            // because locals are in registers or on the stack. A member that follows is
            // judged on its own.
            if known.plain.is_some() {
                plain |= is_member || (dereferenced && after != Some("->"));
                plain_global |= !is_member && local.is_none() && after != Some(".");
            }
        }
        match declared {
            None if !self.identifiers.typed => Marking::Unknown,
            None => Marking::Plain,
            Some(_) if plain || ambiguous => Marking::Mixed(None),
            Some(how) if plain_global => Marking::Mixed(Some(how)),
            Some(how) => Marking::Declared(how),
        }
    }
}

const fn adjective(how: How) -> &'static str {
    match how {
        How::Atomic => "atomic",
        How::Volatile => "volatile",
        How::Guard => "a guard",
    }
}

fn read(path: &Path) -> Option<String> {
    // A relative name would be resolved in our folder, not in the compiler's.
    if !path.is_absolute() {
        return None;
    }
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    if matches!(extension, "s" | "S" | "asm") {
        return None;
    }
    Some(String::from_utf8_lossy(&read_source(path)?).into_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
