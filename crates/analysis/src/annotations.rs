//! What a user says about a program that its recording cannot show.
//!
//! Only what is left out is here. Memory that a private allocator hands out again becomes
//! [`What::Allocate`](crate::What::Allocate), and private lock functions become
//! [`What::Acquire`](crate::What::Acquire) and [`What::Release`](crate::What::Release), when the
//! events are made.

use crate::{Event, Place};
use redhanded_model::Bytes;
use std::ops::Range;

/// Code and variables whose accesses are left out.
#[derive(Clone, Default, Debug)]
pub struct Annotations {
    places: Ranges,
    bytes: Ranges,
}

impl Annotations {
    /// Leaves out the accesses of these functions, each given from its first place to the one
    /// past its last, and the accesses to these variables.
    pub fn new(
        functions: impl IntoIterator<Item = Range<Place>>,
        variables: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let variables = variables.into_iter();
        Self {
            places: Ranges::new(
                functions
                    .into_iter()
                    .map(|range| range.start.0..range.end.0),
            ),
            bytes: Ranges::new(variables.map(|bytes| bytes.start.0..bytes.end())),
        }
    }

    /// Whether the event is an access that is left out: it is made in such a function, or all its
    /// bytes are of such variables. Other events never are, because later ones depend on them.
    #[must_use]
    pub fn ignores(&self, event: &Event) -> bool {
        event.access().is_some_and(|access| {
            let place = event.place.0;
            self.places.contain(place..place.saturating_add(1))
                || self.bytes.contain(access.bytes.start.0..access.bytes.end())
        })
    }
}

/// Ranges in ascending order that neither overlap nor touch.
#[derive(Clone, Default, Debug)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn new(ranges: impl Iterator<Item = Range<u64>>) -> Self {
        let mut sorted: Vec<Range<u64>> = ranges.filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Self(merged)
    }

    fn contain(&self, part: Range<u64>) -> bool {
        let after = self.0.partition_point(|range| range.start <= part.start);
        after > 0 && part.end <= self.0[after - 1].end && !part.is_empty()
    }
}
