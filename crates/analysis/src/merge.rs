//! The events of all threads as one stream, region by region.

use crate::Event;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

/// Something that a thread did, which may have a place in the order of all sequencers.
pub trait Sequenced {
    /// Its number, if it is a sequencer.
    fn number(&self) -> Option<u64>;
}

impl Sequenced for Event {
    fn number(&self) -> Option<u64> {
        self.number
    }
}

/// Merges the events of threads, one iterator for each, into a stream that keeps the rules of
/// the [`Event`] module: sequencers by number, each followed by its whole region. Nothing is
/// read ahead but the next event of each thread.
///
/// A thread whose first event has no number comes before all sequencers.
pub fn merge<I>(threads: impl IntoIterator<Item = I>) -> Merge<I::IntoIter>
where
    I: IntoIterator<Item: Sequenced>,
{
    let mut merged = Merge {
        threads: threads
            .into_iter()
            .map(|thread| thread.into_iter().peekable())
            .collect(),
        waiting: BinaryHeap::new(),
        current: None,
    };
    for index in 0..merged.threads.len() {
        merged.queue(index);
    }
    merged
}

/// The stream that [`merge`] makes.
pub struct Merge<I: Iterator<Item: Sequenced>> {
    threads: Vec<Peekable<I>>,
    /// The threads by the number of their next event.
    waiting: BinaryHeap<Reverse<(Option<u64>, usize)>>,
    /// The thread whose region is being passed on.
    current: Option<usize>,
}

impl<I: Iterator<Item: Sequenced>> Merge<I> {
    fn queue(&mut self, index: usize) {
        if let Some(next) = self.threads[index].peek() {
            self.waiting.push(Reverse((next.number(), index)));
        }
    }
}

impl<I: Iterator<Item: Sequenced>> Iterator for Merge<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if let Some(index) = self.current.take() {
            if let Some(event) = self.threads[index].next_if(|event| event.number().is_none()) {
                self.current = Some(index);
                return Some(event);
            }
            self.queue(index);
        }
        let Reverse((_, index)) = self.waiting.pop()?;
        self.current = Some(index);
        self.threads[index].next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, What};
    use redhanded_model::TaskId;

    #[test]
    fn sequencers_come_by_number_and_each_brings_its_region() {
        let thread = |thread: u32, numbers: &[Option<u64>]| -> Vec<Event> {
            let event = |number: &Option<u64>| Event {
                thread: TaskId(thread),
                place: Place(0),
                number: *number,
                what: What::Fence,
            };
            numbers.iter().map(event).collect()
        };
        let merged = merge([
            thread(1, &[Some(2), None, None, Some(5)]),
            thread(2, &[Some(1), None, Some(3), Some(4), None]),
            thread(3, &[None, Some(6)]),
            thread(4, &[]),
        ]);
        let order: Vec<_> = merged.map(|event| (event.thread.0, event.number)).collect();
        assert_eq!(
            order,
            [
                (3, None),
                (2, Some(1)),
                (2, None),
                (1, Some(2)),
                (1, None),
                (1, None),
                (2, Some(3)),
                (2, Some(4)),
                (2, None),
                (1, Some(5)),
                (3, Some(6)),
            ]
        );
    }
}
