//! What all threads of a process did, in one order.

use crate::entries::{Entries, Item};
use crate::reader::{Process, Recording};
use crate::wire::Kind;
use redhanded_analysis::{Merge, Sequenced, merge};
use std::cell::RefCell;
use std::rc::Rc;

/// Something that a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which thread, as an index of [`Process::threads`].
    pub thread: u32,
    /// What.
    pub item: Item,
}

impl Sequenced for Step {
    fn number(&self) -> Option<u64> {
        self.item.number
    }
}

/// What is wrong with the threads that were read so far.
#[derive(Clone, Default)]
pub struct Damage(Rc<RefCell<Option<String>>>);

impl Damage {
    /// What is wrong, in words, if anything is.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    fn set(&self, why: String) {
        self.0.borrow_mut().get_or_insert(why);
    }
}

/// The steps of all threads of a process: sequencers by number, each with its whole region.
///
/// Where a thread ends too early, because the recording was cut short or is damaged, the stream
/// ends. What this thread released later is not known, and others would seem to be unordered.
pub fn steps<'a>(
    recording: &'a Recording,
    process: &'a Process,
    damage: &Damage,
) -> impl Iterator<Item = Step> + use<'a> {
    let threads = process
        .threads()
        .iter()
        .zip(0..)
        .map(|(thread, index)| Own {
            index,
            entries: recording.entries(thread),
            damage: damage.clone(),
            is_whole: process.is_whole(),
            has_ended: true,
        });
    let damage = damage.clone();
    let merged: Merge<Own<'a>> = merge(threads);
    merged.take_while(move |_| damage.get().is_none())
}

/// The steps of one thread.
struct Own<'a> {
    index: u32,
    entries: Entries<'a>,
    damage: Damage,
    is_whole: bool,
    /// Whether the last entry was the last of a thread.
    has_ended: bool,
}

impl Iterator for Own<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        match self.entries.next() {
            Some(Ok(item)) => {
                self.has_ended = item.entry.kind == Kind::Exit;
                Some(Step {
                    thread: self.index,
                    item,
                })
            }
            Some(Err(why)) => {
                self.damage.set(why);
                None
            }
            None if !self.is_whole && !self.has_ended => {
                self.damage.set("a thread ends before its end".into());
                None
            }
            None => None,
        }
    }
}
