//! Gather and scatter: one address for each element.

use super::Machine;
use super::decode::{Decoded, unsupported};
use crate::outcome::End;
use iced_x86::{Instruction, Register};

impl Machine<'_> {
    pub(super) fn gather_or_scatter(&mut self, decoded: &Decoded) -> Result<(), End> {
        let i = &decoded.instruction;
        let name = format!("{:?}", i.mnemonic()).to_ascii_lowercase();
        let scatters = name.contains("scatter");
        if name.contains("pf") || !(scatters || name.contains("gather")) {
            return Err(unsupported(i));
        }
        let narrow_index = name.ends_with("dd")
            || name.ends_with("dq")
            || name.contains("herdp")
            || name.contains("terdp");
        let index_size = if narrow_index { 4 } else { 8 };
        let size = i.memory_size().size();
        let vector = if scatters {
            i.op1_register()
        } else {
            i.op0_register()
        };
        let index = i.memory_index();
        let count = (vector.size() / size).min(index.size() / index_size);
        let by_mask_register = i.op_mask() != Register::None;
        // The mask of AVX2 is a vector: the sign bits of its elements.
        let mask = (!by_mask_register).then(|| i.op2_register());
        if mask.is_some_and(|m| !m.is_vector_register()) {
            return Err(unsupported(i));
        }
        for element in 0..count {
            let selected = match mask {
                Some(mask) => {
                    let last = element * size + size - 1;
                    self.native.file.zmm[mask.number()][last] & 0x80 != 0
                }
                None => self.native.file.masks[i.op_mask().number()] >> element & 1 != 0,
            };
            if !selected {
                continue;
            }
            let address = self.element_address(i, element, index_size, decoded)?;
            let at = element * size;
            if scatters {
                let mut bytes = [0; 8];
                bytes[..size]
                    .copy_from_slice(&self.native.file.zmm[vector.number()][at..at + size]);
                self.space.write(address, &bytes[..size])?;
            } else {
                let mut bytes = [0; 8];
                self.space.read(address, &mut bytes[..size])?;
                self.native.file.zmm[vector.number()][at..at + size]
                    .copy_from_slice(&bytes[..size]);
            }
            // A fault later on leaves the elements before it done, and unmasked.
            match mask {
                Some(mask) => self.native.file.zmm[mask.number()][at..at + size].fill(0),
                None => self.native.file.masks[i.op_mask().number()] &= !(1 << element),
            }
        }
        match mask {
            Some(mask) => self.native.file.zmm[mask.number()].fill(0),
            None => self.native.file.masks[i.op_mask().number()] = 0,
        }
        if !scatters {
            self.native.file.zmm[vector.number()][count * size..].fill(0);
        }
        Ok(())
    }

    fn element_address(
        &self,
        i: &Instruction,
        element: usize,
        index_size: usize,
        decoded: &Decoded,
    ) -> Result<u64, End> {
        let register = &self.native.file.zmm[i.memory_index().number()];
        let bytes = &register[element * index_size..][..index_size];
        let index = match bytes.try_into() {
            Ok(four) => i64::from(i32::from_le_bytes(four)),
            Err(_) => i64::from_le_bytes(bytes.try_into().map_err(|_| unsupported(i))?),
        };
        let index = index
            .cast_unsigned()
            .wrapping_mul(i.memory_index_scale().into());
        // The operand has no index register that it knows of: this is the rest.
        Ok(self.address(decoded)?.wrapping_add(index))
    }
}
