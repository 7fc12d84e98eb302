//! Gathers and scatters: one element at each of several addresses. Masked moves are the case in
//! which these adjoin.

use super::operand::Operand;
use iced_x86::{Instruction, Mnemonic, OpKind, Register as Named};
use redhanded_model::{AccessKind, Avma, Bytes, Registers, Vectors};

/// A gather, a scatter or a masked move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// A gather or a masked load reads, a scatter or a masked store writes.
    pub kind: AccessKind,
    /// The bytes of one element.
    pub element: u8,
    /// How many elements there are at most.
    lanes: usize,
    /// What is added to every index.
    base: Operand,
    /// Where the elements are, or that each follows the one before.
    index: Option<Index>,
    mask: Mask,
    /// Whether it leaves the mask as it was.
    keeps_mask: bool,
}

/// A vector of indices, how long each is, and what it is multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Index {
    vector: usize,
    size: usize,
    scale: u64,
}

/// Which elements are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mask {
    /// Those whose highest bit in this vector is set.
    Vector(usize),
    /// Those whose bit in this mask register is set.
    Bits(usize),
}

/// What `raw` accesses, if it is one; `base` is its operand without the index.
pub(super) fn gather(raw: &Instruction, base: Operand) -> Option<Gather> {
    use Mnemonic as M;
    // The last letter but one is the size of an index, the last that of an element.
    let (index_size, element, kind) = match raw.mnemonic() {
        M::Vpgatherdd | M::Vgatherdps => (4, 4, AccessKind::Read),
        M::Vpgatherdq | M::Vgatherdpd => (4, 8, AccessKind::Read),
        M::Vpgatherqd | M::Vgatherqps => (8, 4, AccessKind::Read),
        M::Vpgatherqq | M::Vgatherqpd => (8, 8, AccessKind::Read),
        M::Vpscatterdd | M::Vscatterdps => (4, 4, AccessKind::Write),
        M::Vpscatterdq | M::Vscatterdpd => (4, 8, AccessKind::Write),
        M::Vpscatterqd | M::Vscatterqps => (8, 4, AccessKind::Write),
        M::Vpscatterqq | M::Vscatterqpd => (8, 8, AccessKind::Write),
        _ => return None,
    };
    let data = (0..raw.op_count())
        .find(|i| raw.op_kind(*i) == OpKind::Register)
        .map(|i| raw.op_register(i))?;
    let index = raw.memory_index();
    let lanes = (data.size() / element).min(index.size() / index_size);
    let mask = if raw.has_op_mask() {
        Mask::Bits(raw.op_mask().number())
    } else {
        Mask::Vector(vector(raw.op2_register())?)
    };
    Some(Gather {
        kind,
        element: u8::try_from(element).ok()?,
        lanes,
        base: Operand {
            index: None,
            ..base
        },
        index: Some(Index {
            vector: vector(index)?,
            size: index_size,
            scale: u64::from(raw.memory_index_scale()),
        }),
        mask,
        keeps_mask: false,
    })
}

/// What `raw` accesses, if it is a masked move; `base` is its operand.
pub(super) fn masked_move(raw: &Instruction, base: Operand) -> Option<Gather> {
    use Mnemonic as M;
    let in_vector = matches!(
        raw.mnemonic(),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    );
    if !in_vector && !raw.has_op_mask() {
        return None;
    }
    let element: u8 = match raw.mnemonic() {
        M::Vmovdqu8 => 1,
        M::Vmovdqu16 => 2,
        M::Vmaskmovps | M::Vpmaskmovd | M::Vmovups | M::Vmovaps => 4,
        M::Vmovdqu32 | M::Vmovdqa32 => 4,
        M::Vmaskmovpd | M::Vpmaskmovq | M::Vmovupd | M::Vmovapd => 8,
        M::Vmovdqu64 | M::Vmovdqa64 => 8,
        _ => return None,
    };
    let writes = raw.op0_kind() == OpKind::Memory;
    let data = match (writes, in_vector) {
        (true, true) => raw.op2_register(),
        (true, false) => raw.op1_register(),
        (false, _) => raw.op0_register(),
    };
    let mask = if in_vector {
        Mask::Vector(vector(raw.op1_register())?)
    } else {
        Mask::Bits(raw.op_mask().number())
    };
    Some(Gather {
        kind: if writes {
            AccessKind::Write
        } else {
            AccessKind::Read
        },
        element,
        lanes: data.size() / usize::from(element),
        base,
        index: None,
        mask,
        keeps_mask: writes || vector(data).map(Mask::Vector) != Some(mask),
    })
}

fn vector(register: Named) -> Option<usize> {
    register.is_vector_register().then(|| register.number())
}

impl Gather {
    /// The elements that it is about to access.
    #[must_use]
    pub fn before(&self, registers: &Registers, vectors: &Vectors) -> Vec<Bytes> {
        let element = usize::from(self.element);
        let is_active = |lane: usize| match self.mask {
            Mask::Bits(mask) => vectors.masks.get(mask).is_some_and(|m| m >> lane & 1 != 0),
            Mask::Vector(register) => vectors
                .zmm
                .get(register)
                .and_then(|bytes| bytes.get((lane + 1) * element - 1))
                .is_some_and(|byte| byte & 0x80 != 0),
        };
        let lanes = (0..self.lanes).filter(|lane| is_active(*lane));
        lanes
            .filter_map(|lane| self.at(lane, registers, vectors))
            .collect()
    }

    /// The elements that it may have accessed: a gather has cleared its mask. Those of a load
    /// that has overwritten its mask are not known.
    #[must_use]
    pub fn after(&self, registers: &Registers, vectors: &Vectors) -> Vec<Bytes> {
        match (self.keeps_mask, self.index) {
            (true, _) => return self.before(registers, vectors),
            (false, None) => return Vec::new(),
            (false, Some(_)) => {}
        }
        (0..self.lanes)
            .filter_map(|lane| self.at(lane, registers, vectors))
            .collect()
    }

    fn at(&self, lane: usize, registers: &Registers, vectors: &Vectors) -> Option<Bytes> {
        let offset = match self.index {
            None => lane as u64 * u64::from(self.element),
            Some(index) => {
                let bytes = vectors.zmm.get(index.vector)?.get(lane * index.size..)?;
                // Indices are signed.
                let number = match index.size {
                    4 => i64::from(i32::from_le_bytes(*bytes.first_chunk()?)),
                    _ => i64::from_le_bytes(*bytes.first_chunk()?),
                };
                number.cast_unsigned().wrapping_mul(index.scale)
            }
        };
        let start = self.base.address(registers).wrapping_add(offset);
        let length = u64::from(self.element);
        start.checked_add(length)?;
        Some(Bytes::new(Avma(start), length))
    }
}
