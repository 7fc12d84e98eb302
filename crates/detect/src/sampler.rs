//! Which sites are armed.
//!
//! The draw is uniform over sites, not over executions: each unarmed site has the
//! same chance (or one by its weight). A site that fired can be drawn again; one that
//! never runs stays armed and costs nothing, so that over time the armed code gets
//! colder and colder. How many sites are drawn follows the wanted sample rate.

mod armed_limit;
mod choice;
mod pool;

use crate::Random;
use armed_limit::ArmedLimit;
use pool::Pool;
use redhanded_image::Selected;
use redhanded_model::{ModuleId, SpaceId, Svma};
use redhanded_target::RotationLimits;
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
/// The most that are armed at once; then all are disarmed and the draw starts anew.
const MOST_ARMED: usize = 65_536;

/// The most that are drawn at a tick: each costs a system call or two, during which
/// stopped threads wait.
const MOST_DRAWN: f64 = 256.0;

/// A draw gives up after so many sites, for each space, whose space has no room.
const MOST_REFUSED: usize = 32;

/// Where it is known which code runs, this share of the draw is still uniform over
/// all sites: other code may run next.
const UNIFORM_SHARE: f64 = 0.25;

/// This share goes to the functions seen last.
const RECENT_SHARE: f64 = 0.5;

/// How many functions count as seen last.
const MOST_RECENT: usize = 256;

/// How many missing or surplus samples are carried over.
const MOST_OWED: f64 = 2.0;
/// The fewest that are drawn: one in a hundred ticks.
const LEAST_DRAWN: f64 = 0.01;

/// How sampling begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// With all sites of a small program, or a large draw: it may live for only a
    /// millisecond.
    #[default]
    AtOnce,
    /// With few, and more as the rate demands: a server that has run for days must not
    /// stutter when it is attached to.
    Gently,
    /// With none: somebody else says which, see [`Sampler::choose`].
    Chosen,
}

/// A site by its place in the sampler's tables.
type Index = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unarmed,
    Armed,
    /// Fired while its task was alone; armed again when there is a second one.
    WaitsForSecondTask,
    /// Fired while too many windows were open; armed again when one ends.
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
    /// The index of its file in the coverage.
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
    /// One small entry per site: a large program has millions.
    entries: Vec<State>,
    coverage: Vec<Coverage>,
    /// The unarmed sites, in no order.
    pool: Pool,
    /// Sites of functions that were ever seen to run, armed or not.
    running: Vec<Index>,
    running_functions: HashSet<(ModuleId, Svma)>,
    /// The functions that were seen to run last, as ranges of their sites.
    recent: VecDeque<Range<Index>>,
    /// Sites that fired where no window can be opened; only the uniform share draws
    /// them.
    useless: HashSet<Index>,
    /// The armed sites, and some that have fired since.
    armed_sites: Vec<Index>,
    deferred: Vec<Index>,
    fired_alone: Vec<Index>,
    armed: usize,
    /// How many are armed in each space.
    armed_in: HashMap<SpaceId, usize>,
    armed_limit: ArmedLimit,
    start: Start,
    ever_armed: u64,
    ever_fired: u64,
    heaviest: f64,
    /// How many sites to draw at the next tick; follows the rate.
    draw: f64,
    /// How many samples are wanted until the next tick.
    wanted: f64,
    /// Samples that were wanted and did not come.
    owed: f64,
    rate: f64,
    fired_since_tick: u64,
}

