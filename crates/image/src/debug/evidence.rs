//! What the source says about an access: atomic, volatile, plain, or not known.
//!
//! An atomic load or store is a plain move in the binary. What reveals it:
//! - the library function that contains it, inlined or not (`frames.rs`);
//! - the expression at its line and column, and the type of the object that it accesses.
//!
//! An access is called plain only if the expression was found, its type is known and is
//! neither, and every name in it is known. Everything else is doubt, with the reason.

use super::Inner;
use super::coverage::searches_words;
use super::expression::choose::{Choice, Wanted};
use super::expression::values::Type;
use super::expression::walk::{Base, Candidate, Surroundings, TextMarking, accesses};
use super::openmp::AtomicDirective;
use super::origin::{Origin, SourcePosition};
use super::program::{Die, MAX_HOPS, Program};
use super::scope::bare_name;
use super::sources::{UnitFacts, lock};
use super::text::lexer::tokens;
use super::text::regions::{Function, SourceFile};
use super::types::{How, Spelling};
use super::words;
use crate::vector_copy::is_copied;
use crate::{Access, Instruction};
use redhanded_model::{AccessKind, Doubt, Expression, Marking, SourceEvidence, Svma};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every line of a source that is quoted is cut at this length.
const MAX_QUOTED: usize = 200;

/// How many bytes of code are searched for the other half of a copy.
const COPY_WITHIN: usize = 256;

/// How many instructions there may be between the load and the exchange of a loop.
const EXCHANGE_WITHIN: usize = 16;

/// The largest number, in bytes.
const LARGEST_ELEMENT: u32 = 8;

fn unknown(why: Doubt) -> SourceEvidence {
    marked(Marking::Unknown { why })
}

fn marked(marking: Marking) -> SourceEvidence {
    SourceEvidence {
        marking,
        expression: None,
        declared: None,
        covers: None,
    }
}

/// A variable whose address is a constant in an instruction.
pub(super) struct Fixed {
    /// Its name without scopes.
    name: String,
    pub(super) start: u64,
    /// Its name, with the path to the accessed part.
    part: String,
    how: Option<How>,
}

impl Inner {
    /// What the source says about the first access of an instruction, not counting those of
    /// the stack engine; at `data` if that is known.
    pub(super) fn source_evidence(
        self: &Arc<Self>,
        svma: Svma,
        data: Option<Svma>,
    ) -> SourceEvidence {
        let instruction = self
            .code_at(svma)
            .and_then(|code| Instruction::decode(code, svma.0));
        let access = instruction.and_then(|instruction| first_access(&instruction));
        // LLVM makes a load of floating point of an atomic load whose bits are used as such a
        // number, and gives it the position of the use.
        let folds = instruction.is_some_and(|instruction| instruction.reads_float());
        if access.is_some_and(|access| self.accesses_guard(access)) {
            return marked(Marking::Atomic {
                word: "guard of a static".to_owned(),
            });
        }
        let told = self.ask(|program| {
            if self.is_folded(program, svma) {
                return Some(unknown(Doubt::Ambiguous));
            }
            Some(match self.origin(program, svma) {
                Origin::Settled(marking) => marked(marking),
                Origin::Rust(place) => {
                    let mut evidence = self.judge.rust(program, svma, &place, self.built());
                    if evidence.marking == Marking::Plain
                        && access.is_some_and(|access| self.may_read_over_gaps(svma, access))
                    {
                        evidence.marking = Marking::Unknown { why: Doubt::Wider };
                    }
                    if folds && evidence.marking == Marking::Plain && !self.is_float(access) {
                        evidence.marking = Marking::Unknown { why: Doubt::Folded };
                    }
                    evidence
                }
                Origin::At(place) => match access {
                    Some(access) => {
                        let touched = data.and_then(|data| self.typed_variable(data));
                        let touched = touched.map(|variable| unscoped(&variable.name));
                        self.judge_text(program, svma, &place, access, touched, folds)
                    }
                    None => unknown(Doubt::NoExpression),
                },
            })
        });
        let mut evidence = told.unwrap_or_else(|| unknown(Doubt::NoDebugInformation));
        // A kernel's memory model takes volatile accesses for marked ones: `READ_ONCE`.
        if let Marking::Volatile { word } = &evidence.marking
            && self.kernel
        {
            evidence.marking = Marking::Atomic { word: word.clone() };
        }
        let speculative = instruction.is_some_and(|instruction| instruction.is_conditional_move());
        if speculative && evidence.marking == Marking::Plain {
            return SourceEvidence {
                marking: Marking::Unknown {
                    why: Doubt::Speculative,
                },
                ..evidence
            };
        }
        evidence
    }

