//! Functions that a linker folded. With `--icf` those whose code is alike become one, and the
//! code of a plain load is that of an atomic one. What the debug information says there is true
//! of one of them only, and which of them a thread called does not show.

use super::Inner;
use super::program::{Die, Program};
use super::sections::Slice;
use super::symbols::is_same_function;
use crate::parallel;
use gimli::{AttributeValue, Dwarf, Unit, constants as dw};
use redhanded_model::Svma;
use std::collections::HashSet;

/// The starts of functions in the debug information, sorted, and which of them several have.
#[derive(Default)]
pub(super) struct Folded {
    starts: Vec<u64>,
    shared: HashSet<u64>,
}

impl Folded {
    fn of(program: &Program<'_>) -> Self {
        let units = program.unit_numbers().collect();
        let mut found = parallel::map(units, |unit| of_unit(program, unit)).concat();
        found.sort_by_key(|(start, _)| *start);
        let mut folded = Self::default();
        for same in found.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(((start, first), others)) = same.split_first() else {
                continue;
            };
            folded.starts.push(*start);
            // An inline function is described by every unit that has it.
            let name = |die: Die| program.function_name(die).unwrap_or_default();
            if others
                .iter()
                .any(|(_, other)| !is_same_function(&name(*first), &name(*other)))
            {
                folded.shared.insert(*start);
            }
        }
        folded
    }

    fn holds(&self, svma: u64) -> bool {
        let next = self.starts.partition_point(|start| *start <= svma);
        let start = next.checked_sub(1).and_then(|at| self.starts.get(at));
        start.is_some_and(|start| self.shared.contains(start))
    }
}

impl Inner {
    /// Whether the code at `svma` is that of several functions with different names. Some linkers
    /// keep the debug information of one alone, but the symbols of all.
    pub(super) fn is_folded(&self, program: &Program<'_>, svma: Svma) -> bool {
        // A kernel is not linked like that, and its functions have many aliases.
        !self.kernel
            && (self.symbols().has_several_names(svma.0)
                || program
                    .folded
                    .get_or_init(|| Folded::of(program))
                    .holds(svma.0))
    }
}

impl Program<'_> {
    /// The name of a function in the symbol table.
    fn function_name(&self, die: Die) -> Option<String> {
        let linkage = self.text(die, dw::DW_AT_linkage_name);
        linkage.or_else(|| self.name(die))
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
        if abbreviation.tag() != dw::DW_TAG_subprogram {
            if entries.skip_attributes(abbreviation.attributes()).is_err() {
                break;
            }
            continue;
        }
        for specification in abbreviation.attributes() {
            let Ok(attribute) = entries.read_attribute(*specification) else {
                return found;
            };
            if attribute.name() == dw::DW_AT_low_pc {
                let start = address(dwarf, unit, attribute.value());
                // Linkers leave 0 if they dropped the function.
                let start = start.filter(|start| *start != 0);
                found.extend(start.map(|start| (start, Die::new(number, offset))));
            }
        }
    }
    found
}

fn address<'d>(
    dwarf: &Dwarf<Slice<'d>>,
    unit: &Unit<Slice<'d>>,
    value: AttributeValue<Slice<'d>>,
) -> Option<u64> {
    dwarf.attr_address(unit, value).ok().flatten()
}
