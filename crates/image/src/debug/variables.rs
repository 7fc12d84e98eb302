//! Finds the global or static variable that an address belongs to.

use super::parts::Part;
use super::program::{Die, Program};
use super::types::How;
use super::{Inner, names};
use crate::kernel_file::CarriedTypes;
use crate::parallel;
use gimli::{AttributeValue, DwTag, Operation, constants as dw};
use redhanded_model::Svma;
use std::path::PathBuf;
use std::sync::Arc;

/// How many variables before an address are examined. Variables rarely overlap.
const LOOK_BACK: usize = 16;

/// A global or static variable.
#[derive(Clone)]
pub struct Variable {
    /// Its name with its scopes: `ns::var`, `Class::member`, `function::var`.
    pub name: String,
    /// Its address; if only a piece of it is left, where it would begin.
    pub svma: Svma,
    /// Its size in bytes.
    pub size: u64,
    /// The file and line that declare it.
    pub declared: Option<(PathBuf, u32)>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Typed(Arc<Inner>, Die),
    /// A symbol, and the types that may describe it.
    Symbol(String, Arc<CarriedTypes>),
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variable")
            .field("name", &self.name)
            .field("svma", &self.svma)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Variable {
    /// The part of it that an access of `size` bytes at `offset` touches.
    #[must_use]
    pub fn part(&self, offset: u64, size: u64) -> Part {
        self.part_as(offset, size, None)
    }

    /// The same, where the source accesses it by this expression: of the members of a union
    /// it is the one that the expression names.
    #[must_use]
    pub fn part_as(&self, offset: u64, size: u64, expression: Option<&str>) -> Part {
        let named: Vec<&str> = expression
            .unwrap_or_default()
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .collect();
        match &self.kind {
            Kind::Typed(inner, type_) => inner
                .ask(|program| Some(program.part(*type_, offset, size, &named)))
                .unwrap_or_default(),
            Kind::Symbol(symbol, types) => {
                let types = types.get();
                let typed = types.and_then(|types| types.part_of_variable(symbol, offset, size));
                typed.unwrap_or_else(|| Part {
                    path: match offset {
                        0 => String::new(),
                        offset => format!("+{offset}"),
                    },
                    synchronising: symbol.starts_with("_ZGV").then_some(How::Guard),
                    ..Part::default()
                })
            }
        }
    }

    /// Its type, if that is known.
    pub(super) const fn kind(&self) -> Option<Die> {
        match &self.kind {
            Kind::Typed(_, kind) => Some(*kind),
            Kind::Symbol(..) => None,
        }
    }

    /// Whether its type is known.
    #[must_use]
    pub const fn is_typed(&self) -> bool {
        matches!(self.kind, Kind::Typed(..))
    }
}

/// Where a variable, or a piece of it, has a fixed address.
#[derive(Clone, Copy)]
struct Piece {
    address: u64,
    /// How far into the variable it begins.
    offset: u64,
    /// Its length, if it is not the whole variable. Compilers split a variable and drop
    /// what is not used.
    len: Option<u64>,
}

/// All variables with a fixed address, sorted by it.
#[derive(Default)]
pub(super) struct Index(Vec<(Piece, Die)>);

impl Index {
    fn build(program: &Program<'_>) -> Self {
        let units = program.unit_numbers().collect();
        let mut found = parallel::map(units, |unit| of_unit(program, unit)).concat();
        found.sort_by_key(|(piece, die)| (piece.address, die.unit()));
        Self(found)
    }

    /// Those that start at or before `svma`, nearest first.
    fn before(&self, svma: u64) -> impl Iterator<Item = &(Piece, Die)> {
        let next = self.0.partition_point(|(piece, _)| piece.address <= svma);
        self.0.get(..next).unwrap_or_default().iter().rev()
    }
}

fn of_unit(program: &Program<'_>, number: u32) -> Vec<(Piece, Die)> {
    let mut found = Vec::new();
    let Some((dwarf, unit)) = program.main_unit(number) else {
        return found;
    };
    let Ok(mut entries) = unit.entries_raw(None) else {
        return found;
    };
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Ok(abbreviation) = entries.read_abbreviation() else {
            break;
        };
        let Some(abbreviation) = abbreviation else {
            continue;
        };
        let wanted = is_variable(abbreviation.tag());
        let has_location = || {
            abbreviation
                .attributes()
                .iter()
                .any(|a| a.name() == dw::DW_AT_location)
        };
        if !wanted || !has_location() {
            if entries.skip_attributes(abbreviation.attributes()).is_err() {
                break;
            }
            continue;
        }
        for specification in abbreviation.attributes() {
            let Ok(attribute) = entries.read_attribute(*specification) else {
                return found;
            };
            if attribute.name() == dw::DW_AT_location
                && let AttributeValue::Exprloc(expression) = attribute.value()
            {
                let pieces = fixed_pieces(dwarf, unit, expression).unwrap_or_default();
                let die = Die::new(number, offset);
                found.extend(pieces.into_iter().map(|piece| (piece, die)));
            }
        }
    }
    found
}

