//! What all threads of a process did, in one order.

use crate::entries::{Entries, Item};
use crate::reader::{Process, Recording};
use crate::wire::Kind;
use redhanded_analysis::{Merge, Sequenced, merge};
use std::cell::RefCell;
use std::iter::Peekable;
use std::rc::Rc;

/// Something that a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which thread, as an index of [`Process::threads`].
    pub thread: u32,
    /// What.
    pub item: Item,
    /// What a system call that begins here returned, if it did and nothing came between.
    pub result: Option<i64>,
}

impl Sequenced for Step {
    fn number(&self) -> Option<u64> {
        self.item.number
    }
}

/// What is wrong with the threads that were read so far.
#[derive(Clone, Default)]
pub struct Damage(Rc<RefCell<Option<Wrong>>>);

struct Wrong {
    why: String,
    kind: Wrongness,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrongness {
    /// The file is damaged.
    Damage,
    /// A thread has no end.
    NoEnd,
    /// A thread has no end, but all that it did before its last number is there.
    NoEndAfterMark,
}

impl Step {
    /// Whether it is what the recorder puts behind all that a thread has done, when it stops.
    fn is_mark(&self) -> bool {
        is_mark(&self.item)
    }
}

/// A fence of the program's has a site.
fn is_mark(item: &Item) -> bool {
    item.entry.kind == Kind::Fence && item.entry.word == 0
}

impl Damage {
    /// What is wrong, in words, if anything is.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.borrow().as_ref().map(|wrong| wrong.why.clone())
    }

    /// Whether the file itself is sound, and a thread only has no end in it: it was killed, or
    /// the recording was stopped.
    #[must_use]
    pub fn is_early_end(&self) -> bool {
        let wrong = self.0.borrow();
        wrong
            .as_ref()
            .is_some_and(|wrong| wrong.kind != Wrongness::Damage)
    }

    /// Whether this step can still be believed: nothing that came before it is missing.
    fn admits(&self, step: &Step) -> bool {
        self.0
            .borrow()
            .as_ref()
            .is_none_or(|wrong| wrong.kind == Wrongness::NoEndAfterMark && step.is_mark())
    }

    fn set(&self, why: impl Into<String>, kind: Wrongness) {
        let mut wrong = self.0.borrow_mut();
        let is_worse = |known: &Wrong| known.kind == Wrongness::NoEndAfterMark;
        if wrong.as_ref().is_none_or(is_worse) {
            let why = why.into();
            *wrong = Some(Wrong { why, kind });
        }
    }
}

/// The steps of all threads of a process: sequencers by number, each with its whole region.
///
/// Where a thread ends too early, because the recording was cut short or is damaged, the stream
/// ends. What this thread released later is not known, and others would seem to be unordered.
/// Where the recorder was stopped, it says how far each thread was; the earliest of these ends the
/// stream, but for the ends of the others' regions.
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
            entries: recording.entries(thread).peekable(),
            damage: damage.clone(),
            is_whole: process.is_whole(),
            has_ended: true,
            is_marked: false,
        });
    let damage = damage.clone();
    let merged: Merge<Own<'a>> = merge(threads);
    merged.take_while(move |step| damage.admits(step))
}

/// Whether a process became another program, so that its threads have no end: the last that one
/// of them did was to ask for it, and it was never refused. Others may have gone on for a moment,
/// until the kernel ended them. Each thread has the last of its items here.
#[must_use]
pub fn became_another(last: &[Item]) -> bool {
    last.iter().any(|item| {
        let is_exec = matches!(item.entry.address, EXECVE | EXECVEAT);
        item.entry.kind == Kind::SystemCall && is_exec
    })
}

const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;

/// What the system call that the first item begins returned, if the second one says so.
#[must_use]
pub fn result_of(call: &Item, back: &Item) -> Option<i64> {
    let is_return = back.entry.kind == Kind::SystemReturn;
    let is_same = is_return && back.entry.address == call.entry.address;
    is_same
        .then(|| back.value(0))
        .flatten()
        .map(u64::cast_signed)
}

/// The steps of one thread.
struct Own<'a> {
    index: u32,
    entries: Peekable<Entries<'a>>,
    damage: Damage,
    is_whole: bool,
    /// Whether the last entry was the last of a thread.
    has_ended: bool,
    /// Whether the last entry shows that there is nothing else before it.
    is_marked: bool,
}

impl Iterator for Own<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        match self.entries.next() {
            Some(Ok(item)) => {
                self.has_ended = item.entry.kind == Kind::Exit;
                self.is_marked = is_mark(&item);
                let result = match (item.entry.kind, self.entries.peek()) {
                    (Kind::SystemCall, Some(Ok(next))) => result_of(&item, next),
                    _ => None,
                };
                Some(Step {
                    thread: self.index,
                    item,
                    result,
                })
            }
            Some(Err(why)) => {
                self.damage.set(why, Wrongness::Damage);
                None
            }
            None if !self.is_whole && !self.has_ended => {
                let kind = match self.is_marked {
                    true => Wrongness::NoEndAfterMark,
                    false => Wrongness::NoEnd,
                };
                self.damage.set("a thread ends before its end", kind);
                None
            }
            None => None,
        }
    }
}