    fn judge_text(
        self: &Arc<Self>,
        program: &Program<'_>,
        svma: Svma,
        place: &SourcePosition,
        access: Access,
        touched: Option<String>,
        folds: bool,
    ) -> SourceEvidence {
        let Some(unit) = program.unit_at(svma) else {
            return unknown(Doubt::NoDebugInformation);
        };
        let Some(spelling @ (Spelling::C | Spelling::Cpp)) = program.unit_spelling(unit) else {
            // The unit that is left of one whose information is in another file has no language.
            let split = program
                .language(Die::new(unit, gimli::UnitOffset(0)))
                .is_none();
            return unknown(if split { Doubt::Split } else { Doubt::Language });
        };
        // The results of a reduction are combined in a function that the compiler made. The load
        // may have the line of what stands before.
        if is_outlined(program, unit, place) && self.begins_exchange(svma, access) {
            return unknown(Doubt::NoExpression);
        }
        let fixed = self.fixed_variable(access);
        let text = Text {
            touched,
            folds: folds && !program.is_by_gcc(unit),
            ..Text::new(self, program, unit, spelling, place)
        };
        let doubt = match text.judge(access, fixed.as_ref()) {
            Ok(evidence) => return evidence,
            Err(doubt) => doubt,
        };
        // The type of a variable at a fixed address is certain, whatever the text says.
        match fixed {
            Some(Fixed {
                part,
                how: Some(how),
                ..
            }) if doubt != Doubt::Ambiguous => marked(match how {
                How::Volatile => Marking::Volatile {
                    word: format!("{part} is volatile"),
                },
                How::Atomic | How::Guard => Marking::Atomic {
                    word: format!("{part} is atomic"),
                },
            }),
            _ => unknown(doubt),
        }
    }

    /// Whether what is loaded is then the expected value of a compare-and-swap at the same place.
    fn begins_exchange(&self, svma: Svma, access: Access) -> bool {
        let Some(code) = self.bytes_at(svma, COPY_WITHIN) else {
            return false;
        };
        let mut at = 0;
        for _ in 0..EXCHANGE_WITHIN {
            let rest = code.get(at..).unwrap_or_default();
            let address = svma.0.wrapping_add(at as u64);
            let Some(next) = Instruction::decode(rest, address) else {
                return false;
            };
            let same = |other: &Access| other.operand == access.operand;
            if next.locked() && next.accesses().iter().any(same) {
                return true;
            }
            at += next.len();
        }
        false
    }

    /// Whether the access is to a variable of floating point, which is not atomic in Rust.
    fn is_float(self: &Arc<Self>, access: Option<Access>) -> bool {
        let at = access.and_then(|access| Some((access.operand.constant()?, access.size)));
        at.is_some_and(|(at, size)| {
            self.variable_at(Svma(at)).is_some_and(|variable| {
                let part = variable.part(at - variable.svma.0, u64::from(size));
                matches!(part.type_name.as_str(), "f32" | "f64")
            })
        })
    }

    /// Whether a vector may hold elements that the source does not read. One that is copied as it
    /// is does not: then it is a whole object.
    fn may_read_over_gaps(&self, svma: Svma, access: Access) -> bool {
        access.kind == AccessKind::Read
            && access.size > LARGEST_ELEMENT
            && self
                .bytes_at(svma, COPY_WITHIN)
                .is_none_or(|code| !is_copied(code, svma.0))
    }

