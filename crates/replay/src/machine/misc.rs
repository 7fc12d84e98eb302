//! Instructions that are neither computed natively nor control flow: flags, addresses,
//! control registers of vectors, bit strings.

use super::Machine;
use super::decode::{Decoded, Kind, unsupported};
use crate::outcome::{End, Fault};
use crate::state::{RBX, RSP, flag};
use iced_x86::{Mnemonic, OpKind, Register};

impl Machine<'_> {
    /// Runs an instruction that the real processor does not.
    pub(super) fn special(&mut self, decoded: &Decoded) -> Result<(), End> {
        use Mnemonic as M;
        let i = &decoded.instruction;
        match &decoded.kind {
            Kind::Nothing => {
                self.ip = decoded.next;
                return Ok(());
            }
            Kind::Ends(end) => return Err(end.clone()),
            Kind::Native(_) | Kind::Special => {}
        }
        if i.is_string_instruction() {
            return self.string(decoded);
        }
        if i.is_vsib() {
            self.gather_or_scatter(decoded)?;
            self.ip = decoded.next;
            return Ok(());
        }
        match i.mnemonic() {
            M::Lea => {
                let operand = decoded.operand.as_ref().ok_or_else(|| unsupported(i))?;
                let offset = operand.offset(&self.native.file.general);
                self.set_register(i.op0_register(), offset);
            }
            M::Push | M::Pop | M::Pushfq | M::Popfq | M::Leave => self.stack(decoded)?,
            M::Cld => self.set_flags(flag::DF, 0),
            M::Std => self.set_flags(flag::DF, flag::DF),
            M::Cli => self.set_flags(flag::IF, 0),
            M::Sti => self.set_flags(flag::IF, flag::IF),
            M::Clac => self.set_flags(flag::AC, 0),
            M::Stac => self.set_flags(flag::AC, flag::AC),
            M::Rdfsbase => self.set_register(i.op0_register(), self.fs_base),
            M::Rdgsbase => self.set_register(i.op0_register(), self.gs_base),
            M::Ldmxcsr | M::Vldmxcsr => self.load_mxcsr(decoded)?,
            M::Stmxcsr | M::Vstmxcsr => {
                let address = self.address(decoded)?;
                let value = self.native.file.mxcsr;
                self.space.write(address, &value.to_le_bytes())?;
            }
            M::Vzeroupper => self.native.file.zmm[..16]
                .iter_mut()
                .for_each(|r| r[16..].fill(0)),
            M::Vzeroall => self.native.file.zmm[..16].fill([0; 64]),
            M::Xlatb => {
                let table = self.native.file.general[RBX];
                let table = if i.op_kind(0) == OpKind::Memory && i.memory_base() == Register::EBX {
                    table & 0xffff_ffff
                } else {
                    table
                };
                let base = match i.memory_segment() {
                    Register::FS => self.fs_base,
                    Register::GS => self.gs_base,
                    _ => 0,
                };
                let at = table
                    .wrapping_add(self.register(Register::AL))
                    .wrapping_add(base);
                let value = self.space.read_number(at, 1)?;
                self.set_register(Register::AL, value);
            }
            M::Bt | M::Bts | M::Btr | M::Btc => self.bit_string(decoded)?,
            _ => return self.control(decoded),
        }
        self.ip = decoded.next;
        Ok(())
    }

    pub(super) fn address(&self, decoded: &Decoded) -> Result<u64, End> {
        let operand = decoded.operand.as_ref();
        let operand = operand.ok_or_else(|| unsupported(&decoded.instruction))?;
        let general = &self.native.file.general;
        Ok(operand.address(general, self.fs_base, self.gs_base))
    }

    fn load_mxcsr(&mut self, decoded: &Decoded) -> Result<(), End> {
        let address = self.address(decoded)?;
        let value = self.space.read_number(address, 4)? as u32;
        if value & 0xffff_0000 != 0 {
            return Err(End::Fault(Fault::Protection));
        }
        self.native.file.mxcsr = value;
        Ok(())
    }

    /// `bt [m], r`: the register counts bits from the operand's address, backwards too.
    fn bit_string(&mut self, decoded: &Decoded) -> Result<(), End> {
        let i = &decoded.instruction;
        let register = i.op1_register();
        let size = register.size();
        let bits = size as u64 * 8;
        let mut offset = self.register(register);
        if size < 8 {
            // Sign-extended.
            let shift = 64 - bits;
            offset = ((offset << shift).cast_signed() >> shift).cast_unsigned();
        }
        let words = (offset.cast_signed() >> bits.trailing_zeros()).cast_unsigned();
        let address = self.address(decoded)?;
        let address = address.wrapping_add(words.wrapping_mul(size as u64));
        let writes = i.mnemonic() != Mnemonic::Bt;
        if writes {
            self.space.check(address, size, true)?;
        }
        let value = self.space.read_number(address, size)?;
        let bit = 1 << (offset % bits);
        let result = match i.mnemonic() {
            Mnemonic::Bts => value | bit,
            Mnemonic::Btr => value & !bit,
            _ => value ^ bit,
        };
        if writes {
            self.space.write_number(address, size, result)?;
        }
        let carry = if value & bit == 0 { 0 } else { flag::CF };
        self.set_flags(flag::CF, carry);
        Ok(())
    }

    /// The value of a general-purpose register or a part of it.
    pub(super) fn register(&self, register: Register) -> u64 {
        let whole = self.native.file.general[register.full_register().number() & 15];
        match register.size() {
            1 if is_high_byte(register) => (whole >> 8) & 0xff,
            1 => whole & 0xff,
            2 => whole & 0xffff,
            4 => whole & 0xffff_ffff,
            _ => whole,
        }
    }

    /// Sets a general-purpose register or a part of it.
    pub(super) fn set_register(&mut self, register: Register, value: u64) {
        let whole = &mut self.native.file.general[register.full_register().number() & 15];
        *whole = match register.size() {
            1 if is_high_byte(register) => (*whole & !0xff00) | ((value & 0xff) << 8),
            1 => (*whole & !0xff) | (value & 0xff),
            2 => (*whole & !0xffff) | (value & 0xffff),
            4 => value & 0xffff_ffff,
            _ => value,
        };
        self.lowest_stack = self.lowest_stack.min(self.native.file.general[RSP]);
    }
}

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}
