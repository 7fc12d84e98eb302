//! Push, pop and the like.

use super::decode::{Decoded, unsupported};
use super::{Machine, Mode};
use crate::outcome::End;
use crate::state::{RSP, flag};
use iced_x86::{Code, Mnemonic, OpKind, Register};

impl Machine<'_> {
    pub(super) fn push(&mut self, value: u64, size: usize) -> Result<(), End> {
        let at = self.native.file.general[RSP].wrapping_sub(size as u64);
        self.space.write_number(at, size, value)?;
        self.native.file.general[RSP] = at;
        self.lowest_stack = self.lowest_stack.min(at);
        Ok(())
    }

    pub(super) fn pop(&mut self, size: usize) -> Result<u64, End> {
        let at = self.native.file.general[RSP];
        let value = self.space.read_number(at, size)?;
        self.native.file.general[RSP] = at.wrapping_add(size as u64);
        Ok(value)
    }

    pub(super) fn stack(&mut self, decoded: &Decoded) -> Result<(), End> {
        let i = &decoded.instruction;
        let size = i.stack_pointer_increment().unsigned_abs() as usize;
        match i.mnemonic() {
            Mnemonic::Push => {
                let value = match i.op_kind(0) {
                    OpKind::Register => self.register(i.op0_register()),
                    OpKind::Memory => {
                        let address = self.address(decoded)?;
                        self.space.read_number(address, size)?
                    }
                    _ => i.immediate(0),
                };
                self.push(value, size)
            }
            Mnemonic::Pop => match i.op_kind(0) {
                OpKind::Register => {
                    let value = self.pop(size)?;
                    self.set_register(i.op0_register(), value);
                    Ok(())
                }
                _ => {
                    // The address is computed with the stack pointer already raised.
                    let before = self.native.file.general[RSP];
                    let value = self.pop(size)?;
                    let written = self
                        .address(decoded)
                        .and_then(|at| self.space.write_number(at, size, value));
                    if written.is_err() {
                        self.native.file.general[RSP] = before;
                    }
                    written
                }
            },
            Mnemonic::Pushfq => {
                // The resume flag is never seen, nor the virtual-8086 one.
                self.push(self.native.file.flags & 0x00fc_ffff, 8)
            }
            Mnemonic::Popfq => {
                let mut mask = flag::STATUS | flag::DF | flag::NT | flag::AC | flag::ID;
                if self.mode == Mode::Kernel {
                    mask |= flag::IF;
                }
                let at = self.native.file.general[RSP];
                let value = self.space.read_number(at, 8)?;
                if value & flag::TF != 0 {
                    return Err(unsupported(i));
                }
                self.pop(8)?;
                self.set_flags(mask, value);
                Ok(())
            }
            Mnemonic::Leave if i.code() == Code::Leaveq => {
                let frame = self.register(Register::RBP);
                let value = self.space.read_number(frame, 8)?;
                self.native.file.general[RSP] = frame.wrapping_add(8);
                self.set_register(Register::RBP, value);
                Ok(())
            }
            _ => Err(unsupported(i)),
        }
    }
}