    /// The variable at the constant address of an access.
    fn fixed_variable(self: &Arc<Self>, access: Access) -> Option<Fixed> {
        let at = access.operand.constant()?;
        let variable = self.variable_at(Svma(at))?;
        let part = variable.part(at - variable.svma.0, u64::from(access.size));
        if part.synchronising.is_none() && !variable.is_typed() {
            return None;
        }
        Some(Fixed {
            part: format!("{}{}", variable.name, part.path),
            name: unscoped(&variable.name),
            start: variable.svma.0,
            how: part.synchronising,
        })
    }

    /// Whether the first access at `svma` is to the whole of a variable at a fixed address.
    pub(super) fn accesses_whole_variable(self: &Arc<Self>, svma: Svma) -> bool {
        let code = self.code_at(svma);
        let instruction = code.and_then(|code| Instruction::decode(code, svma.0));
        let whole = || {
            let access = first_access(&instruction?)?;
            let at = access.operand.constant()?;
            let variable = self.variable_at(Svma(at))?;
            Some(variable.svma.0 == at && variable.size == u64::from(access.size))
        };
        whole().unwrap_or(false)
    }

    /// Whether an access is to the guard of a C++ function static.
    fn accesses_guard(self: &Arc<Self>, access: Access) -> bool {
        access
            .operand
            .constant()
            .and_then(|at| self.variable_at(Svma(at)))
            .is_some_and(|variable| variable.part(0, 1).synchronising == Some(How::Guard))
    }
}

/// The first access of an instruction, not counting those of the stack engine.
fn first_access(instruction: &Instruction) -> Option<Access> {
    let accesses = instruction.accesses().iter();
    let mut data = accesses.filter(|access| !access.stack_engine);
    data.next().copied()
}

pub(super) fn unscoped(name: &str) -> String {
    bare_name(name.rsplit("::").next().unwrap_or_default()).to_owned()
}

/// Whether a function is the body of a parallel region, which is one for the compiler only.
fn is_outlined(program: &Program<'_>, unit: u32, place: &SourcePosition) -> bool {
    let function = place.function.map(|offset| Die::new(unit, offset));
    let name = function.and_then(|function| program.name(function));
    name.is_some_and(|name| is_outlined_name(&name))
}

fn is_outlined_name(name: &str) -> bool {
    ["omp_fn", "omp_outlined", "omp_task"]
        .iter()
        .any(|part| name.contains(part))
}

/// Link-time optimisation puts code and declarations into different units.
pub(super) fn declaring_unit(program: &Program<'_>, unit: u32, place: &SourcePosition) -> u32 {
    let function = place.function.map(|offset| Die::new(unit, offset));
    function
        .and_then(|function| program.declaring_unit(function))
        .unwrap_or(unit)
}

/// The text at a position, with all that is known there.
pub(super) struct Text<'t, 'd> {
    inner: &'t Arc<Inner>,
    pub(super) program: &'t Program<'d>,
    facts: Arc<UnitFacts>,
    unit: u32,
    pub(super) place: &'t SourcePosition,
    pub(super) cpp: bool,
    /// The name of the variable that was accessed, without scopes, if it has a fixed address.
    touched: Option<String>,
    /// Whether the instruction may make an atomic load of another statement.
    folds: bool,
}

impl<'t, 'd> Text<'t, 'd> {
    pub(super) fn new(
        inner: &'t Arc<Inner>,
        program: &'t Program<'d>,
        unit: u32,
        spelling: Spelling,
        place: &'t SourcePosition,
    ) -> Self {
        let declaring = declaring_unit(program, unit, place);
        Self {
            inner,
            program,
            facts: inner.judge.unit(program, declaring),
            unit,
            place,
            cpp: spelling == Spelling::Cpp || place.library,
            touched: None,
            folds: false,
        }
    }

    /// The accesses of the statements at the position, and those of the whole function.
    pub(super) fn around(&self) -> Option<[Vec<Candidate>; 2]> {
        let path = Path::new(&self.place.file);
        let judge = &self.inner.judge;
        let file = judge.source(path, self.cpp, &self.facts, self.inner.built());
        let file = file.ok()?;
        let function = file.function(self.place.line, self.place.column)?;
        self.unchanged(&file, &function).ok()?;
        let here = function.at(self.place.line, self.place.column);
        let all = (0..function.regions.len()).collect();
        Some([here, all].map(|level| self.candidates(&file, &function, &level)))
    }

