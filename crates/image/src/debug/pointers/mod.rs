//! What is behind a pointer: the variable or expression whose value the base register of an
//! access holds, and the member that the access touches.
//!
//! Compilers say where each variable is, but not always, and never what the temporaries of an
//! expression are. So the instructions of a function are followed from its entry: moves, loads,
//! additions, what calls return. Linux's perf does the same to say which data is slow.

mod flow;
mod held;
mod locations;
mod step;
mod writing;

use super::Inner;
use super::parts::{Part, Step};
use super::program::{Die, Program};
use super::reading::Reading;
use crate::{Instruction, SegmentBase};
use flow::Followed;
use held::{Held, Object};
use redhanded_model::{BitField, Register, Svma};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
pub(super) use writing::path;

/// How many functions are kept.
const MAX_KEPT: usize = 512;

/// The functions that were followed.
#[derive(Default)]
pub(super) struct Flows(Mutex<HashMap<Die, Option<Arc<Followed>>>>);

impl Flows {
    fn get(
        &self,
        inner: &Arc<Inner>,
        program: &Program<'_>,
        function: Die,
    ) -> Option<Arc<Followed>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(&function) {
            return known.clone();
        }
        let followed = Followed::new(inner, program, function).map(Arc::new);
        let mut kept = kept();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(function, followed.clone());
        followed
    }
}

/// How it is known what a pointer points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A variable is in the register at this instruction.
    Variable,
    /// The instructions before it were followed.
    Followed,
}

/// What the address of an access points into.
#[derive(Clone)]
pub struct Pointed {
    inner: Arc<Inner>,
    register: Register,
    object: Object,
    /// The address of the access itself, if it follows from the instruction alone.
    address: Option<Object>,
    incomplete: bool,
}

/// A part of what a pointer points to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// How the source would write it: `it->it_flags`. Missing if only the type is known.
    pub expression: Option<String>,
    /// The type of the object.
    pub object: String,
    /// The path from the object to the part, as the source writes it.
    pub path: String,
    /// The same step by step, with the types on the way.
    pub steps: Vec<Step>,
    /// The type of the part.
    pub type_name: String,
    /// The bit-fields in the accessed bytes.
    pub bit_fields: Vec<BitField>,
    /// What the accessed bytes mean, if they are one value.
    pub reading: Option<Reading>,
    /// The members that are touched, if there are several.
    pub spans: Vec<String>,
    /// The last member on the way that a programmer writes, with the type that has it: the
    /// same whichever pointer leads there. Without a member, several of the type: bit-fields
    /// that share their bytes, members that are accessed at once. The array that it is an element of, if the source names that.
    pub member: Option<Step>,
    /// Whether other members of a union have the same bytes.
    pub in_union: bool,
    /// How it is known.
    pub source: Source,
    /// Whether it may be something else: another member of a union, a variable of another
    /// type with the same value.
    pub doubtful: bool,
}

impl std::fmt::Debug for Pointed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pointed")
            .field("register", &self.register)
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

impl Pointed {
    /// The register that points to it.
    #[must_use]
    pub const fn register(&self) -> Register {
        self.register
    }

    /// The part that `size` bytes touch that begin `distance` bytes from where the register
    /// points to. The words of `expressions`, which the source has there, choose among the
    /// members of a union.
    #[must_use]
    pub fn part(&self, distance: i64, size: u64, expressions: &str) -> Option<Named> {
        let mut object = self.object.clone();
        object.offset = object.offset.checked_add(distance)?;
        // An index that leads from element to element.
        let indexed = self.address.as_ref().is_some_and(|address| address.element);
        let named = self.named(&object, size, expressions, indexed);
        let beyond = named
            .as_ref()
            .and_then(|named| self.beyond(&object, named, size, expressions));
        beyond
            .or(named)
            .or_else(|| self.any_part(size, expressions))
    }

    /// The element of an array that is accessed beyond the array's end, where `there` is. Both
    /// the instruction and the source name the array, and not what is there: compilers may
    /// count the indices of one array from another one.
    fn beyond(&self, object: &Object, there: &Named, size: u64, text: &str) -> Option<Named> {
        let array = self.address.as_ref().filter(|address| address.element)?;
        let within = array.within.as_ref()?;
        let is_root = object.called == within.root && object.stride == 0 && !object.element;
        let words = words(text);
        let names = |step: &Step| {
            step.to
                .strip_prefix('.')
                .is_some_and(|to| words.contains(&to))
        };
        let other = there
            .steps
            .iter()
            .rev()
            .find(|step| step.to.starts_with('.'))?;
        if !is_root || there.steps.contains(&within.step) || !names(&within.step) || names(other) {
            return None;
        }
        let length = self.inner.ask(|program| program.size_of(array.kind))?;
        let from = object
            .offset
            .checked_sub(i64::try_from(within.start).ok()?)?;
        let index = from.checked_div_euclid(i64::try_from(length).ok()?)?;
        let mut named = self.any_part(size, text)?;
        let index = format!("[{index}]");
        named.expression = named.expression.map(|text| text.replacen("[…]", &index, 1));
        named.object = self
            .inner
            .ask(|program| Some(program.type_name(Some(within.root))))?;
        named.path = format!("{}{index}{}", within.path, named.path);
        let to = index;
        let of = within.step.of.clone();
        named
            .steps
            .splice(0..0, [within.step.clone(), Step { of, to }]);
        named.member = named.member.or_else(|| Some(within.step.clone()));
        Some(named)
    }

