//! What a thread needs to be replayed alone, piece by piece.
//!
//! A [`Stretch`] is what a thread ran from one [`Kind::Check`] to the next. Its registers at both
//! ends are known, and so is each word that it read and that its own history does not give.

use crate::entries::{Entries, Item};
use crate::wire::{Kind, check, register};
use std::collections::BTreeMap;

/// A stretch has no more loads. The recorder's own have fewer: its buffer is full before.
const MOST_LOADS: usize = 4 << 20;

/// All registers of a thread, by the numbers of [`register`], and the program counter, if it is
/// known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    /// The program counter. Before a system call it follows from the instructions that ran.
    pub ip: Option<u64>,
    /// All others.
    pub values: Box<[u64; register::ALL]>,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            ip: None,
            values: Box::new([0; register::ALL]),
        }
    }
}

/// A word that a thread was about to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// How many instructions the thread had run.
    pub count: u64,
    /// Where, a multiple of 8.
    pub address: u64,
    /// What was there.
    pub value: u64,
}

/// How a stretch ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// After so many instructions of the thread.
    Count(u64),
    /// Somewhere in the block of so many instructions that begins with this count.
    Within {
        /// The count.
        from: u64,
        /// How many.
        length: u64,
    },
}

/// What a thread ran between two places where its registers are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The number of the last sequencer before it, if there was one.
    pub number: Option<u64>,
    /// Whether nothing that the thread did before has to be known.
    pub fresh: bool,
    /// The registers at its beginning.
    pub start: Registers,
    /// How many instructions the thread had run by then.
    pub count: u64,
    /// What it read, in the order of the counts.
    pub loads: Vec<Load>,
    /// Where it ends.
    pub until: Until,
    /// The registers at its end.
    pub end: Registers,
    /// Whether only those registers are known that hold integers.
    pub only_integers: bool,
    /// Whether the flags at its end are known.
    pub knows_flags: bool,
    /// Whether it is no code of the thread's that could be replayed, but what the kernel or one
    /// instruction did.
    pub opaque: bool,
}

/// The stretches of a thread, from its first. What is behind its last check is in none.
pub struct Stretches<'a> {
    entries: Entries<'a>,
    /// The item after the last that was taken.
    next: Option<Item>,
    /// Where the stretch that is being read began.
    open: Option<Open>,
    number: Option<u64>,
    count: u64,
}

struct Open {
    number: Option<u64>,
    fresh: bool,
    start: Registers,
    count: u64,
    loads: Vec<Load>,
}

impl<'a> Stretches<'a> {
    pub(crate) fn new(entries: Entries<'a>) -> Self {
        Self {
            entries,
            next: None,
            open: None,
            number: None,
            count: 0,
        }
    }

    fn item(&mut self) -> Result<Option<Item>, String> {
        match self.next.take() {
            Some(item) => Ok(Some(item)),
            None => self.entries.next().transpose(),
        }
    }

    /// The registers after a check: those before it, and what follows it.
    fn registers(&mut self, item: &Item, before: Registers) -> Result<Registers, String> {
        let mut registers = before;
        if item.entry.size & check::FRESH != 0 {
            registers.values.fill(0);
        }
        registers.ip = item.value(0).filter(|ip| *ip != 0);
        while let Some(item) = self.item()? {
            if item.entry.kind != Kind::Register {
                self.next = Some(item);
                break;
            }
            let number = usize::try_from(item.entry.address).unwrap_or(usize::MAX);
            let place = registers.values.get_mut(number);
            *place.ok_or("it has a register of an unknown number")? = item.entry.word;
        }
        Ok(registers)
    }

    fn take(&mut self) -> Result<Option<Stretch>, String> {
        while let Some(item) = self.item()? {
            self.number = item.number.or(self.number);
            match item.entry.kind {
                Kind::At => self.count = item.entry.word,
                Kind::Load => {
                    let count = self.count;
                    if let Some(open) = &mut self.open {
                        let is_earlier = open.loads.last().is_some_and(|last| last.count > count);
                        if is_earlier || open.loads.len() == MOST_LOADS {
                            return Err("its values are not in their order".into());
                        }
                        open.loads.push(Load {
                            count,
                            address: item.entry.address & !7,
                            value: item.entry.word,
                        });
                    }
                }
                Kind::Check => {
                    if let Some(stretch) = self.check(&item)? {
                        return Ok(Some(stretch));
                    }
                }
                // Another thread with the same number for the kernel.
                Kind::Start => self.open = None,
                _ => {}
            }
        }
        Ok(None)
    }

    fn check(&mut self, item: &Item) -> Result<Option<Stretch>, String> {
        let flags = item.entry.size;
        let fresh = flags & check::FRESH != 0;
        let open = self.open.take();
        if open.is_none() && !fresh {
            // Nothing is known of the registers that it does not tell.
            return Ok(None);
        }
        let before = open.as_ref().map(|open| open.start.clone());
        let end = self.registers(item, before.unwrap_or_default())?;
        let until = match flags & check::STOPPED {
            0 => Until::Count(item.entry.word),
            _ => Until::Within {
                from: item.entry.word,
                length: item.entry.address,
            },
        };
        self.open = Some(Open {
            number: self.number,
            fresh,
            start: end.clone(),
            count: item.entry.word,
            loads: Vec::new(),
        });
        Ok(open.map(|open| Stretch {
            number: open.number,
            fresh: open.fresh,
            start: open.start,
            count: open.count,
            loads: open.loads,
            until,
            end,
            only_integers: flags & check::STOPPED != 0,
            // What a signal interrupts may have flags that it does not use any more.
            knows_flags: flags & (check::NO_FLAGS | check::STOPPED) == 0,
            opaque: flags & check::OPAQUE != 0,
        }))
    }
}

impl Iterator for Stretches<'_> {
    type Item = Result<Stretch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

/// An instruction that ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    bytes: [u8; crate::wire::INSTRUCTION_ROOM],
    length: u8,
    /// Whether another one ran at its address.
    pub changed: bool,
}

impl Instruction {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The code that a process ran.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Code {
    instructions: BTreeMap<u64, Instruction>,
}

impl Code {
    /// Adds what a list has, and says how many instructions that were.
    pub(crate) fn add(&mut self, list: &[u8]) -> Result<usize, String> {
        const SIZE: usize = 8 + crate::wire::INSTRUCTION_ROOM;
        let (all, rest) = list.as_chunks::<SIZE>();
        if !rest.is_empty() {
            return Err("ends within an instruction".into());
        }
        for one in all {
            let (place, room) = one.split_at(8);
            let place = place.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
            let mut bytes = [0; crate::wire::INSTRUCTION_ROOM];
            bytes.copy_from_slice(room);
            let length = (place >> 48) as u8;
            if usize::from(length) >= crate::wire::INSTRUCTION_ROOM {
                return Err("has an instruction that is too long".into());
            }
            let new = Instruction {
                bytes,
                length,
                changed: false,
            };
            let there = self.instructions.entry(place & ((1 << 48) - 1));
            let there = there.or_insert(new);
            if there.bytes() != new.bytes() {
                *there = Instruction {
                    changed: true,
                    ..new
                };
            }
        }
        Ok(all.len())
    }

    /// The instructions that begin in a range of addresses.
    pub fn range(
        &self,
        addresses: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, &Instruction)> {
        let found = self.instructions.range(addresses);
        found.map(|(at, instruction)| (*at, instruction))
    }

    /// The instruction at this address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&Instruction> {
        self.instructions.get(&address)
    }
}