    fn judge(&self, access: Access, fixed: Option<&Fixed>) -> Result<SourceEvidence, Doubt> {
        let judge = &self.inner.judge;
        let path = Path::new(&self.place.file);
        let file = judge.source(path, self.cpp, &self.facts, self.inner.built())?;
        let function = file
            .function(self.place.line, self.place.column)
            .ok_or(Doubt::NoExpression)?;
        if let Err(doubt) = self.unchanged(&file, &function) {
            // Not all of a library's headers can be parsed; where the function still has its
            // name, that is why it seems to be elsewhere.
            let parsed_otherwise = self.is_declared_there(&file)
                && self.is_plain_library(&Doubt::NoExpression, &file, &function);
            return match parsed_otherwise {
                true => Ok(marked(Marking::Plain)),
                false => Err(doubt),
            };
        }
        // What is at the line of a directive was made by the compiler: copies of variables, and
        // reductions, which it combines atomically. Only `omp atomic` has no accesses of its own.
        let directive = file.directive(self.place.line);
        if directive.is_some_and(|text| AtomicDirective::of_pragma(&text).is_none()) {
            return Err(Doubt::NoExpression);
        }
        let at = function.at(self.place.line, self.place.column);
        let on_line = function.at(self.place.line, None);
        let all: Vec<usize> = (0..function.regions.len()).collect();
        let mut wanted = Wanted {
            access,
            variable: fixed.map(|fixed| fixed.name.as_str()),
            offset: fixed.and_then(|fixed| {
                let at = access.operand.constant()?;
                at.checked_sub(fixed.start)
            }),
            touched: self.touched.as_deref(),
            position: self.place.column.map(|column| (self.place.line, column)),
            folds: self.folds,
        };
        if !self.program.is_by_gcc(self.unit)
            && self.is_of_call(access, &self.candidates(&file, &function, &at))
        {
            return Err(Doubt::Speculative);
        }
        // Compilers move accesses out of loops and give them the line of something else.
        for level in [&at, &on_line, &all] {
            let candidates = self.candidates(&file, &function, level);
            // LLVM gives no column to what it merged from arms on one line. It may come from
            // functions that were inlined into them.
            let calls =
                |candidate: &Candidate| candidate.marking == TextMarking::Unknown(Doubt::Folded);
            if wanted.position.is_none()
                && !self.program.is_by_gcc(self.unit)
                && candidates.iter().any(calls)
            {
                return Err(Doubt::NoLine);
            }
            match wanted.choose(self.program, &candidates) {
                Choice::None => {}
                Choice::Doubt(doubt) if self.is_plain_library(&doubt, &file, &function) => {
                    return Ok(marked(Marking::Plain));
                }
                Choice::Doubt(doubt) => return Err(doubt),
                Choice::Found(stated, candidate) => {
                    self.not_displaced(&file, &function, &wanted, &candidate)?;
                    wanted.position = None;
                    self.not_merged(&file, &function, level, &wanted, &candidate)?;
                    return self.evidence(&file, &function, access, fixed, stated, &candidate);
                }
            }
        }
        if self.is_plain_library(&Doubt::NoExpression, &file, &function) {
            return Ok(marked(Marking::Plain));
        }
        Err(Doubt::NoExpression)
    }

    /// Whether a read has the place of a call. LLVM reads for a function what it is given a pointer
    /// to, before the call and whether or not the function reads it. Only the read of an object's
    /// table of functions is the call's own.
    fn is_of_call(&self, access: Access, candidates: &[Candidate]) -> bool {
        let operand = &access.operand;
        let table = access.size == 8 && operand.displacement == 0 && operand.base.is_some();
        let at = self.place.column.map(|column| (self.place.line, column));
        let calls = |candidate: &Candidate| {
            candidate.marking == TextMarking::Unknown(Doubt::Folded) && Some(candidate.at) == at
        };
        let reads = |candidate: &Candidate| {
            candidate.place.is_some() && at.is_some_and(|at| candidate.own.contains(&at))
        };
        access.kind == AccessKind::Read
            && !table
            && candidates.iter().any(calls)
            && !candidates.iter().any(reads)
    }

