//! The relocations that occur in x86-64 kernel code and its debug information.

use object::elf;

/// A relocation, with the number of its symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Relocation {
    pub offset: u64,
    pub kind: u32,
    pub symbol: Option<usize>,
    pub addend: i64,
}

/// Applies `relocation` to `bytes`, which are at `address`. A relocation outside of them, or
/// of a kind that no module has, is ignored. A value that does not fit is truncated, because
/// an unknown symbol gives nonsense anyway.
pub(super) fn apply(bytes: &mut [u8], address: u64, relocation: &Relocation, target: u64) {
    let value = target.wrapping_add_signed(relocation.addend);
    let relative = value.wrapping_sub(address.wrapping_add(relocation.offset));
    let (value, width) = match relocation.kind {
        elf::R_X86_64_64 => (value, 8),
        elf::R_X86_64_PC64 => (relative, 8),
        elf::R_X86_64_32 | elf::R_X86_64_32S => (value, 4),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (relative, 4),
        elf::R_X86_64_16 => (value, 2),
        elf::R_X86_64_PC16 => (relative, 2),
        elf::R_X86_64_8 => (value, 1),
        elf::R_X86_64_PC8 => (relative, 1),
        _ => return,
    };
    let place = usize::try_from(relocation.offset)
        .ok()
        .and_then(|start| bytes.get_mut(start..start.checked_add(width)?));
    if let Some(place) = place {
        for (to, from) in place.iter_mut().zip(value.to_le_bytes()) {
            *to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: u32, offset: u64, expect: [u8; 12]) {
        let mut bytes = [0xee; 12];
        let relocation = Relocation {
            offset,
            kind,
            symbol: None,
            addend: -4,
        };
        apply(&mut bytes, 0x1000, &relocation, 0xffff_ffff_c000_1234);
        assert_eq!(bytes, expect);
    }

    #[test]
    fn absolute_and_relative() {
        const E: u8 = 0xee;
        let wide = [0x30, 0x12, 0x00, 0xc0, 0xff, 0xff, 0xff, 0xff];
        let [a, b, c, d, ..] = wide;
        check(elf::R_X86_64_64, 4, {
            let mut all = [E; 12];
            all[4..].copy_from_slice(&wide);
            all
        });
        check(elf::R_X86_64_32S, 2, [E, E, a, b, c, d, E, E, E, E, E, E]);
        // 0x…c0001230 - 0x1008
        check(
            elf::R_X86_64_PLT32,
            8,
            [E, E, E, E, E, E, E, E, 0x28, 0x02, 0x00, 0xc0],
        );
    }

    #[test]
    fn what_lies_outside_is_left_alone() {
        check(elf::R_X86_64_64, 8, [0xee; 12]);
        check(elf::R_X86_64_PC32, u64::MAX, [0xee; 12]);
        check(elf::R_X86_64_TPOFF32, 0, [0xee; 12]);
    }
}
