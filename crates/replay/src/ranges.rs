//! Sets of bytes as sorted ranges.

use crate::machine::Access;

/// Ranges of addresses, sorted and apart from each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The bytes of these ranges, each with its start and its end.
    #[must_use]
    pub fn new(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (start, end) in ranges {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// The bytes of the accesses that the filter takes.
    pub(crate) fn of(accesses: &[Access], takes: impl Fn(&Access) -> bool) -> Self {
        let range = |a: &Access| (a.address, a.address.saturating_add(a.size.into()));
        Self::new(accesses.iter().filter(|a| takes(a)).map(range).collect())
    }

    /// What both have.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end {
                common.push((start, end));
            }
            if a.1 < b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        Self(common)
    }

    /// What either has.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Whether any of these bytes is in the set.
    #[must_use]
    pub fn touch(&self, address: u64, size: u64) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= address);
        self.0
            .get(after)
            .is_some_and(|(start, _)| *start < address.saturating_add(size))
    }

    pub(crate) fn into_vec(self) -> Vec<(u64, u64)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0..64_u64, 0..9_u64), 0..8)
            .prop_map(|v| v.into_iter().map(|(a, n)| (a, a + n)).collect())
    }

    fn has(ranges: &[(u64, u64)], byte: u64) -> bool {
        ranges.iter().any(|(a, b)| (*a..*b).contains(&byte))
    }

    proptest! {
        #[test]
        fn sets_of_bytes_behave_as_sets(a in ranges(), b in ranges()) {
            let (x, y) = (Ranges::new(a.clone()), Ranges::new(b.clone()));
            for byte in 0..80 {
                prop_assert_eq!(x.touch(byte, 1), has(&a, byte));
                prop_assert_eq!(x.common(&y).touch(byte, 1), has(&a, byte) && has(&b, byte));
                prop_assert_eq!(x.with(&y).touch(byte, 1), has(&a, byte) || has(&b, byte));
            }
        }
    }
}
