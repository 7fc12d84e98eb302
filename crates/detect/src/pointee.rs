//! Names for what is reached through pointers: each side says what its instruction points to,
//! and what both say is the name.

use crate::Collision;
use redhanded_image::{Named, Reading, Source, Step};
use redhanded_model::{
    Avma, Bytes, Evidence, Pointee, PointeeSource, Registers, SideEvidence, What,
};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// If more members than this are accessed at once, the name is that of what has them.
const MOST_NAMES: usize = 4;

/// One access, and the registers of its thread: before it, or after it.
struct Side<'a> {
    pc: Avma,
    bytes: Bytes,
    registers: Option<&'a Registers>,
}

/// What the sides point to.
pub struct Pointees {
    /// What each side calls it.
    pub sides: Vec<Option<Pointee>>,
    /// What the bytes mean that both touch, if it is certain what they are.
    pub reading: Option<Reading>,
}

/// Adds to `what` the name of what the two sides point to, unless it has one of its own.
pub fn name(
    what: &mut What,
    collision: &Collision,
    modules: &[Arc<Module>],
    evidence: &Evidence,
) -> Pointees {
    let record = &collision.record;
    let mut sides = vec![Some(Side {
        pc: record.pc,
        bytes: record.bytes,
        registers: collision.registers(),
    })];
    let mut both = record.bytes;
    if let Some((confirmed, ..)) = &collision.other {
        both = confirmed.bytes.intersection(both).unwrap_or(both);
        let hit = record.hit.as_ref().map(|hit| &hit.registers);
        let is_known = hit.is_some() || collision.analysed.is_some();
        let side = (confirmed.system_call.is_none() && is_known).then_some(Side {
            pc: confirmed.pc,
            bytes: confirmed.bytes,
            registers: hit,
        });
        sides.push(side);
    }
    let text = |at: usize| {
        evidence
            .sides
            .get(at)
            .and_then(expression)
            .unwrap_or_default()
    };
    let mut names: Vec<Option<Named>> = sides
        .iter()
        .enumerate()
        .map(|(at, side)| side.as_ref()?.named(both, modules, text(at)))
        .collect();
    let agreed = vote(&mut names);
    let mut reading = None;
    if what.name.is_none() {
        what.sides_differ = agreed == Agreed::Differ;
        match agreed {
            Agreed::On(at) => {
                if let Some(Some(named)) = names.get(at) {
                    what.type_name = (!named.doubtful).then(|| named.type_name.clone());
                    reading = named.reading.clone().filter(|_| !named.doubtful);
                    what.pointee = Some(together(named));
                }
            }
            Agreed::Beside(shared) => {
                what.type_name = Some(shared.part_type.clone());
                what.pointee = Some(*shared);
            }
            Agreed::Differ | Agreed::Nothing => {}
        }
        let whole = sides.first().and_then(|side| {
            let side = side.as_ref()?;
            side.named(side.bytes, modules, text(0))
        });
        what.bit_fields = whole.map(|named| named.bit_fields).unwrap_or_default();
    }
    let told = names.iter().map(|named| named.as_ref().map(pointee));
    let mut told: Vec<Option<Pointee>> = told.collect();
    if what.name.is_some() {
        for (side, told) in sides.iter().zip(&mut told) {
            let outside = side.as_ref().and_then(|side| side.outside(modules));
            *told = outside.or(told.take());
        }
        let is_outside = |told: &&Option<Pointee>| told.as_ref().is_some_and(|told| told.outside);
        what.sides_differ = told.len() == 2 && told.iter().filter(is_outside).count() == 1;
    }
    Pointees {
        sides: told,
        reading,
    }
}

fn expression(side: &SideEvidence) -> Option<&str> {
    let source = side.source()?;
    Some(source.expression.as_ref()?.text.as_str())
}

