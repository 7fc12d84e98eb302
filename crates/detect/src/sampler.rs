//! Which sites are armed.
//!
//! Uniform over sites, not over executions: each draw takes any unarmed site
//! with equal chance (or by its weight). A site that fired goes back among the
//! unarmed; one that never runs stays armed and costs nothing, so that over time
//! what is drawn and fires is ever colder code. How many are drawn follows the
//! rate of samples that is wanted.

mod crowd;
mod pool;

use crate::Random;
use crowd::Crowd;
use pool::Pool;
use redhanded_image::Selected;
use redhanded_model::{ModuleId, SpaceId, Svma};
use redhanded_target::Turns;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How often sites are drawn.
pub const TICK: Duration = Duration::from_millis(10);

/// Programs with at most this many sites have all of them armed from the start.
const SMALL: usize = 20_000;
/// How many sites a larger one starts with.
const FIRST_DRAW: usize = 2_000;
/// The most that are armed at once; beyond it the draw starts anew.
const MOST_ARMED: usize = 65_536;

/// The most that are drawn at a tick: each costs a system call or two, and
/// threads that stop meanwhile wait for it.
const MOST_DRAWN: f64 = 256.0;

/// After so many sites whose space has no room, for each space, no more are tried.
const MOST_REFUSED: usize = 32;

/// Where few can be armed and it is known which code runs, this share of the draw
/// is uniform over all sites nevertheless: what is not known to run may run next.
const UNIFORM_SHARE: f64 = 0.25;

/// And this share goes to what was seen last.
const RECENT_SHARE: f64 = 0.5;

/// How many functions are remembered as seen last.
const MOST_RECENT: usize = 256;

/// How many samples that did not come, or came too soon, are remembered.
const MOST_OWED: f64 = 2.0;
/// The fewest: one in a hundred ticks.
const LEAST_DRAWN: f64 = 0.01;

/// How sampling begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// With all sites of a small program, or a large draw: it may live for a
    /// millisecond only.
    #[default]
    AtOnce,
    /// With few, and more as the rate demands: a server that has run for days
    /// must not stumble when it is attached to.
    Gently,
}

/// A site by its place in the sampler's tables.
type Index = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unarmed,
    Armed,
    /// Fired while nobody else was there: armed again once somebody is.
    WaitsForCompany,
    /// Fired while too many windows were open: armed again when one ends.
    Deferred,
    /// Its module is gone, or it cannot be armed.
    Gone,
}

/// The sites of one module, which have consecutive indices.
struct ModuleSites {
    id: ModuleId,
    space: SpaceId,
    first: Index,
    selected: Arc<Selected>,
    /// Its file's place in the coverage.
    file: usize,
}

/// What became of the sites of one file, however often it is mapped.
struct Coverage {
    selected: Arc<Selected>,
    armed: Vec<bool>,
    fired: Vec<bool>,
}

/// Draws the sites to arm.
pub struct Sampler {
    random: Random,
    modules: Vec<ModuleSites>,
    /// One small entry a site: a large program has millions.
    entries: Vec<State>,
    coverage: Vec<Coverage>,
    /// The unarmed sites, in no order.
    pool: Pool,
    /// Sites of functions that were ever seen to run, armed or not.
    lively: Vec<Index>,
    lively_functions: HashSet<(ModuleId, Svma)>,
    /// The functions that were seen last, by their first site and the one after
    /// their last.
    recent: VecDeque<Range<Index>>,
    /// Sites that fired where they are of no use; drawn uniformly only.
    useless: HashSet<Index>,
    /// The sites that are armed.
    armed_sites: Vec<Index>,
    deferred: Vec<Index>,
    lonely: Vec<Index>,
    armed: usize,
    /// How many are armed in each space.
    armed_in: HashMap<SpaceId, usize>,
    crowd: Crowd,
    start: Start,
    ever_armed: u64,
    ever_fired: u64,
    heaviest: f64,
    /// Sites to draw at the next tick; follows the rate.
    draw: f64,
    /// How many samples are wanted until the next tick.
    wanted: f64,
    /// Samples that were wanted and did not come.
    owed: f64,
    rate: f64,
    fired_since_tick: u64,
}

