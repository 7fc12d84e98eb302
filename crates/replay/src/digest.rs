//! One number for all registers of a thread.

use crate::state::State;

/// Differs, as good as always, if any register differs. For comparing long runs step by
/// step with another processor.
#[must_use]
pub fn digest(state: &State) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = 0_u64;
    let mut add = |n: u64| sum = (sum.rotate_left(5) ^ n).wrapping_mul(PRIME);
    state.general.iter().for_each(|n| add(*n));
    [state.ip, state.flags, state.fs_base, state.gs_base]
        .into_iter()
        .for_each(&mut add);
    let vectors = &state.vectors;
    for bytes in [&vectors.zmm.0[..], &vectors.x87.0[..]] {
        for word in bytes.chunks_exact(8) {
            add(word.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)));
        }
    }
    vectors.masks.iter().for_each(|n| add(*n));
    add(u64::from(vectors.mxcsr));
    add(u64::from(vectors.x87_control) << 32
        | u64::from(vectors.x87_status) << 16
        | u64::from(vectors.x87_tags));
    sum
}