    /// The code of a library hides no atomics behind macros, and its types are often those of
    /// template arguments. If the text of the function has no word of them, it is plain.
    fn is_plain_library(&self, doubt: &Doubt, file: &SourceFile, function: &Function) -> bool {
        const WORDS: [&str; 4] = ["atomic", "volatile", "asm", "__sync"];
        let text = file.text.get(function.body.clone()).unwrap_or_default();
        self.place.library
            && !self.folds
            && !self.is_made_for(&WORDS)
            && matches!(
                doubt,
                Doubt::UnknownType | Doubt::UnknownName(_) | Doubt::NoExpression
            )
            && !WORDS.iter().any(|word| text.contains(word))
    }

    /// Whether a template was made for types that have one of these words in their names, or
    /// for classes with operators that give access to something: the library's text says
    /// nothing of what they do.
    fn is_made_for(&self, words: &[&str]) -> bool {
        const ACCESSES: [&str; 3] = ["operator*", "operator[]", "operator->"];
        let Some(die) = self
            .place
            .function
            .map(|offset| Die::new(self.unit, offset))
        else {
            return true;
        };
        let has_word = |name: Option<String>| {
            name.is_some_and(|name| words.iter().any(|word| name.contains(word)))
        };
        let locals = self.facts.locals(self.program, self.unit, Some(die));
        let mut kinds = locals
            .values()
            .flatten()
            .map(|die| self.program.type_of(*die));
        has_word(self.program.name(die))
            || kinds.any(|kind| {
                let foreign = match self.program.unqualified(&kind).0 {
                    Type::Declared(class) => {
                        let declared = self.program.declared(class);
                        let foreign = declared
                            .is_none_or(|(path, _)| !path.to_string_lossy().contains("/c++/"));
                        foreign && !self.program.methods(class, &ACCESSES, MAX_HOPS).is_empty()
                    }
                    _ => false,
                };
                foreign || has_word(self.program.spelled(&kind))
            })
    }

    /// Whether the line on which the function was declared still has its name.
    fn is_declared_there(&self, file: &SourceFile) -> bool {
        let function = self.place.function.map(|at| Die::new(self.unit, at));
        function.is_some_and(|die| {
            let declared = self.program.declared(die);
            let name = self.program.name(die);
            declared.zip(name).is_some_and(|((path, line), name)| {
                path == Path::new(&self.place.file)
                    && file
                        .line(line)
                        .is_some_and(|text| has_word(text, bare_name(&name)))
            })
        })
    }

    /// Whether the function is still where it was compiled.
    fn unchanged(&self, file: &SourceFile, function: &Function) -> Result<(), Doubt> {
        let Some(die) = self
            .place
            .function
            .map(|offset| Die::new(self.unit, offset))
        else {
            // The lines of a function go on into the assembly behind it.
            return Err(Doubt::NoDebugInformation);
        };
        let Some(name) = self.program.name(die) else {
            return Ok(());
        };
        if is_outlined_name(&name) {
            return Ok(());
        }
        let same_name = match &function.name {
            Some(written) => bare_name(&name) == bare_name(written),
            None => name == "operator()",
        };
        if !same_name {
            return Err(Doubt::Displaced);
        }
        if let Some((declared_in, line)) = self.program.declared(die)
            && declared_in == Path::new(&self.place.file)
            && !function.head.contains(&line)
        {
            return Err(Doubt::Displaced);
        }
        // A variable that is declared elsewhere now.
        let locals = self.facts.locals(self.program, self.unit, Some(die));
        let body = file.text.get(function.body.clone()).unwrap_or_default();
        for (name, dies) in locals.iter() {
            for die in dies {
                let Some((declared_in, line)) = self.program.declared(*die) else {
                    continue;
                };
                let moved = declared_in == Path::new(&self.place.file)
                    && !file.line(line).is_some_and(|text| has_word(text, name))
                    && has_word(body, name);
                if moved {
                    return Err(Doubt::Displaced);
                }
            }
        }
        Ok(())
    }