impl Sampler {
    /// An empty sampler that aims at `rate` samples a second, of sites that may have
    /// to take turns.
    #[must_use]
    pub fn new(random: Random, rate: f64, turns: Option<Turns>, start: Start) -> Self {
        Self {
            random,
            modules: Vec::new(),
            entries: Vec::new(),
            coverage: Vec::new(),
            pool: Pool::default(),
            lively: Vec::new(),
            lively_functions: HashSet::new(),
            recent: VecDeque::new(),
            useless: HashSet::new(),
            armed_sites: Vec::new(),
            deferred: Vec::new(),
            lonely: Vec::new(),
            armed: 0,
            armed_in: HashMap::new(),
            crowd: turns.map_or_else(
                || Crowd::new(MOST_ARMED, false),
                |turns| Crowd::new(turns.at_once, turns.stop_all),
            ),
            start,
            ever_armed: 0,
            ever_fired: 0,
            heaviest: 1.0,
            draw: 1.0,
            wanted: 0.0,
            owed: 0.0,
            rate,
            fired_since_tick: 0,
        }
    }

    /// Adds a module's sites, which are sorted by address. What is to be armed of
    /// them at once: all, if all sites of the space are few, or a first draw.
    pub fn add_module(
        &mut self,
        module: ModuleId,
        space: SpaceId,
        selected: &Arc<Selected>,
    ) -> Vec<(ModuleId, Svma)> {
        let first = self.entries.len() as Index;
        self.heaviest = self.heaviest.max(selected.heaviest());
        let file = self.file(selected);
        self.modules.push(ModuleSites {
            id: module,
            space,
            first,
            selected: Arc::clone(selected),
            file,
        });
        self.entries
            .resize(self.entries.len() + selected.sites.len(), State::Unarmed);
        let added = first..self.entries.len() as Index;
        let in_space = self.modules.iter().filter(|known| known.space == space);
        let sites: usize = in_space.map(|known| known.selected.sites.len()).sum();
        if self.start == Start::AtOnce && sites <= SMALL.min(self.crowd.limit()) {
            return added.map(|index| self.set_armed(index)).collect();
        }
        self.pool.extend(added);
        let armed = self.armed_in.get(&space).copied().unwrap_or(0);
        let first = match self.start {
            Start::AtOnce => FIRST_DRAW,
            Start::Gently => LEAST_DRAWN.ceil() as usize,
        };
        self.draw(first.min(self.crowd.limit()).saturating_sub(armed))
    }

    /// The place of a file in the coverage.
    fn file(&mut self, selected: &Arc<Selected>) -> usize {
        let known = |file: &Coverage| Arc::ptr_eq(&file.selected, selected);
        self.coverage.iter().position(known).unwrap_or_else(|| {
            let sites = selected.sites.len();
            self.coverage.push(Coverage {
                selected: Arc::clone(selected),
                armed: vec![false; sites],
                fired: vec![false; sites],
            });
            self.coverage.len() - 1
        })
    }

    /// The module of a site and its place there.
    fn place(&self, index: Index) -> Option<(&ModuleSites, usize)> {
        let after = self.modules.partition_point(|module| module.first <= index);
        let module = self.modules.get(after.checked_sub(1)?)?;
        Some((module, (index - module.first) as usize))
    }

    fn index(&self, module: ModuleId, svma: Svma) -> Option<Index> {
        let module = self.modules.iter().find(|known| known.id == module)?;
        let sites = &module.selected.sites;
        let at = sites.binary_search_by_key(&svma, |site| site.svma).ok()?;
        Some(module.first + at as Index)
    }

