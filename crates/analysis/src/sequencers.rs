//! Races by sequencers: conflicting accesses in regions that overlapped.
//!
//! Two regions overlap unless one ended, by the number of the sequencer at its end, before the
//! other began. Between conflicting accesses of overlapping regions there was no synchronising
//! instruction and no system call, so nothing kept them apart but, possibly, moves that are
//! atomic in the source. Such an order must end in a read of the later side's thread, not after
//! its access, and before the earlier side's region was over, or pass through a third thread that
//! has read so. If there was a read there that may have acquired something, the two are only
//! suspect.
//!
//! What is found is a part of what happens-before finds: a sequencer between two accesses counts
//! as an order even if it has nothing to do with them.

use crate::findings::{Finding, Findings, Met, Standing};
use crate::history::{Entry, History, Lane};
use crate::shadow::{Shadow, words_of};
use crate::threads::{Region, Threads};
use crate::{Access, Event, Place, What};

/// The analysis. Push all events, then finish.
#[derive(Default)]
pub struct Sequencers {
    ids: Threads,
    threads: Vec<Thread>,
    shadow: Shadow<History>,
    findings: Findings,
    /// No open region began before this one. It is raised now and then, not at each sequencer.
    oldest: u64,
    until_raised: u32,
    met: Vec<Met>,
    /// The writes that a sequencer may have read from. All are known by then, so a pair of the
    /// sequencer is in doubt only if there is one besides the other side.
    sources: Vec<Entry>,
}

struct Thread {
    /// The region that is going on.
    region: Region,
    has_ended: bool,
    /// The regions so far. One ends when the next begins.
    begun: Vec<Region>,
    /// The latest region in which a read may have acquired something.
    followed: Option<Region>,
}

impl Thread {
    fn enter(&mut self, region: Region) {
        self.region = region;
        self.begun.push(region);
    }

    /// Whether a region of this thread was still going on when `other` began.
    fn overlaps(&self, region: Region, other: Region) -> bool {
        if region == self.region {
            return !self.has_ended;
        }
        if self.region <= other {
            // It began before the other did, and what came before it ended no later.
            return false;
        }
        let next = self.begun.partition_point(|begun| *begun <= region);
        self.begun.get(next).is_none_or(|next| *next > other)
    }
}

impl Sequencers {
    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.ids.check(event);
        let (index, is_new) = self.ids.index(event.thread);
        if is_new {
            self.threads.push(Thread {
                region: Region::FIRST,
                has_ended: false,
                begun: vec![Region::FIRST],
                followed: None,
            });
        }
        if let Some(number) = event.number {
            self.threads[index as usize].enter(Region::moment(number));
        }
        match event.what {
            What::Access(access) => {
                self.access(index, event.place, &access, event.number.is_some())
            }
            What::Allocate { bytes } | What::Free { bytes, .. } => {
                if let Some(access) = event.what.as_access() {
                    self.access(index, event.place, &access, true);
                }
                self.shadow.forget(bytes);
            }
            What::Slack { bytes } => self.shadow.forget(bytes),
            _ => {}
        }
        if let Some(number) = event.number {
            let thread = &mut self.threads[index as usize];
            thread.enter(Region::after(number));
            thread.has_ended = event.what == What::Exit;
            self.raise_oldest();
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Vec<Finding> {
        self.findings.finish()
    }

    fn access(&mut self, index: u32, place: Place, access: &Access, is_sequencer: bool) {
        let thread = &mut self.threads[index as usize];
        let mut entry = Entry::new(place, access, index, thread.region);
        let acquires = access.kind.reads() && access.atomicity.acquires();
        if acquires && !is_sequencer {
            thread.followed = Some(thread.region);
        }
        entry.followed = thread.followed;
        self.met.clear();
        self.sources.clear();
        if acquires && is_sequencer {
            for (word, mask) in words_of(access.bytes) {
                entry.mask = mask;
                let lanes = self.shadow.word(word).lanes();
                let others = lanes.flat_map(Lane::entries);
                self.sources
                    .extend(others.filter(|other| other.may_release_to(&entry)));
            }
        }
        for (word, mask) in words_of(access.bytes) {
            entry.mask = mask;
            let history = self.shadow.word(word);
            if history.repeats(&entry) {
                continue;
            }
            let threads = &self.threads;
            for lane in history.lanes() {
                let other = &threads[lane.thread() as usize];
                let latest = Region::at_rank(lane.highest(entry.kind));
                if lane.thread() == index || !other.overlaps(latest, entry.region) {
                    continue;
                }
                for other in lane.entries().filter(|other| other.conflicts(&entry)) {
                    let overlap = |first: &Entry, second: &Entry| {
                        threads[first.thread as usize].overlaps(first.region, second.region)
                    };
                    let follows = |later: &Entry, region: Region| {
                        let thread = &threads[later.thread as usize];
                        let followed = later.followed;
                        followed.is_some_and(|followed| thread.overlaps(followed, region))
                    };
                    if overlap(other, &entry) {
                        let third = threads.iter().zip(0..).any(|(thread, third)| {
                            third != index
                                && third != other.thread
                                && thread
                                    .followed
                                    .is_some_and(|region| thread.overlaps(region, other.region))
                        });
                        let (mut other, mut entry) = (*other, entry);
                        other.may_follow = follows(&other, entry.region);
                        entry.may_follow = third
                            || follows(&entry, other.region)
                            || self.sources.iter().any(|source| {
                                !source.is_by_the_same_site(&other) && overlap(source, &other)
                            });
                        Met::note(&mut self.met, word, [other, entry]);
                    }
                }
            }
            let (threads, oldest) = (&self.threads, self.oldest);
            history.add(entry, entry.region.rank(), |old| {
                threads[old.thread as usize].overlaps(old.region, Region::at_rank(oldest))
            });
        }
        let broken = self.ids.broken() > 0;
        for met in &self.met {
            let standing = if broken || met.may_be_ordered() {
                Standing::Suspect
            } else {
                Standing::Unordered
            };
            let pair = self.findings.index(met.entries[0].place, place);
            self.findings.add(pair, standing, 1, met, &self.ids);
        }
    }

    fn raise_oldest(&mut self) {
        if self.until_raised > 0 {
            self.until_raised -= 1;
            return;
        }
        self.until_raised = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let open = self.threads.iter().filter(|thread| !thread.has_ended);
        self.oldest = open.map(|thread| thread.region.rank()).min().unwrap_or(0);
    }
}
