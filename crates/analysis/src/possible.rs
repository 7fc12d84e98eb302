//! What is possibly ordered: by synchronisation, and by moves that may be atomic.
//!
//! A move without a number has no known place in the order of other threads' events: it happened
//! at some time in its region. So a write that may release and a read that may acquire, of the
//! same bytes, possibly order their regions unless the read's region ended before the write's
//! began. This is computed for regions as wholes, and so is more than what moves can really have
//! ordered. That is the safe side: what is not even possibly ordered is certainly unordered.
//!
//! Two regions that are open at the same time may each be before the other. While both are open,
//! whatever is found to come before one comes before the other as well. When a region has ended,
//! nothing that begins later can come before it, and what is known of it is final.

use crate::Access;
use crate::clock::{Clock, SharedClock};
use crate::shadow::{Shadow, Word, words_of};
use crate::threads::Region;
use std::rc::Rc;

/// The possible order.
#[derive(Default)]
pub struct Possible {
    threads: Vec<Thread>,
    words: Shadow<Moves>,
    /// Threads whose knowledge grew and has to be passed on.
    grown: Vec<u32>,
    /// The writes that a read may have read from.
    sources: Vec<(u32, Region, SharedClock)>,
}

struct Thread {
    /// The regions that are possibly before this thread's current one. Words that the region
    /// wrote hold on to it, so that they see it grow.
    before: SharedClock,
    /// The region that `before` is of, if anybody else may hold on to it.
    shared_in: Option<Region>,
    region: Region,
    is_open: bool,
    /// The open regions that this one is possibly before: at most one of each thread, because
    /// nothing is passed on to a region that has ended.
    followers: Vec<(u32, Region)>,
}

impl Thread {
    /// Notes that the current region is possibly before this one; whether that is new.
    fn is_followed_by(&mut self, thread: u32, region: Region) -> bool {
        match self.followers.iter_mut().find(|known| known.0 == thread) {
            Some(known) => std::mem::replace(&mut known.1, region) != region,
            None => {
                self.followers.push((thread, region));
                true
            }
        }
    }
}

/// The moves of a word that may be atomic: the latest of each thread and each set of bytes.
#[derive(Default)]
struct Moves {
    writes: Vec<Write>,
    reads: Vec<Read>,
}

struct Write {
    thread: u32,
    mask: u8,
    region: Region,
    before: SharedClock,
}

struct Read {
    thread: u32,
    mask: u8,
    region: Region,
}

impl Word for Moves {
    fn forget(&mut self, mask: u8) {
        self.writes.retain_mut(|write| {
            write.mask &= !mask;
            write.mask != 0
        });
        self.reads.retain_mut(|read| {
            read.mask &= !mask;
            read.mask != 0
        });
    }
}

impl Possible {
    /// Adds a thread that comes after what is given. Threads are added in the order of their
    /// indices.
    pub fn add_thread(&mut self, before: Clock<u64>) {
        self.threads.push(Thread {
            before: Rc::new(before.into()),
            shared_in: None,
            region: Region::FIRST,
            is_open: true,
            followers: Vec::new(),
        });
    }

    /// Begins a region. The one before it has been closed.
    pub fn open(&mut self, index: u32, region: Region) {
        let thread = &mut self.threads[index as usize];
        let past = std::mem::replace(&mut thread.region, region);
        thread.is_open = true;
        self.learn(index, |before| before.raise(index, past.rank()));
    }

    /// Ends the current region.
    pub fn close(&mut self, index: u32) {
        let thread = &mut self.threads[index as usize];
        thread.is_open = false;
        thread.followers.clear();
    }

    /// The current region of a thread.
    pub fn region(&self, index: u32) -> Region {
        self.threads[index as usize].region
    }

    /// Whether this region is going on.
    pub fn is_open(&self, index: u32, region: Region) -> bool {
        let thread = &self.threads[index as usize];
        thread.is_open && thread.region == region
    }

    /// Whether a region of another thread is possibly before the current one of `index`.
    pub fn is_before(&self, other: u32, region: Region, index: u32) -> bool {
        self.threads[index as usize].before.borrow().get(other) >= region.rank()
    }

    /// What is possibly before whoever acquires what this thread releases now.
    pub fn release(&self, index: u32) -> Clock<u64> {
        let thread = &self.threads[index as usize];
        let mut before = thread.before.borrow().clone();
        before.raise(index, thread.region.rank());
        before
    }

    /// The same if all threads release something.
    pub fn release_by_all(&self) -> Clock<u64> {
        let mut before = Clock::default();
        for (index, thread) in (0..).zip(&self.threads) {
            before.raise(index, thread.region.rank());
        }
        before
    }

    /// All of this is before the current region.
    pub fn acquire(&mut self, index: u32, released: &Clock<u64>) {
        self.learn(index, |before| before.join(released));
        self.pass_on();
    }