    pub(super) fn candidates(
        &self,
        file: &SourceFile,
        function: &Function,
        level: &[usize],
    ) -> Vec<Candidate> {
        level
            .iter()
            .filter_map(|number| function.regions.get(*number))
            .flat_map(|region| {
                let key = (
                    PathBuf::from(&self.place.file),
                    region.bytes.start,
                    self.place.function,
                );
                let judge = &self.inner.judge;
                if let Some(known) = lock(&judge.statements).get(&key) {
                    return known.as_ref().clone();
                }
                let found = Arc::new(self.read(file, region));
                lock(&judge.statements).insert(key, Arc::clone(&found));
                found.as_ref().clone()
            })
            .collect()
    }

    fn read(&self, file: &SourceFile, region: &super::text::regions::Region) -> Vec<Candidate> {
        let text = file.text.get(region.bytes.clone()).unwrap_or_default();
        let written = tokens(text, region.start);
        let macros = self.facts.macros(&self.inner.judge);
        let keep = |name: &str| {
            let program = macros.is_defined_by_program(name);
            words::is_constant(name)
                || (!program
                    && (words::operation(name, self.inner.kernel).is_some()
                        || words::is_harmless(name)))
                // The kernel's own names mean the same in every version.
                || (self.inner.kernel && words::operation(name, true).is_some())
        };
        let (expanded, unsure) = macros.expand(&written, &keep);
        let function = self
            .place
            .function
            .map(|offset| Die::new(self.unit, offset));
        let locals = self.facts.locals(self.program, self.unit, function);
        let is_function = |name: &str| self.inner.symbols().is_function(name);
        let declaration = |die, dereferenced| {
            self.inner
                .judge
                .declared_as(self.program, &self.facts, die, dereferenced)
        };
        let has_volatile = |die| {
            let declared = self.program.declared(die);
            declared.is_some_and(|(path, line)| {
                let judge = &self.inner.judge;
                let file = judge.source(&path, self.cpp, &self.facts, self.inner.built());
                file.is_ok_and(|file| {
                    file.line(line)
                        .is_none_or(|line| has_word(line, "volatile"))
                })
            })
        };
        let language = super::sources::language(self.cpp);
        let surroundings = Surroundings {
            program: self.program,
            scope: &self.facts.scope,
            locals: &locals,
            language: &language,
            kernel: self.inner.kernel,
            no_macros_left: macros.is_complete(),
            is_function: &is_function,
            has_volatile: &has_volatile,
            declaration: self
                .facts
                .omits_atomic
                .then_some(&declaration as &dyn Fn(Die, usize) -> TextMarking),
        };
        let mut found = accesses(&surroundings, &expanded);
        let leading = written
            .first()
            .filter(|first| unsure.iter().any(|token| token.at == first.at))
            .map(|first| first.text.clone());
        for token in unsure {
            found.push(Candidate::anything(
                Doubt::UnknownName(token.text),
                token.at,
            ));
        }
        if region.broken {
            found.push(Candidate::anything(Doubt::NoExpression, (0, 0)));
        }
        if let Some(directive) = &region.omp_atomic {
            directive.mark(&mut found);
        }
        // A macro in front may make an atomic statement of all that follows. What is atomic by
        // itself remains so.
        let changed = region
            .prefixes
            .iter()
            .find(|word| macros.may_change_statement(word))
            .or(leading.as_ref());
        if let Some(word) = changed {
            let others = found
                .iter_mut()
                .filter(|candidate| !matches!(candidate.marking, TextMarking::Atomic(_)));
            for candidate in others {
                candidate.marking = TextMarking::Unknown(Doubt::UnknownName(word.clone()));
            }
        }
        found
    }

    /// Compilers give an access the line of another. If the address is that of a variable, an
    /// expression of another size behind a pointer may be the wrong one, where the function also
    /// names the variable.
    fn not_displaced(
        &self,
        file: &SourceFile,
        function: &Function,
        wanted: &Wanted<'_>,
        chosen: &Candidate,
    ) -> Result<(), Doubt> {
        let (Some(name), Some(place)) = (wanted.variable, &chosen.place) else {
            return Ok(());
        };
        let size = self.program.size(&place.kind);
        if place.base != Base::Pointer || size == Some(u64::from(wanted.access.size)) {
            return Ok(());
        }
        let all: Vec<usize> = (0..function.regions.len()).collect();
        let names_it = |candidate: &Candidate| {
            let place = candidate.place.as_ref();
            place.is_some_and(|place| place.base == Base::Global(name.to_owned()))
        };
        if self.candidates(file, function, &all).iter().any(names_it) {
            return Err(Doubt::Ambiguous);
        }
        Ok(())
    }