    fn weight(&self, index: Index) -> f64 {
        let site = self
            .place(index)
            .and_then(|(module, at)| Some((module, module.selected.sites.get(at)?)));
        site.map_or(0.0, |(module, site)| module.selected.weight(site))
    }

    /// Forgets the sites of modules that are gone.
    pub fn retain_modules(&mut self, alive: impl Fn(ModuleId) -> bool) {
        if self.modules.iter().all(|module| alive(module.id)) {
            return;
        }
        let mut left = Vec::with_capacity(self.modules.len());
        for module in std::mem::take(&mut self.modules) {
            if alive(module.id) {
                left.push(module);
                continue;
            }
            let first = module.first as usize;
            for entry in &mut self.entries[first..first + module.selected.sites.len()] {
                if *entry == State::Armed {
                    self.armed -= 1;
                    subtract(&mut self.armed_in, module.space);
                }
                *entry = State::Gone;
            }
        }
        self.modules = left;
        // Of a shell's thousand children, one after the other, nothing stays.
        let end = self.modules.last().map_or(0, |module| {
            module.first as usize + module.selected.sites.len()
        });
        let entries = &self.entries;
        let here =
            |index: &Index| (*index as usize) < end && entries[*index as usize] != State::Gone;
        self.pool.retain(here);
        self.lively.retain(here);
        self.lively_functions.retain(|(module, _)| alive(*module));
        self.recent.clear();
        self.useless.retain(here);
        self.deferred.retain(here);
        self.lonely.retain(here);
        self.entries.truncate(end);
    }

    fn set_armed(&mut self, index: Index) -> (ModuleId, Svma) {
        self.entries[index as usize] = State::Armed;
        self.armed += 1;
        self.armed_sites.push(index);
        // Those that fired are still in it.
        if self.armed_sites.len() > 2 * self.armed + 1024 {
            let entries = &self.entries;
            self.armed_sites
                .retain(|site| entries.get(*site as usize) == Some(&State::Armed));
            self.armed_sites.sort_unstable();
            self.armed_sites.dedup();
        }
        let Some((module, at)) = self.place(index) else {
            return Default::default();
        };
        let (place, space, file) = (
            (module.id, module.selected.sites[at].svma),
            module.space,
            module.file,
        );
        *self.armed_in.entry(space).or_default() += 1;
        let armed = &mut self.coverage[file].armed[at];
        self.ever_armed += u64::from(!std::mem::replace(armed, true));
        place
    }

    /// Whether the space of a site has no room for another armed one.
    fn is_crowded(&self, index: Index) -> bool {
        self.place(index).is_some_and(|(module, _)| {
            self.armed_in
                .get(&module.space)
                .is_some_and(|armed| *armed >= self.crowd.limit())
        })
    }

    /// Any site, by chance.
    fn any(&mut self) -> Index {
        let chance = self.random.unit();
        let running = self.any_running(chance);
        match running.filter(|index| !self.useless.contains(index)) {
            Some(index) => index,
            None => self.pool.at(self.random.below(self.pool.len())),
        }
    }

    /// Any site of a function that runs.
    fn any_running(&mut self, chance: f64) -> Option<Index> {
        if chance >= UNIFORM_SHARE + RECENT_SHARE && !self.lively.is_empty() {
            return Some(self.lively[self.random.below(self.lively.len())]);
        }
        if chance >= UNIFORM_SHARE && !self.recent.is_empty() {
            let function = self.recent[self.random.below(self.recent.len())].clone();
            let site = self.random.below(function.len());
            return Some(function.start + site as Index);
        }
        None
    }

