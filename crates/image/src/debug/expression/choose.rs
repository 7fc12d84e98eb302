//! Which of the accesses that a text makes is the one that an instruction makes.
//!
//! Compilers keep little of what an access was: whether it reads or writes, how many bytes,
//! a fixed address or a distance from a pointer, and a column that may be that of the
//! expression or of one around it. Each of these rules candidates out. What is left must
//! agree.

use super::walk::{Base, Candidate, TextMarking};
use crate::Access;
use crate::debug::program::Program;
use crate::debug::text::lexer::Position;
use redhanded_model::{Doubt, Register};

/// What is known of the instruction's access.
pub(in crate::debug) struct Wanted<'a> {
    pub(in crate::debug) access: Access,
    /// The name, without scopes, of the variable at its fixed address.
    pub(in crate::debug) variable: Option<&'a str>,
    /// How far from the start of that variable it is.
    pub(in crate::debug) offset: Option<u64>,
    /// The name of the variable that it accessed, whatever its address came from.
    pub(in crate::debug) touched: Option<&'a str>,
    /// Where the line table places it.
    pub(in crate::debug) position: Option<Position>,
    /// Whether the instruction may make an atomic load of another statement: then it must be
    /// certain which expression it is.
    pub(in crate::debug) folds: bool,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) enum Choice {
    /// These candidates, which agree; the first is the best.
    Found(TextMarking, Box<Candidate>),
    /// None of the candidates can be it.
    None,
    /// It cannot be told.
    Doubt(Doubt),
}

