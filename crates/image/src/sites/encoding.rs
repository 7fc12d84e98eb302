//! Encodes a sampling set, in about two bytes per site.
//!
//! The decoder does not trust its input: damaged or truncated bytes, and those for another
//! file, give nothing.

use super::SamplingSet;
use gimli::{EndianSlice, LittleEndian, Reader};
use redhanded_model::{AccessKind, Excluded, Site, Svma};
use std::sync::Arc;

const MAGIC: &[u8] = b"redhanded sites\n";
const CHECKSUM: usize = 4;

const KINDS: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Update];

/// The reasons that the scan of code can give.
const REASONS: [Excluded; 13] = [
    Excluded::Stack,
    Excluded::PushPopCall,
    Excluded::Locked,
    Excluded::NoData,
    Excluded::ThreadLocal,
    Excluded::Plt,
    Excluded::GotOrRelro,
    Excluded::ReadOnly,
    Excluded::Unsupported,
    Excluded::DataInText,
    Excluded::InitText,
    Excluded::EntryText,
    Excluded::Alternative,
];

fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Encodes `set`, which was computed from what `key` identifies.
pub(super) fn encode(set: &SamplingSet, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(set.sites.len() * 3 + set.excluded_in.len() * 2 + 4096);
    out.extend_from_slice(MAGIC);
    push(&mut out, key.len() as u64);
    out.extend_from_slice(key);
    for reason in REASONS {
        push(&mut out, set.excluded.0.get(&reason).copied().unwrap_or(0));
    }
    push(&mut out, set.excluded_in.len() as u64);
    for count in &set.excluded_in {
        push(&mut out, u64::from(*count));
    }
    push(&mut out, set.sites.len() as u64);
    let (mut address, mut function) = (0, 0);
    for site in set.sites.iter() {
        let next = site.function - function;
        let kind = KINDS.iter().position(|kind| *kind == site.kind);
        let kind = kind.unwrap_or(0) as u64;
        let access = u64::from(site.size) << 3 | kind << 1 | u64::from(next != 0);
        push(&mut out, access);
        push(&mut out, site.svma.0 - address);
        if next != 0 {
            push(&mut out, u64::from(next));
        }
        (address, function) = (site.svma.0, site.function);
    }
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Decodes a set, if it was computed from what `key` identifies.
pub(super) fn decode(bytes: &[u8], key: &[u8]) -> Option<SamplingSet> {
    let (bytes, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    if crc32fast::hash(bytes).to_le_bytes() != checksum {
        return None;
    }
    let mut input = EndianSlice::new(bytes.strip_prefix(MAGIC)?, LittleEndian);
    let length = number(&mut input)?;
    if input.split(length).ok()?.slice() != key {
        return None;
    }
    let mut set = SamplingSet::default();
    for reason in REASONS {
        set.excluded.add_many(reason, number(&mut input)?);
    }
    let functions = length_in(&mut input)?;
    set.excluded_in.reserve_exact(functions);
    for _ in 0..functions {
        set.excluded_in.push(number(&mut input)?);
    }
    let count = length_in(&mut input)?;
    let mut sites = Vec::with_capacity(count);
    let (mut address, mut function) = (0_u64, 0_u32);
    for _ in 0..count {
        let access: u64 = number(&mut input)?;
        let step: u64 = number(&mut input)?;
        // Sorted and without duplicates, as binary searches expect.
        if step == 0 && !sites.is_empty() {
            return None;
        }
        address = address.checked_add(step)?;
        if access & 1 != 0 {
            function = function.checked_add(number(&mut input)?)?;
        }
        sites.push(Site {
            svma: Svma(address),
            function,
            size: u16::try_from(access >> 3).ok()?,
            kind: *KINDS.get(access as usize >> 1 & 3)?,
        });
    }
    let complete = input.is_empty() && (function as usize) < functions.max(1);
    set.sites = Arc::new(sites);
    complete.then_some(set)
}

/// Decodes bytes behind a head and before a checksum that are right, for the fuzzer.
#[doc(hidden)]
#[must_use]
pub fn decode_forged_sites(bytes: &[u8]) -> Option<SamplingSet> {
    let mut forged = [MAGIC, &[0], bytes].concat();
    forged.extend(crc32fast::hash(&forged).to_le_bytes());
    decode(&forged, &[])
}

fn number<T: TryFrom<u64>>(input: &mut EndianSlice<'_, LittleEndian>) -> Option<T> {
    input.read_uleb128().ok()?.try_into().ok()
}

/// The number of entries that follow. Each has at least one byte, so more is not believed.
fn length_in(input: &mut EndianSlice<'_, LittleEndian>) -> Option<usize> {
    number(input).filter(|length| *length <= input.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets() -> impl Strategy<Value = SamplingSet> {
        let site = (1_u64..1 << 24, 0_u32..3, any::<u16>(), 0_usize..3);
        let sites = proptest::collection::vec(site, 0..60);
        let reasons = proptest::collection::vec(any::<u32>(), REASONS.len());
        let start = prop_oneof![Just(0), Just(0xffff_ffff_8100_0000)];
        (sites, reasons, start).prop_map(|(steps, reasons, start)| {
            let (mut address, mut function) = (start, 0);
            let mut set = SamplingSet::default();
            let sites = steps.into_iter().map(|(step, next, size, kind)| {
                (address, function) = (address + step, function + next);
                Site {
                    svma: Svma(address),
                    function,
                    size,
                    kind: KINDS[kind],
                }
            });
            set.sites = Arc::new(sites.collect());
            set.excluded_in = (0..=function).collect();
            for (reason, count) in REASONS.into_iter().zip(reasons) {
                set.excluded.add_many(reason, u64::from(count));
            }
            set
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(set in sets(), key in any::<Vec<u8>>()) {
            let bytes = encode(&set, &key);
            prop_assert_eq!(decode(&bytes, &key), Some(set));
            let other = [&key[..], b"x"].concat();
            prop_assert_eq!(decode(&bytes, &other), None);
        }

        #[test]
        fn damage_is_noticed(set in sets(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
            let bytes = encode(&set, b"key");
            let at = at.index(bytes.len());
            prop_assert_eq!(decode(&bytes[..at], b"key"), None);
            let mut damaged = bytes;
            damaged[at] ^= 1_u8 << bit;
            prop_assert_eq!(decode(&damaged, b"key"), None);
        }

        /// A checksum proves nothing about who made the bytes.
        #[test]
        fn forged_bytes_are_sorted_or_refused(
            set in sets(), at in any::<prop::sample::Index>(), byte in any::<u8>()
        ) {
            let mut forged = encode(&set, b"key");
            let end = forged.len() - CHECKSUM;
            let at = at.index(end);
            forged[at] = byte;
            let checksum = crc32fast::hash(&forged[..end]);
            forged[end..].copy_from_slice(&checksum.to_le_bytes());
            if let Some(set) = decode(&forged, b"key") {
                prop_assert!(set.sites.is_sorted_by(|a, b| a.svma < b.svma));
                let last = set.sites.last().map_or(0, |site| site.function as usize);
                prop_assert!(set.sites.is_empty() || last < set.excluded_in.len().max(1));
            }
        }
    }
}
