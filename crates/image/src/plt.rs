//! PLT stubs, and the names of the functions that are called through them.

use crate::layout::{CodePart, elf_file};
use crate::{Flow, Image, Instruction};
use object::SymbolIndex;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym};
use redhanded_model::Svma;
use std::collections::HashMap;

/// The symbols that an image reaches through its PLT and GOT.
#[derive(Debug, Default)]
pub(crate) struct Linkage {
    /// By the address of a GOT slot.
    slots: HashMap<u64, Slot>,
    /// By the address of a stub: where it ends, and the slot it jumps through.
    stubs: Vec<Stub>,
    /// In a linked module: the symbols of the kernel and of other modules, by their addresses.
    outside: HashMap<u64, SymbolIndex>,
}

/// What the loader writes to a slot. Names stay in the file until they are needed: in a
/// damaged file, all relocations could share a name of several megabytes.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The address of the dynamic symbol with this number.
    Symbol(u32),
    /// The address that this function returns.
    Resolver(Svma),
    /// The address of this function.
    Function(Svma),
}

#[derive(Debug)]
struct Stub {
    start: u64,
    end: u64,
    slot: u64,
}

impl Linkage {
    pub fn of(image: &Image) -> Self {
        let mut linkage = Self {
            slots: slots(image),
            stubs: Vec::new(),
            outside: outside(image),
        };
        for region in &image.layout().code {
            if let Some(size) = region.stub {
                linkage.add_stubs(image, region, size);
            }
        }
        linkage
    }

    fn add_stubs(&mut self, image: &Image, region: &CodePart, size: u64) {
        let CodePart { range, .. } = region;
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        let bytes = image.bytes_at(Svma(range.start), len).unwrap_or_default();
        let mut start = range.start;
        for stub in bytes.chunks(usize::try_from(size).unwrap_or(16).max(1)) {
            if let Some(slot) = slot_of(stub, start) {
                self.stubs.push(Stub {
                    start,
                    end: start + size,
                    slot,
                });
            }
            start += size;
        }
    }

    fn stub_slot(&self, svma: Svma) -> Option<Slot> {
        let after = self.stubs.partition_point(|stub| stub.start <= svma.0);
        let stub = self.stubs.get(after.checked_sub(1)?)?;
        if svma.0 >= stub.end {
            return None;
        }
        self.slots.get(&stub.slot).copied()
    }
}

/// The slot that a stub jumps through: that of its only `jmp [slot]`, which may follow an
/// endbr64.
fn slot_of(stub: &[u8], start: u64) -> Option<u64> {
    let mut at = 0;
    while let Some(rest) = stub.get(at..).filter(|rest| !rest.is_empty()) {
        let instruction = Instruction::decode(rest, start.wrapping_add(at as u64))?;
        if instruction.flow() == Flow::Jump(None) {
            return instruction.accesses().first()?.operand.constant();
        }
        at += instruction.len();
    }
    None
}

fn slots(image: &Image) -> HashMap<u64, Slot> {
    let mut slots = HashMap::new();
    let Some(file) = elf_file(image) else {
        return slots;
    };
    let endian = file.endian();
    let sections = file.elf_section_table();
    let table = sections
        .section_by_name(endian, b".got")
        .map(|(_, section)| {
            let start = section.sh_addr(endian);
            start..start.saturating_add(section.sh_size(endian))
        });
    let in_table = |at: u64| table.as_ref().is_some_and(|table| table.contains(&at));
    for section in sections.iter() {
        if section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(endian, image.data()) else {
            continue;
        };
        for relocation in relocations {
            let slot = match relocation.r_type(endian, false) {
                elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_64 => {
                    Slot::Symbol(relocation.r_sym(endian, false))
                }
                // An ifunc: chosen at load time by a resolver that has its name.
                elf::R_X86_64_IRELATIVE => {
                    Slot::Resolver(Svma(relocation.r_addend(endian).cast_unsigned()))
                }
                // A function of the file itself. Elsewhere there are far more of these, and they
                // are data.
                elf::R_X86_64_RELATIVE if in_table(relocation.r_offset(endian)) => {
                    Slot::Function(Svma(relocation.r_addend(endian).cast_unsigned()))
                }
                _ => continue,
            };
            slots.insert(relocation.r_offset(endian), slot);
        }
    }
    slots
}