impl Wanted<'_> {
    /// Any access of this kind.
    pub(in crate::debug) const fn any(access: Access) -> Self {
        Self {
            access,
            variable: None,
            offset: None,
            touched: None,
            position: None,
            folds: false,
        }
    }

    /// Chooses among the candidates of some statements.
    pub(in crate::debug) fn choose(&self, program: &Program<'_>, all: &[Candidate]) -> Choice {
        let mut left: Vec<&Candidate> = all
            .iter()
            .filter(|candidate| self.is_possible(program, candidate))
            .filter(|candidate| self.folds || doubt(candidate) != Doubt::Folded)
            .collect();
        if left.iter().all(|candidate| candidate.place.is_none()) {
            return match left.first() {
                Some(candidate) => Choice::Doubt(doubt(candidate)),
                None => Choice::None,
            };
        }
        if let Some(name) = self.variable.or(self.touched) {
            left.retain(|candidate| {
                candidate.place.as_ref().is_none_or(|place| {
                    place.base == Base::Global(name.to_owned()) || place.base == Base::Pointer
                })
            });
        }
        if let Some(name) = self.variable {
            let exact = |candidate: &&Candidate| {
                let place = candidate.place.as_ref();
                place.is_some_and(|place| place.base == Base::Global(name.to_owned()))
            };
            if left.iter().any(exact) {
                left.retain(|candidate| exact(candidate) || candidate.place.is_none());
            }
            left.retain(|candidate| !self.is_elsewhere(program, candidate));
        }
        left = self.without_locals(left);
        if left.iter().all(|candidate| candidate.place.is_none()) {
            return match left.first() {
                Some(candidate) => Choice::Doubt(doubt(candidate)),
                None => Choice::None,
            };
        }
        let possible = left.clone();
        if let Some(at) = self.position {
            // The line table places all that a macro makes at its name.
            let unknown = left
                .iter()
                .find(|candidate| candidate.place.is_none() && candidate.own.contains(&at));
            if let Some(unknown) = unknown {
                return Choice::Doubt(doubt(unknown));
            }
            narrow(&mut left, |candidate| candidate.own.contains(&at));
            if left.len() == possible.len() {
                narrow(&mut left, |candidate| candidate.around.contains(&at));
            }
        }
        if !agree(&left) {
            narrow(&mut left, |candidate| self.fits(program, candidate));
        }
        if !agree(&left) {
            return Choice::Doubt(disagreement(&left));
        }
        // A column may be that of an expression around it: what fits better elsewhere, and
        // differs, makes it doubtful.
        if !left.iter().any(|candidate| self.fits(program, candidate)) {
            let rival = possible.iter().any(|candidate| {
                self.fits(program, candidate)
                    && left
                        .first()
                        .is_some_and(|chosen| !same(&chosen.marking, &candidate.marking))
            });
            if rival {
                return Choice::Doubt(Doubt::Ambiguous);
            }
        }
        // The column may be that of an expression around it, such as `a->b->c` for `a->b`.
        let first = left.first();
        let fitting = left.iter().chain(&possible).find(|candidate| {
            self.fits(program, candidate)
                && first.is_some_and(|first| same(&first.marking, &candidate.marking))
        });
        let best = fitting.or(first);
        match best {
            Some(best) => match &best.marking {
                TextMarking::Unknown(doubt) => Choice::Doubt(doubt.clone()),
                TextMarking::Plain if self.folds && !self.is_certain(program, best, &possible) => {
                    Choice::Doubt(Doubt::Folded)
                }
                marking => Choice::Found(marking.clone(), Box::new((*best).clone())),
            },
            None => Choice::None,
        }
    }

    /// Whether the instruction makes this access and no other: it is a number of floating point
    /// at the right distance, or several smaller ones; and either at the very position or beside
    /// no call.
    fn is_certain(
        &self,
        program: &Program<'_>,
        chosen: &Candidate,
        possible: &[&Candidate],
    ) -> bool {
        let place = chosen.place.as_ref();
        let calls = possible.iter().any(|other| doubt(other) == Doubt::Folded);
        let exact = self.position.is_some_and(|at| chosen.own.contains(&at));
        let is_it = place.is_some_and(|place| {
            let size = program.size(&place.kind);
            // Several elements at once: an atomic load is not wider than its object.
            let several = size.is_some_and(|size| size < u64::from(self.access.size));
            let number = self.fits(program, chosen) && program.is_float(&place.kind);
            place.base != Base::Local && (number || several)
        });
        is_it && (exact || !calls)
    }

    /// Whether a candidate may be the access, as far as its kind and size tell.
    pub(in crate::debug) fn is_possible(
        &self,
        program: &Program<'_>,
        candidate: &Candidate,
    ) -> bool {
        let kind = self.access.kind;
        let Some(place) = &candidate.place else {
            return true;
        };
        let direction = match (kind.reads(), kind.writes()) {
            (true, false) => candidate.reads,
            // An update in one instruction may be a read and a write in the text.
            _ => candidate.writes,
        };
        // Atomic and volatile accesses are neither split nor widened.
        let size = program.size(&place.kind);
        let whole = match candidate.marking {
            TextMarking::Atomic(_) | TextMarking::Volatile(_) => {
                place.bits.is_some()
                    || program.is_structure(&place.kind)
                    || self.access.size == 0
                    || size.is_none_or(|size| size == u64::from(self.access.size))
            }
            _ => true,
        };
        direction && whole
    }

    /// Leaves local variables out if the instruction accesses something else.
    fn without_locals<'c>(&self, left: Vec<&'c Candidate>) -> Vec<&'c Candidate> {
        let is_local = |candidate: &&Candidate| {
            let place = candidate.place.as_ref();
            place.is_some_and(|place| place.base == Base::Local)
        };
        // Where rbp is no frame, it points to objects like any other register. Variables of a
        // frame lie below it.
        let operand = &self.access.operand;
        let stack = match operand.base {
            Some(Register::Rsp) => true,
            Some(Register::Rbp) => operand.displacement.cast_signed() < 0,
            _ => false,
        };
        let (locals, others): (Vec<_>, Vec<_>) = left.iter().copied().partition(is_local);
        let others_are_objects = others.iter().any(|candidate| candidate.place.is_some());
        if stack && !locals.is_empty() {
            return locals;
        }
        if !stack && others_are_objects {
            return others;
        }
        left
    }

    /// Whether it is another part of the variable than the one that is accessed.
    fn is_elsewhere(&self, program: &Program<'_>, candidate: &Candidate) -> bool {
        let place = candidate
            .place
            .as_ref()
            .filter(|place| matches!(place.base, Base::Global(_)) && place.bits.is_none());
        let Some((place, accessed)) = place.zip(self.offset) else {
            return false;
        };
        let part = place.offset.zip(program.size(&place.kind));
        part.is_some_and(|(start, size)| {
            start.saturating_add(size) <= accessed
                || accessed.saturating_add(self.access.size.into()) <= start
        })
    }

    /// Whether size and distance are those of the instruction.
    fn fits(&self, program: &Program<'_>, candidate: &Candidate) -> bool {
        let Some(place) = &candidate.place else {
            return false;
        };
        let operand = &self.access.operand;
        let size = program.size(&place.kind);
        let same_size = size.is_some_and(|size| size == u64::from(self.access.size));
        let distance = match (operand.constant(), operand.base, operand.index) {
            (None, Some(_), None) if place.base == Base::Pointer => place
                .offset
                .is_none_or(|offset| offset == operand.displacement),
            _ => true,
        };
        same_size && distance
    }
}

/// Keeps those that `is` takes, if there are any.
fn narrow<'c>(left: &mut Vec<&'c Candidate>, is: impl Fn(&'c Candidate) -> bool) {
    let taken: Vec<&Candidate> = left.iter().copied().filter(|c| is(c)).collect();
    if taken.iter().any(|candidate| candidate.place.is_some()) {
        *left = taken;
    }
}

fn same(one: &TextMarking, other: &TextMarking) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

fn agree(left: &[&Candidate]) -> bool {
    let Some((first, rest)) = left.split_first() else {
        return true;
    };
    rest.iter()
        .all(|candidate| same(&candidate.marking, &first.marking))
}

fn doubt(candidate: &Candidate) -> Doubt {
    match &candidate.marking {
        TextMarking::Unknown(doubt) => doubt.clone(),
        _ => Doubt::NoExpression,
    }
}

/// Why candidates do not agree: because one is not known, or because they differ.
fn disagreement(left: &[&Candidate]) -> Doubt {
    left.iter()
        .find_map(|candidate| match &candidate.marking {
            TextMarking::Unknown(doubt) => Some(doubt.clone()),
            _ => None,
        })
        .unwrap_or(Doubt::Ambiguous)
}
