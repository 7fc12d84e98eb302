//! Races by happens-before: conflicting accesses that no synchronisation ordered.
//!
//! Each thread has a vector clock, which ticks when the thread releases something. An access is
//! an epoch: its thread and that thread's tick. It is before whatever knows of that tick.
//!
//! *Unordered* is a claim, so it needs more than that: what nothing certain ordered is looked up
//! in the [possible order](crate::possible) as well. That order is final for a region only when
//! the region has ended, so pairs wait until then.

use crate::clock::{Clock, Released};
use crate::findings::{Finding, Findings, Met, Standing};
use crate::history::{Entry, History};
use crate::objects::{Atomics, Objects};
use crate::possible::Possible;
use crate::shadow::{QuickHash, Shadow, bytes_of, words_of};
use crate::threads::{Region, Threads};
use crate::{Access, Event, Place, What};
use redhanded_model::{Bytes, TaskId};
use std::collections::HashMap;
use std::rc::Rc;

/// The analysis. Push all events, then finish.
#[derive(Default)]
pub struct HappensBefore {
    ids: Threads,
    threads: Vec<Thread>,
    objects: Objects,
    atomics: Atomics,
    possible: Possible,
    shadow: Shadow<History>,
    findings: Findings,
    waiting: Vec<Waiting>,
    unused: Vec<usize>,
    /// How many threads have been created and have not ended.
    alive: usize,
    met: Vec<Met>,
}

#[derive(Default)]
struct Thread {
    certain: Clock<u32>,
    has_ended: bool,
    /// Atomic writes of the open region that have no number: what they release is certain only
    /// for regions that begin later.
    writes: Vec<(Bytes, Rc<Clock<u32>>)>,
    /// Pairs whose standing depends on the open region.
    waiting: Vec<usize>,
    /// The same by what makes two instances alike.
    known: HashMap<(usize, u32, Region), usize, QuickHash>,
}

/// Instances of a pair in two regions of which one is still open.
struct Waiting {
    pair: usize,
    met: Met,
    count: u64,
    open: u8,
    standing: Standing,
}

