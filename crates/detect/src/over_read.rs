//! Reads that go past what a string function was asked for.
//!
//! `strlen` reads whole words or vectors. Another thread may write the bytes before the string
//! and behind its end as it likes, and the result is the same. So such a read counts only for
//! the bytes that belong to the string, as its arguments and its content say. Where neither
//! can be told, it does not count.

use redhanded_image::{Stop, StringFunction, Text};
use redhanded_model::{AccessKind, Avma, Bytes, Register, Registers, SpaceId};
use redhanded_target::{Inspect, module_at};

/// A longer string is not read to its end.
const LONGEST: u64 = 64 << 10;

/// How much of a string that is looked for is read, and in which pieces.
const LONGEST_SOUGHT: usize = 1024;
const PIECE: u64 = 16;

/// A thread at a read.
pub struct Reader<'a> {
    pub space: SpaceId,
    /// The instruction.
    pub pc: Avma,
    pub registers: &'a Registers,
    /// Whether the registers are those after the instruction.
    pub ran: bool,
    /// What the instruction does, and to which bytes.
    pub access: (AccessKind, Bytes),
}

/// Whether the read was asked for one of the bytes in `conflict`. True for everything but a
/// read of a string function.
pub fn asked_for(target: &mut dyn Inspect, reader: &Reader<'_>, conflict: Bytes) -> bool {
    let (kind, bytes) = reader.access;
    if kind.writes() {
        return true;
    }
    let Some((function, is_element)) = string_function(target, reader) else {
        return true;
    };
    // An element of a masked vector was read together with the others, however narrow it is.
    if !is_element && bytes.len < function.narrowest.max(2) {
        return true;
    }
    let Some(conflict) = bytes.intersection(conflict) else {
        return false;
    };
    function
        .texts
        .iter()
        .any(|text| reads(target, reader, &function, *text, conflict) == Some(true))
}

/// The string function that makes the read, and whether it reads element by element.
fn string_function(
    target: &mut dyn Inspect,
    reader: &Reader<'_>,
) -> Option<(StringFunction, bool)> {
    let mut modules = target.modules().to_vec();
    modules.retain(|module| module.space == reader.space);
    let module = module_at(&modules, reader.pc)?;
    let image = module.image.as_ref()?;
    let svma = module.svma(reader.pc);
    let function = image.string_function(svma, reader.ran)?;
    let instruction = image.instruction_at(svma)?;
    Some((function, instruction.gather().is_some()))
}

/// Whether a byte of `conflict` is one that is looked at in this string; `None` if that
/// cannot be told.
fn reads(
    target: &mut dyn Inspect,
    reader: &Reader<'_>,
    function: &StringFunction,
    text: Text,
    conflict: Bytes,
) -> Option<bool> {
    let argument = |index: usize| -> Option<u64> {
        let register: Register = (*function.arguments.get(index)?)?;
        Some(reader.registers.get(register))
    };
    let start = argument(text.string)?;
    let unit = text.unit.max(1);
    let end = match text.count {
        Some(count) => start.saturating_add(argument(count)?.saturating_mul(unit)),
        None => u64::MAX,
    };
    // The first of the bytes, as the function goes, that is in the string. If it is not looked at,
    // none of the later ones is.
    let (first, last) = (conflict.start.0.max(start), conflict.end().min(end));
    if first >= last {
        return Some(false);
    }
    let (from, len) = if text.backwards {
        (last, end - last)
    } else {
        (start, (first - start) / unit * unit)
    };
    let passed = read(target, reader.space, from, len)?;
    let characters = |of: &[u8], what: u64| {
        let size = usize::try_from(unit).unwrap_or(1).min(8);
        let what = what.to_le_bytes();
        let what = what.get(..size).unwrap_or(&what);
        of.chunks_exact(size).any(|one| one == what)
    };
    if text.zero && characters(&passed, 0) {
        return Some(false);
    }
    let stops = match text.stop {
        Stop::Nothing => false,
        Stop::Byte(index) => characters(&passed, argument(index)?),
        Stop::Difference(index) => read(target, reader.space, argument(index)?, len)? != passed,
        Stop::OneOf(index) | Stop::NoneOf(index) => {
            let set = string(target, reader.space, argument(index)?)?;
            let is_in = matches!(text.stop, Stop::OneOf(_));
            passed.iter().any(|byte| set.contains(byte) == is_in)
        }
        Stop::Occurrence {
            of,
            count,
            any_case,
        } => {
            let sought = match count {
                Some(count) => read(target, reader.space, argument(of)?, argument(count)?)?,
                None => string(target, reader.space, argument(of)?)?,
            };
            let same = |one: &[u8]| {
                one == sought.as_slice() || (any_case && one.eq_ignore_ascii_case(&sought))
            };
            sought.is_empty() || passed.windows(sought.len()).any(same)
        }
    };
    Some(!stops)
}

/// The string at `start`, without its zero. It is read piece by piece, none of which crosses
/// into another page.
fn string(target: &mut dyn Inspect, space: SpaceId, start: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < LONGEST_SOUGHT {
        let at = start.checked_add(text.len() as u64)?;
        let piece = read(target, space, at, PIECE - at % PIECE)?;
        match piece.iter().position(|byte| *byte == 0) {
            Some(zero) => {
                text.extend_from_slice(piece.get(..zero)?);
                return Some(text);
            }
            None => text.extend(piece),
        }
    }
    None
}

fn read(target: &mut dyn Inspect, space: SpaceId, start: u64, len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(Some(len).filter(|len| *len <= LONGEST)?).ok()?;
    let mut bytes = vec![0; len];
    (len == 0 || target.read(space, Avma(start), &mut bytes)).then_some(bytes)
}
