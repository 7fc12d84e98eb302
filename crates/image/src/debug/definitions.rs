//! The definitions of C++ classes. GCC describes a class with virtual functions only in the unit
//! that has its virtual table; others have a declaration. All that have the same name are the
//! same class, because C++ wants it so.

use super::program::{Die, Program};
use super::types::Spelling;
use crate::parallel;
use gimli::constants as dw;
use std::collections::HashMap;

/// More definitions than this are not kept.
const MOST: usize = 1 << 18;

/// Longer names are not kept.
const LONGEST: usize = 4096;

/// The definitions by their names, scopes included; nothing for a name that several different
/// classes have.
#[derive(Default)]
pub(super) struct Definitions(HashMap<String, Option<Definition>>);

#[derive(Clone, Copy)]
struct Definition {
    die: Die,
    size: u64,
}

impl Definitions {
    fn of(program: &Program<'_>) -> Self {
        let units = program.unit_numbers().collect();
        let found = parallel::map(units, |unit| of_unit(program, unit));
        let mut all: HashMap<String, Option<Definition>> = HashMap::new();
        for (name, one) in found.into_iter().flatten().take(MOST) {
            let known = all.entry(name).or_insert(Some(one));
            *known = known.filter(|known| known.size == one.size);
        }
        Self(all)
    }
}

impl Program<'_> {
    /// The definition of a class that is only declared here, if there is one; or else the same.
    pub(super) fn defined(&self, die: Die) -> Die {
        let declared = self.entry(die).is_some_and(|entry| {
            is_class(entry.tag()) && entry.attr_value(dw::DW_AT_declaration).is_some()
        });
        if !declared || self.spelling(die) != Spelling::Cpp {
            return die;
        }
        let Some(name) = self.name(die) else {
            return die;
        };
        let mut path = self.scopes(die);
        path.push(name);
        let definitions = self.definitions.get_or_init(|| Definitions::of(self));
        let found = definitions.0.get(&path.join("::")).copied().flatten();
        found.map_or(die, |definition| definition.die)
    }
}

const fn is_class(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type
    )
}

fn of_unit(program: &Program<'_>, number: u32) -> Vec<(String, Definition)> {
    let mut found = Vec::new();
    let Some((dwarf, unit)) = program.main_unit(number) else {
        return found;
    };
    let root = Die::new(number, unit.header.root_offset());
    let Ok(mut entries) = unit.entries_raw(None) else {
        return found;
    };
    if program.spelling(root) != Spelling::Cpp {
        return found;
    }
    // The scopes around the entry, from the unit on. Those without a name hold nothing that
    // another unit could mean.
    let mut scopes: Vec<Option<String>> = Vec::new();
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let depth = usize::try_from(entries.next_depth()).unwrap_or(0);
        let Ok(abbreviation) = entries.read_abbreviation() else {
            break;
        };
        let Some(abbreviation) = abbreviation else {
            continue;
        };
        let tag = abbreviation.tag();
        let mut name = None;
        let mut size = None;
        let mut is_definition = is_class(tag);
        if is_class(tag) || tag == dw::DW_TAG_namespace {
            for specification in abbreviation.attributes() {
                let Ok(attribute) = entries.read_attribute(*specification) else {
                    return found;
                };
                match attribute.name() {
                    dw::DW_AT_name => {
                        let text = dwarf.attr_string(unit, attribute.value()).ok();
                        name = text.map(|text| text.to_string_lossy().into_owned());
                    }
                    dw::DW_AT_byte_size => size = attribute.udata_value(),
                    dw::DW_AT_declaration | dw::DW_AT_specification | dw::DW_AT_signature => {
                        is_definition = false;
                    }
                    _ => {}
                }
            }
        } else if entries.skip_attributes(abbreviation.attributes()).is_err() {
            break;
        }
        scopes.truncate(depth);
        let path = if depth == 0 {
            Some(String::new())
        } else {
            let outer = scopes.last().cloned().flatten();
            let path = outer.zip(name).map(|(outer, name)| match outer.as_str() {
                "" => name,
                outer => format!("{outer}::{name}"),
            });
            path.filter(|path| path.len() <= LONGEST)
        };
        if let (true, Some(path), Some(size)) = (is_definition, &path, size) {
            let die = Die::new(number, offset);
            found.push((path.clone(), Definition { die, size }));
        }
        scopes.push(path);
    }
    found
}
