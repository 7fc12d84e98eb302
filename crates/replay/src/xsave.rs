//! Reads vector registers from the layout of XSAVE, in which ptrace gives them.

use crate::state::Vectors;
use std::arch::x86_64::__cpuid_count;

/// The parts that have a bit in the header, by number.
const X87: u32 = 0;
const SSE: u32 = 1;
const AVX: u32 = 2;
const MASKS: u32 = 5;
const ZMM_HIGH: u32 = 6;
const ZMM_16_TO_31: u32 = 7;

impl Vectors {
    /// From the register set `NT_X86_XSTATE` of a thread on this machine. None if the bytes
    /// are too few.
    #[must_use]
    pub fn from_xsave(bytes: &[u8]) -> Option<Self> {
        let header = number(bytes.get(512..520)?);
        let has = |part: u32| header >> part & 1 != 0;
        let part = |part: u32, size: usize| {
            // The processor says where each part is: makers differ.
            let at = __cpuid_count(0xd, part).ebx as usize;
            bytes.get(at..at + size)
        };
        let mut vectors = Self {
            mxcsr: number(&bytes[24..28]) as u32,
            ..Self::default()
        };
        if has(X87) {
            vectors.x87_control = number(&bytes[0..2]) as u16;
            vectors.x87_status = number(&bytes[2..4]) as u16;
            vectors.x87_tags = bytes[4];
            for n in 0..8 {
                let from = 32 + n * 16;
                vectors.x87.0[n * 16..n * 16 + 10].copy_from_slice(&bytes[from..from + 10]);
            }
        }
        if has(SSE) {
            for n in 0..16 {
                let from = 160 + n * 16;
                vectors.zmm.0[n * 64..n * 64 + 16].copy_from_slice(&bytes[from..from + 16]);
            }
        }
        if has(AVX) {
            let high = part(AVX, 256)?;
            for n in 0..16 {
                vectors.zmm.0[n * 64 + 16..n * 64 + 32].copy_from_slice(&high[n * 16..n * 16 + 16]);
            }
        }
        if has(MASKS) {
            let masks = part(MASKS, 64)?;
            for (mask, bytes) in vectors.masks.iter_mut().zip(masks.chunks_exact(8)) {
                *mask = number(bytes);
            }
        }
        if has(ZMM_HIGH) {
            let high = part(ZMM_HIGH, 512)?;
            for n in 0..16 {
                vectors.zmm.0[n * 64 + 32..n * 64 + 64].copy_from_slice(&high[n * 32..n * 32 + 32]);
            }
        }
        if has(ZMM_16_TO_31) {
            vectors.zmm.0[1024..].copy_from_slice(part(ZMM_16_TO_31, 1024)?);
        }
        Some(vectors)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}