impl HappensBefore {
    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.ids.check(event);
        let index = self.thread(event.thread);
        let Some(number) = event.number else {
            self.step(index, event);
            return;
        };
        self.close(index);
        self.possible.open(index, Region::moment(number));
        self.step(index, event);
        self.close(index);
        self.possible.open(index, Region::after(number));
        if event.what == What::Exit {
            self.possible.close(index);
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(mut self) -> Vec<Finding> {
        for index in 0..self.threads.len() {
            self.close(u32::try_from(index).expect("indices are of 32 bits"));
        }
        self.findings.finish()
    }

    /// The index of a thread. One that nobody created may have been ordered by anything, so it is
    /// taken to come after all that was seen before it.
    fn thread(&mut self, id: TaskId) -> u32 {
        let (index, is_new) = self.ids.index(id);
        if is_new {
            let known = self.release_by_all();
            self.add_thread(index, known);
        }
        index
    }

    fn add_thread(&mut self, index: u32, known: Released) {
        let mut certain = known.certain;
        certain.raise(index, 1);
        self.threads.push(Thread {
            certain,
            ..Thread::default()
        });
        self.possible.add_thread(known.possible);
        self.alive += 1;
    }

    fn step(&mut self, index: u32, event: &Event) {
        match event.what {
            What::Access(access) => {
                self.access(index, event.place, &access, event.number.is_some());
            }
            What::Create { child } => {
                let known = self.release(index);
                let (child, is_new) = self.ids.index(child);
                if is_new {
                    self.add_thread(child, known);
                } else if child != index {
                    self.acquire(child, &known);
                }
            }
            What::Exit => {
                let thread = &mut self.threads[index as usize];
                if !std::mem::replace(&mut thread.has_ended, true) {
                    self.alive = self.alive.saturating_sub(1);
                }
            }
            What::Join { child } => {
                let child = self.ids.known(child);
                if let Some(child) = child.filter(|child| *child != index) {
                    let known = self.release(child);
                    self.acquire(index, &known);
                }
            }
            What::Acquire { object, mode } => {
                let known = self.objects.acquired(index, object, mode);
                self.acquire(index, &known);
            }
            What::Release { object } => {
                let known = self.release(index);
                self.objects.released(index, object, &known);
            }
            What::Arrive { barrier } => {
                let known = self.release(index);
                self.objects.arrived(index, barrier, &known);
            }
            What::Depart { barrier } => {
                let known = self.objects.departed(index, barrier);
                self.acquire(index, &known);
            }
            What::SetInterruptLevel { level } => {
                let known = self.release(index);
                let known = self.objects.set_level(index, level, &known);
                self.acquire(index, &known);
            }
            What::Allocate { bytes } | What::Free { bytes, .. } => {
                if let Some(access) = event.what.as_access() {
                    self.compare(index, event.place, &access, false);
                }
                self.shadow.forget(bytes);
                self.atomics.forget(bytes);
                self.possible.forget(bytes);
                for thread in &mut self.threads {
                    thread
                        .writes
                        .retain(|(written, _)| !written.overlaps(bytes));
                }
            }
            What::Slack { bytes } => self.shadow.forget(bytes),
            What::Fence | What::SystemCall | What::Start | What::SetCount { .. } => {}
        }
    }

    /// What an acquirer learns if this thread releases something now. What the thread does next
    /// is at a new tick.
    fn release(&mut self, index: u32) -> Released {
        let thread = &mut self.threads[index as usize];
        let certain = thread.certain.clone();
        let tick = certain.get(index).saturating_add(1);
        thread.certain.raise(index, tick);
        Released {
            certain,
            possible: self.possible.release(index),
        }
    }

    /// The same if all threads do. Nobody knows more of a thread than the thread itself, so what
    /// they know together is what each knows of itself.
    fn release_by_all(&mut self) -> Released {
        let mut certain = Clock::default();
        for (index, thread) in (0..).zip(&mut self.threads) {
            let tick = thread.certain.get(index);
            certain.raise(index, tick);
            thread.certain.raise(index, tick.saturating_add(1));
        }
        Released {
            certain,
            possible: self.possible.release_by_all(),
        }
    }

    fn acquire(&mut self, index: u32, known: &Released) {
        self.threads[index as usize].certain.join(&known.certain);
        self.possible.acquire(index, &known.possible);
    }

    fn access(&mut self, index: u32, place: Place, access: &Access, is_sequencer: bool) {
        let atomicity = access.atomicity;
        let is_alone = self.alive <= 1;
        if atomicity.is_atomic() && atomicity.acquires() && access.kind.reads() {
            let thread = &mut self.threads[index as usize];
            self.atomics.read(access.bytes, &mut thread.certain);
        }
        if atomicity.acquires() || atomicity.releases() {
            self.possible.access(index, access, is_alone);
        }
        // A thread that is alone keeps nothing: whoever it creates comes after.
        self.compare(index, place, access, !is_alone);
        if atomicity.is_atomic() && atomicity.releases() && access.kind.writes() {
            let known = self.release(index).certain;
            if is_sequencer {
                self.atomics.write(access.bytes, &known);
            } else {
                let thread = &mut self.threads[index as usize];
                let known = Rc::new(known);
                let words = words_of(access.bytes);
                let parts = words.map(|(word, mask)| (bytes_of(word, mask), Rc::clone(&known)));
                thread.writes.extend(parts);
            }
        }
    }

    /// Compares the access with those of other threads, and may keep it for later ones.
    fn compare(&mut self, index: u32, place: Place, access: &Access, keeps: bool) {
        let certain = &self.threads[index as usize].certain;
        let mut entry = Entry::new(place, access, index, self.possible.region(index));
        entry.tick = certain.get(index);
        self.met.clear();
        for (word, mask) in words_of(access.bytes) {
            entry.mask = mask;
            let history = if keeps {
                self.shadow.word(word)
            } else {
                match self.shadow.existing(word) {
                    Some(history) => history,
                    None => continue,
                }
            };
            if history.repeats(&entry) {
                continue;
            }
            for lane in history.lanes() {
                let known = certain.get(lane.thread());
                if lane.thread() == index || lane.highest(entry.kind) <= u64::from(known) {
                    continue;
                }
                for other in lane.entries().filter(|other| other.tick > known) {
                    if other.conflicts(&entry) {
                        Met::note(&mut self.met, word, [*other, entry]);
                    }
                }
            }
            if keeps {
                let threads = &self.threads;
                history.add(entry, entry.tick.into(), |old| {
                    (0..).zip(threads).any(|(index, thread)| {
                        index != old.thread
                            && !thread.has_ended
                            && thread.certain.get(old.thread) < old.tick
                    })
                });
            }
        }
        for met in std::mem::take(&mut self.met) {
            self.found(met);
        }
    }

    /// Nothing certain ordered these two.
    fn found(&mut self, met: Met) {
        let [first, second] = met.entries;
        let pair = self.findings.index(first.place, second.place);
        let key = (pair, first.thread, first.region);
        if let Some(known) = self.threads[second.thread as usize].known.get(&key) {
            self.waiting[*known].count += 1;
            return;
        }
        let standing = if self.ids.broken() > 0 {
            Standing::Suspect
        } else {
            Standing::Unordered
        };
        let waiting = Waiting {
            pair,
            met,
            count: 1,
            open: 0,
            standing,
        };
        let at = if let Some(at) = self.unused.pop() {
            self.waiting[at] = waiting;
            at
        } else {
            self.waiting.push(waiting);
            self.waiting.len() - 1
        };
        for entry in [first, second] {
            if self.possible.is_open(entry.thread, entry.region) {
                self.waiting[at].open += 1;
                self.threads[entry.thread as usize].waiting.push(at);
            }
        }
        if self.possible.is_open(second.thread, second.region) {
            self.threads[second.thread as usize].known.insert(key, at);
        } else {
            // An access after its thread's end: nothing is known about its order.
            self.waiting[at].standing = Standing::Suspect;
            self.settle(at);
        }
    }

    /// Counts a pair as what it turned out to be, if all its regions have ended.
    fn settle(&mut self, at: usize) {
        let Waiting {
            pair,
            met,
            count,
            open,
            standing,
        } = &self.waiting[at];
        if *open == 0 {
            self.findings.add(*pair, *standing, *count, met, &self.ids);
            self.unused.push(at);
        }
    }

    /// The open region of a thread ends: what it comes after is final.
    fn close(&mut self, index: u32) {
        let region = self.possible.region(index);
        let thread = &mut self.threads[index as usize];
        for (bytes, known) in thread.writes.drain(..) {
            self.atomics.write(bytes, &known);
        }
        thread.known.clear();
        for at in std::mem::take(&mut thread.waiting) {
            let waiting = &mut self.waiting[at];
            let [first, second] = waiting.met.entries;
            let other = if second.thread == index && second.region == region {
                first
            } else {
                second
            };
            if self.possible.is_before(other.thread, other.region, index) {
                waiting.standing = Standing::Suspect;
            }
            waiting.open -= 1;
            self.settle(at);
        }
        self.possible.close(index);
    }
}
