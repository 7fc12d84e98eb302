//! A memory operand, and how its address is computed from the registers.

use redhanded_model::{Register, Registers};

/// The segment whose base is added to an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SegmentBase {
    /// Any other segment: its base is 0 in 64-bit mode.
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
    /// The factor of the index.
    pub scale: u8,
    /// The displacement; the absolute address if the operand is rip-relative.
    pub displacement: u64,
    /// The segment.
    pub segment: SegmentBase,
    /// Whether the operand is rip-relative.
    pub rip_relative: bool,
    /// Whether the effective address has only 32 bits.
    pub narrow: bool,
    /// Whether only the low byte of the index is used (`xlat`).
    pub byte_index: bool,
    /// For `bt`, `bts`, `btr` and `btc`: the register with the number of a bit in the bit
    /// string at the address, and its size in bytes, which is also the size of the access.
    pub bit: Option<(Register, u8)>,
}

impl Operand {
    /// The operand `[base]`.
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

    /// The address, computed from these registers.
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

    /// The registers that the address depends on.
    pub(crate) fn registers(&self) -> impl Iterator<Item = Register> {
        [
            self.base,
            self.index,
            self.bit.map(|(register, _)| register),
        ]
        .into_iter()
        .flatten()
    }

    /// The address, if it depends on no register.
    #[must_use]
    pub fn constant(&self) -> Option<u64> {
        let none = self.base.is_none() && self.index.is_none() && self.bit.is_none();
        (none && self.segment == SegmentBase::Flat).then_some(self.displacement)
    }
}

/// How many units of `bytes` bytes the (signed) bit number is away from the operand.
fn bit_units(value: u64, bytes: u8) -> u64 {
    // The casts through narrower types sign-extend.
    let signed = match bytes {
        2 => i64::from((value & 0xffff) as u16 as i16),
        4 => i64::from((value & 0xffff_ffff) as u32 as i32),
        _ => value as i64,
    };
    signed.div_euclid(i64::from(bytes) * 8) as u64
}