    /// The global variable with the array that an index leads into: where it begins, and how
    /// long an element of the array is.
    pub(super) fn array(&self) -> Option<(u64, u64)> {
        let array = self.address.as_ref().filter(|address| address.element)?;
        let length = self.inner.ask(|program| program.size_of(array.kind))?;
        Some((array.global?, length))
    }

    /// The part that the instruction accesses, whatever its index is.
    #[must_use]
    pub fn any_part(&self, size: u64, expressions: &str) -> Option<Named> {
        self.named(self.address.as_ref()?, size, expressions, false)
    }

    fn named(&self, object: &Object, size: u64, expressions: &str, indexed: bool) -> Option<Named> {
        let words = words(expressions);
        self.inner.ask(|program| {
            let (reached, index, object) = writing::reach(program, object, size, &words, indexed)?;
            let mut part = reached.part;
            // Several at once: which bit-field is meant depends on the instruction, and it
            // changes all of them; compilers make one access of several members.
            let member = if part.bit_fields.len() > 1 || part.spans.len() > 1 {
                Some(Step {
                    of: part.type_name.clone(),
                    to: String::new(),
                })
            } else {
                writing::last_member(&part.steps).cloned()
            };
            let array = object.within.as_ref().filter(|within| {
                let own = within.step.to.strip_prefix('.');
                index == 0 && own.is_some_and(|own| words.contains(&own))
            });
            let member = member.or_else(|| array.map(|within| within.step.clone()));
            name_bit_field(&mut part, &words);
            let mut path = path(&part.steps);
            if (index != 0 || object.first) && !object.element {
                path = format!("[{index}]{path}");
            }
            let last = part
                .steps
                .iter()
                .rev()
                .find_map(|step| step.to.strip_prefix('.'));
            let chosen = last.is_some_and(|member| words.contains(&member));
            Some(Named {
                expression: writing::expression(program, &object, &path),
                object: writing::type_name(program, &object, &part.steps),
                path,
                type_name: part.type_name,
                bit_fields: part.bit_fields,
                reading: part.reading,
                spans: part.spans,
                member,
                in_union: part.in_union,
                source: if object.declared {
                    Source::Variable
                } else {
                    Source::Followed
                },
                doubtful: object.doubtful
                    || (part.in_union && !chosen)
                    || (self.incomplete && !object.declared),
                steps: part.steps,
            })
        })
    }
}

/// The words of an expression.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// Several bit-fields share the bytes: it is the one that the source names.
fn name_bit_field(part: &mut Part, words: &[&str]) {
    let is_path = part.steps.last().is_some_and(|step| {
        part.bit_fields
            .iter()
            .any(|field| step.to.strip_prefix('.') == Some(field.name.as_str()))
    });
    let mut named = part
        .bit_fields
        .iter()
        .filter(|field| words.contains(&field.name.as_str()));
    if let (false, Some(field), None) = (is_path, named.next(), named.next()) {
        part.steps.push(Step {
            of: part.type_name.clone(),
            to: format!(".{}", field.name),
        });
    }
}

/// What the address of the access at `svma` points into.
pub(super) fn pointed_at(inner: &Arc<Inner>, svma: Svma) -> Option<Pointed> {
    let instruction = Instruction::decode(inner.code_at(svma)?, svma.0)?;
    let access = instruction.sampled_access()?;
    inner.ask(|program| {
        let function = function_at(program, svma)?;
        let followed = inner.flows.get(inner, program, function)?;
        followed.before(inner, program, svma, |around, state, facts| {
            let operand = &access.operand;
            if operand.segment != SegmentBase::Flat || operand.narrow {
                return None;
            }
            let base = operand.base.map(|base| (base, state.get(base)));
            let index = operand.index.map(|index| (index, state.get(index)));
            let address = around
                .address(state, operand)
                .and_then(|held| around.object(state, facts, held));
            let (register, object) = match (base, index) {
                (Some((base, Held::Address(object))), _) => Some((base, object.clone())),
                (Some((base, Held::Frame(at))), _) => {
                    let displacement = operand.displacement.cast_signed();
                    let held = Held::Frame(at.checked_add(displacement)?);
                    let mut object = around.object(state, facts, held)?;
                    object.offset = object.offset.checked_sub(displacement)?;
                    Some((base, object))
                }
                (_, Some((index, Held::Address(object)))) if operand.scale == 1 => {
                    Some((index, object.clone()))
                }
                _ => None,
            }?;
            Some(Pointed {
                inner: Arc::clone(inner),
                register,
                object,
                address,
                incomplete: followed.incomplete,
            })
        })?
    })
}

/// The function with the code at `svma`, into which others may have been inlined.
fn function_at(program: &Program<'_>, svma: Svma) -> Option<Die> {
    let unit = program.unit_at(svma)?;
    let offset = program.about(svma, |context| {
        let mut frames = context.find_frames(svma.0).skip_all_loads().ok()?;
        let mut outermost = None;
        while let Ok(Some(frame)) = frames.next() {
            outermost = frame.dw_die_offset.or(outermost);
        }
        outermost
    })?;
    Some(Die::new(unit, offset))
}