    /// Notes an access that may be atomic. Where `is_alone`, no other thread is alive: what this
    /// one writes is before all others anyway.
    pub fn access(&mut self, index: u32, access: &Access, is_alone: bool) {
        let acquires = access.kind.reads() && access.atomicity.acquires();
        let releases = access.kind.writes() && access.atomicity.releases();
        for (word, mask) in words_of(access.bytes) {
            if acquires {
                self.read(index, word, mask, is_alone);
            }
            if releases && !is_alone {
                self.write(index, word, mask);
            }
        }
    }

    /// Memory begins a new life, or ends one.
    pub fn forget(&mut self, bytes: redhanded_model::Bytes) {
        self.words.forget(bytes);
    }

    fn read(&mut self, index: u32, word: u64, mask: u8, is_alone: bool) {
        let moves = if is_alone {
            match self.words.existing(word) {
                Some(moves) => moves,
                None => return,
            }
        } else {
            self.words.word(word)
        };
        let region = self.threads[index as usize].region;
        for write in &moves.writes {
            if write.thread == index || write.mask & mask == 0 {
                continue;
            }
            let writer = &mut self.threads[write.thread as usize];
            if writer.is_open
                && writer.region == write.region
                && !writer.is_followed_by(index, region)
            {
                continue;
            }
            // Who knows of a later region of the writer knows all that came before this one.
            let reader = &self.threads[index as usize].before;
            if reader.borrow().get(write.thread) <= write.region.rank() {
                let before = Rc::clone(&write.before);
                self.sources.push((write.thread, write.region, before));
            }
        }
        let like = |read: &&mut Read| read.thread == index && read.mask == mask;
        match moves.reads.iter_mut().find(like) {
            Some(read) => read.region = region,
            None if is_alone => {}
            None => moves.reads.push(Read {
                thread: index,
                mask,
                region,
            }),
        }
        while let Some((thread, region, before)) = self.sources.pop() {
            self.follow(index, thread, region, &before);
        }
        self.pass_on();
    }

    fn write(&mut self, index: u32, word: u64, mask: u8) {
        let before = self.shared(index);
        let region = self.threads[index as usize].region;
        let moves = self.words.word(word);
        let like = |write: &&mut Write| write.thread == index && write.mask == mask;
        match moves.writes.iter_mut().find(like) {
            Some(write) if write.region == region => {}
            Some(write) => (write.region, write.before) = (region, Rc::clone(&before)),
            None => moves.writes.push(Write {
                thread: index,
                mask,
                region,
                before: Rc::clone(&before),
            }),
        }
        let threads = &self.threads;
        let readers: Vec<u32> = moves
            .reads
            .iter()
            .filter(|read| {
                let thread = &threads[read.thread as usize];
                read.thread != index
                    && read.mask & mask != 0
                    && thread.is_open
                    && thread.region == read.region
            })
            .map(|read| read.thread)
            .collect();
        for reader in readers {
            let follower = self.threads[reader as usize].region;
            if self.threads[index as usize].is_followed_by(reader, follower) {
                self.follow(reader, index, region, &before);
            }
        }
        self.pass_on();
    }

    /// The region of another thread, and what is before it, is before the current one of `index`.
    fn follow(&mut self, index: u32, other: u32, region: Region, before: &SharedClock) {
        self.learn(index, |mine| {
            let grew = mine.join(&before.borrow());
            mine.raise(other, region.rank()) || grew
        });
    }

    /// Changes what is before the current region of a thread.
    fn learn(&mut self, index: u32, change: impl FnOnce(&mut Clock<u64>) -> bool) {
        let thread = &mut self.threads[index as usize];
        if thread
            .shared_in
            .is_some_and(|region| region != thread.region)
        {
            let before = thread.before.borrow().clone();
            thread.before = Rc::new(before.into());
            thread.shared_in = None;
        }
        if change(&mut thread.before.borrow_mut()) {
            self.grown.push(index);
        }
    }

    /// What is before the current region, for others to hold on to.
    fn shared(&mut self, index: u32) -> SharedClock {
        self.learn(index, |_| false);
        let thread = &mut self.threads[index as usize];
        thread.shared_in = Some(thread.region);
        Rc::clone(&thread.before)
    }

    /// Passes on what open regions learned to the open regions that follow them.
    fn pass_on(&mut self) {
        while let Some(index) = self.grown.pop() {
            let thread = &self.threads[index as usize];
            let (region, before) = (thread.region, Rc::clone(&thread.before));
            let followers = thread.followers.clone();
            for (follower, of) in followers {
                if follower != index && self.is_open(follower, of) {
                    self.follow(follower, index, region, &before);
                }
            }
        }
    }
}
