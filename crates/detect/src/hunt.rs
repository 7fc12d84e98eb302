//! The hunt: which sites of suspected pairs are armed, and for how long threads are held there.
//!
//! Both sides of a pair are armed. Whichever is reached first is held, and the watch on its
//! bytes catches the other. Three things are settled here:
//!
//! - *Which side is held.* A thread that is held may own the lock that the other needs, so
//!   that nothing can come of it. So a site that was held in vain rests until the other side
//!   was held, or for the length of a hold, since the other side may come only after it. For
//!   the same reason the side that was held first in one run rests at the start of the next.
//! - *For how long.* The first time at a site in a run it is the whole delay: the two accesses
//!   may be seconds apart. Later it is a random part, as for any sample.
//! - *Whose turn it is.* Only few threads can be held at once, and a hold keeps others from
//!   their turn. So the candidates that have had the least time, by their shares, are armed
//!   first. One that is not reached has had its chance, which counts as time, too.

use crate::Random;
use redhanded_image::Selected;
use redhanded_model::{Candidate, ModuleId, Pursuit, Svma};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// After so many delays it is the turn of those that have had less time.
const TURN: u32 = 4;

/// A site.
type SiteKey = (ModuleId, Svma);

/// One candidate.
#[derive(Clone, Default, Debug)]
struct Quarry {
    pursuit: Pursuit,
    share: u32,
    /// The time it has had, held or in vain, divided by its share.
    served: Duration,
    caught: bool,
    /// Whether its sites are armed now.
    in_focus: bool,
    /// Whether a thread was held at it since the focus was chosen.
    was_held: bool,
    /// The side that was held first in this run.
    began_with: Option<usize>,
    /// The side that rests at the start of this run.
    rests: Option<usize>,
}

impl Quarry {
    const fn is_found(&self) -> bool {
        self.pursuit.sites[0] > 0 || self.pursuit.sites[1] > 0
    }

    fn charge(&mut self, time: Duration) {
        self.served += time / self.share.max(1);
    }
}

/// A site that was held in vain for a candidate.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Duration,
    /// How often the other side had been held then.
    others: u64,
}

/// The hunt for candidates, over several runs.
#[derive(Debug)]
pub struct Hunt {
    delay: Duration,
    quarries: Vec<Quarry>,
    /// The suspected sites of what is mapped now.
    modules: HashMap<ModuleId, Arc<Selected>>,
    /// The files whose sites were counted.
    counted: Vec<Arc<Selected>>,
    rests: HashMap<(SiteKey, u32), Rest>,
    /// Where threads were held in this run.
    held_at: HashSet<SiteKey>,
    /// Until when the sides that began the last run rest.
    start_over: Duration,
    /// When there was something last: a hold, or another focus.
    quiet_since: Duration,
    /// When the focus was chosen.
    focused: Duration,
    now: Duration,
    /// Whether other sites may be wanted than those that are armed.
    changed: bool,
}

impl Hunt {
    /// A hunt for these candidates, in which threads are held for up to `delay`.
    #[must_use]
    pub fn new(candidates: &[Candidate], delay: Duration) -> Self {
        let quarry = |candidate: &Candidate| Quarry {
            share: candidate.share(),
            ..Quarry::default()
        };
        Self {
            delay,
            quarries: candidates.iter().map(quarry).collect(),
            modules: HashMap::new(),
            counted: Vec::new(),
            rests: HashMap::new(),
            held_at: HashSet::new(),
            start_over: Duration::ZERO,
            quiet_since: Duration::ZERO,
            focused: Duration::ZERO,
            now: Duration::ZERO,
            changed: false,
        }
    }

    /// What was done so far to catch each candidate.
    #[must_use]
    pub fn pursuits(&self) -> Vec<Pursuit> {
        self.quarries.iter().map(|quarry| quarry.pursuit).collect()
    }

    /// A run begins: times are counted anew, and modules are numbered anew.
    pub(crate) fn begin(&mut self) {
        self.modules.clear();
        self.rests.clear();
        self.held_at.clear();
        self.now = Duration::ZERO;
        self.start_over = self.delay;
        self.quiet_since = Duration::ZERO;
        self.charge_the_unheld();
        for quarry in &mut self.quarries {
            let both = quarry.pursuit.sites.iter().all(|sites| *sites > 0);
            quarry.rests = quarry.began_with.take().filter(|_| both);
        }
        self.focus();
    }

    /// Those that were armed and at which nobody was held have had their chance.
    fn charge_the_unheld(&mut self) {
        for quarry in &mut self.quarries {
            if quarry.in_focus && !quarry.was_held && quarry.is_found() {
                quarry.charge(self.delay);
            }
        }
    }

    /// Chooses those that have had the least time.
    fn focus(&mut self) {
        let open = |quarry: &&Quarry| !quarry.caught && quarry.is_found();
        let least = self.quarries.iter().filter(open).map(|q| q.served).min();
        let most = least.unwrap_or_default() + self.delay / 8;
        for quarry in &mut self.quarries {
            // What was not found yet may be in a library that is loaded later.
            let due = quarry.served <= most || !quarry.is_found();
            quarry.in_focus = !quarry.caught && due;
            quarry.was_held = false;
        }
        self.focused = self.now;
        self.changed = true;
    }

