//! Finds DWARF entries, follows their references and reads their names. Every walk is
//! bounded, because references may form cycles.

use super::definitions::Definitions;
use super::folded::Folded;
use super::sections::Slice;
use super::variables::Index;
use addr2line::Context;
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, DwLang, Dwarf, Unit,
    UnitHeader, UnitOffset, UnitType, constants as dw,
};
use redhanded_model::Svma;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many references are followed in a row.
pub(super) const MAX_HOPS: usize = 32;
/// How many children of an entry are examined.
const MAX_CHILDREN: usize = 1 << 16;

pub(super) type Entry<'d> = DebuggingInformationEntry<Slice<'d>>;

/// Identifies an entry: the file or its supplementary one, the unit, the offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Die {
    supplementary: bool,
    unit: u32,
    offset: UnitOffset,
}

impl Die {
    pub(super) const fn new(unit: u32, offset: UnitOffset) -> Self {
        Self {
            supplementary: false,
            unit,
            offset,
        }
    }

    /// Another entry in the same unit.
    pub(super) const fn beside(self, offset: UnitOffset) -> Self {
        Self { offset, ..self }
    }

    pub(super) const fn offset(self) -> UnitOffset {
        self.offset
    }

    pub(super) const fn unit(self) -> u32 {
        self.unit
    }
}

/// Everything parsed so far from a set of sections.
pub(super) struct Program<'d> {
    dwarf: Arc<Dwarf<Slice<'d>>>,
    units: OnceLock<Units<'d>>,
    supplementary: OnceLock<Units<'d>>,
    signatures: OnceLock<HashMap<u64, Die>>,
    context: Mutex<Option<Option<Context<Slice<'d>>>>>,
    pub(super) variables: OnceLock<Index>,
    pub(super) definitions: OnceLock<Definitions>,
    pub(super) folded: OnceLock<Folded>,
}

/// The units of one file: those of `.debug_info` by offset, then type units of
/// `.debug_types`.
struct Units<'d> {
    headers: Vec<UnitHeader<Slice<'d>>>,
    in_info: usize,
    parsed: Vec<OnceLock<Option<Unit<Slice<'d>>>>>,
    parents: Vec<OnceLock<Vec<(usize, usize)>>>,
}

impl<'d> Units<'d> {
    fn read(dwarf: &Dwarf<Slice<'d>>) -> Self {
        let mut headers = Vec::new();
        // The iterators end at the first inconsistent header.
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            headers.push(header);
        }
        let in_info = headers.len();
        let mut types = dwarf.type_units();
        while let Ok(Some(header)) = types.next() {
            headers.push(header);
        }
        Self {
            parsed: headers.iter().map(|_| OnceLock::new()).collect(),
            parents: headers.iter().map(|_| OnceLock::new()).collect(),
            in_info,
            headers,
        }
    }

    /// The number of the last unit of `.debug_info` that starts at or before
    /// `offset`.
    fn number_at(&self, offset: DebugInfoOffset) -> Option<usize> {
        let info = self.headers.get(..self.in_info)?;
        let after = info.partition_point(|header| {
            header
                .debug_info_offset()
                .is_some_and(|at| at.0 <= offset.0)
        });
        after.checked_sub(1)
    }

    fn holding(&self, offset: DebugInfoOffset) -> Option<(u32, UnitOffset)> {
        let number = self.number_at(offset)?;
        let within = offset.to_unit_offset(self.headers.get(number)?)?;
        Some((u32::try_from(number).ok()?, within))
    }
}

impl<'d> Program<'d> {
    pub(super) fn new(dwarf: Dwarf<Slice<'d>>) -> Self {
        Self {
            dwarf: Arc::new(dwarf),
            units: OnceLock::new(),
            supplementary: OnceLock::new(),
            signatures: OnceLock::new(),
            context: Mutex::new(None),
            variables: OnceLock::new(),
            definitions: OnceLock::new(),
            folded: OnceLock::new(),
        }
    }

    /// Asks addr2line about `svma`. Its tables are filled unit by unit, so it serves one
    /// thread at a time. It also looks at the next address, so there is no answer for the
    /// very last one.
    pub(super) fn about<T>(
        &self,
        svma: Svma,
        ask: impl FnOnce(&Context<Slice<'d>>) -> Option<T>,
    ) -> Option<T> {
        svma.0.checked_add(1)?;
        let mut guard: MutexGuard<'_, _> =
            self.context.lock().unwrap_or_else(PoisonError::into_inner);
        guard
            .get_or_insert_with(|| Context::from_arc_dwarf(Arc::clone(&self.dwarf)).ok())
            .as_ref()
            .and_then(ask)
    }

    fn units(&self, supplementary: bool) -> &Units<'d> {
        if supplementary {
            self.supplementary.get_or_init(|| match self.dwarf.sup() {
                Some(dwarf) => Units::read(dwarf),
                None => Units {
                    headers: vec![],
                    in_info: 0,
                    parsed: vec![],
                    parents: vec![],
                },
            })
        } else {
            self.units.get_or_init(|| Units::read(&self.dwarf))
        }
    }

