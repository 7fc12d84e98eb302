//! Where the debug information says that the variables of a function are.

use super::held::{Object, Written};
use super::writing::{bare, is_aggregate, member, pointee};
use crate::debug::program::{Die, Entry, Program};
use crate::debug::sections::Slice;
use gimli::{AttributeValue, Dwarf, Expression, Operation, Unit, constants as dw};
use redhanded_model::Register;
use std::collections::HashMap;
use std::ops::Range;

/// No function has more scopes and variables than this.
const MAX_ENTRIES: usize = 1 << 14;
/// Nor more locations.
const MAX_FACTS: usize = 1 << 16;
/// No location has more pieces.
const MAX_PIECES: usize = 16;

/// What a location is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Register(Register),
    /// The stack pointer before the call.
    Cfa,
}

/// What is known of a variable for some of the code.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// The register holds this address.
    Points(Register, Object),
    /// This object lies in memory, so far from the base.
    Lies(Base, i64, Object),
    /// Its address lies in memory, so far from the base.
    Referred(Base, i64, Object),
}

/// A location of a variable.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) range: Range<u64>,
    /// How many scopes are around it.
    pub(super) depth: u16,
    pub(super) known: Known,
}

/// A call in the function.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// What the returned pointer points to.
    pub(super) returns: Option<Object>,
    pub(super) never_returns: bool,
}

/// The locations of all variables of a function, of those that were inlined, too, outer scopes
/// first; and its calls by the addresses that they return to.
pub(super) fn read(program: &Program<'_>, function: Die) -> (Vec<Fact>, HashMap<u64, Call>) {
    let mut reader = Reader {
        program,
        frame_base: frame_base(program, function),
        facts: Vec::new(),
        calls: HashMap::new(),
        entries: 0,
    };
    reader.scope(function, 0);
    reader
        .facts
        .sort_by_key(|fact| (fact.depth, fact.range.start));
    (reader.facts, reader.calls)
}

/// What the type of a function says about a call of it.
pub(super) fn call_of(program: &Program<'_>, called: Die) -> Call {
    Call {
        returns: program
            .link(called, dw::DW_AT_type)
            .and_then(|kind| pointee(program, kind)),
        never_returns: program.inherited(called, dw::DW_AT_noreturn).is_some(),
    }
}

/// What the function was compiled to.
pub(super) fn ranges(program: &Program<'_>, function: Die) -> Vec<Range<u64>> {
    let entry = program.entry(function);
    let unit = program.dwarf_and_unit(function);
    let (Some(entry), Some((dwarf, unit))) = (entry, unit) else {
        return Vec::new();
    };
    entry_ranges(dwarf, unit, &entry)
}

fn entry_ranges<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    entry: &Entry<'d>,
) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Ok(mut ranges) = dwarf.die_ranges(unit, entry) else {
        return found;
    };
    while let Ok(Some(range)) = ranges.next() {
        if range.begin < range.end && found.len() < MAX_FACTS {
            found.push(range.begin..range.end);
        }
    }
    found
}

fn frame_base(program: &Program<'_>, function: Die) -> Option<(Base, i64)> {
    let entry = program.entry(function)?;
    let (_, unit) = program.dwarf_and_unit(function)?;
    let AttributeValue::Exprloc(expression) = entry.attr_value(dw::DW_AT_frame_base)? else {
        return None;
    };
    let mut operations = expression.operations(unit.encoding());
    let base = match operations.next().ok()?? {
        Operation::CallFrameCFA => (Base::Cfa, 0),
        Operation::Register { register } => (Base::Register(general(register)?), 0),
        Operation::RegisterOffset {
            register, offset, ..
        } => (Base::Register(general(register)?), offset),
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(base)
}

/// The general-purpose register with this number in DWARF.
fn general(register: gimli::Register) -> Option<Register> {
    Register::BY_DWARF.get(usize::from(register.0)).copied()
}

/// What a location expression leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Location {
    /// The variable is in this register.
    Register(Register),
    /// It is in memory there.
    Memory(Base, i64),
    /// Its value is this sum.
    Value(Base, i64),
    /// It is in memory, this far from the address that is in memory there.
    Behind(Base, i64, i64),
    /// The value is what is in memory there.
    Loaded(Base, i64),
}