    /// A module is mapped.
    pub(crate) fn add_module(&mut self, module: ModuleId, selected: &Arc<Selected>) {
        self.modules.insert(module, Arc::clone(selected));
        if self.counted.iter().any(|one| Arc::ptr_eq(one, selected)) {
            return;
        }
        self.counted.push(Arc::clone(selected));
        for site in selected.sites.iter() {
            for one in selected.suspicions(site.svma) {
                if let Some(quarry) = self.quarries.get_mut(one.candidate as usize) {
                    let side = usize::from(one.side & 1);
                    quarry.pursuit.sites[side] += 1;
                    let fit = &mut quarry.pursuit.fits[side];
                    *fit = (*fit).max(Some(one.fit));
                }
            }
        }
    }

    /// The candidates and sides that a site belongs to.
    fn roles(&self, (module, svma): SiteKey) -> impl Iterator<Item = (u32, usize)> + use<'_> {
        let selected = self.modules.get(&module);
        let roles = selected.map_or(&[][..], |selected| selected.suspicions(svma));
        roles
            .iter()
            .map(|one| (one.candidate, usize::from(one.side & 1)))
    }

    /// Whether a site is to be armed now.
    pub(crate) fn wants(&self, module: ModuleId, svma: Svma) -> bool {
        self.roles((module, svma)).any(|(candidate, side)| {
            let Some(quarry) = self.quarries.get(candidate as usize) else {
                return false;
            };
            let others = quarry.pursuit.holds[1 - side];
            let rest = self.rests.get(&((module, svma), candidate));
            let rests = rest.is_some_and(|rest| self.now < rest.until && rest.others == others);
            // A site of both sides never waits for the other one.
            let begins = quarry.rests == Some(side) && self.now < self.start_over;
            quarry.in_focus && !rests && !begins
        })
    }

    /// For which part of the delay a thread is to be held at a site.
    pub(crate) fn part(&self, module: ModuleId, svma: Svma, random: &mut Random) -> f64 {
        if self.held_at.contains(&(module, svma)) {
            random.unit()
        } else {
            1.0
        }
    }

    /// An armed site was reached.
    pub(crate) fn reached(&mut self, module: ModuleId, svma: Svma) {
        self.each_once((module, svma), |quarry| quarry.pursuit.reached += 1);
    }

    /// A thread was held at a site for this long.
    pub(crate) fn held(&mut self, module: ModuleId, svma: Svma, held: Duration, now: Duration) {
        let place = (module, svma);
        self.now = now;
        self.held_at.insert(place);
        self.each_once(place, |quarry| {
            quarry.pursuit.held += held;
            quarry.charge(held);
            quarry.was_held = true;
        });
        let roles: Vec<(u32, usize)> = self.roles(place).collect();
        for (candidate, side) in &roles {
            let (candidate, side) = (*candidate, *side);
            let Some(quarry) = self.quarries.get_mut(candidate as usize) else {
                continue;
            };
            if roles.contains(&(candidate, 1 - side)) {
                // It is both sides, of which there is no other to wait for.
                quarry.pursuit.holds[0] += u64::from(side == 0);
                continue;
            }
            quarry.pursuit.holds[side] += 1;
            quarry.began_with.get_or_insert(side);
            if quarry.rests == Some(1 - side) {
                quarry.rests = None;
            }
            let rest = Rest {
                until: now + self.delay,
                others: quarry.pursuit.holds[1 - side],
            };
            self.rests.insert((place, candidate), rest);
        }
        self.quiet_since = now;
        self.changed = true;
    }

    /// A thread that was held at one site was met by another at the other.
    pub(crate) fn met(&mut self, held: SiteKey, other: SiteKey) {
        let others: Vec<(u32, usize)> = self.roles(other).collect();
        let held: Vec<(u32, usize)> = self.roles(held).collect();
        for (candidate, side) in held {
            if others.contains(&(candidate, 1 - side))
                && let Some(quarry) = self.quarries.get_mut(candidate as usize)
            {
                quarry.caught = true;
                quarry.in_focus = false;
                self.changed = true;
            }
        }
    }

    fn each_once(&mut self, place: SiteKey, act: impl Fn(&mut Quarry)) {
        let mut candidates: Vec<u32> = self.roles(place).map(|(number, _)| number).collect();
        candidates.sort_unstable();
        candidates.dedup();
        for candidate in candidates {
            if let Some(quarry) = self.quarries.get_mut(candidate as usize) {
                act(quarry);
            }
        }
    }

    /// Time passed.
    pub(crate) fn tick(&mut self, now: Duration, window_is_open: bool) {
        let (before, delay) = (self.now, self.delay);
        self.now = now;
        let passed = |at: Duration| before < at && at <= now;
        if passed(self.start_over) || self.rests.values().any(|rest| passed(rest.until)) {
            self.changed = true;
        }
        if window_is_open {
            self.quiet_since = now;
        } else if now >= self.quiet_since + delay {
            self.quiet_since = now;
            self.charge_the_unheld();
            self.focus();
        }
        // Code that is always busy must not keep the others waiting.
        if now >= self.focused + delay * TURN {
            self.focus();
        }
    }

    /// Whether other sites may be wanted than those that were armed when this was last asked.
    pub(crate) const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }
}