    /// Takes `count` unarmed sites at random.
    fn draw(&mut self, count: usize) -> Vec<(ModuleId, Svma)> {
        let mut drawn = Vec::with_capacity(count.min(self.pool.len()));
        // With weights a draw may be rejected; the tries are bounded so that a
        // pool of light sites cannot make this spin.
        let mut tries = count.saturating_mul(64);
        let mut refused = MOST_REFUSED * self.armed_in.len().max(1);
        while drawn.len() < count && !self.pool.is_empty() && tries > 0 && refused > 0 {
            tries -= 1;
            let index = self.any();
            if !self.pool.contains(index) {
                continue;
            }
            let weight = self.weight(index);
            if weight < self.heaviest && self.random.unit() * self.heaviest > weight {
                continue;
            }
            if self.crowd.limit() < MOST_ARMED && self.is_crowded(index) {
                refused -= 1;
                continue;
            }
            self.pool.remove(index);
            drawn.push(self.set_armed(index));
        }
        drawn
    }

    fn fired(&mut self, module: ModuleId, svma: Svma, state: State) -> Option<Index> {
        let (module_sites, at) = self.place(self.index(module, svma)?)?;
        let file = module_sites.file;
        let fired = &mut self.coverage[file].fired[at];
        self.ever_fired += u64::from(!std::mem::replace(fired, true));
        self.disarm(module, svma, state)
    }

    fn disarm(&mut self, module: ModuleId, svma: Svma, state: State) -> Option<Index> {
        let index = self.index(module, svma)?;
        let space = self.place(index)?.0.space;
        let entry = &mut self.entries[index as usize];
        // A window that outlives a redraw is back among the unarmed already.
        if *entry != State::Armed {
            return None;
        }
        *entry = state;
        self.armed -= 1;
        subtract(&mut self.armed_in, space);
        Some(index)
    }

    /// A function of a module was seen to run.
    pub fn ran(&mut self, module: ModuleId, function: Range<Svma>) {
        let Some(known) = self.modules.iter().find(|known| known.id == module) else {
            return;
        };
        let sites = &known.selected.sites;
        let from = sites.partition_point(|site| site.svma < function.start);
        let to = sites.partition_point(|site| site.svma < function.end);
        let sites = known.first + from as Index..known.first + to.max(from) as Index;
        if sites.is_empty() {
            return;
        }
        if self.recent.len() >= MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(sites.clone());
        if self.lively_functions.insert((module, function.start)) {
            self.lively.extend(sites);
        }
    }

    /// A site fired where it is of no use, and will again.
    pub fn of_no_use(&mut self, module: ModuleId, svma: Svma) {
        self.sampled(module, svma);
        self.useless.extend(self.index(module, svma));
    }

    /// A window was opened at a site.
    pub fn sampled(&mut self, module: ModuleId, svma: Svma) {
        self.fired_since_tick += 1;
        let index = self.fired(module, svma, State::Unarmed);
        self.pool.extend(index);
    }

    /// A site fired and cost too much to look at.
    pub fn over_budget(&mut self, module: ModuleId, svma: Svma) {
        self.fired_since_tick += 1;
        let index = self.fired(module, svma, State::Unarmed);
        self.pool.extend(index);
    }

    /// A site fired while nobody was there to collide with.
    pub fn alone(&mut self, module: ModuleId, svma: Svma) {
        let index = self.fired(module, svma, State::WaitsForCompany);
        self.lonely.extend(index);
    }

    /// A site fired while another window had to be left in peace.
    pub fn deferred(&mut self, module: ModuleId, svma: Svma) {
        self.crowd.reached_in_vain();
        let index = self.fired(module, svma, State::Deferred);
        self.deferred.extend(index);
    }

    /// A site cannot be armed.
    pub fn unusable(&mut self, module: ModuleId, svma: Svma) {
        self.disarm(module, svma, State::Gone);
    }

    /// A second task appeared in a space, whose modules `here` tells: what fired
    /// there in vain is armed again.
    pub fn company(&mut self, here: impl Fn(ModuleId) -> bool) -> Vec<(ModuleId, Svma)> {
        let is_here = |sampler: &Self, index: Index| {
            sampler
                .place(index)
                .is_some_and(|(module, _)| here(module.id))
        };
        let (met, lonely): (Vec<Index>, Vec<Index>) = std::mem::take(&mut self.lonely)
            .into_iter()
            .partition(|index| is_here(self, *index));
        self.lonely = lonely;
        self.arm_again(met)
    }

