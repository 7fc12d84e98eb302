//! Suspects by lockset, after Eraser: shared variables that no lock protects consistently.
//!
//! Every variable has a set of candidates, C(v): the locks that were held at each access so far.
//! When it becomes empty, the discipline is broken. Three things are allowed nonetheless, by the
//! state that each variable is in. *Virgin* memory has not been used; an *exclusive* variable has
//! been used by one thread, which may initialise it without a lock; a *shared* one has been read
//! by others since, which needs no lock either. Only from the second thread on are candidates
//! refined, and only once a variable is *shared-modified* is an empty set reported. A write needs
//! a lock that is held exclusively; a read is content with a shared one.
//!
//! A variable is a run of bytes within a word that were always accessed together. It is split
//! when an access touches a part of it.

use crate::findings::Side;
use crate::held::{Held, Sets};
use crate::locks::{LockSet, LockSets};
use crate::shadow::{QuickHash, Shadow, Word, bytes_of, words_of};
use crate::threads::Threads;
use crate::{Access, Atomicity, Event, Object, ObjectKind, Place, What};
use redhanded_model::{AccessKind, Avma, TaskId};
use std::collections::HashMap;

/// What every certainly atomic access holds: atomic accesses protect a variable from each other.
const ATOMICITY: Object = Object {
    kind: ObjectKind::Atomicity,
    id: 0,
};

/// From which access on the candidates of a variable are refined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refine {
    /// From the first access of a second thread on.
    #[default]
    SecondThread,
    /// From the first access on: the algorithm without states. It suspects what was initialised
    /// without a lock, but sees a discipline that the very first access broke.
    FirstAccess,
}

/// How a variable has been used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Not at all.
    Virgin,
    /// By one thread.
    Exclusive,
    /// By one thread, and then read by others.
    Shared,
    /// By several threads, and written since the second one came.
    SharedModified,
}

/// A pair of sites that used a variable without a lock in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// The two sites, the lower one first.
    pub places: [Place; 2],
    /// How often the pair was met.
    pub instances: u64,
    /// Its first instance: an access that left no candidate, and the latest one by another thread
    /// before it. If the former is a read, the latter is the latest write where that was
    /// another thread's.
    pub sides: [Side; 2],
    /// What each side held, in the mode that its access needs.
    pub held: [Vec<Object>; 2],
    /// The candidates before the second access; `None` stands for all locks.
    pub candidates: Option<Vec<Object>>,
}

/// The analysis. Push all events, then finish.
#[derive(Default)]
pub struct Lockset {
    refine: Refine,
    ids: Threads,
    /// The last sequencer of each thread.
    sequencers: Vec<u64>,
    held: Held,
    sets: LockSets,
    shadow: Shadow<Variables>,
    indices: HashMap<[Place; 2], usize, QuickHash>,
    found: Vec<Suspicion>,
    met: Vec<Met>,
    left_out: u64,
}

/// An access as it is remembered.
#[derive(Clone, Copy)]
struct Touch {
    place: Place,
    sequencer: u64,
    thread: u32,
    held: LockSet,
    kind: AccessKind,
    atomicity: Atomicity,
}

/// A run of bytes in a word that were always accessed together.
#[derive(Clone)]
struct Variable {
    mask: u8,
    is_modified: bool,
    /// `None` for all locks.
    candidates: Option<LockSet>,
    latest: Touch,
    sharing: Option<Box<Sharing>>,
}

/// What is remembered of a variable that more than one thread used.
#[derive(Clone, Default)]
struct Sharing {
    /// The latest access by another thread than that of `latest`.
    other: Option<Touch>,
    /// The latest write.
    write: Option<Touch>,
}

#[derive(Default)]
struct Variables(Vec<Variable>);

struct Met {
    bytes: redhanded_model::Bytes,
    touches: [Touch; 2],
    candidates: Option<LockSet>,
}

impl Word for Variables {
    fn forget(&mut self, mask: u8) {
        self.0.retain_mut(|variable| {
            variable.mask &= !mask;
            variable.mask != 0
        });
    }
}

impl Variable {
    /// Takes an access into account. Gives the access that it is suspected with, and the
    /// candidates before it.
    fn touch(
        &mut self,
        touch: Touch,
        refine: Refine,
        sets: &mut LockSets,
    ) -> Option<(Touch, Option<LockSet>)> {
        let by_other = self.latest.thread != touch.thread;
        if by_other && self.sharing.is_none() {
            self.sharing = Some(Box::new(Sharing {
                other: None,
                write: Some(self.latest).filter(|latest| latest.kind.writes()),
            }));
        }
        let before = self.candidates;
        if self.sharing.is_some() || refine == Refine::FirstAccess {
            self.is_modified |= touch.kind.writes();
            self.candidates = Some(match before {
                Some(before) => sets.intersection(before, touch.held),
                None => touch.held,
            });
        }
        let latest = std::mem::replace(&mut self.latest, touch);
        let sharing = self.sharing.as_deref_mut()?;
        if by_other {
            sharing.other = Some(latest);
        }
        let written = if touch.kind.writes() {
            sharing.write.replace(touch);
            None
        } else {
            sharing.write.filter(|write| write.thread != touch.thread)
        };
        let broken = self.is_modified && self.candidates == Some(LockSet::EMPTY);
        // Two reads are no race, whatever was held.
        let conflicts = |other: &Touch| other.kind.conflicts(touch.kind);
        let other = written.or(sharing.other).filter(|_| broken);
        let other = other.filter(conflicts)?;
        Some((other, before))
    }

