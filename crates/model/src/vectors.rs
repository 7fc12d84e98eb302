//! The vector registers of one x86-64 task.

/// What a stopped task's vector and mask registers hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vectors {
    /// zmm0 to zmm31; what the processor lacks is zero.
    pub zmm: [[u8; 64]; 32],
    /// k0 to k7.
    pub masks: [u64; 8],
}

impl Default for Vectors {
    fn default() -> Self {
        Self {
            zmm: [[0; 64]; 32],
            masks: [0; 8],
        }
    }
}

/// Where the processor saves the parts of the vector registers that came after xmm0 to xmm15:
/// offsets in the area that `xsave` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedVectors {
    /// The upper halves of ymm0 to ymm15.
    pub ymm_high: Option<usize>,
    /// k0 to k7.
    pub masks: Option<usize>,
    /// The upper halves of zmm0 to zmm15.
    pub zmm_high: Option<usize>,
    /// zmm16 to zmm31.
    pub zmm_upper: Option<usize>,
}

/// Where xmm0 is saved.
const XMM: usize = 160;
/// Where it is noted which parts are saved; the others are zero.
const SAVED: usize = 512;

impl Vectors {
    /// The registers in an area that `xsave` wrote in its standard form; `None` if it is too
    /// short.
    #[must_use]
    pub fn from_saved(area: &[u8], places: SavedVectors) -> Option<Self> {
        let saved = u64::from_le_bytes(*area.get(SAVED..)?.first_chunk()?);
        let mut vectors = Self::default();
        let mut copy = |bit: u32, at: Option<usize>, first: usize, part: std::ops::Range<usize>| {
            let Some(at) = at.filter(|_| saved & (1 << bit) != 0) else {
                return Some(());
            };
            for (index, register) in vectors.zmm.iter_mut().skip(first).take(16).enumerate() {
                let from = area.get(at + index * part.len()..)?.get(..part.len())?;
                register.get_mut(part.clone())?.copy_from_slice(from);
            }
            Some(())
        };
        copy(1, Some(XMM), 0, 0..16)?;
        copy(2, places.ymm_high, 0, 16..32)?;
        copy(6, places.zmm_high, 0, 32..64)?;
        copy(7, places.zmm_upper, 16, 0..64)?;
        if let Some(at) = places.masks.filter(|_| saved & (1 << 5) != 0) {
            for (index, mask) in vectors.masks.iter_mut().enumerate() {
                *mask = u64::from_le_bytes(*area.get(at + index * 8..)?.first_chunk()?);
            }
        }
        Some(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: SavedVectors = SavedVectors {
        ymm_high: Some(576),
        masks: Some(832),
        zmm_high: Some(896),
        zmm_upper: Some(1408),
    };

    #[test]
    fn each_part_is_found_where_it_was_saved() {
        let mut area = vec![0; 2432];
        area[512] = 0b1110_0110;
        area[160 + 16 * 3] = 1;
        area[576 + 16 * 3 + 15] = 2;
        area[896 + 32 * 3] = 3;
        area[1408 + 64] = 4;
        area[832 + 8] = 5;
        let vectors = Vectors::from_saved(&area, PLACES).unwrap();
        assert_eq!(vectors.zmm[3][0], 1);
        assert_eq!(vectors.zmm[3][31], 2);
        assert_eq!(vectors.zmm[3][32], 3);
        assert_eq!(vectors.zmm[17][0], 4);
        assert_eq!(vectors.masks[1], 5);
        // What was not saved is zero, whatever is there.
        area[512] = 0b10;
        let vectors = Vectors::from_saved(&area, PLACES).unwrap();
        assert_eq!((vectors.zmm[3][0], vectors.zmm[3][31]), (1, 0));
        assert_eq!(Vectors::from_saved(&area[..400], PLACES), None);
    }
}