    /// Arms these where there is room; the others can be drawn again.
    fn arm_again(&mut self, sites: Vec<Index>) -> Vec<(ModuleId, Svma)> {
        let mut armed = Vec::with_capacity(sites.len());
        for index in sites {
            if self.is_crowded(index) {
                self.entries[index as usize] = State::Unarmed;
                self.pool.add(index);
            } else {
                armed.push(self.set_armed(index));
            }
        }
        armed
    }

    /// A window ended: what passed it by is armed again, and where few are armed its
    /// own place is filled at once.
    pub fn window_ended(&mut self) -> Vec<(ModuleId, Svma)> {
        self.crowd.window_ended();
        let deferred = std::mem::take(&mut self.deferred);
        let mut armed = self.arm_again(deferred);
        if self.crowd.adapts() && (self.fired_since_tick as f64) < self.wanted {
            armed.extend(self.draw(1));
        }
        armed
    }

    /// A window could be open and is not: if nothing fired for a whole tick although
    /// it was wanted, more sites must be armed.
    pub fn has_room(&mut self) {
        let missed = self.wanted >= 1.0 || self.owed >= 1.0;
        if missed && self.fired_since_tick == 0 {
            self.crowd.was_silent();
        }
    }

    /// Some time passed: draws more, so that as many fire as the rate and the
    /// windows that can be afforded allow.
    pub fn tick(&mut self, seconds: f64, affordable: f64) -> Vec<(ModuleId, Svma)> {
        let wanted = (self.rate * seconds).min(affordable);
        let fired = std::mem::take(&mut self.fired_since_tick) as f64;
        let room = MOST_ARMED.saturating_sub(self.armed) as f64;
        // Less than one a tick is too few or too many only over several.
        self.wanted = (self.rate * TICK.as_secs_f64()).min(affordable);
        self.owed = (self.owed + wanted - fired).clamp(-MOST_OWED, MOST_OWED);
        let (too_many, too_few) = if wanted < 1.0 {
            (self.owed <= -1.0, self.owed >= 1.0)
        } else {
            (fired > wanted * 1.2, fired < wanted * 0.8)
        };
        if too_many {
            self.draw = (self.draw * 0.7).max(LEAST_DRAWN);
        } else if too_few {
            self.draw = (self.draw * 1.5).min(room).min(MOST_DRAWN);
        }
        if affordable < 1.0 {
            return Vec::new();
        }
        // Fractions of a site a tick become whole ones now and then.
        let whole = self.draw.floor();
        let extra = usize::from(self.random.unit() < self.draw - whole);
        self.draw(whole as usize + extra)
    }

    /// Whether everything armed should be given up for a new draw, because no
    /// more may be armed and too little fires.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.armed >= self.crowd.limit()
    }

    /// All armed sites were disarmed: they can be drawn again.
    pub fn disarmed(&mut self) {
        // Some of them may have fired, or be gone with their module.
        for index in std::mem::take(&mut self.armed_sites) {
            if let Some(entry) = self.entries.get_mut(index as usize)
                && *entry == State::Armed
            {
                *entry = State::Unarmed;
                self.pool.add(index);
            }
        }
        self.armed = 0;
        self.armed_in.clear();
    }

    /// How many sites there are, were ever armed, and ever fired.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        let total: usize = self.coverage.iter().map(|file| file.armed.len()).sum();
        (total as u64, self.ever_armed, self.ever_fired)
    }
}

fn subtract(armed_in: &mut HashMap<SpaceId, usize>, space: SpaceId) {
    if let Some(armed) = armed_in.get_mut(&space) {
        *armed = armed.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