impl Side<'_> {
    /// The element of an array that the side means, although the bytes are another variable's.
    fn outside(&self, modules: &[Arc<Module>]) -> Option<Pointee> {
        let module = module_at(modules, self.pc)?;
        let start = self.bytes.start;
        let own = module_at(modules, start).filter(|at| Arc::ptr_eq(at, module))?;
        let debug = module.image.as_ref()?.debug();
        let named = debug.outside(module.svma(self.pc), own.svma(start), self.bytes.len)?;
        Some(Pointee {
            outside: true,
            ..pointee(&named)
        })
    }

    /// What the side calls some of its bytes. `text` is the source's expression there.
    fn named(&self, bytes: Bytes, modules: &[Arc<Module>], text: &str) -> Option<Named> {
        let module = module_at(modules, self.pc)?;
        let image = module.image.as_ref()?;
        let svma = module.svma(self.pc);
        let instruction = image.instruction_at(svma)?;
        let operand = &instruction.sampled_access()?.operand;
        let pointed = image.debug().pointed_at(svma)?;
        let into = bytes.start.0.checked_sub(self.bytes.start.0)?;
        // An instruction may overwrite the register that it takes the address from.
        let intact = |registers: &&Registers| operand.address(registers) == self.bytes.start.0;
        let mut named = if let Some(registers) = self.registers.filter(intact) {
            let base = registers.get(pointed.register());
            let distance = bytes.start.0.wrapping_sub(base);
            pointed.part(distance.cast_signed(), bytes.len, text)
        } else if operand.index.is_none() {
            let distance = operand.displacement.checked_add(into)?;
            pointed.part(distance.cast_signed(), bytes.len, text)
        } else if into == 0 {
            pointed.any_part(bytes.len, text)
        } else {
            None
        }?;
        // That it names another proves nothing: which expression of a line an instruction is
        // for is guessed, and what the register points to is not.
        if names_member(&named, text) {
            named.doubtful = false;
        }
        Some(named)
    }
}

/// Whether the source's expression names the same member.
fn names_member(named: &Named, expression: &str) -> bool {
    let member = expression.rsplit_once(['.', '>']).map(|(_, member)| member);
    let member = member.and_then(|member| member.split('[').next());
    let own = last_member(named).and_then(|(_, to)| to.strip_prefix('.'));
    own.is_some() && own == member.map(str::trim)
}

/// What two sides agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Agreed {
    /// What this side says.
    On(usize),
    /// What holds the two members, which share their bytes.
    Beside(Box<Pointee>),
    /// They name different things, both for certain.
    Differ,
    Nothing,
}

/// Each side's word counts. Two that say the same leave no doubt; two that contradict each
/// other are both doubtful, unless neither was.
fn vote(names: &mut [Option<Named>]) -> Agreed {
    let [Some(one), Some(other)] = names else {
        let only = names.iter().position(Option::is_some);
        return only.map_or(Agreed::Nothing, Agreed::On);
    };
    match same(one, other) {
        Some(true) => {
            let doubtful = one.doubtful && other.doubtful;
            one.doubtful = doubtful;
            other.doubtful = doubtful;
        }
        Some(false) if !one.doubtful && !other.doubtful => {
            return match beside(one, other) {
                Some(shared) => Agreed::Beside(Box::new(shared)),
                None => Agreed::Differ,
            };
        }
        Some(false) => {
            // The side that is sure of it is believed, but not quite.
            let sure = usize::from(one.doubtful);
            one.doubtful = true;
            other.doubtful = true;
            return Agreed::On(sure);
        }
        None => {}
    }
    // Who knows the structure says more; the held side has all its registers. Of a whole and
    // a part of it, both touch the whole.
    let is_part = |named: &Named, of: &Named| {
        last_member(named) != last_member(of) && leads_through(named, of)
    };
    let says = |named: &Named, other: &Named| {
        (
            !named.doubtful,
            !is_part(named, other),
            named.member.is_some(),
            !named.steps.is_empty(),
        )
    };
    Agreed::On(usize::from(says(other, one) > says(one, other)))
}

/// Whether two names are of the same thing, or one of a part of it; `None` if they can be
/// compared in nothing.
fn same(one: &Named, other: &Named) -> Option<bool> {
    match (last_member(one), last_member(other)) {
        (Some(a), Some(b)) => {
            Some(a == b || leads_through(one, other) || leads_through(other, one))
        }
        // A pointer to a number, and the structure that has it.
        _ if is_byte(one) || is_byte(other) => None,
        _ => (one.type_name == other.type_name).then_some(true),
    }
}

/// The last member on the way, and the type that has it.
fn last_member(named: &Named) -> Option<(&str, &str)> {
    let is_member = |step: &&Step| step.to.starts_with('.');
    let array = named.member.as_ref().filter(is_member);
    let step = named.steps.iter().rev().find(is_member).or(array)?;
    Some((&step.of, &step.to))
}

