//! Vector accesses under a mask, where a part of the operand cannot be accessed. What the
//! mask leaves out does not fault.

use super::decode::{Decoded, Kind, unsupported};
use super::{Machine, Pending, raised};
use crate::outcome::End;
use iced_x86::{Mnemonic, Register};

impl Machine<'_> {
    /// Runs the instruction on a copy that has zeros where nothing is selected.
    pub(super) fn masked(
        &mut self,
        decoded: &Decoded,
        address: u64,
    ) -> Result<Option<Pending>, End> {
        let i = &decoded.instruction;
        let (Kind::Native(built), Some(operand)) = (&decoded.kind, decoded.operand) else {
            return Err(unsupported(i));
        };
        let Some(element) = element_size(i.mnemonic()) else {
            return Err(unsupported(i));
        };
        let mut copy = [0; 64];
        let mut selected = Vec::new();
        for at in (0..operand.size).step_by(element) {
            if self.selects(decoded, at / element, element) {
                let from = address.wrapping_add(at as u64);
                self.space.check(from, element, operand.write)?;
                self.space.peek(from, &mut copy[at..at + element])?;
                selected.push(at);
            }
        }
        self.native.scratch(address)[..operand.size].copy_from_slice(&copy[..operand.size]);
        let pointer = self.native.scratch(address).as_mut_ptr();
        self.native.run(built.stub, pointer).map_err(raised)?;
        let file = &mut *self.native.file;
        file.flags = (file.flags & !built.flags) | (file.flags_out & built.flags);
        self.ip = decoded.next;
        for at in selected {
            let to = address.wrapping_add(at as u64);
            if operand.read {
                self.space.note(to, element, false);
            }
            if operand.write {
                let bytes = self.native.scratch(address)[at..at + element].to_vec();
                self.space.write(to, &bytes)?;
            }
        }
        Ok(None)
    }

    fn selects(&self, decoded: &Decoded, element: usize, size: usize) -> bool {
        let i = &decoded.instruction;
        let by_vector = matches!(
            i.mnemonic(),
            Mnemonic::Vmaskmovpd
                | Mnemonic::Vmaskmovps
                | Mnemonic::Vpmaskmovd
                | Mnemonic::Vpmaskmovq
        );
        let file = &self.native.file;
        if by_vector {
            // The mask is the second of three operands.
            let mask = i.op1_register();
            file.zmm[mask.number()][element * size + size - 1] & 0x80 != 0
        } else {
            let mask = i.op_mask();
            mask == Register::None || file.masks[mask.number()] >> element & 1 != 0
        }
    }
}

/// The size of what one bit of the mask stands for, in a move. Nothing else is run in part:
/// some instructions fault whatever the mask says (`vshufpd`), and in some a bit stands for
/// elements at other places.
const fn element_size(mnemonic: Mnemonic) -> Option<usize> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Vmovdqu8 => 1,
        M::Vmovdqu16 => 2,
        M::Vmovdqu32 | M::Vmovdqa32 | M::Vmovups | M::Vmovaps | M::Vmaskmovps | M::Vpmaskmovd => 4,
        M::Vmovdqu64 | M::Vmovdqa64 | M::Vmovupd | M::Vmovapd | M::Vmaskmovpd | M::Vpmaskmovq => 8,
        _ => return None,
    })
}
