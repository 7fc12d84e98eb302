//! Libraries that come and go, and what it costs to look at them.
//!
//! The thread that loads a library stands until the library's sites are armed. In a
//! program that loads very many that adds up, so it counts as time held. When it has used
//! its share of what may be held, threads go on at once, and the modules are looked at
//! now and then while the program runs. What came and went between two looks is told of as
//! not seen.

use super::Process;
use redhanded_model::{Registers, SpaceId};
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Control, Stop};
use std::time::Duration;

/// The least time between two looks at the modules of a space that no thread waits for.
const RESCAN_EVERY: Duration = Duration::from_millis(100);
/// How many times as long as a look took, the next one waits. With very many modules a look
/// takes milliseconds, which the program could use.
const SCAN_SHARE: u32 = 20;
/// How often the dynamic linker calls for each library that comes, and for each that goes: before
/// and after.
const CALLS_PER_CHANGE: usize = 2;
/// How many changes must be missing from what a look found: a library that came and went was
/// never seen. A single one may just be under way.
const UNTOLD: usize = 2;

/// The price of calls of the dynamic linker.
pub struct Linking {
    /// How long threads stood for it.
    held: Duration,
    /// How long threads may be held in all, for whatever reason.
    pub allowance: Duration,
    /// Since when threads stand for modules that are being indexed and armed.
    standing: Vec<Duration>,
}

impl Default for Linking {
    fn default() -> Self {
        Self {
            held: Duration::ZERO,
            allowance: Duration::MAX,
            standing: Vec::new(),
        }
    }
}

impl Linking {
    /// How long threads stood for it.
    pub const fn held(&self) -> Duration {
        self.held
    }

    /// Notes that the threads that stood were resumed.
    pub fn resumed(&mut self, now: Duration) {
        for since in self.standing.drain(..) {
            self.held += now.saturating_sub(since);
        }
    }

    /// Whether the other half of what may be held is left to windows only.
    fn has_used_its_share(&self) -> bool {
        self.held > self.allowance / 2
    }
}

impl Process {
    /// Handles a call of the dynamic linker, which mapped or unmapped something.
    /// Performs the `ret`.
    pub(super) fn linker_called(&mut self, tid: Tid, registers: &Registers) -> Option<Stop> {
        let since = self.now();
        let stack = registers.stack_pointer();
        let space = self.space_of(tid)?;
        let id = space.id;
        if let Some(back) = space.word_at(stack) {
            let _ = sys::return_to(tid, back, stack.wrapping_add(8));
        }
        if self.linking.has_used_its_share() {
            let space = self.spaces.get_mut(&id)?;
            space.passed_over += 1;
        } else if self.look(id) {
            // It waits until the new library's sites are armed.
            self.parked.push(tid);
            let space = self.spaces.get_mut(&id)?;
            // The libraries that a program begins with are the price of observing it at
            // all, as its own file is.
            if std::mem::replace(&mut space.is_linked, true) {
                self.linking.standing.push(since);
            }
            return Some(Stop::ModulesChanged);
        }
        self.go_on(tid, 0);
        self.linking.held += self.now().saturating_sub(since);
        None
    }

    /// Looks at the modules of a space if that is due and no thread waits for it. Returns
    /// whether they changed.
    pub(super) fn scan_when_due(&mut self) -> bool {
        let began = self.now();
        let mut spaces = self.spaces.values();
        let Some(id) = spaces.find(|space| space.is_scan_due(began)).map(|s| s.id) else {
            return false;
        };
        let changed = self.look(id);
        let now = self.now();
        if let Some(space) = self.spaces.get_mut(&id) {
            space.next_scan = now + RESCAN_EVERY.max((now - began) * SCAN_SHARE);
        }
        changed
    }

    /// Looks at the modules of a space. Returns whether they changed. If the dynamic linker told
    /// of more changes than there are to be seen, notes that some were missed.
    fn look(&mut self, id: SpaceId) -> bool {
        let first = self.next_module;
        let Some(space) = self.spaces.get_mut(&id) else {
            return false;
        };
        let before = space.modules.len();
        let calls = std::mem::take(&mut space.passed_over);
        let changed = self.scan(id);
        let came = (self.next_module - first) as usize;
        let after = self.spaces.get(&id).map_or(0, |space| space.modules.len());
        let went = (before + came).saturating_sub(after);
        if calls >= CALLS_PER_CHANGE * (came + went + UNTOLD) {
            self.note_missed();
        }
        changed
    }

    /// Notes that modules of a space were not looked at, if so.
    pub(super) fn note_owed_scan(&mut self, id: SpaceId) {
        let space = self.spaces.get(&id);
        if space.is_some_and(|space| space.passed_over > 0) {
            self.note_missed();
        }
    }

    fn note_missed(&mut self) {
        let why = "the program loads so many that looking at each would have taken more time \
                   than --overhead allows";
        self.note("some libraries that were loaded late", why);
    }
}