impl Sampler {
    /// An empty sampler that aims at `rate` samples a second, within the limits of the
    /// target.
    #[must_use]
    pub fn new(random: Random, rate: f64, rotation: Option<RotationLimits>, start: Start) -> Self {
        Self {
            random,
            modules: Vec::new(),
            entries: Vec::new(),
            coverage: Vec::new(),
            pool: Pool::default(),
            running: Vec::new(),
            running_functions: HashSet::new(),
            recent: VecDeque::new(),
            useless: HashSet::new(),
            armed_sites: Vec::new(),
            deferred: Vec::new(),
            fired_alone: Vec::new(),
            armed: 0,
            armed_in: HashMap::new(),
            armed_limit: rotation.map_or_else(
                || ArmedLimit::new(MOST_ARMED, false),
                |limits| ArmedLimit::new(limits.at_once, limits.stops_all),
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

    /// Adds a module's sites, which are sorted by address. Returns those to arm now: all
    /// of them if the space has few, otherwise a first draw.
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
        if self.start == Start::AtOnce && sites <= SMALL.min(self.armed_limit.current()) {
            return added.map(|index| self.set_armed(index)).collect();
        }
        self.pool.extend(added);
        let armed = self.armed_in.get(&space).copied().unwrap_or(0);
        let first = match self.start {
            Start::AtOnce => FIRST_DRAW,
            Start::Gently => LEAST_DRAWN.ceil() as usize,
            Start::Chosen => 0,
        };
        self.draw(first.min(self.armed_limit.current()).saturating_sub(armed))
    }

    /// The index of a file in the coverage.
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

    /// The module of a site and its index there.
    fn locate(&self, index: Index) -> Option<(&ModuleSites, usize)> {
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
            .locate(index)
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
        // A shell may have a thousand children one after the other: drop the entries.
        let end = self.modules.last().map_or(0, |module| {
            module.first as usize + module.selected.sites.len()
        });
        let entries = &self.entries;
        let here =
            |index: &Index| (*index as usize) < end && entries[*index as usize] != State::Gone;
        self.pool.retain(here);
        self.running.retain(here);
        self.running_functions.retain(|(module, _)| alive(*module));
        self.recent.clear();
        self.useless.retain(here);
        self.deferred.retain(here);
        self.fired_alone.retain(here);
        self.entries.truncate(end);
    }

    fn set_armed(&mut self, index: Index) -> (ModuleId, Svma) {
        self.entries[index as usize] = State::Armed;
        self.armed += 1;
        self.armed_sites.push(index);
        // Drops those that have fired.
        if self.armed_sites.len() > 2 * self.armed + 1024 {
            let entries = &self.entries;
            self.armed_sites
                .retain(|site| entries.get(*site as usize) == Some(&State::Armed));
            self.armed_sites.sort_unstable();
            self.armed_sites.dedup();
        }
        let Some((module, at)) = self.locate(index) else {
            return Default::default();
        };
        let (site, space, file) = (
            (module.id, module.selected.sites[at].svma),
            module.space,
            module.file,
        );
        *self.armed_in.entry(space).or_default() += 1;
        let armed = &mut self.coverage[file].armed[at];
        self.ever_armed += u64::from(!std::mem::replace(armed, true));
        site
    }

    /// Whether as many sites are armed in the space of this one as may be.
    fn is_space_full(&self, index: Index) -> bool {
        self.locate(index).is_some_and(|(module, _)| {
            self.armed_in
                .get(&module.space)
                .is_some_and(|armed| *armed >= self.armed_limit.current())
        })
    }

    /// A random site.
    fn any(&mut self) -> Index {
        let chance = self.random.unit();
        let running = self.any_running(chance);
        match running.filter(|index| !self.useless.contains(index)) {
            Some(index) => index,
            None => self.pool.at(self.random.below(self.pool.len())),
        }
    }

    /// A random site of a function that runs.
    fn any_running(&mut self, chance: f64) -> Option<Index> {
        if chance >= UNIFORM_SHARE + RECENT_SHARE && !self.running.is_empty() {
            return Some(self.running[self.random.below(self.running.len())]);
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
        // Weights are kept by rejection; the tries are bounded so that a pool of light
        // sites cannot make this spin.
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
            if self.armed_limit.current() < MOST_ARMED && self.is_space_full(index) {
                refused -= 1;
                continue;
            }
            self.pool.remove(index);
            drawn.push(self.set_armed(index));
        }
        drawn
    }

    fn fired(&mut self, module: ModuleId, svma: Svma, state: State) -> Option<Index> {
        let (module_sites, at) = self.locate(self.index(module, svma)?)?;
        let file = module_sites.file;
        let fired = &mut self.coverage[file].fired[at];
        self.ever_fired += u64::from(!std::mem::replace(fired, true));
        self.disarm(module, svma, state)
    }

    fn disarm(&mut self, module: ModuleId, svma: Svma, state: State) -> Option<Index> {
        let index = self.index(module, svma)?;
        let space = self.locate(index)?.0.space;
        let entry = &mut self.entries[index as usize];
        // All sites may have been disarmed while its window was open.
        if *entry != State::Armed {
            return None;
        }
        *entry = state;
        self.armed -= 1;
        subtract(&mut self.armed_in, space);
        Some(index)
    }

    /// A function of a module was seen to run.
    pub fn note_running(&mut self, module: ModuleId, function: Range<Svma>) {
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
        if self.running_functions.insert((module, function.start)) {
            self.running.extend(sites);
        }
    }

    /// A site fired where no window can be opened, and is likely to again.
    pub fn not_windowable(&mut self, module: ModuleId, svma: Svma) {
        self.sampled(module, svma);
        self.useless.extend(self.index(module, svma));
    }

    /// A site fired, with a window or without.
    pub fn sampled(&mut self, module: ModuleId, svma: Svma) {
        self.fired_since_tick += 1;
        let index = self.fired(module, svma, State::Unarmed);
        self.pool.extend(index);
    }

    /// A site fired while its task was alone.
    pub fn alone(&mut self, module: ModuleId, svma: Svma) {
        let index = self.fired(module, svma, State::WaitsForSecondTask);
        self.fired_alone.extend(index);
    }

    /// A site fired while as many windows were open as may be.
    pub fn deferred(&mut self, module: ModuleId, svma: Svma) {
        self.armed_limit.wasted_stop();
        let index = self.fired(module, svma, State::Deferred);
        self.deferred.extend(index);
    }

    /// A site cannot be armed.
    pub fn unusable(&mut self, module: ModuleId, svma: Svma) {
        self.disarm(module, svma, State::Gone);
    }

    /// A space whose modules `here` names has a second task: what fired there while the
    /// first was alone is armed again.
    pub fn second_task(&mut self, here: impl Fn(ModuleId) -> bool) -> Vec<(ModuleId, Svma)> {
        let is_here = |sampler: &Self, index: Index| {
            sampler
                .locate(index)
                .is_some_and(|(module, _)| here(module.id))
        };
        let (here, elsewhere): (Vec<Index>, Vec<Index>) = std::mem::take(&mut self.fired_alone)
            .into_iter()
            .partition(|index| is_here(self, *index));
        self.fired_alone = elsewhere;
        self.arm_again(here)
    }

    /// Arms these sites where there is room; the others can be drawn again.
    fn arm_again(&mut self, sites: Vec<Index>) -> Vec<(ModuleId, Svma)> {
        let mut armed = Vec::with_capacity(sites.len());
        for index in sites {
            if self.is_space_full(index) {
                self.entries[index as usize] = State::Unarmed;
                self.pool.add(index);
            } else {
                armed.push(self.set_armed(index));
            }
        }
        armed
    }

    /// A window ended: sites that fired meanwhile are armed again, and where only few
    /// can be armed its own is replaced at once.
    pub fn window_ended(&mut self) -> Vec<(ModuleId, Svma)> {
        self.armed_limit.window_ended();
        let deferred = std::mem::take(&mut self.deferred);
        let mut armed = self.arm_again(deferred);
        if self.armed_limit.adapts() && (self.fired_since_tick as f64) < self.wanted {
            armed.extend(self.draw(1));
        }
        armed
    }

    /// No window is open although one could be: if nothing fired for a whole tick
    /// although it was wanted, more sites must be armed.
    pub fn idle(&mut self) {
        let missed = self.wanted >= 1.0 || self.owed >= 1.0;
        if missed && self.fired_since_tick == 0 {
            self.armed_limit.silent_tick();
        }
    }

    /// Time passed: draws more sites, so that as many fire as the rate and the windows
    /// that can be afforded allow.
    pub fn tick(&mut self, seconds: f64, affordable: f64) -> Vec<(ModuleId, Svma)> {
        let wanted = (self.rate * seconds).min(affordable);
        let fired = std::mem::take(&mut self.fired_since_tick) as f64;
        let room = MOST_ARMED.saturating_sub(self.armed) as f64;
        // Fewer than one a tick can be judged only over several ticks.
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
        // A fraction of a site is drawn with that probability.
        let whole = self.draw.floor();
        let extra = usize::from(self.random.unit() < self.draw - whole);
        self.draw(whole as usize + extra)
    }

    /// Whether no more sites may be armed, so that all should be disarmed for a new
    /// draw.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.armed >= self.armed_limit.current()
    }

    /// All armed sites were disarmed: they can be drawn again.
    pub fn disarmed(&mut self) {
        // Some may have fired, or gone with their module.
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

    /// How many sites there are, how many were ever armed, and how many ever fired.
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
