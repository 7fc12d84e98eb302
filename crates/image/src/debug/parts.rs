//! Finds the field or element of a variable that an access touches.

use super::pointers;
use super::program::{Die, Entry, MAX_HOPS, Program};
use super::reading::Reading;
use super::types::{How, Spelling, is_qualifier};
use gimli::constants as dw;
use redhanded_model::BitField;

/// The part of a variable that an access touches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// The path from the variable to it, such as `.flags` or `[3].next`; empty for the
    /// variable itself. If an access spans several fields or elements, the path leads to
    /// what contains them all; for an array it gives the range, `[4..8]`.
    pub path: String,
    /// The type at the end of the path.
    pub type_name: String,
    /// The bit-fields in the accessed bytes.
    pub bit_fields: Vec<BitField>,
    /// The fields that are touched, if there are several.
    pub spans: Vec<String>,
    /// Whether the path leads through a union. It then names the member that the source
    /// expression names, or else the first that fits.
    pub in_union: bool,
    /// The way to it, step by step.
    pub steps: Vec<Step>,
    /// What the accessed bytes mean, if they are one value.
    pub reading: Option<Reading>,
    /// Why every access to the part synchronises, if it does.
    pub synchronising: Option<How>,
}

impl Part {
    /// The path as the source writes it: without the members of library types that nobody
    /// writes, and without the only member of a type around a cell.
    #[must_use]
    pub fn path_as_written(&self) -> String {
        let cells = ["core::cell::UnsafeCell<", "core::cell::SyncUnsafeCell<"];
        let is_cell = |step: &Step| cells.iter().any(|cell| step.of.starts_with(cell));
        let next = self.steps.iter().skip(1).map(Some).chain([None]);
        let steps = self.steps.iter().zip(next);
        let written = steps.filter(|(step, next)| step.to != ".0" || !next.is_some_and(is_cell));
        let written: Vec<Step> = written.map(|(step, _)| step.clone()).collect();
        if self.steps.is_empty() {
            return self.path.clone();
        }
        pointers::path(&written)
    }

    /// Whether the source's `expressions` name the last member on the way to it.
    #[must_use]
    pub fn is_named_by(&self, expressions: &str) -> bool {
        let mut members = self.steps.iter().rev();
        let last = members.find_map(|step| step.to.strip_prefix('.'));
        let mut words = expressions.split(|c: char| !c.is_alphanumeric() && c != '_');
        last.is_some_and(|member| words.any(|word| word == member))
    }
}

/// One step of the way from an object to a part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The type that has the member, or whose element it is.
    pub of: String,
    /// The member or the element: `.flags`, `[3]`.
    pub to: String,
}

/// A part, with the type at the end of its path.
pub(super) struct Reached {
    pub(super) part: Part,
    pub(super) kind: Die,
    /// How far into that type the access begins.
    pub(super) into: u64,
    /// After each step of the way: the type there, and how far its start is from the first.
    pub(super) along: Vec<(Die, u64)>,
}

/// The accessed bytes, relative to the type under examination.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    len: u64,
}

impl Span {
    const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    fn bits(self) -> std::ops::Range<u64> {
        self.start.saturating_mul(8)..self.end().saturating_mul(8)
    }
}

/// A member that is not a bit-field.
struct Field {
    die: Die,
    name: String,
    start: u64,
    size: u64,
    inherited: bool,
    discriminant: bool,
}

/// Whether C++'s library has the member for there to be nothing.
fn is_empty(field: &Field) -> bool {
    field.name == "_M_empty"
}

impl<'d> Program<'d> {
    /// The part of a variable of type `variable` at `offset`. Of the members of a union it
    /// is one of those that `members` lists, if one of them fits.
    pub(super) fn part(&self, variable: Die, offset: u64, size: u64, members: &[&str]) -> Part {
        self.reach(variable, offset, size, members).part
    }

