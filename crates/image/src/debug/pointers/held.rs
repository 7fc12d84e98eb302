//! What registers and slots of the frame hold, as far as it is known.

use crate::debug::parts::Step;
use crate::debug::program::Die;
use redhanded_model::Register;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of a frame beyond this number are not followed.
const MAX_SLOTS: usize = 256;

/// How the source writes an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// It is what this pointer points to.
    Behind(Arc<str>),
    /// It is this.
    Itself(Arc<str>),
}

/// The member of a structure that an element of an array lies in.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Within {
    /// The type of the structure that the way to the array begins at.
    pub(super) root: Die,
    /// The way to the array as the source writes it.
    pub(super) path: String,
    /// How far the array is from the start of the structure.
    pub(super) start: u64,
    /// The member that is the array, with the type that has it.
    pub(super) step: Step,
}

/// An address within an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Object {
    /// The type of the object, without qualifiers and other names for it.
    pub(super) kind: Die,
    /// The type as the source calls it.
    pub(super) called: Die,
    /// How far the address is from the start of the object.
    pub(super) offset: i64,
    /// The address is an unknown multiple of this further on; 0 if it is not.
    pub(super) stride: u64,
    /// Whether the object is some element of an array, nobody knows which.
    pub(super) element: bool,
    /// Whether it is the first of several, as in a container.
    pub(super) first: bool,
    /// Where the global variable begins that it is a part of, if it is of one.
    pub(super) global: Option<u64>,
    /// The array that it is an element of, if that is a member of a structure.
    pub(super) within: Option<Arc<Within>>,
    /// How the source writes it, if that is known.
    pub(super) written: Option<Written>,
    /// Whether a variable of the source has this value here. If not, it was followed from one
    /// that had.
    pub(super) declared: bool,
    /// Whether something else may be meant as well.
    pub(super) doubtful: bool,
}

/// What a register or slot holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// A number that is a multiple of this one: any number is one of 1, and only 0 is one of 0.
    Multiple(u64),
    /// An address in the frame, counted from the stack pointer when the function was entered.
    Frame(i64),
    /// An address within an object.
    Address(Object),
    /// Whatever this register held when the function was entered.
    Argument(Register),
}

impl Held {
    /// Nothing is known.
    pub(super) const ANYTHING: Self = Self::Multiple(1);

    /// What is known if it is either of the two. `size` gives the size of a type.
    pub(super) fn join(&self, other: &Self, size: &dyn Fn(Die) -> Option<u64>) -> Self {
        match (self, other) {
            (one, other) if one == other => one.clone(),
            (Self::Multiple(one), Self::Multiple(other)) => Self::Multiple(gcd(*one, *other)),
            // A null pointer is never followed.
            (Self::Multiple(0), address @ Self::Address(_))
            | (address @ Self::Address(_), Self::Multiple(0)) => address.clone(),
            (Self::Address(one), Self::Address(other)) => {
                one.join(other, size).map_or(Self::ANYTHING, Self::Address)
            }
            _ => Self::ANYTHING,
        }
    }
}

impl Object {
    fn join(&self, other: &Self, size: &dyn Fn(Die) -> Option<u64>) -> Option<Self> {
        if self.kind != other.kind {
            return None;
        }
        let mut joined = self.clone();
        if self.written != other.written {
            joined.written = None;
        }
        if self.called != other.called {
            joined.called = self.kind;
        }
        if self.within != other.within {
            joined.within = None;
        }
        if self.global != other.global {
            joined.global = None;
        }
        joined.stride = gcd(self.stride, other.stride);
        joined.declared &= other.declared;
        joined.doubtful |= other.doubtful;
        joined.element |= other.element;
        joined.first &= other.first;
        if self.offset != other.offset {
            joined.element = true;
        }
        if joined.element {
            let size = i64::try_from(size(self.kind)?)
                .ok()
                .filter(|size| *size > 0)?;
            joined.offset = self.offset.rem_euclid(size);
            if joined.offset != other.offset.rem_euclid(size) {
                return None;
            }
        }
        Some(joined)
    }
}

/// All that is known before an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    registers: [Held; 16],
    slots: BTreeMap<i64, Held>,
}

impl State {
    /// At the entry of a function.
    pub(super) fn entry() -> Self {
        let mut state = Self {
            registers: [const { Held::ANYTHING }; 16],
            slots: BTreeMap::new(),
        };
        state.set(Register::Rsp, Held::Frame(0));
        for register in Register::ARGUMENTS {
            state.set(register, Held::Argument(register));
        }
        state
    }