    fn dwarf(&self, supplementary: bool) -> &Dwarf<Slice<'d>> {
        if supplementary {
            self.dwarf.sup().unwrap_or(&self.dwarf)
        } else {
            &self.dwarf
        }
    }

    /// The numbers of the units in the file itself.
    pub(super) fn unit_numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.units(false).headers.len()).unwrap_or(u32::MAX)
    }

    /// Unit number `unit` of the file itself, with its sections.
    pub(super) fn main_unit(&self, unit: u32) -> Option<(&Dwarf<Slice<'d>>, &Unit<Slice<'d>>)> {
        self.dwarf_and_unit(Die::new(unit, UnitOffset(0)))
    }

    /// The number of the unit with the code at `svma`.
    pub(super) fn unit_at(&self, svma: Svma) -> Option<u32> {
        let offset = self.about(svma, |context| {
            let unit = context.find_dwarf_and_unit(svma.0).skip_all_loads()?;
            unit.header.debug_info_offset()
        })?;
        u32::try_from(self.units(false).number_at(offset)?).ok()
    }

    /// The unit of `die`, with its sections.
    pub(super) fn dwarf_and_unit(&self, die: Die) -> Option<(&Dwarf<Slice<'d>>, &Unit<Slice<'d>>)> {
        Some((self.dwarf(die.supplementary), self.unit(die)?))
    }

    fn unit(&self, die: Die) -> Option<&Unit<Slice<'d>>> {
        let units = self.units(die.supplementary);
        let index = usize::try_from(die.unit).ok()?;
        let header = units.headers.get(index)?;
        units
            .parsed
            .get(index)?
            .get_or_init(|| self.dwarf(die.supplementary).unit(*header).ok())
            .as_ref()
    }

    pub(super) fn entry(&self, die: Die) -> Option<Entry<'d>> {
        self.unit(die)?.entry(die.offset).ok()
    }

    /// The entry that a reference in `from`'s unit refers to.
    pub(super) fn follow(&self, from: Die, reference: AttributeValue<Slice<'d>>) -> Option<Die> {
        match reference {
            AttributeValue::UnitRef(offset) => Some(from.beside(offset)),
            AttributeValue::DebugInfoRef(offset) => self.at(from.supplementary, offset),
            AttributeValue::DebugInfoRefSup(offset) => self.at(true, offset),
            AttributeValue::DebugTypesRef(signature) => self.signed(signature.0),
            _ => None,
        }
    }

    fn at(&self, supplementary: bool, offset: DebugInfoOffset) -> Option<Die> {
        let (unit, offset) = self.units(supplementary).holding(offset)?;
        Some(Die {
            supplementary,
            unit,
            offset,
        })
    }

    fn signed(&self, signature: u64) -> Option<Die> {
        let signatures = self.signatures.get_or_init(|| {
            let headers = self.units(false).headers.iter();
            (0u32..)
                .zip(headers)
                .filter_map(|(unit, header)| match header.type_() {
                    UnitType::Type {
                        type_signature,
                        type_offset,
                    } => Some((type_signature.0, Die::new(unit, type_offset))),
                    _ => None,
                })
                .collect()
        });
        signatures.get(&signature).copied()
    }

    /// The entry that `die` refers to by `attribute`, its own or inherited.
    pub(super) fn link(&self, die: Die, attribute: DwAt) -> Option<Die> {
        let (holder, value) = self.inherited(die, attribute)?;
        self.follow(holder, value)
    }

    /// An attribute of `die` or of the entry that it completes or is a copy of, with the
    /// entry that has it.
    pub(super) fn inherited(
        &self,
        die: Die,
        attribute: DwAt,
    ) -> Option<(Die, AttributeValue<Slice<'d>>)> {
        let mut die = die;
        for _ in 0..MAX_HOPS {
            let entry = self.entry(die)?;
            if let Some(value) = entry.attr_value(attribute) {
                return Some((die, value));
            }
            die = self.origin(die, &entry)?;
        }
        None
    }

    /// The declaration or abstract instance that `entry` completes.
    pub(super) fn origin(&self, die: Die, entry: &Entry<'d>) -> Option<Die> {
        [dw::DW_AT_specification, dw::DW_AT_abstract_origin]
            .into_iter()
            .find_map(|attribute| self.follow(die, entry.attr_value(attribute)?))
    }

    /// A string attribute, its own or inherited.
    pub(super) fn text(&self, die: Die, attribute: DwAt) -> Option<String> {
        let (holder, value) = self.inherited(die, attribute)?;
        self.string(holder, value)
    }

    pub(super) fn string(&self, holder: Die, value: AttributeValue<Slice<'d>>) -> Option<String> {
        let unit = self.unit(holder)?;
        let text = self
            .dwarf(holder.supplementary)
            .attr_string(unit, value)
            .ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The name, its own or inherited.
    pub(super) fn name(&self, die: Die) -> Option<String> {
        self.text(die, dw::DW_AT_name)
    }

    /// An unsigned number, its own or inherited.
    pub(super) fn number(&self, die: Die, attribute: DwAt) -> Option<u64> {
        self.inherited(die, attribute)?.1.udata_value()
    }

    /// The direct children of `die`, with their entries.
    pub(super) fn children(&self, die: Die) -> Vec<(Die, Entry<'d>)> {
        let mut children = Vec::new();
        let Some(unit) = self.unit(die) else {
            return children;
        };
        let Ok(mut cursor) = unit.entries_at_offset(die.offset) else {
            return children;
        };
        // From a parent, the first step to a sibling leads to its first child.
        let Ok(Some(parent)) = cursor.next_dfs() else {
            return children;
        };
        if !parent.has_children() {
            return children;
        }
        let depth = parent.depth();
        let Ok(Some(first)) = cursor.next_dfs() else {
            return children;
        };
        if first.depth() <= depth {
            return children;
        }
        children.push((die.beside(first.offset()), first.clone()));
        while children.len() < MAX_CHILDREN {
            let Ok(Some(next)) = cursor.next_sibling() else {
                break;
            };
            children.push((die.beside(next.offset()), next.clone()));
        }
        children
    }

    /// The language of `die`'s unit.
    pub(super) fn language(&self, die: Die) -> Option<DwLang> {
        let unit = self.unit(die)?;
        let root = unit.entry(unit.header.root_offset()).ok()?;
        match root.attr_value(dw::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    /// Whether GCC made a unit.
    pub(super) fn is_by_gcc(&self, unit: u32) -> bool {
        let header = self.unit(Die::new(unit, UnitOffset(0)));
        let root = header.map(|header| Die::new(unit, header.header.root_offset()));
        root.and_then(|root| self.text(root, dw::DW_AT_producer))
            .is_some_and(|producer| producer.starts_with("GNU "))
    }

    /// The parent of `die`.
    pub(super) fn parent(&self, die: Die) -> Option<Die> {
        let index = usize::try_from(die.unit).ok()?;
        let parents = self
            .units(die.supplementary)
            .parents
            .get(index)?
            .get_or_init(|| self.unit(die).map(parents).unwrap_or_default());
        let found = parents
            .binary_search_by_key(&die.offset.0, |(offset, _)| *offset)
            .ok()?;
        Some(die.beside(UnitOffset(parents.get(found)?.1)))
    }

    /// The names of the scopes that `die` is declared in, outermost first.
    pub(super) fn scopes(&self, die: Die) -> Vec<String> {
        let mut scopes = Vec::new();
        let mut die = self.declaration(die);
        for _ in 0..MAX_HOPS {
            let Some(parent) = self.parent(die) else {
                break;
            };
            let Some(entry) = self.entry(parent) else {
                break;
            };
            // A function or class may itself be declared elsewhere.
            let declared = self.declaration(parent);
            match entry.tag() {
                dw::DW_TAG_namespace
                | dw::DW_TAG_module
                | dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type
                | dw::DW_TAG_interface_type
                | dw::DW_TAG_inlined_subroutine
                | dw::DW_TAG_subprogram => match self.name(parent) {
                    Some(name) => scopes.push(name),
                    None if entry.tag() == dw::DW_TAG_namespace => {
                        scopes.push("(anonymous namespace)".to_owned());
                    }
                    None => {}
                },
                _ => {}
            }
            die = declared;
        }
        scopes.reverse();
        scopes
    }

    /// The number of the unit that declares `die`.
    pub(super) fn declaring_unit(&self, die: Die) -> Option<u32> {
        let declaration = self.declaration(die);
        (!declaration.supplementary).then_some(declaration.unit)
    }

    fn declaration(&self, die: Die) -> Die {
        let mut die = die;
        for _ in 0..MAX_HOPS {
            let Some(origin) = self.entry(die).and_then(|entry| self.origin(die, &entry)) else {
                break;
            };
            die = origin;
        }
        die
    }
}

/// Each entry with its parent, sorted.
fn parents(unit: &Unit<Slice<'_>>) -> Vec<(usize, usize)> {
    let mut parents = Vec::new();
    let mut above: Vec<usize> = Vec::new();
    let Ok(mut entries) = unit.entries_raw(None) else {
        return parents;
    };
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let depth = usize::try_from(entries.next_depth()).unwrap_or(0);
        let Ok(abbreviation) = entries.read_abbreviation() else {
            break;
        };
        let Some(abbreviation) = abbreviation else {
            continue;
        };
        if entries.skip_attributes(abbreviation.attributes()).is_err() {
            break;
        }
        above.truncate(depth);
        if let Some(parent) = above.last() {
            parents.push((offset.0, *parent));
        }
        above.push(offset.0);
    }
    parents
}
