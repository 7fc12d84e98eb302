//! String instructions, repeated or not.

use super::Machine;
use super::decode::{Decoded, unsupported};
use crate::outcome::End;
use crate::state::{RAX, RCX, RDI, RSI, flag};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

impl Machine<'_> {
    /// Runs a string instruction. One that repeats for long is left in the middle, as an
    /// interrupt would leave it, and goes on with the next step.
    pub(super) fn string(&mut self, decoded: &Decoded) -> Result<(), End> {
        let i = &decoded.instruction;
        if is_narrow(i) {
            return Err(unsupported(i));
        }
        // Input and output is refused even if it is repeated no times.
        let size = size(i)?;
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        if !repeats {
            self.once(i, size)?;
            self.ip = decoded.next;
            return Ok(());
        }
        while self.native.file.general[RCX] != 0 {
            if self.repeats == 0 {
                return Ok(());
            }
            self.repeats -= 1;
            self.once(i, size)?;
            self.native.file.general[RCX] -= 1;
            let compares = matches!(
                i.mnemonic(),
                Mnemonic::Cmpsb
                    | Mnemonic::Cmpsw
                    | Mnemonic::Cmpsd
                    | Mnemonic::Cmpsq
                    | Mnemonic::Scasb
                    | Mnemonic::Scasw
                    | Mnemonic::Scasd
                    | Mnemonic::Scasq
            );
            if compares && self.has_flag(flag::ZF) == i.has_repne_prefix() {
                break;
            }
        }
        self.ip = decoded.next;
        Ok(())
    }

    fn once(&mut self, i: &Instruction, size: usize) -> Result<(), End> {
        use Mnemonic as M;
        let step = if self.has_flag(flag::DF) {
            (size as u64).wrapping_neg()
        } else {
            size as u64
        };
        let general = &self.native.file.general;
        let (source, destination, accumulator) = (general[RSI], general[RDI], general[RAX]);
        let source = source.wrapping_add(match i.memory_segment() {
            Register::FS => self.fs_base,
            Register::GS => self.gs_base,
            _ => 0,
        });
        let (mut moves_source, mut moves_destination) = (true, true);
        match i.mnemonic() {
            M::Movsb | M::Movsw | M::Movsd | M::Movsq => {
                self.space.check(destination, size, true)?;
                let value = self.space.read_number(source, size)?;
                self.space.write_number(destination, size, value)?;
            }
            M::Stosb | M::Stosw | M::Stosd | M::Stosq => {
                self.space.write_number(destination, size, accumulator)?;
                moves_source = false;
            }
            M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => {
                let value = self.space.read_number(source, size)?;
                let register = match size {
                    1 => Register::AL,
                    2 => Register::AX,
                    4 => Register::EAX,
                    _ => Register::RAX,
                };
                self.set_register(register, value);
                moves_destination = false;
            }
            M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq => {
                let a = self.space.read_number(source, size)?;
                let b = self.space.read_number(destination, size)?;
                self.compare(a, b, size);
            }
            _ => {
                let b = self.space.read_number(destination, size)?;
                self.compare(accumulator, b, size);
                moves_source = false;
            }
        }
        let general = &mut self.native.file.general;
        if moves_source {
            general[RSI] = general[RSI].wrapping_add(step);
        }
        if moves_destination {
            general[RDI] = general[RDI].wrapping_add(step);
        }
        Ok(())
    }
}

/// How many bytes it moves or compares at a time.
fn size(i: &Instruction) -> Result<usize, End> {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Movsb | M::Stosb | M::Lodsb | M::Cmpsb | M::Scasb => Ok(1),
        M::Movsw | M::Stosw | M::Lodsw | M::Cmpsw | M::Scasw => Ok(2),
        M::Movsd | M::Stosd | M::Lodsd | M::Cmpsd | M::Scasd => Ok(4),
        M::Movsq | M::Stosq | M::Lodsq | M::Cmpsq | M::Scasq => Ok(8),
        _ => Err(unsupported(i)),
    }
}

/// Whether it counts or addresses in 32 bits.
fn is_narrow(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| {
        matches!(
            i.op_kind(n),
            OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegSI | OpKind::MemoryESDI
        )
    })
}