    /// Compilers merge the equal ends of two arms: then the access is that of both.
    fn not_merged(
        &self,
        file: &SourceFile,
        function: &Function,
        level: &[usize],
        wanted: &Wanted<'_>,
        chosen: &Candidate,
    ) -> Result<(), Doubt> {
        let others: Vec<usize> = level
            .iter()
            .flat_map(|region| function.merged_with(*region))
            .collect();
        let candidates = self.candidates(file, function, &others);
        let Choice::Found(stated, other) = wanted.choose(self.program, &candidates) else {
            return Ok(());
        };
        let differs = std::mem::discriminant(&stated) != std::mem::discriminant(&chosen.marking);
        let same_object = match (&other.place, &chosen.place) {
            (Some(one), Some(other)) => {
                one.text == other.text
                    || (one.base == other.base && one.base != Base::Pointer)
                    || (one.base == Base::Pointer
                        && other.base == Base::Pointer
                        && one.offset == other.offset)
            }
            _ => false,
        };
        if differs && same_object {
            return Err(Doubt::Ambiguous);
        }
        Ok(())
    }

    fn evidence(
        &self,
        file: &SourceFile,
        function: &Function,
        access: Access,
        fixed: Option<&Fixed>,
        stated: TextMarking,
        chosen: &Candidate,
    ) -> Result<SourceEvidence, Doubt> {
        let place = chosen.place.as_ref().ok_or(Doubt::NoExpression)?;
        let gaps = self.has_gaps(file, access, place);
        let covers = self.covers(file, function, access, fixed, chosen, place, gaps);
        // What a macro expands to is not in the text; its name is.
        let macro_name = self.macro_at(file, chosen);
        let named = |word: String| match &macro_name {
            Some(name) if *name != word => format!("macro {name}"),
            _ => word,
        };
        let marking = match stated {
            TextMarking::Atomic(word) => Marking::Atomic { word: named(word) },
            TextMarking::Volatile(word) => Marking::Volatile { word: named(word) },
            TextMarking::Plain
                if covers.is_none()
                    && (gaps || place.bit_field.is_some() || searches_words(access, chosen)) =>
            {
                Marking::Unknown { why: Doubt::Wider }
            }
            TextMarking::Plain if self.joins_conditional(file, function, access, fixed, chosen) => {
                Marking::Unknown {
                    why: Doubt::Conditional,
                }
            }
            TextMarking::Plain => Marking::Plain,
            TextMarking::Unknown(doubt) => return Err(doubt),
        };
        let mut text = place.text.clone();
        if let Some((end, _)) = text.char_indices().nth(MAX_QUOTED) {
            text.truncate(end);
            text.push('…');
        }
        Ok(SourceEvidence {
            marking,
            expression: Some(Expression {
                text,
                file: self.place.file.clone(),
                line: chosen.at.0,
                column: Some(chosen.at.1).filter(|column| *column != 0),
            }),
            declared: self.program.spelled(&place.kind),
            covers,
        })
    }

    /// The name of the macro that a candidate comes from.
    fn macro_at(&self, file: &SourceFile, chosen: &Candidate) -> Option<String> {
        let at = chosen.own.first().copied().unwrap_or(chosen.at);
        let line = file.line(at.0)?;
        let rest = line.get(usize::try_from(at.1.checked_sub(1)?).ok()?..)?;
        let end = rest
            .find(|c: char| !super::text::lexer::is_word(c))
            .unwrap_or(rest.len());
        let name = rest.get(..end)?;
        let macros = self.facts.macros(&self.inner.judge);
        macros.is_macro(name).then(|| name.to_owned())
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().last());
        let after = text
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        let in_word = |c: Option<char>| c.is_some_and(super::text::lexer::is_word);
        !in_word(before) && !in_word(after)
    })
}
