//! A memory operand: how its address comes from the registers.

use redhanded_model::{Register, Registers};

/// The segment whose base is part of an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SegmentBase {
    /// None that matters: 64-bit mode gives the others base 0.
    Flat,
    /// Thread-local storage of programs.
    Fs,
    /// Per-CPU data of kernels.
    Gs,
}

/// How an address is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The base register.
    pub base: Option<Register>,
    /// The index register.
    pub index: Option<Register>,
    /// What the index is multiplied with.
    pub scale: u8,
    /// What is added; the absolute address of an instruction-relative operand.
    pub displacement: u64,
    /// The segment.
    pub segment: SegmentBase,
    /// Whether the displacement is such an absolute address.
    pub rip_relative: bool,
    /// Whether the effective address has 32 bits only.
    pub narrow: bool,
    /// Whether only the low byte of the index counts (`xlat`).
    pub byte_index: bool,
    /// For `bt` and its family: the register that holds a bit's number in the
    /// bit string at the address, and the register's bytes, which is also the
    /// unit the string is accessed in.
    pub bit: Option<(Register, u8)>,
}

impl Operand {
    /// The address in `base` alone.
    pub(crate) const fn at(base: Register, displacement: u64) -> Self {
        Self {
            base: Some(base),
            index: None,
            scale: 1,
            displacement,
            segment: SegmentBase::Flat,
            rip_relative: false,
            narrow: false,
            byte_index: false,
            bit: None,
        }
    }

    /// The address, from these registers.
    #[must_use]
    pub fn address(&self, registers: &Registers) -> u64 {
        let mut address = self.displacement;
        if let Some(base) = self.base {
            address = address.wrapping_add(registers.get(base));
        }
        if let Some(index) = self.index {
            let mut value = registers.get(index);
            if self.byte_index {
                value &= 0xff;
            }
            address = address.wrapping_add(value.wrapping_mul(u64::from(self.scale)));
        }
        if let Some((register, bytes)) = self.bit {
            let units = bit_units(registers.get(register), bytes);
            address = address.wrapping_add(units.wrapping_mul(u64::from(bytes)));
        }
        if self.narrow {
            address &= 0xffff_ffff;
        }
        match self.segment {
            SegmentBase::Flat => address,
            SegmentBase::Fs => address.wrapping_add(registers.fs_base),
            SegmentBase::Gs => address.wrapping_add(registers.gs_base),
        }
    }

    /// The registers the address depends on.
    pub(crate) fn registers(&self) -> impl Iterator<Item = Register> {
        [
            self.base,
            self.index,
            self.bit.map(|(register, _)| register),
        ]
        .into_iter()
        .flatten()
    }

    /// The absolute address, where no register takes part.
    #[must_use]
    pub fn constant(&self) -> Option<u64> {
        let none = self.base.is_none() && self.index.is_none() && self.bit.is_none();
        (none && self.segment == SegmentBase::Flat).then_some(self.displacement)
    }
}

/// How many units of `bytes` the (signed) bit number lies from the operand.
fn bit_units(value: u64, bytes: u8) -> u64 {
    // Sign-extension by way of the narrower types is the point here.
    let signed = match bytes {
        2 => i64::from((value & 0xffff) as u16 as i16),
        4 => i64::from((value & 0xffff_ffff) as u32 as i32),
        _ => value as i64,
    };
    signed.div_euclid(i64::from(bytes) * 8) as u64
}
