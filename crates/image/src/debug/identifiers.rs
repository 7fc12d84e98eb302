//! The names that a unit declares, and which of them have atomic or volatile types.

use super::program::{Die, Entry, Program};
use super::types::How;
use gimli::{UnitOffset, constants as dw};
use std::collections::HashMap;

/// No function declares more names than this.
const MAX_LOCALS: usize = 1 << 12;

/// Everything that is declared with one name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Declared {
    /// Something whose every access synchronises.
    pub(super) synchronising: Option<How>,
    /// A pointer to such a thing.
    pub(super) points_to: Option<How>,
    /// Anything else: its first declaration.
    pub(super) plain: Option<Die>,
}

/// What each name stands for.
pub(super) type Names = HashMap<String, Declared>;

/// The names of one unit that are not local to a function.
#[derive(Default)]
pub(super) struct Identifiers {
    pub(super) globals: Names,
    pub(super) members: Names,
    /// Whether the unit has types at all. If it has only lines, names say nothing.
    pub(super) typed: bool,
}

impl Identifiers {
    pub(super) fn read(program: &Program<'_>, number: u32) -> Self {
        let mut found = Self::default();
        let Some((_, unit)) = program.main_unit(number) else {
            return found;
        };
        let Ok(mut entries) = unit.entries_raw(None) else {
            return found;
        };
        let mut types = HashMap::new();
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
                dw::DW_TAG_subprogram if function.is_none() => {
                    function = Some(depth);
                    continue;
                }
                dw::DW_TAG_base_type => {
                    found.typed = true;
                    continue;
                }
                dw::DW_TAG_member => &mut found.members,
                dw::DW_TAG_variable if function.is_none() => &mut found.globals,
                _ => continue,
            };
            let die = Die::new(number, entry.offset());
            program.declare(die, names, &mut types);
        }
        found
    }

    /// The parameters and variables of a function, inlined or not.
    pub(super) fn locals(program: &Program<'_>, unit: u32, function: UnitOffset) -> Names {
        let mut names = Names::new();
        let mut types = HashMap::new();
        let mut open = vec![Die::new(unit, function)];
        // What was optimised away is declared only in the abstract instance.
        let entry = open.first().and_then(|die| program.entry(*die));
        if let (Some(die), Some(entry)) = (open.first().copied(), entry) {
            open.extend(program.origin(die, &entry));
        }
        while let Some(scope) = open.pop() {
            for (die, entry) in program.children(scope) {
                match entry.tag() {
                    dw::DW_TAG_lexical_block | dw::DW_TAG_try_block | dw::DW_TAG_catch_block => {
                        open.push(die);
                    }
                    dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => {
                        program.declare(die, &mut names, &mut types);
                    }
                    _ => {}
                }
                if names.len() > MAX_LOCALS {
                    return names;
                }
            }
        }
        names
    }
}

impl Program<'_> {
    fn declare(&self, die: Die, names: &mut Names, types: &mut HashMap<Die, Declared>) {
        let (Some(name), Some(type_)) = (self.name(die), self.link(die, dw::DW_AT_type)) else {
            return;
        };
        let declared = *types
            .entry(type_)
            .or_insert_with(|| self.declared_as(type_));
        let known = names.entry(name).or_default();
        known.synchronising = known.synchronising.or(declared.synchronising);
        known.points_to = known.points_to.or(declared.points_to);
        known.plain = known.plain.or(declared.plain.map(|_| die));
    }

    fn declared_as(&self, type_: Die) -> Declared {
        let mut synchronising = self.synchronises_deeply(type_);
        let mut points_to = None;
        if synchronising.is_none()
            && let Some((to, by_name)) = self.pointee(type_)
        {
            let how = self.synchronises_deeply(to);
            if by_name {
                synchronising = how;
            } else {
                points_to = how;
            }
        }
        Declared {
            synchronising,
            points_to,
            plain: (synchronising.is_none() && points_to.is_none()).then_some(type_),
        }
    }
}
