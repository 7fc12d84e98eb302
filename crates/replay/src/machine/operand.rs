//! Where a memory operand is.

use iced_x86::{Instruction, Register};

/// A memory operand, ready to be computed often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    base: Option<u8>,
    index: Option<u8>,
    scale: u8,
    displacement: u64,
    segment: Segment,
    /// Addresses are computed in 32 bits.
    narrow: bool,
    pub size: usize,
    pub read: bool,
    pub write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    Flat,
    Fs,
    Gs,
}

impl Operand {
    /// The explicit memory operand of an instruction. A vector index is left out.
    pub fn of(instruction: &Instruction) -> Self {
        let general = |register: Register| {
            let full = register.full_register();
            full.is_gpr64().then(|| full.number() as u8)
        };
        let segment = match instruction.memory_segment() {
            Register::FS => Segment::Fs,
            Register::GS => Segment::Gs,
            _ => Segment::Flat,
        };
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        Self {
            // Relative to the instruction pointer: the displacement is the whole address.
            base: if base.is_ip() { None } else { general(base) },
            index: general(index),
            scale: instruction.memory_index_scale() as u8,
            displacement: instruction.memory_displacement64(),
            segment,
            narrow: base.is_gpr32()
                || index.is_gpr32()
                || base == Register::EIP
                || base == Register::None
                    && index == Register::None
                    && instruction.memory_displ_size() == 4,
            size: instruction.memory_size().size(),
            read: false,
            write: false,
        }
    }

    /// The address within its segment, which `lea` gives.
    #[inline]
    pub fn offset(&self, general: &[u64; 16]) -> u64 {
        let mut address = self.displacement;
        if let Some(base) = self.base {
            address = address.wrapping_add(general[base as usize & 15]);
        }
        if let Some(index) = self.index {
            let index = general[index as usize & 15];
            address = address.wrapping_add(index.wrapping_mul(self.scale.into()));
        }
        if self.narrow {
            address &= u64::from(u32::MAX);
        }
        address
    }

    /// The address.
    #[inline]
    pub fn address(&self, general: &[u64; 16], fs_base: u64, gs_base: u64) -> u64 {
        let offset = self.offset(general);
        match self.segment {
            Segment::Flat => offset,
            Segment::Fs => offset.wrapping_add(fs_base),
            Segment::Gs => offset.wrapping_add(gs_base),
        }
    }
}