/// Whether the way to one thing leads through another: a variant's member is in its enum.
fn leads_through(part: &Named, whole: &Named) -> bool {
    let through = last_member(whole);
    let mut steps = part.steps.iter();
    through.is_some() && steps.any(|step| Some((&*step.of, &*step.to)) == through)
}

/// What holds two members that share their bytes: bit-fields of one unit, members of a union.
fn beside(one: &Named, other: &Named) -> Option<Pointee> {
    let is_bit_field = |to: &str| {
        let has = |named: &Named| named.bit_fields.iter().any(|field| field.name == to);
        has(one) && has(other)
    };
    let member = |step: &Step| Some(step.to.strip_prefix('.')?.to_owned());
    one.steps.iter().enumerate().find_map(|(at, step)| {
        let own = member(step)?;
        let parted = |it: &&Step| it.of == step.of && it.to != step.to;
        let theirs = other.steps.iter().find(parted).and_then(member)?;
        let in_union = one.in_union && other.in_union;
        let share = in_union || (is_bit_field(&own) && is_bit_field(&theirs));
        if !share {
            return None;
        }
        let rest: String = one.steps.get(at..)?.iter().map(|step| &*step.to).collect();
        let before = one.path.strip_suffix(&*rest)?;
        let mut names = [own, theirs];
        names.sort();
        let part_type = if one.type_name == other.type_name {
            &one.type_name
        } else {
            &step.of
        };
        Some(Pointee {
            expression: None,
            path: format!("{before}.{{{}}}", names.join(",")),
            part_type: part_type.clone(),
            member: Some(step.of.clone()),
            ..pointee(one)
        })
    })
}

/// Whatever is copied is bytes to who copies it.
fn is_byte(named: &Named) -> bool {
    matches!(
        named.type_name.as_str(),
        "char" | "unsigned char" | "signed char" | "uint8_t" | "u8" | "i8" | "std::byte"
    )
}

/// What both sides touch: several members at once are all named.
fn together(named: &Named) -> Pointee {
    let bit_fields = named.bit_fields.iter().map(|field| &field.name);
    let names: Vec<&str> = bit_fields.chain(&named.spans).map(|name| &**name).collect();
    let is_one = names.iter().any(|name| {
        let last = named
            .steps
            .last()
            .and_then(|step| step.to.strip_prefix('.'));
        name.is_empty() || last == Some(*name)
    });
    let mut pointee = pointee(named);
    if (2..=MOST_NAMES).contains(&names.len()) && !is_one {
        pointee.path = format!("{}.{{{}}}", pointee.path, names.join(","));
        pointee.expression = None;
    }
    pointee
}

