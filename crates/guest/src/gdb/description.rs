//! The layout of a stub's `g` packet.
//!
//! A stub describes its registers in XML, in one document or in several that
//! include each other. Of all that, two things matter here: the order and the
//! sizes of the registers. So this is no XML parser: it looks for the elements
//! `architecture`, `reg` and `xi:include`, and skips the rest.

use super::packet::decode_hex;
use crate::VcpuRegisters;
use redhanded_model::{Register, Registers};

/// The first document of a description.
pub const FIRST_DOCUMENT: &str = "target.xml";

/// What GDB calls the architecture.
const ARCHITECTURE: &str = "i386:x86-64";

/// The most registers, documents and bits of a register that are accepted.
const MAX_REGISTERS: usize = 4096;
const MAX_DOCUMENTS: usize = 64;
const MAX_BITS: u32 = 1 << 16;

/// The general registers in the encoding's order, by their names in descriptions.
const GENERAL: [(&str, Register); 16] = [
    ("rax", Register::Rax),
    ("rcx", Register::Rcx),
    ("rdx", Register::Rdx),
    ("rbx", Register::Rbx),
    ("rsp", Register::Rsp),
    ("rbp", Register::Rbp),
    ("rsi", Register::Rsi),
    ("rdi", Register::Rdi),
    ("r8", Register::R8),
    ("r9", Register::R9),
    ("r10", Register::R10),
    ("r11", Register::R11),
    ("r12", Register::R12),
    ("r13", Register::R13),
    ("r14", Register::R14),
    ("r15", Register::R15),
];

/// The layout that GDB assumes for a stub without a description.
const UNDESCRIBED: [(&str, u32); 24] = [
    ("rax", 64),
    ("rbx", 64),
    ("rcx", 64),
    ("rdx", 64),
    ("rsi", 64),
    ("rdi", 64),
    ("rbp", 64),
    ("rsp", 64),
    ("r8", 64),
    ("r9", 64),
    ("r10", 64),
    ("r11", 64),
    ("r12", 64),
    ("r13", 64),
    ("r14", 64),
    ("r15", 64),
    ("rip", 64),
    ("eflags", 32),
    ("cs", 32),
    ("ss", 32),
    ("ds", 32),
    ("es", 32),
    ("fs", 32),
    ("gs", 32),
];

/// What is wrong with a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// Another architecture, with its name.
    Architecture(String),
    /// This register is missing or has a strange size.
    Register(&'static str),
    /// More registers or documents than there can be.
    TooLong,
}

/// A register in the order of the `g` packet.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Described {
    number: u32,
    name: String,
    bits: u32,
}

/// A description while its documents come in.
///
/// The caller fetches the document that [`Description::wanted`] names and hands it
/// to [`Description::add`], until none is wanted.
#[derive(Clone, Debug)]
pub struct Description {
    architecture: Option<String>,
    registers: Vec<Described>,
    /// Documents yet to be read; the next one last.
    wanted: Vec<String>,
    documents: usize,
    next_number: u32,
}

impl Default for Description {
    fn default() -> Self {
        Self::new()
    }
}

impl Description {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            architecture: None,
            registers: Vec::new(),
            wanted: vec![FIRST_DOCUMENT.to_owned()],
            documents: 0,
            next_number: 0,
        }
    }

    /// Takes the name of the next document that is needed.
    pub fn wanted(&mut self) -> Option<String> {
        self.wanted.pop()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When there are too many of them, or of registers.
    pub fn add(&mut self, document: &str) -> Result<(), Unusable> {
        self.documents += 1;
        if self.documents > MAX_DOCUMENTS {
            return Err(Unusable::TooLong);
        }
        let mut includes = Vec::new();
        for (tag, after) in Tags::new(document) {
            match tag.name() {
                "architecture" if self.architecture.is_none() => {
                    let text = after.split('<').next().unwrap_or_default();
                    self.architecture = Some(text.trim().to_owned());
                }
                "xi:include" => {
                    includes.extend(tag.attribute("href").map(str::to_owned));
                }
                "reg" => self.register(tag)?,
                _ => {}
            }
        }
        // A document's own registers come before those of what it includes, unless
        // they have numbers; stubs do either one or the other.
        self.wanted.extend(includes.into_iter().rev());
        if self.wanted.len() > MAX_DOCUMENTS {
            return Err(Unusable::TooLong);
        }
        Ok(())
    }

    fn register(&mut self, tag: Tag<'_>) -> Result<(), Unusable> {
        let number = |name: &str| tag.attribute(name)?.trim().parse::<u32>().ok();
        let Some(bits) = number("bitsize") else {
            return Ok(());
        };
        if bits > MAX_BITS || self.registers.len() == MAX_REGISTERS {
            return Err(Unusable::TooLong);
        }
        let number = number("regnum").unwrap_or(self.next_number);
        self.next_number = number.saturating_add(1);
        let name = tag.attribute("name").unwrap_or_default().to_owned();
        self.registers.push(Described { number, name, bits });
        Ok(())
    }

    /// The layout.
    ///
    /// # Errors
    /// When it is not the `g` packet of an x86-64.
    pub fn layout(mut self) -> Result<Layout, Unusable> {
        match self.architecture {
            Some(name) if name != ARCHITECTURE => return Err(Unusable::Architecture(name)),
            _ => {}
        }
        if self.registers.is_empty() {
            let undescribed = UNDESCRIBED.iter().zip(0..);
            self.registers = undescribed
                .map(|(&(name, bits), number)| Described {
                    number,
                    name: name.to_owned(),
                    bits,
                })
                .collect();
        }
        self.registers.sort_by_key(|register| register.number);
        self.registers.dedup_by_key(|register| register.number);
        Layout::new(&self.registers)
    }
}

