//! Functions of the program's own that somebody says are locks or allocators.

use super::Out;
use super::calls::{Open, allocate, object};
use super::memory::{Memory, Origin};
use crate::entries::Item;
use crate::wire::FIRST_OWN;
use redhanded_analysis::{Mode, Object, ObjectKind, What};
use std::collections::HashMap;

/// What such a function does. Arguments are counted from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Own {
    /// It takes a lock, and returns when it has it.
    Locks(Lock, Mode),
    /// It gives a lock back.
    Unlocks(Lock),
    /// It returns a block of memory, or null.
    Allocates(Size),
    /// It takes a block back: this argument.
    Frees(usize),
}

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// The one at the address that this argument has.
    Argument(usize),
    /// One that has no address: its number.
    Numbered(u64),
}

/// How long a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// As long as this argument says.
    Argument(usize),
    /// So many bytes.
    Bytes(u64),
}

/// The functions whose calls are in a recording, by the numbers that calls have.
#[derive(Clone, Default, Debug)]
pub struct Owns(HashMap<u64, Own>);

impl Owns {
    /// Of the functions that the recorder hooked those of which `says` something.
    pub fn new(hooked: &[String], says: impl Fn(&str) -> Option<Own>) -> Self {
        let known = (FIRST_OWN..).zip(hooked);
        Self(
            known
                .filter_map(|(number, name)| Some((number, says(name)?)))
                .collect(),
        )
    }

    pub(super) fn get(&self, number: u64) -> Option<&Own> {
        self.0.get(&number)
    }
}

impl Lock {
    /// A number stands for an address at which no memory is.
    fn object(self, open: &Open) -> Object {
        let id = match self {
            Self::Argument(index) => argument(open, index),
            Self::Numbered(number) => number,
        };
        object(ObjectKind::Annotated, id)
    }
}

fn argument(open: &Open, index: usize) -> u64 {
    open.arguments.get(index).copied().unwrap_or(0)
}

/// Such a function is entered.
pub fn entered(own: &Own, open: &Open, memory: &mut Memory, out: &mut Out<'_>) {
    match own {
        Own::Unlocks(which) => out.release(which.object(open)),
        Own::Frees(block) => match memory.free(argument(open, *block)) {
            Some(block) => out.put(What::Free {
                bytes: block.bytes,
                written: None,
            }),
            None => out.put(What::Fence),
        },
        Own::Locks(..) | Own::Allocates(_) => out.put(What::Fence),
    }
}

/// Such a function returns.
pub fn left(own: &Own, open: &Open, item: &Item, memory: &mut Memory, out: &mut Out<'_>) {
    match own {
        Own::Locks(which, mode) => out.acquire(which.object(open), *mode),
        Own::Allocates(size) => {
            let size = match size {
                Size::Argument(index) => argument(open, *index),
                Size::Bytes(bytes) => *bytes,
            };
            let origin = Origin::Own {
                by: out.thread,
                place: open.place,
            };
            allocate(memory, item.value(0), size, origin, out);
        }
        Own::Unlocks(_) | Own::Frees(_) => out.put(What::Fence),
    }
}
