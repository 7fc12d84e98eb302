//! The values of a collision in the terms of their type, and what each side read or wrote.

use crate::Collision;
use crate::around::{both, instruction_at, part};
use redhanded_image::{Reading, Shown};
use redhanded_model::{AccessKind, AccessReport, AccessValue, Avma, Region, Typed, Values};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// Tells what values mean.
pub struct Interpreter<'a> {
    /// How the bytes that both sides touch are read.
    pub reading: Option<Reading>,
    pub collision: &'a Collision,
    pub modules: &'a [Arc<Module>],
}

impl Interpreter<'_> {
    /// Adds to `values` what they mean.
    pub fn tell(&self, values: &mut Values) {
        let record = &self.collision.record;
        let both = both(record, self.confirmed());
        let text = |bytes: &[u8]| self.text(part(bytes, record.bytes, both)?);
        values.typed = text(&values.before)
            .zip(text(&values.after))
            .map(|(before, after)| Typed { before, after });
    }

    /// Adds to the accesses what they read or wrote.
    pub fn tell_sides(&self, values: &Values, accesses: &mut [AccessReport]) {
        let found = [self.held(), self.caught(values)];
        for (access, bytes) in accesses.iter_mut().zip(found) {
            access.value = bytes.map(|bytes| AccessValue {
                typed: self.text(&bytes),
                bytes,
            });
        }
    }

    fn confirmed(&self) -> Option<&crate::Confirmed> {
        self.collision.other.as_ref().map(|(other, ..)| other)
    }

    /// What the held thread is about to write. What it will read is not known.
    fn held(&self) -> Option<Vec<u8>> {
        let record = &self.collision.record;
        let registers = self.collision.registers()?;
        let instruction = self.collision.sampled_instruction()?;
        let stored = instruction.stored(registers)?;
        let whole = instruction.sampled_access()?;
        let whole = whole.bytes_before(registers)?;
        Some(part(&stored, whole, both(record, self.confirmed()))?.to_vec())
    }

    /// What the caught thread wrote, left or read.
    fn caught(&self, values: &Values) -> Option<Vec<u8>> {
        let record = &self.collision.record;
        let confirmed = self.confirmed()?;
        // The kernel may not be through with it.
        if confirmed.system_call.is_some() {
            return None;
        }
        let both = both(record, Some(confirmed));
        let stored = instruction_at(self.modules, confirmed.pc)
            .zip(record.hit.as_ref())
            .and_then(|(instruction, hit)| instruction.stored(&hit.registers));
        if let Some(stored) = &stored {
            return Some(part(stored, confirmed.bytes, both)?.to_vec());
        }
        let after = part(&values.after, record.bytes, both)?;
        let before = part(&values.before, record.bytes, both)?;
        // If it only reads and the bytes changed, a third thread is at it.
        (confirmed.kind != AccessKind::Read || before == after).then(|| after.to_vec())
    }

    fn text(&self, bytes: &[u8]) -> Option<String> {
        Some(match self.reading.as_ref()?.show(bytes)? {
            Shown::Text(text) => text,
            Shown::Address(address) => self.place(address),
        })
    }

    /// What is at an address: a function, a variable, or what kind of memory.
    fn place(&self, address: u64) -> String {
        if address == 0 {
            return "null".to_owned();
        }
        let named = module_at(self.modules, Avma(address)).and_then(|module| {
            let image = module.image.as_ref()?;
            let svma = module.svma(Avma(address));
            let (name, start) = match image.function_at(svma) {
                Some(function) => {
                    let frames = image.debug().frames(svma);
                    // The function itself, not what was inlined into it.
                    let name = frames.into_iter().next_back()?.function?;
                    (name, function.start.0)
                }
                None => {
                    let variable = image.debug().variable_at(svma)?;
                    (variable.name.clone(), variable.svma.0)
                }
            };
            Some(symbol(&name, svma.0.checked_sub(start)?))
        });
        let pointed = &self.collision.around.pointed;
        let region = pointed.iter().find(|(known, _)| *known == address);
        named
            .or_else(|| region.and_then(|(_, region)| memory(region)))
            .unwrap_or_else(|| format!("{address:#x}"))
    }
}

/// `&table`, `&table+0x18`.
fn symbol(name: &str, offset: u64) -> String {
    match offset {
        0 => format!("&{name}"),
        offset => format!("&{name}+{offset:#x}"),
    }
}

/// Memory without names.
fn memory(region: &Region) -> Option<String> {
    match region {
        Region::Unknown => None,
        region => Some(region.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_by_its_symbol() {
        assert_eq!(symbol("table", 0), "&table");
        assert_eq!(symbol("table", 24), "&table+0x18");
    }

    #[test]
    fn memory_that_is_not_mapped_is_called_nothing() {
        assert_eq!(memory(&Region::Heap).unwrap(), "heap");
        assert_eq!(memory(&Region::Unknown), None);
    }
}