struct Reader<'p, 'd> {
    program: &'p Program<'d>,
    frame_base: Option<(Base, i64)>,
    facts: Vec<Fact>,
    calls: HashMap<u64, Call>,
    entries: usize,
}

impl<'d> Reader<'_, 'd> {
    fn scope(&mut self, scope: Die, depth: u16) {
        let Some((dwarf, unit)) = self.program.dwarf_and_unit(scope) else {
            return;
        };
        let mut whole = None;
        for (die, entry) in self.program.children(scope) {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            match entry.tag() {
                dw::DW_TAG_lexical_block
                | dw::DW_TAG_try_block
                | dw::DW_TAG_catch_block
                | dw::DW_TAG_inlined_subroutine => {
                    if let Some(deeper) = depth.checked_add(1).filter(|deeper| *deeper < 256) {
                        self.scope(die, deeper);
                    }
                }
                dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => {
                    let Some(location) = entry.attr_value(dw::DW_AT_location) else {
                        continue;
                    };
                    if let AttributeValue::Exprloc(expression) = location {
                        let whole = whole.get_or_insert_with(|| {
                            let scope = self.program.entry(scope);
                            scope.map_or(Vec::new(), |scope| entry_ranges(dwarf, unit, &scope))
                        });
                        for range in whole.clone() {
                            self.location(die, unit, range, depth, expression);
                        }
                    } else if let Ok(Some(mut list)) = dwarf.attr_locations(unit, location) {
                        while let Ok(Some(one)) = list.next() {
                            let range = one.range.begin..one.range.end;
                            self.location(die, unit, range, depth, one.data);
                        }
                    }
                }
                dw::DW_TAG_call_site | dw::DW_TAG_GNU_call_site => {
                    let call = self.call(die, &entry, dwarf, unit);
                    self.calls.extend(call);
                }
                _ => {}
            }
        }
    }

    fn call(
        &self,
        die: Die,
        entry: &Entry<'d>,
        dwarf: &Dwarf<Slice<'d>>,
        unit: &Unit<Slice<'d>>,
    ) -> Option<(u64, Call)> {
        let either = |one, other| entry.attr_value(one).or_else(|| entry.attr_value(other));
        let back = either(dw::DW_AT_call_return_pc, dw::DW_AT_low_pc)?;
        let back = dwarf.attr_address(unit, back).ok()??;
        let origin = either(dw::DW_AT_call_origin, dw::DW_AT_abstract_origin)?;
        let called = self.program.follow(die, origin)?;
        Some((back, call_of(self.program, called)))
    }

    fn location(
        &mut self,
        die: Die,
        unit: &Unit<Slice<'_>>,
        range: Range<u64>,
        depth: u16,
        expression: Expression<Slice<'_>>,
    ) {
        if range.is_empty() || self.facts.len() >= MAX_FACTS {
            return;
        }
        let Some(pieces) = self.pieces(unit, expression) else {
            return;
        };
        let (Some(kind), Some(name)) = (
            self.program.link(die, dw::DW_AT_type),
            self.program.name(die),
        ) else {
            return;
        };
        let is_made = || {
            let entry = self.program.entry(die);
            entry.is_some_and(|entry| entry.attr_value(dw::DW_AT_artificial).is_some())
        };
        for (at, size, place) in pieces {
            // GCC has a variable for each capture of a lambda, behind the pointer to the object
            // that has them all. That pointer is a variable, too.
            if matches!(place, Location::Behind(..)) && is_made() {
                continue;
            }
            let known = self.known(kind, &name, at, size, place);
            self.facts.extend(known.map(|known| Fact {
                range: range.clone(),
                depth,
                known,
            }));
        }
    }

    fn known(
        &self,
        kind: Die,
        name: &str,
        at: u64,
        size: Option<u64>,
        place: Location,
    ) -> Option<Known> {
        let called = kind;
        let kind = bare(self.program, kind)?;
        let object = |offset: i64| Object {
            kind,
            called,
            offset,
            stride: 0,
            element: false,
            first: false,
            global: None,
            within: None,
            written: Some(Written::Itself(name.into())),
            declared: true,
            doubtful: false,
        };
        let value = || {
            let whole = object(i64::try_from(at).ok()?);
            size.is_none_or(|size| size == 8)
                .then(|| member(self.program, &whole, 8, &[]))?
        };
        let from = i64::try_from(at).ok()?;
        // A scalar is nowhere but in its own frame. If it is said to be in other memory, it has
        // the value of what is there. Structures may be returned and passed in others' memory.
        if let Location::Memory(base, _) | Location::Loaded(base, _) = place
            && !self.is_of_frame(base)
            && !is_aggregate(self.program, kind)
        {
            return None;
        }
        match place {
            Location::Register(register) => Some(Known::Points(register, value()?)),
            Location::Value(Base::Register(register), distance) => {
                let mut points = value()?;
                points.offset = points.offset.checked_sub(distance)?;
                Some(Known::Points(register, points))
            }
            Location::Value(Base::Cfa, _) => None,
            Location::Memory(base, distance) => {
                // A piece in memory: where the whole would begin.
                Some(Known::Lies(base, distance.checked_sub(from)?, object(0)))
            }
            Location::Loaded(base, distance) => {
                Some(Known::Lies(base, distance.checked_sub(from)?, object(0)))
            }
            Location::Behind(base, distance, further) => Some(Known::Referred(
                base,
                distance,
                object(from.checked_sub(further)?),
            )),
        }
    }

    fn is_of_frame(&self, base: Base) -> bool {
        let own = self.frame_base.map(|(base, _)| base);
        base == Base::Cfa || base == Base::Register(Register::Rsp) || Some(base) == own
    }

    /// The pieces of a variable: where each begins in it, its size unless it is the whole, and
    /// where it is.
    fn pieces(
        &self,
        unit: &Unit<Slice<'_>>,
        expression: Expression<Slice<'_>>,
    ) -> Option<Vec<(u64, Option<u64>, Location)>> {
        let mut operations = expression.operations(unit.encoding());
        let mut pieces = Vec::new();
        let mut at = 0u64;
        let mut place: Option<Location> = None;
        while let Some(operation) = operations.next().ok()? {
            place = match (operation, place) {
                (Operation::Register { register }, None) => match general(register) {
                    Some(register) => Some(Location::Register(register)),
                    // A vector register.
                    None => continue,
                },
                (
                    Operation::RegisterOffset {
                        register, offset, ..
                    },
                    None,
                ) => Some(Location::Memory(Base::Register(general(register)?), offset)),
                (Operation::FrameOffset { offset }, None) => {
                    let (base, from) = self.frame_base?;
                    Some(Location::Memory(base, from.checked_add(offset)?))
                }
                (Operation::CallFrameCFA, None) => Some(Location::Memory(Base::Cfa, 0)),
                (Operation::PlusConstant { value }, Some(place)) => {
                    let value = i64::try_from(value).ok()?;
                    Some(match place {
                        Location::Memory(base, from) => {
                            Location::Memory(base, from.checked_add(value)?)
                        }
                        Location::Behind(base, from, further) => {
                            Location::Behind(base, from, further.checked_add(value)?)
                        }
                        _ => return None,
                    })
                }
                (
                    Operation::Deref {
                        size: 8,
                        space: false,
                        ..
                    },
                    Some(Location::Memory(base, from)),
                ) => Some(Location::Behind(base, from, 0)),
                (Operation::StackValue, Some(Location::Memory(base, from))) => {
                    Some(Location::Value(base, from))
                }
                (Operation::StackValue, Some(Location::Behind(base, from, 0))) => {
                    Some(Location::Loaded(base, from))
                }
                (
                    Operation::Piece {
                        size_in_bits,
                        bit_offset: None,
                    },
                    found,
                ) => {
                    let size = size_in_bits / 8;
                    if pieces.len() >= MAX_PIECES {
                        return None;
                    }
                    pieces.extend(found.map(|place| (at, Some(size), place)));
                    at = at.checked_add(size)?;
                    None
                }
                // A constant, an entry value and the like.
                _ => return None,
            };
        }
        pieces.extend(place.map(|place| (at, None, place)));
        Some(pieces)
    }
}