fn pointee(named: &Named) -> Pointee {
    Pointee {
        expression: named.expression.clone(),
        type_name: named.object.clone(),
        path: named.path.clone(),
        member: named
            .member
            .as_ref()
            .map(|step| format!("{}{}", step.of, step.to)),
        part_type: named.type_name.clone(),
        from: match named.source {
            Source::Variable => PointeeSource::Variable,
            Source::Followed => PointeeSource::Followed,
        },
        doubtful: named.doubtful,
        outside: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::BitField;

    fn named(of: &str, member: &str, doubtful: bool) -> Named {
        let to = format!(".{member}");
        Named {
            expression: Some(format!("p->{member}")),
            object: of.to_owned(),
            path: to.clone(),
            steps: vec![Step {
                of: of.to_owned(),
                to,
            }],
            type_name: "int".to_owned(),
            bit_fields: Vec::new(),
            reading: None,
            spans: Vec::new(),
            member: Some(Step {
                of: of.to_owned(),
                to: format!(".{member}"),
            }),
            in_union: false,
            source: Source::Variable,
            doubtful,
        }
    }

    #[track_caller]
    fn check(one: Option<Named>, other: Option<Named>, expect: Agreed) -> Vec<bool> {
        let mut names = vec![one, other];
        assert_eq!(vote(&mut names), expect);
        names.iter().flatten().map(|named| named.doubtful).collect()
    }

    #[test]
    fn two_that_say_the_same_leave_no_doubt() {
        let doubts = check(
            Some(named("item", "flags", true)),
            Some(named("item", "flags", false)),
            Agreed::On(0),
        );
        assert_eq!(doubts, [false, false]);
        let doubts = check(
            Some(named("item", "flags", true)),
            Some(named("item", "flags", true)),
            Agreed::On(0),
        );
        assert_eq!(doubts, [true, true], "both guess");
    }

    #[test]
    fn one_side_alone_names_it() {
        check(None, Some(named("item", "flags", false)), Agreed::On(1));
        check(None, None, Agreed::Nothing);
    }

    #[test]
    fn a_contradiction_is_told_if_both_are_sure() {
        let item = named("item", "flags", false);
        let doubts = check(
            Some(item.clone()),
            Some(named("conn", "state", false)),
            Agreed::Differ,
        );
        assert_eq!(doubts, [false, false]);
        let doubts = check(
            Some(named("conn", "state", true)),
            Some(item),
            Agreed::On(1),
        );
        assert_eq!(doubts, [true, true]);
    }

    /// One side has a pointer to the member, the other one to the structure.
    #[test]
    fn the_structure_says_more_than_a_pointer_to_its_member() {
        let mut number = named("int", "", false);
        number.steps.clear();
        number.member = None;
        let doubts = check(
            Some(number),
            Some(named("item", "count", false)),
            Agreed::On(1),
        );
        assert_eq!(doubts, [false, false]);
    }

    fn bit_field(member: &str) -> Named {
        let field = |name: &str| BitField {
            name: name.to_owned(),
            first_bit: 0,
            bits: 3,
        };
        Named {
            bit_fields: vec![field("a"), field("b")],
            member: Some(Step {
                of: "struct conn".to_owned(),
                to: String::new(),
            }),
            ..named("struct conn", member, false)
        }
    }

    #[track_caller]
    fn beside(one: Named, other: Named) -> Pointee {
        match vote(&mut [Some(one), Some(other)]) {
            Agreed::Beside(shared) => *shared,
            agreed => panic!("{agreed:?}"),
        }
    }

    #[test]
    fn bit_fields_that_share_their_bytes_contradict_nothing() {
        let shared = beside(bit_field("b"), bit_field("a"));
        assert_eq!(shared.name(), "struct conn.{a,b}");
        assert_eq!(shared.member.as_deref(), Some("struct conn"));
        assert!(!shared.doubtful);
        let alone = bit_field("a");
        check(Some(alone.clone()), Some(alone.clone()), Agreed::On(0));
        let elsewhere = named("struct conn", "c", false);
        check(Some(alone), Some(elsewhere), Agreed::Differ);
    }

    #[test]
    fn members_that_are_accessed_at_once_are_all_named() {
        let mut fields = bit_field("a");
        assert_eq!(together(&fields).name(), "struct conn.a");
        fields.steps.clear();
        fields.path.clear();
        assert_eq!(together(&fields).name(), "struct conn.{a,b}");
        let mut members = named("struct s", "inner", false);
        members.spans = vec!["x".to_owned(), "y".to_owned()];
        assert_eq!(together(&members).name(), "struct s.inner.{x,y}");
        members.spans.truncate(1);
        assert_eq!(together(&members).name(), "struct s.inner");
    }

    #[test]
    fn members_of_a_union_share_their_bytes() {
        let member = |member: &str| {
            let mut named = named("union u", member, false);
            let holder = Step {
                of: "struct s".to_owned(),
                to: ".u".to_owned(),
            };
            named.steps.insert(0, holder);
            named.path.insert_str(0, ".u");
            named.in_union = true;
            named
        };
        let shared = beside(member("number"), member("text"));
        assert_eq!(shared.path, ".u.{number,text}");
        assert_eq!(shared.member.as_deref(), Some("union u"));
    }

    #[test]
    fn who_names_a_part_of_it_says_the_same() {
        let whole = named("Inner", "shape", false);
        let mut part = named("Circle", "0", false);
        part.steps.insert(0, whole.steps[0].clone());
        check(Some(whole.clone()), Some(part.clone()), Agreed::On(0));
        check(Some(part), Some(whole), Agreed::On(1));
    }

    #[test]
    fn an_array_that_the_source_names_is_not_what_is_behind_it() {
        let mut element = named("Over", "a", false);
        element.steps.clear();
        let after = named("Over", "after", false);
        check(Some(element), Some(after), Agreed::Differ);
    }

    #[test]
    fn the_source_is_a_witness() {
        let flags = named("item", "flags", true);
        for (text, is) in [
            ("it->flags", true),
            ("c->it->flags[0]", true),
            ("it->state", false),
            ("flags->state", false),
            ("*it", false),
        ] {
            assert_eq!(names_member(&flags, text), is, "{text}");
        }
    }
}