/// The symbols of a module that are at addresses outside of it.
fn outside(image: &Image) -> HashMap<u64, SymbolIndex> {
    let Some(file) = elf_file(image).filter(|_| image.is_kernel()) else {
        return HashMap::new();
    };
    let symbols = file.elf_symbol_table();
    let outside = symbols.enumerate().filter(|(_, symbol)| {
        let at = symbol.st_value(file.endian());
        let absolute = symbol.st_shndx(file.endian()) == elf::SHN_ABS;
        absolute && image.segment_at(Svma(at)).is_none()
    });
    let places = outside.map(|(index, symbol)| (symbol.st_value(file.endian()), index));
    places.collect()
}

impl Image {
    fn linkage(&self) -> &Linkage {
        self.code.linkage.get_or_init(|| Linkage::of(self))
    }

    /// The symbol that the PLT stub at `svma` jumps to.
    #[must_use]
    pub fn plt_name(&self, svma: Svma) -> Option<&str> {
        self.slot_name(self.linkage().stub_slot(svma)?)
    }

    fn slot_name(&self, slot: Slot) -> Option<&str> {
        match slot {
            Slot::Symbol(0) => None,
            Slot::Symbol(index) => {
                let file = elf_file(self)?;
                let symbols = file.elf_dynamic_symbol_table();
                let index = SymbolIndex(usize::try_from(index).ok()?);
                let symbol = symbols.symbol(index).ok()?;
                let name = symbols.symbol_name(file.endian(), symbol).ok()?;
                std::str::from_utf8(name)
                    .ok()
                    .filter(|name| !name.is_empty())
            }
            Slot::Resolver(svma) | Slot::Function(svma) => {
                let function = self.function_at(svma)?;
                (function.start == svma).then_some(function.name.as_deref())?
            }
        }
    }

    /// The symbol of the kernel or of another module at `svma`.
    fn outside_name(&self, svma: Svma) -> Option<String> {
        let index = *self.linkage().outside.get(&svma.0)?;
        let file = elf_file(self)?;
        let symbols = file.elf_symbol_table();
        let symbol = symbols.symbol(index).ok()?;
        let name = symbols.symbol_name(file.endian(), symbol).ok()?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    }

    /// The symbol called by the call that returns to `return_svma`, if its operand is a
    /// constant: a function, a PLT stub or a GOT slot.
    #[must_use]
    pub fn call_target_name(&self, return_svma: Svma) -> Option<String> {
        self.called_name(&self.instruction_at(self.instruction_before(return_svma)?)?)
    }

    /// The symbol that an instruction calls, or jumps to at the end of a function.
    pub(crate) fn called_name(&self, call: &Instruction) -> Option<String> {
        match call.flow() {
            Flow::Call(Some(target)) | Flow::Jump(Some(target)) => {
                let target = Svma(target);
                if let Some(name) = self.plt_name(target) {
                    return Some(name.to_owned());
                }
                let Some(function) = self.function_at(target) else {
                    return self.outside_name(target);
                };
                (function.start == target)
                    .then(|| function.name.as_deref().map(str::to_owned))
                    .flatten()
            }
            Flow::Call(None) => {
                let read = call.accesses().iter().find(|access| !access.stack_engine)?;
                let slot = read.operand.constant()?;
                let slot = self.linkage().slots.get(&slot).copied()?;
                self.slot_name(slot).map(str::to_owned)
            }
            _ => None,
        }
    }
}