const fn is_variable(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_variable | dw::DW_TAG_member)
}

/// Where a location expression always places a variable or pieces of it; `None` for locals
/// and thread-locals.
fn fixed_pieces<R: gimli::Reader>(
    dwarf: &gimli::Dwarf<R>,
    unit: &gimli::Unit<R>,
    expression: gimli::Expression<R>,
) -> Option<Vec<Piece>> {
    let mut operations = expression.operations(unit.encoding());
    let mut pieces = Vec::new();
    let mut offset: u64 = 0;
    let mut address: Option<u64> = None;
    while let Some(operation) = operations.next().ok()? {
        match (operation, address) {
            (Operation::Address { address: at }, None) => address = Some(at),
            (Operation::AddressIndex { index }, None) => {
                address = Some(dwarf.address(unit, index).ok()?);
            }
            (Operation::PlusConstant { value }, Some(at)) => address = Some(at.checked_add(value)?),
            // A piece without an address was dropped.
            (
                Operation::Piece {
                    size_in_bits,
                    bit_offset: None,
                },
                at,
            ) => {
                let len = size_in_bits / 8;
                pieces.extend(at.map(|address| Piece {
                    address,
                    offset,
                    len: Some(len),
                }));
                offset = offset.checked_add(len)?;
                address = None;
            }
            // A constant, an entry value, a thread-local and the like.
            _ => return None,
        }
    }
    pieces.extend(address.map(|address| Piece {
        address,
        offset,
        len: None,
    }));
    // Linkers leave 0 if they dropped the variable.
    pieces.retain(|piece| piece.address != 0);
    Some(pieces)
}

impl Inner {
    pub(super) fn variable_at(self: &Arc<Self>, svma: Svma) -> Option<Variable> {
        self.typed_variable(svma)
            .or_else(|| self.symbol_variable(svma))
    }

    /// The variable that debug information has at an address.
    pub(super) fn typed_variable(self: &Arc<Self>, svma: Svma) -> Option<Variable> {
        self.ask(|program| {
            let index = program.variables.get_or_init(|| Index::build(program));
            index
                .before(svma.0)
                .take(LOOK_BACK)
                .find_map(|(piece, die)| {
                    let type_ = program.link(*die, dw::DW_AT_type)?;
                    let size = program
                        .size_of(type_)
                        .filter(|size| *size > 0)
                        // A declaration `extern int a[]` has no size of its own.
                        .or_else(|| Some(self.symbols().data_from(piece.address)?.size))?;
                    if svma.0 - piece.address >= piece.len.unwrap_or(size) {
                        return None;
                    }
                    let mut name = program.scopes(*die);
                    name.push(program.name(*die)?);
                    Some(Variable {
                        name: name.join("::"),
                        svma: Svma(piece.address.checked_sub(piece.offset)?),
                        size,
                        declared: program.declared(*die),
                        kind: Kind::Typed(Arc::clone(self), type_),
                    })
                })
        })
    }

    fn symbol_variable(&self, svma: Svma) -> Option<Variable> {
        let symbol = self.symbols().data_at(svma.0)?;
        Some(Variable {
            name: names::demangle(&symbol.name),
            svma: Svma(symbol.start),
            size: symbol.size,
            declared: None,
            kind: Kind::Symbol(symbol.name.clone(), Arc::clone(&self.types)),
        })
    }
}

impl Program<'_> {
    /// Whether `die` is a variable with a fixed address.
    pub(super) fn has_fixed_address(&self, die: Die) -> bool {
        let location = self
            .entry(die)
            .and_then(|entry| entry.attr_value(dw::DW_AT_location));
        let (Some(AttributeValue::Exprloc(expression)), Some((dwarf, unit))) =
            (location, self.dwarf_and_unit(die))
        else {
            return false;
        };
        fixed_pieces(dwarf, unit, expression).is_some_and(|pieces| !pieces.is_empty())
    }

    /// The file and line that declare `die`.
    pub(super) fn declared(&self, die: Die) -> Option<(PathBuf, u32)> {
        let (holder, file) = self.inherited(die, dw::DW_AT_decl_file)?;
        let line = self.number(die, dw::DW_AT_decl_line)?;
        let AttributeValue::FileIndex(index) = file else {
            return None;
        };
        Some((self.file(holder, index)?, u32::try_from(line).ok()?))
    }
}