/// The position of a register, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RegisterSlot {
    offset: usize,
    size: usize,
}

impl RegisterSlot {
    /// Its value; `None` also if the stub says that it is unavailable.
    fn value(self, packet: &[u8]) -> Option<u64> {
        let text = packet.get(2 * self.offset..2 * (self.offset + self.size))?;
        let mut bytes = [0; 8];
        decode_hex(text, bytes.get_mut(..self.size)?).then(|| u64::from_le_bytes(bytes))
    }
}

/// The positions of the registers in a `g` packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    general: [RegisterSlot; 16],
    rip: RegisterSlot,
    eflags: RegisterSlot,
    cs: Option<RegisterSlot>,
    fs_base: Option<RegisterSlot>,
    gs_base: Option<RegisterSlot>,
    kernel_gs_base: Option<RegisterSlot>,
    cr0: Option<RegisterSlot>,
    cr3: Option<RegisterSlot>,
    cr4: Option<RegisterSlot>,
    efer: Option<RegisterSlot>,
}

impl Layout {
    fn new(registers: &[Described]) -> Result<Self, Unusable> {
        let mut fields = Vec::with_capacity(registers.len());
        let mut offset = 0;
        for register in registers {
            let size = register.bits.div_ceil(8) as usize;
            fields.push((register.name.as_str(), RegisterSlot { offset, size }));
            offset += size;
        }
        let find = |name: &str| {
            let mut found = fields.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, place)| *place)
        };
        let sized = |name: &'static str, sizes: &[usize]| {
            find(name)
                .filter(|place| sizes.contains(&place.size))
                .ok_or(Unusable::Register(name))
        };
        let mut general = [RegisterSlot { offset: 0, size: 0 }; 16];
        for (name, register) in GENERAL {
            general[register as usize] = sized(name, &[8])?;
        }
        let small = |name: &str| find(name).filter(|place| (1..=8).contains(&place.size));
        Ok(Self {
            general,
            rip: sized("rip", &[8])?,
            eflags: sized("eflags", &[4, 8])?,
            cs: small("cs"),
            fs_base: small("fs_base"),
            gs_base: small("gs_base"),
            kernel_gs_base: small("k_gs_base"),
            cr0: small("cr0"),
            cr3: small("cr3"),
            cr4: small("cr4"),
            efer: small("efer"),
        })
    }

    /// The registers in a `g` packet; `None` if it is malformed, or an integer register
    /// is missing.
    #[must_use]
    pub fn registers(&self, packet: &[u8]) -> Option<VcpuRegisters> {
        let value = |place: Option<RegisterSlot>| place?.value(packet);
        let (fs_base, gs_base) = (value(self.fs_base), value(self.gs_base));
        let mut general = Registers {
            rip: self.rip.value(packet)?,
            rflags: self.eflags.value(packet)?,
            fs_base: fs_base.unwrap_or(0),
            gs_base: gs_base.unwrap_or(0),
            system_call: -1,
            ..Registers::default()
        };
        for (register, place) in general.gpr.iter_mut().zip(self.general) {
            *register = place.value(packet)?;
        }
        Some(VcpuRegisters {
            general,
            cs: value(self.cs).map(|cs| cs as u16),
            fs_base,
            gs_base,
            kernel_gs_base: value(self.kernel_gs_base),
            cr0: value(self.cr0),
            cr3: value(self.cr3),
            cr4: value(self.cr4),
            efer: value(self.efer),
        })
    }
}

/// The text between `<` and `>`.
#[derive(Clone, Copy, Debug)]
struct Tag<'a>(&'a str);

impl<'a> Tag<'a> {
    fn name(self) -> &'a str {
        let end = |c: char| c.is_ascii_whitespace() || c == '/';
        self.0.split(end).next().unwrap_or_default()
    }

    fn attribute(self, name: &str) -> Option<&'a str> {
        let mut rest = self.0.get(self.name().len()..)?;
        loop {
            let (key, after) = rest.split_once('=')?;
            let after = after.trim_ascii_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, next) = after.get(1..)?.split_once(quote)?;
            if key.trim_ascii() == name {
                return Some(value);
            }
            rest = next;
        }
    }
}

/// The tags of a document, each with the text after it. Skips comments.
struct Tags<'a>(&'a str);

impl<'a> Tags<'a> {
    const fn new(document: &'a str) -> Self {
        Self(document)
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = (Tag<'a>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (_, rest) = self.0.split_once('<')?;
            if let Some(comment) = rest.strip_prefix("!--") {
                self.0 = comment.split_once("-->").map_or("", |(_, rest)| rest);
                continue;
            }
            let (tag, after) = rest.split_once('>')?;
            self.0 = after;
            return Some((Tag(tag), after));
        }
    }
}

#[cfg(test)]
mod tests;