    /// The same, with the type at the end.
    pub(super) fn reach(&self, kind: Die, offset: u64, size: u64, members: &[&str]) -> Reached {
        let mut part = Part::default();
        let mut span = Span {
            start: offset,
            len: size.max(1),
        };
        let mut die = kind;
        // What people call the type that is being looked into: an anonymous one has the name
        // of what holds it.
        let mut holder = String::new();
        let mut along = Vec::new();
        for _ in 0..MAX_HOPS {
            let bare = self.bare(die, &mut part.synchronising);
            part.type_name = self.type_name(Some(die));
            let Some((bare, entry)) = bare else { break };
            // The inside of an atomic belongs to its library.
            if part.synchronising == Some(How::Atomic) {
                break;
            }
            if self.name(bare).is_some() {
                holder = self.type_name(Some(bare));
            } else if holder.is_empty() || self.name(die).is_some() {
                holder.clone_from(&part.type_name);
            }
            let before = part.path.len();
            // Bytes that the library keeps an object in.
            if let Some(content) = self.content(bare) {
                die = content;
                continue;
            }
            let next = match entry.tag() {
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                    let union = entry.tag() == dw::DW_TAG_union_type;
                    self.member(bare, union, &mut span, &mut part, members)
                }
                dw::DW_TAG_array_type => self.element(bare, &mut span, &mut part),
                _ => None,
            };
            if let Some(to) = part.path.get(before..).filter(|to| !to.is_empty()) {
                part.steps.push(Step {
                    of: holder.clone(),
                    to: to.to_owned(),
                });
                along.push((next.unwrap_or(die), offset.saturating_sub(span.start)));
            }
            match next {
                Some(next) => die = next,
                None => break,
            }
        }
        if part.bit_fields.is_empty() {
            part.reading = self.reading(die, span.start, span.len);
        }
        Reached {
            part,
            kind: die,
            into: span.start,
            along,
        }
    }

    /// The type without typedefs and qualifiers. If one of them is atomic or volatile, the
    /// access synchronises.
    fn bare(&self, die: Die, how: &mut Option<How>) -> Option<(Die, Entry<'d>)> {
        let mut die = die;
        for _ in 0..MAX_HOPS {
            let entry = self.entry(die)?;
            *how = how.or_else(|| self.synchronises(die));
            if !is_qualifier(entry.tag()) {
                let defined = self.defined(die);
                return Some((defined, self.entry(defined)?));
            }
            die = self.link(die, dw::DW_AT_type)?;
        }
        None
    }

    fn member(
        &self,
        holder: Die,
        union: bool,
        span: &mut Span,
        part: &mut Part,
        members: &[&str],
    ) -> Option<Die> {
        let mut fields = Vec::new();
        let mut bits = Vec::new();
        let mut variants = Vec::new();
        for (die, entry) in self.children(holder) {
            match entry.tag() {
                dw::DW_TAG_member | dw::DW_TAG_inheritance => match self.bit_range(die, &entry) {
                    Some(range) => bits.push((die, range)),
                    None => fields.extend(self.field(die, &entry)),
                },
                dw::DW_TAG_variant_part => variants.extend(self.variants(die, *span)),
                _ => {}
            }
        }
        // GCC puts `__` before the name of what a lambda captures.
        if fields.iter().any(|field| field.name.starts_with("__"))
            && self.is_lambda(holder)
            && self.is_by_gcc(holder.unit())
        {
            for field in &mut fields {
                if let Some(captured) = field.name.strip_prefix("__") {
                    field.name = captured.to_owned();
                }
            }
        }
        let touched = span.bits();
        let overlapping: Vec<_> = bits
            .iter()
            .filter(|(_, range)| range.start < touched.end && touched.start < range.end)
            .collect();
        for (die, range) in &overlapping {
            // A field that begins before the accessed bytes is described from there on.
            let first = range.start.max(touched.start);
            part.bit_fields.push(BitField {
                name: self.name(*die).unwrap_or_default(),
                first_bit: u32::try_from(first - touched.start).unwrap_or(u32::MAX),
                bits: u32::try_from(range.end - first).unwrap_or(u32::MAX),
            });
            let declared = self.link(*die, dw::DW_AT_type);
            part.synchronising = part
                .synchronising
                .or_else(|| self.synchronises_deeply(declared?));
        }
        fields.extend(self.variant_meant(variants, *span, members));
        let fits =
            |field: &&Field| field.start <= span.start && span.end() <= field.start + field.size;
        let is_named = |field: &&Field| union && members.contains(&field.name.as_str());
        if let Some(field) = fields
            .iter()
            .find(|field| fits(field) && is_named(field))
            .or_else(|| fields.iter().find(|field| fits(field) && !is_empty(field)))
        {
            if field.discriminant {
                return None;
            }
            if !field.inherited && !field.name.is_empty() {
                part.path.push('.');
                part.path.push_str(&field.name);
            }
            let others = fields.iter().filter(|other| {
                let overlaps = other.start < span.end() && span.start < other.start + other.size;
                overlaps && !is_empty(other)
            });
            part.in_union |= union && others.count() > 1;
            part.bit_fields.clear();
            span.start -= field.start;
            return self.link(field.die, dw::DW_AT_type);
        }
        let spanned: Vec<&Field> = fields
            .iter()
            .filter(|field| field.start < span.end() && span.start < field.start + field.size)
            .collect();
        if let ([(die, _)], []) = (overlapping.as_slice(), spanned.as_slice()) {
            part.path.push('.');
            part.path.push_str(&self.name(*die).unwrap_or_default());
            part.type_name = self.type_name(self.link(*die, dw::DW_AT_type));
        } else if !union {
            part.spans = spanned
                .into_iter()
                .map(|field| field.name.clone())
                .collect();
        }
        None
    }

    fn field(&self, die: Die, entry: &Entry<'d>) -> Option<Field> {
        // Static members are only declarations here; their definitions are variables.
        if entry.attr_value(dw::DW_AT_external).is_some()
            || entry.attr_value(dw::DW_AT_declaration).is_some()
        {
            return None;
        }
        let start = match entry.attr_value(dw::DW_AT_data_member_location) {
            None => 0,
            // Virtual bases have an expression instead of an offset.
            Some(value) => value.udata_value()?,
        };
        let size = self.size_of(self.link(die, dw::DW_AT_type)?)?;
        start.checked_add(size)?;
        let mut name = self.name(die).unwrap_or_default();
        if self.spelling(die) == Spelling::Rust
            && let Some(number) = name.strip_prefix("__")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            name = number.to_owned();
        }
        // GCC and Clang put the class behind it, which is known already.
        if ["_vptr.", "_vptr$"]
            .iter()
            .any(|table| name.starts_with(table))
        {
            name.truncate("_vptr".len());
        }
        Some(Field {
            die,
            name,
            start,
            size,
            inherited: entry.tag() == dw::DW_TAG_inheritance,
            discriminant: false,
        })
    }

    /// The members of all variants of a Rust enum. The discriminant is left out, because an
    /// access to it is one to the enum.
    fn variants(&self, part: Die, span: Span) -> Vec<Field> {
        let mut fields = Vec::new();
        for (die, entry) in self.children(part) {
            match entry.tag() {
                dw::DW_TAG_variant => {
                    for (member, entry) in self.children(die) {
                        if entry.tag() == dw::DW_TAG_member {
                            let field = self.field(member, &entry);
                            fields.extend(field.filter(|field| self.holds(field, span)));
                        }
                    }
                }
                dw::DW_TAG_member => {
                    if let Some(mut field) = self.field(die, &entry) {
                        field.discriminant = true;
                        fields.insert(0, field);
                    }
                }
                _ => {}
            }
        }
        fields
    }

    /// Of several variants that have a member there, it is the one that the source names, or
    /// whose member it names. If it names none or several, the access is to the enum.
    fn variant_meant(&self, mut variants: Vec<Field>, span: Span, named: &[&str]) -> Vec<Field> {
        let payloads = variants.iter().filter(|field| !field.discriminant);
        if payloads.count() < 2 {
            return variants;
        }
        let is_named = |name: &String| named.contains(&name.as_str());
        let by_name = |field: &Field| is_named(&field.name);
        let by_member = |field: &Field| {
            let member = self.held_at(field, span);
            // A number may be anything's.
            member
                .is_some_and(|name| !name.starts_with(|c: char| c.is_numeric()) && is_named(&name))
        };
        let only = |meant: &dyn Fn(&Field) -> bool| {
            let mut found = (0..variants.len()).filter(|at| {
                variants
                    .get(*at)
                    .is_some_and(|f| !f.discriminant && meant(f))
            });
            found.next().filter(|_| found.next().is_none())
        };
        let meant = only(&by_name).or_else(|| only(&by_member));
        let mut at = 0;
        variants.retain(|field| {
            at += 1;
            field.discriminant || Some(at - 1) == meant
        });
        variants
    }

    /// Whether a variant has a member at `span`. Each variant is as large as the enum, even
    /// without members.
    fn holds(&self, variant: &Field, span: Span) -> bool {
        self.held_at(variant, span).is_some()
    }

    /// The name of the member that a variant has at `span`.
    fn held_at(&self, variant: &Field, span: Span) -> Option<String> {
        let content = self.link(variant.die, dw::DW_AT_type)?;
        self.children(content)
            .iter()
            .filter(|(_, entry)| entry.tag() == dw::DW_TAG_member)
            .filter_map(|(die, entry)| self.field(*die, entry))
            .find(|field| {
                let start = variant.start.saturating_add(field.start);
                start <= span.start && span.start < start.saturating_add(field.size)
            })
            .map(|field| field.name)
    }

    /// What is kept in a buffer of C++'s library that is declared as mere bytes.
    fn content(&self, holder: Die) -> Option<Die> {
        let name = self.name(holder)?;
        let is_buffer = ["__aligned_membuf<", "__aligned_buffer<"]
            .iter()
            .any(|buffer| name.starts_with(buffer));
        is_buffer.then(|| self.parameter(holder, "_Tp"))?
    }

    /// The type that a template or generic type was made for.
    pub(super) fn parameter(&self, made: Die, name: &str) -> Option<Die> {
        let children = self.children(made);
        let (die, _) = children.iter().find(|(die, entry)| {
            entry.tag() == dw::DW_TAG_template_type_parameter
                && self.name(*die).is_some_and(|own| own == name)
        })?;
        self.link(*die, dw::DW_AT_type)
    }

    /// The bits of a bit-field, counted from the start of the type that contains it.
    pub(super) fn bit_range(&self, die: Die, entry: &Entry<'d>) -> Option<std::ops::Range<u64>> {
        let number = |attribute| entry.attr_value(attribute)?.udata_value();
        let bits = number(dw::DW_AT_bit_size)?;
        let byte = number(dw::DW_AT_data_member_location).unwrap_or(0);
        let start = if let Some(first) = number(dw::DW_AT_data_bit_offset) {
            byte.checked_mul(8)?.checked_add(first)?
        } else if let Some(from_top) = number(dw::DW_AT_bit_offset) {
            // DWARF 2 and 3 count from the most significant bit of the storage unit.
            let storage = number(dw::DW_AT_byte_size)
                .or_else(|| self.size_of(self.link(die, dw::DW_AT_type)?))?;
            byte.checked_mul(8)?
                .checked_add(storage.checked_mul(8)?)?
                .checked_sub(from_top)?
                .checked_sub(bits)?
        } else {
            byte.checked_mul(8)?
        };
        Some(start..start.checked_add(bits)?)
    }

    fn element(&self, array: Die, span: &mut Span, part: &mut Part) -> Option<Die> {
        let element = self.link(array, dw::DW_AT_type)?;
        let size = self.size_of(element).filter(|size| *size > 0)?;
        let dimensions = self.dimensions(array);
        let first = span.start / size;
        let last = span.end().saturating_sub(1) / size;
        // Indices are relative: elements to their row, rows to their plane.
        let rows: Vec<u64> = dimensions
            .iter()
            .enumerate()
            .map(|(at, _)| {
                dimensions
                    .iter()
                    .skip(at + 1)
                    .fold(1u64, |product, count| product.saturating_mul(*count))
                    .max(1)
            })
            .collect();
        let index = |linear: u64| {
            let mut rest = linear;
            rows.iter()
                .map(|row| {
                    let at = rest / row;
                    rest %= row;
                    at
                })
                .collect::<Vec<_>>()
        };
        let (from, to) = (index(first), index(last));
        for (at, (from, to)) in from.iter().zip(&to).enumerate() {
            if from != to {
                let row = rows.get(at).copied().unwrap_or(1);
                let whole =
                    row == 1 || (first.is_multiple_of(row) && (last + 1).is_multiple_of(row));
                if whole {
                    part.path.push_str(&format!("[{from}..{}]", to + 1));
                }
                return None;
            }
            part.path.push_str(&format!("[{from}]"));
        }
        if first != last {
            return None;
        }
        span.start %= size;
        Some(element)
    }
}