    fn state(&self) -> State {
        match &self.sharing {
            None => State::Exclusive,
            Some(_) if self.is_modified => State::SharedModified,
            Some(_) => State::Shared,
        }
    }
}

impl Lockset {
    /// An analysis that refines candidates from that access on.
    #[must_use]
    pub fn new(refine: Refine) -> Self {
        Self {
            refine,
            ..Self::default()
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        let (index, is_new) = self.ids.index(event.thread);
        if is_new {
            self.sequencers.push(0);
        }
        if let Some(number) = event.number {
            self.sequencers[index as usize] = number;
        }
        match event.what {
            What::Access(access) => self.access(index, event.place, &access),
            What::Allocate { bytes } | What::Free { bytes, .. } | What::Slack { bytes } => {
                self.shadow.forget(bytes);
            }
            ref what => self.held.step(index, what, &mut self.sets),
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn suspicions(&self) -> &[Suspicion] {
        &self.found
    }

    /// How many accesses were left out, because their thread held more locks than are told apart.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Vec<Suspicion> {
        self.found
    }

    /// The locks that a thread holds, in any mode.
    #[must_use]
    pub fn held(&self, thread: TaskId) -> Vec<Object> {
        self.sets.locks(self.sets_of(thread).any).to_vec()
    }

    /// The candidates of the variable at an address; `None` stands for all locks.
    #[must_use]
    pub fn candidates(&mut self, address: Avma) -> Option<Vec<Object>> {
        let candidates = self.variable(address)?.candidates?;
        Some(self.sets.locks(candidates).to_vec())
    }

    /// The state of the variable at an address.
    #[must_use]
    pub fn state(&mut self, address: Avma) -> State {
        self.variable(address)
            .map_or(State::Virgin, Variable::state)
    }

    fn sets_of(&self, thread: TaskId) -> Sets {
        let index = self.ids.known(thread);
        index.map_or_else(Sets::default, |index| self.held.sets(index))
    }

    fn variable(&mut self, address: Avma) -> Option<&Variable> {
        let variables = &self.shadow.existing(address.0)?.0;
        variables
            .iter()
            .find(|variable| variable.mask >> (address.0 % 8) & 1 == 1)
    }

    fn access(&mut self, index: u32, place: Place, access: &Access) {
        if self.held.is_beyond(index) {
            self.left_out += 1;
            return;
        }
        let held = self.held.sets(index);
        let mut held = if access.kind.writes() {
            held.exclusive
        } else {
            held.any
        };
        if access.atomicity.is_atomic() {
            held = self.sets.with(held, ATOMICITY);
        }
        let touch = Touch {
            place,
            sequencer: self.sequencers[index as usize],
            thread: index,
            held,
            kind: access.kind,
            atomicity: access.atomicity,
        };
        self.met.clear();
        for (word, mask) in words_of(access.bytes) {
            let variables = &mut self.shadow.word(word).0;
            let new = split(variables, mask);
            for variable in variables
                .iter_mut()
                .filter(|variable| variable.mask & mask != 0)
            {
                let suspect = variable.touch(touch, self.refine, &mut self.sets);
                if let Some((other, candidates)) = suspect
                    && !self
                        .met
                        .iter()
                        .any(|met| met.touches[0].place == other.place)
                {
                    self.met.push(Met {
                        bytes: bytes_of(word, variable.mask),
                        touches: [other, touch],
                        candidates,
                    });
                }
            }
            if new != 0 {
                let is_refined = self.refine == Refine::FirstAccess;
                variables.push(Variable {
                    mask: new,
                    is_modified: is_refined && touch.kind.writes(),
                    candidates: is_refined.then_some(held),
                    latest: touch,
                    sharing: None,
                });
            }
        }
        for met in std::mem::take(&mut self.met) {
            self.found(&met);
        }
    }

    fn found(&mut self, met: &Met) {
        let [first, second] = met.touches;
        let places = [first.place.min(second.place), first.place.max(second.place)];
        if let Some(known) = self.indices.get(&places) {
            self.found[*known].instances += 1;
            return;
        }
        self.indices.insert(places, self.found.len());
        let locks = |set| self.sets.locks(set).to_vec();
        self.found.push(Suspicion {
            places,
            instances: 1,
            sides: met.touches.map(|touch| Side {
                thread: self.ids.id(touch.thread),
                place: touch.place,
                bytes: met.bytes,
                kind: touch.kind,
                atomicity: touch.atomicity,
                sequencer: touch.sequencer,
            }),
            held: met.touches.map(|touch| locks(touch.held)),
            candidates: met.candidates.map(locks),
        });
    }
}

/// Splits variables that are touched in part. Gives the bytes of the mask that no variable has.
fn split(variables: &mut Vec<Variable>, mask: u8) -> u8 {
    let mut new = mask;
    for at in 0..variables.len() {
        let touched = variables[at].mask & mask;
        new &= !touched;
        if touched != 0 && touched != variables[at].mask {
            let mut rest = variables[at].clone();
            rest.mask &= !touched;
            variables[at].mask = touched;
            variables.push(rest);
        }
    }
    new
}
