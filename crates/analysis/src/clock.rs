//! Vector clocks.

use std::rc::Rc;

/// For each thread, by its index, how far it is known. A thread that is not in the list is known
/// up to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock<T>(Vec<T>);

impl<T> Default for Clock<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Ord + Default> Clock<T> {
    /// How far the thread is known.
    pub fn get(&self, thread: u32) -> T {
        self.0.get(thread as usize).copied().unwrap_or_default()
    }

    /// Raises one thread. Says whether it was lower before.
    pub fn raise(&mut self, thread: u32, to: T) -> bool {
        if self.get(thread) >= to {
            return false;
        }
        let index = thread as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, T::default());
        }
        self.0[index] = to;
        true
    }

    /// Raises each thread to where the other clock has it. Says whether any was lower before.
    pub fn join(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), T::default());
        }
        let mut raised = false;
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            if *mine < *other {
                *mine = *other;
                raised = true;
            }
        }
        raised
    }
}

/// What somebody who acquires learns: what is certainly before, in ticks, and what is possibly
/// before, in regions.
#[derive(Clone, Default, Debug)]
pub struct Released {
    /// By synchronisation alone.
    pub certain: Clock<u32>,
    /// By synchronisation and by moves that may be atomic.
    pub possible: Clock<u64>,
}

impl Released {
    /// Adds what another release gives.
    pub fn join(&mut self, other: &Self) {
        self.certain.join(&other.certain);
        self.possible.join(&other.possible);
    }
}

/// A clock that several readers hold while its owner may still raise it.
pub type SharedClock = Rc<std::cell::RefCell<Clock<u64>>>;
