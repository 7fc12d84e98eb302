//! The names that are known at an address: variables, members, functions, types and
//! constants of the unit, and the variables of the function.

use super::program::{Die, Entry, Program};
use gimli::{UnitOffset, constants as dw};
use std::collections::{HashMap, HashSet};

/// No function declares more names than this.
const MAX_LOCALS: usize = 1 << 12;

/// Each name with its declarations.
pub(super) type Names = HashMap<String, Vec<Die>>;

/// The names of one unit that are not local to a function.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) globals: Names,
    pub(super) members: Names,
    pub(super) functions: Names,
    pub(super) types: Names,
    pub(super) constants: HashSet<String>,
    /// Whether the unit has types at all. If it has only lines, names say nothing.
    pub(super) typed: bool,
    /// Whether a structure as a whole is volatile somewhere.
    pub(super) volatile_structures: bool,
}

impl Scope {
    pub(super) fn read(program: &Program<'_>, number: u32) -> Self {
        let mut found = Self::default();
        let Some((_, unit)) = program.main_unit(number) else {
            return found;
        };
        let Ok(mut entries) = unit.entries_raw(None) else {
            return found;
        };
        let mut entry = Entry::null();
        let mut function = None;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            match entries.read_entry(&mut entry) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => break,
            }
            if function.is_some_and(|function| depth <= function) {
                function = None;
            }
            let names = match entry.tag() {
                dw::DW_TAG_subprogram => {
                    if function.is_none() {
                        function = Some(depth);
                    }
                    &mut found.functions
                }
                dw::DW_TAG_base_type => {
                    found.typed = true;
                    &mut found.types
                }
                dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type
                | dw::DW_TAG_typedef => &mut found.types,
                dw::DW_TAG_member => &mut found.members,
                dw::DW_TAG_variable if function.is_none() => &mut found.globals,
                dw::DW_TAG_volatile_type => {
                    let kind = program.type_of(Die::new(number, entry.offset()));
                    found.volatile_structures |= program.is_structure(&kind);
                    continue;
                }
                dw::DW_TAG_enumerator => {
                    let die = Die::new(number, entry.offset());
                    found.constants.extend(program.name(die));
                    continue;
                }
                _ => continue,
            };
            let die = Die::new(number, entry.offset());
            if let Some(name) = program.name(die) {
                names
                    .entry(bare_name(&name).to_owned())
                    .or_default()
                    .push(die);
            }
        }
        found
    }

    /// The parameters and variables of a function, inlined or not, and of those around it.
    pub(super) fn locals(program: &Program<'_>, unit: u32, function: UnitOffset) -> Names {
        let mut names = Names::new();
        let mut count = 0;
        let first = Die::new(unit, function);
        let mut open = vec![first];
        // What was optimised away is declared only in the abstract instance.
        if let Some(entry) = program.entry(first) {
            open.extend(program.origin(first, &entry));
        }
        while let Some(scope) = open.pop() {
            for (die, entry) in program.children(scope) {
                match entry.tag() {
                    dw::DW_TAG_lexical_block | dw::DW_TAG_try_block | dw::DW_TAG_catch_block => {
                        open.push(die);
                    }
                    dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => {
                        if let Some(name) = program.name(die) {
                            names.entry(name).or_default().push(die);
                        }
                    }
                    _ => {}
                }
                count += 1;
                if count > MAX_LOCALS {
                    return names;
                }
            }
        }
        names
    }
}

/// A name without template arguments.
pub(super) fn bare_name(name: &str) -> &str {
    if name.starts_with("operator") {
        return name;
    }
    name.split('<').next().unwrap_or(name)
}
