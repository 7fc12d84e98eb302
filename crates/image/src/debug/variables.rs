//! Finds the global or static variable that an address belongs to.

use super::parts::Part;
use super::program::{Die, Program};
use super::types::How;
use super::{Inner, names};
use crate::kernel_file::CarriedTypes;
use gimli::{AttributeValue, DwTag, Operation, constants as dw};
use rayon::prelude::*;
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
    /// Its address.
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
        match &self.kind {
            Kind::Typed(inner, type_) => inner
                .ask(|program| Some(program.part(*type_, offset, size)))
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

    /// Whether its type is known.
    #[must_use]
    pub const fn is_typed(&self) -> bool {
        matches!(self.kind, Kind::Typed(..))
    }
}

/// All variables with a fixed address, sorted by it.
#[derive(Default)]
pub(super) struct Index(Vec<(u64, Die)>);

impl Index {
    fn build(program: &Program<'_>) -> Self {
        let mut found: Vec<(u64, Die)> = program
            .unit_numbers()
            .into_par_iter()
            .flat_map_iter(|unit| of_unit(program, unit))
            .collect();
        found.sort_by_key(|(address, die)| (*address, die.unit()));
        Self(found)
    }

    /// Those that start at or before `svma`, nearest first.
    fn before(&self, svma: u64) -> impl Iterator<Item = &(u64, Die)> {
        let next = self.0.partition_point(|(address, _)| *address <= svma);
        self.0.get(..next).unwrap_or_default().iter().rev()
    }
}

fn of_unit(program: &Program<'_>, number: u32) -> Vec<(u64, Die)> {
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
                && let Some(address) = fixed_address(dwarf, unit, expression)
            {
                found.push((address, Die::new(number, offset)));
            }
        }
    }
    found
}

const fn is_variable(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_variable | dw::DW_TAG_member)
}

/// The address that a location expression always yields; `None` for locals and
/// thread-locals.
fn fixed_address<R: gimli::Reader>(
    dwarf: &gimli::Dwarf<R>,
    unit: &gimli::Unit<R>,
    expression: gimli::Expression<R>,
) -> Option<u64> {
    let mut operations = expression.operations(unit.encoding());
    let mut address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    match operations.next().ok()? {
        None => {}
        Some(Operation::PlusConstant { value }) => address = address.checked_add(value)?,
        // An entry value, a thread-local and the like.
        Some(_) => return None,
    }
    let more = operations.next().ok()?.is_some();
    // Linkers leave 0 if they dropped the variable.
    (!more && address != 0).then_some(address)
}

impl Inner {
    pub(super) fn variable_at(self: &Arc<Self>, svma: Svma) -> Option<Variable> {
        self.typed_variable(svma)
            .or_else(|| self.symbol_variable(svma))
    }

    fn typed_variable(self: &Arc<Self>, svma: Svma) -> Option<Variable> {
        self.ask(|program| {
            let index = program.variables.get_or_init(|| Index::build(program));
            index
                .before(svma.0)
                .take(LOOK_BACK)
                .find_map(|(address, die)| {
                    let type_ = program.link(*die, dw::DW_AT_type)?;
                    let size = program
                        .size_of(type_)
                        .filter(|size| *size > 0)
                        // A declaration `extern int a[]` has no size of its own.
                        .or_else(|| Some(self.symbols().data_from(*address)?.size))?;
                    if svma.0 - address >= size {
                        return None;
                    }
                    let mut name = program.scopes(*die);
                    name.push(program.name(*die)?);
                    Some(Variable {
                        name: name.join("::"),
                        svma: Svma(*address),
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
