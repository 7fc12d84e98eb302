//! The locks that each thread holds, as the lockset algorithm sees it.

use crate::levels::change;
use crate::locks::{LockSet, LockSets};
use crate::shadow::QuickHash;
use crate::{Mode, Object, ObjectKind, What};
use std::collections::HashSet;

/// No more locks of a thread are told apart. Sets of locks are kept, and a foreign stream may
/// take locks without end.
const MOST: usize = 64;

/// The locks of one thread.
#[derive(Default)]
struct Thread {
    /// How often each lock is held.
    holds: Vec<Hold>,
    sets: Sets,
    level: u32,
    /// How many more it has taken than are told apart.
    beyond: u32,
}

struct Hold {
    lock: Object,
    times: u32,
}

/// What a thread holds.
#[derive(Clone, Copy, Debug)]
pub struct Sets {
    /// In any mode.
    pub any: LockSet,
    /// In exclusive mode.
    pub exclusive: LockSet,
}

impl Default for Sets {
    fn default() -> Self {
        Self {
            any: LockSet::EMPTY,
            exclusive: LockSet::EMPTY,
        }
    }
}

/// The locks of all threads, by index.
#[derive(Default)]
pub struct Held {
    threads: Vec<Thread>,
    /// Semaphores that are no locks: their count is not 1, or a thread posted one that it had not
    /// waited for.
    signals: HashSet<u64, QuickHash>,
}

impl Held {
    /// What a thread holds now.
    pub fn sets(&self, thread: u32) -> Sets {
        let thread = self.threads.get(thread as usize);
        thread.map_or_else(Sets::default, |thread| thread.sets)
    }

    /// Whether a thread holds more locks than are told apart, so that its set lacks some.
    pub fn is_beyond(&self, thread: u32) -> bool {
        let thread = self.threads.get(thread as usize);
        thread.is_some_and(|thread| thread.beyond > 0)
    }

    /// Takes note of an event that may change what is held.
    pub fn step(&mut self, thread: u32, what: &What, sets: &mut LockSets) {
        match *what {
            What::Acquire { object, mode } if self.is_lock(object) => {
                self.acquire(thread, object, mode, sets);
            }
            What::Release { object } if self.is_lock(object) => {
                let was_held = self.release(thread, object, sets);
                if !was_held && object.kind == ObjectKind::Semaphore {
                    self.disown(object, sets);
                }
            }
            What::SetCount { semaphore, count } => {
                let object = Object {
                    kind: ObjectKind::Semaphore,
                    id: semaphore,
                };
                self.signals.remove(&semaphore);
                if count != 1 {
                    self.disown(object, sets);
                }
            }
            What::SetInterruptLevel { level } => {
                let change = change(self.thread(thread).level, level);
                self.thread(thread).level = level;
                for lock in change.acquired() {
                    self.acquire(thread, lock, Mode::Exclusive, sets);
                }
                for lock in change.released() {
                    self.release(thread, lock, sets);
                }
            }
            _ => {}
        }
    }

    fn is_lock(&self, object: Object) -> bool {
        match object.kind {
            ObjectKind::Lock | ObjectKind::Annotated => true,
            ObjectKind::Semaphore => !self.signals.contains(&object.id),
            _ => false,
        }
    }

    /// A semaphore turned out to be no lock, so nobody holds it.
    fn disown(&mut self, semaphore: Object, sets: &mut LockSets) {
        self.signals.insert(semaphore.id);
        for thread in &mut self.threads {
            thread.holds.retain(|hold| hold.lock != semaphore);
            thread.sets.any = sets.without(thread.sets.any, semaphore);
            thread.sets.exclusive = sets.without(thread.sets.exclusive, semaphore);
        }
    }

    fn acquire(&mut self, thread: u32, lock: Object, mode: Mode, sets: &mut LockSets) {
        let thread = self.thread(thread);
        if let Some(hold) = thread.holds.iter_mut().find(|hold| hold.lock == lock) {
            hold.times = hold.times.saturating_add(1);
        } else if thread.holds.len() >= MOST && lock.kind != ObjectKind::InterruptLevel {
            thread.beyond = thread.beyond.saturating_add(1);
            return;
        } else {
            thread.holds.push(Hold { lock, times: 1 });
        }
        thread.sets.any = sets.with(thread.sets.any, lock);
        if mode == Mode::Exclusive {
            thread.sets.exclusive = sets.with(thread.sets.exclusive, lock);
        }
    }

    /// Says whether the lock was held.
    fn release(&mut self, thread: u32, lock: Object, sets: &mut LockSets) -> bool {
        let thread = self.thread(thread);
        let Some(at) = thread.holds.iter().position(|hold| hold.lock == lock) else {
            // It may be one of those.
            let is_beyond = thread.beyond > 0;
            thread.beyond = thread.beyond.saturating_sub(1);
            return is_beyond;
        };
        thread.holds[at].times -= 1;
        if thread.holds[at].times == 0 {
            thread.holds.swap_remove(at);
            thread.sets.any = sets.without(thread.sets.any, lock);
            thread.sets.exclusive = sets.without(thread.sets.exclusive, lock);
        }
        true
    }

    fn thread(&mut self, index: u32) -> &mut Thread {
        let index = index as usize;
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, Thread::default);
        }
        &mut self.threads[index]
    }
}