    /// Where nothing is known.
    pub(super) fn nothing() -> Self {
        Self {
            registers: [const { Held::ANYTHING }; 16],
            slots: BTreeMap::new(),
        }
    }

    /// What is known about the value of a register; of an argument that is nothing.
    pub(super) fn get(&self, register: Register) -> &Held {
        match self.whole(register) {
            Held::Argument(_) => &Held::ANYTHING,
            held => held,
        }
    }

    /// The same, and whether it is an argument.
    pub(super) fn whole(&self, register: Register) -> &Held {
        &self.registers[register as usize]
    }

    /// What a register holds turns out to be this, and so does every copy of the same argument.
    pub(super) fn learn(&mut self, register: Register, held: &Held) {
        let own = self.whole(register).clone();
        if matches!(own, Held::Argument(_)) {
            let copies = self.registers.iter_mut().chain(self.slots.values_mut());
            for copy in copies.filter(|copy| **copy == own) {
                *copy = held.clone();
            }
        }
        self.set(register, held.clone());
    }

    pub(super) fn set(&mut self, register: Register, held: Held) {
        self.registers[register as usize] = held;
    }

    pub(super) fn slot(&self, at: i64) -> Option<&Held> {
        self.slots.get(&at)
    }

    /// Something was written to a part of the frame.
    pub(super) fn store(&mut self, at: i64, size: u64, held: Held) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let end = at.saturating_add(size);
        self.slots
            .retain(|slot, _| *slot >= end || slot.saturating_add(8) <= at);
        if size == 8 && held != Held::ANYTHING && self.slots.len() < MAX_SLOTS {
            self.slots.insert(at, held);
        }
    }

    /// Forgets the slots from `at` on.
    pub(super) fn forget_slots(&mut self, at: i64) {
        self.slots.split_off(&at);
    }

    /// Takes in what another way here brings. Says whether that changed anything.
    pub(super) fn join(&mut self, other: &Self, size: &dyn Fn(Die) -> Option<u64>) -> bool {
        let mut changed = false;
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            let joined = own.join(other, size);
            changed |= joined != *own;
            *own = joined;
        }
        let before = self.slots.len();
        self.slots.retain(|at, own| {
            let joined = match other.slots.get(at) {
                Some(other) => own.join(other, size),
                None => Held::ANYTHING,
            };
            changed |= joined != *own;
            *own = joined;
            *own != Held::ANYTHING
        });
        changed || before != self.slots.len()
    }
}

pub(super) const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::UnitOffset;

    fn address(kind: usize, offset: i64, name: &str) -> Held {
        Held::Address(Object {
            kind: Die::new(0, UnitOffset(kind)),
            called: Die::new(0, UnitOffset(kind)),
            offset,
            stride: 0,
            element: false,
            first: false,
            global: None,
            within: None,
            written: Some(Written::Behind(name.into())),
            declared: true,
            doubtful: false,
        })
    }

    fn joined(one: &Held, other: &Held) -> Held {
        let there = one.join(other, &|_| Some(8));
        assert_eq!(there, other.join(one, &|_| Some(8)), "in either order");
        there
    }

    #[test]
    fn a_join_knows_what_both_ways_agree_on() {
        let p = address(1, 0, "p");
        assert_eq!(joined(&p, &p), p);
        assert_eq!(joined(&p, &Held::Multiple(0)), p, "or null");
        assert_eq!(joined(&p, &address(2, 0, "p")), Held::ANYTHING);
        assert_eq!(joined(&p, &Held::Frame(8)), Held::ANYTHING);
        assert_eq!(joined(&p, &address(1, 4, "p")), Held::ANYTHING);
        let Held::Address(nameless) = joined(&p, &address(1, 0, "q")) else {
            panic!("the type is the same");
        };
        assert_eq!(nameless.written, None);
        let Held::Address(element) = joined(&p, &address(1, 16, "p")) else {
            panic!("a whole number of elements away");
        };
        assert!(element.element && element.offset == 0);
    }

    #[test]
    fn numbers_keep_their_common_factor() {
        let join = |one, other| joined(&Held::Multiple(one), &Held::Multiple(other));
        assert_eq!(join(24, 16), Held::Multiple(8));
        assert_eq!(join(0, 24), Held::Multiple(24));
    }

    #[test]
    fn a_store_covers_the_slots_that_it_overlaps() {
        let mut state = State::entry();
        state.store(-16, 8, address(1, 0, "p"));
        state.store(-8, 8, address(1, 0, "q"));
        state.store(-12, 4, Held::ANYTHING);
        assert!(state.slot(-16).is_none() && state.slot(-8).is_some());
        state.forget_slots(-8);
        assert!(state.slot(-8).is_none());
    }
}
