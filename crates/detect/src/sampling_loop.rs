//! The sampling loop: arm sites, wait, confirm what happens, hand it to a sink.

use crate::around;
use crate::confirm::{
    Collision, code_at, confirm, is_access_of, is_asked_for, is_handled, would_fault,
};
use crate::crash::{Recent, bare};
use crate::exposure::Exposed;
use crate::sampler::TICK;
use crate::sink::{Disposition, Sink};
use crate::suspects::suspects;
use crate::{Budget, Hunt, Random, Sampler, Start};
use redhanded_image::Selected;
use redhanded_model::{
    Avma, Counts, Crash, Delays, Hit, Loss, ModuleId, Region, Registers, SiteCounts, SpaceId,
    Strategy, Svma, TaskId, WindowPlan, WindowRecord,
};
use redhanded_target::{
    Arm, Capacity, Ending, Event, Hint, Module, Target, TargetError, module_at,
};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Windows kept in reserve for rare code: the draw does not spend them.
const KEPT: f64 = 8.0;
/// How often a full set of armed sites is replaced by a new draw. Restoring so many
/// bytes takes a while.
const REDRAW_EVERY: Duration = Duration::from_secs(10);

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Samples a second to aim at.
    pub rate: f64,
    /// The longest a task is held, by its context.
    pub delay: Delays,
    /// What the run may cost.
    pub budget: Budget,
    /// How conflicts are detected.
    pub strategy: Strategy,
    /// When to stop.
    pub until: Option<Duration>,
    /// After how many windows to stop.
    pub max_windows: Option<u64>,
    /// How sampling begins.
    pub start: Start,
}

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The target ended.
    Ended(Ending),
    /// The limit on time, windows or races was reached.
    Enough,
    /// The target was left stopped at a collision.
    Frozen,
    /// A signal asked Redhanded to stop.
    Interrupted {
        /// The signal.
        signal: i32,
        /// Whether a process sent it.
        by_process: bool,
    },
}

struct SamplingLoop<'a> {
    target: &'a mut dyn Target,
    sites: &'a dyn Fn(&Module) -> Option<Arc<Selected>>,
    options: Options,
    random: Random,
    sampler: Sampler,
    known: HashSet<ModuleId>,
    counts: Counts,
    exposed: Exposed,
    next_tick: Duration,
    last_tick: Duration,
    next_redraw: Duration,
    redraw_every: Duration,
    /// Whether armed sites are replaced even while there is room for more.
    rotates: bool,
    /// The last windows, for when the target crashes.
    recent: Recent,
    seen_around: around::Known,
    /// What says which sites are armed, instead of chance.
    hunt: Option<&'a mut Hunt>,
}

/// Samples `target` until it ends or enough is seen. `sites` gives the sites of a
/// module that may be sampled.
///
/// # Errors
/// When the target can no longer be driven.
pub fn watch(
    target: &mut dyn Target,
    sites: &dyn Fn(&Module) -> Option<Arc<Selected>>,
    options: Options,
    random: Random,
    sink: &mut dyn Sink,
) -> Result<(Outcome, Counts), TargetError> {
    observe(target, sites, (options, None), random, sink)
}

/// Holds threads of `target` at the suspected sites among `sites`, as `hunt` says, until the
/// target ends or enough is seen.
///
/// # Errors
/// When the target can no longer be driven.
pub fn hunt(
    target: &mut dyn Target,
    sites: &dyn Fn(&Module) -> Option<Arc<Selected>>,
    (mut options, hunt): (Options, &mut Hunt),
    random: Random,
    sink: &mut dyn Sink,
) -> Result<(Outcome, Counts), TargetError> {
    options.start = Start::Chosen;
    hunt.begin();
    observe(target, sites, (options, Some(hunt)), random, sink)
}

fn observe(
    target: &mut dyn Target,
    sites: &dyn Fn(&Module) -> Option<Arc<Selected>>,
    (options, hunt): (Options, Option<&mut Hunt>),
    mut random: Random,
    sink: &mut dyn Sink,
) -> Result<(Outcome, Counts), TargetError> {
    let rotation = target.rotation();
    let sampler = Sampler::new(
        Random::new(random.bits()),
        options.rate,
        rotation,
        options.start,
    );
    let redraw_every = rotation.map_or(REDRAW_EVERY, |limits| limits.longest);
    let mut sampling = SamplingLoop {
        target,
        sites,
        options,
        random,
        sampler,
        known: HashSet::new(),
        counts: Counts::default(),
        exposed: Exposed::default(),
        next_tick: Duration::ZERO,
        last_tick: Duration::ZERO,
        next_redraw: redraw_every,
        redraw_every,
        rotates: rotation.is_some(),
        recent: Recent::default(),
        seen_around: around::Known::default(),
        hunt,
    };
    let outcome = sampling.run(sink)?;
    sampling.count();
    sink.exposure(sampling.exposed.into_list());
    Ok((outcome, sampling.counts))
}

impl SamplingLoop<'_> {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Outcome, TargetError> {
        self.account();
        self.modules_changed();
        loop {
            let now = self.target.now();
            if now >= self.next_tick {
                self.tick(now);
                sink.progress(&self.counts);
            }
            let enough = self.options.until.is_some_and(|until| now >= until)
                || self
                    .options
                    .max_windows
                    .is_some_and(|most| self.counts.windows >= most)
                || sink.enough();
            if enough {
                return Ok(Outcome::Enough);
            }
            let deadline = self
                .options
                .until
                .map_or(self.next_tick, |until| until.min(self.next_tick));
            match self.target.wait(deadline)? {
                Event::Window(record) => {
                    self.window_ended(&record);
                    // Others may be due, and could not come while it was open.
                    if self.rotates && self.target.now() >= self.next_redraw {
                        self.next_tick = now;
                    }
                }
                Event::Collision(record) => {
                    if self.collided(record, sink) == Disposition::Freeze {
                        return Ok(Outcome::Frozen);
                    }
                }
                Event::Fatal {
                    task,
                    registers,
                    signal,
                } => {
                    let space = self.target.inspect().space_of(task);
                    let modules = self.modules_in(space);
                    let crash = self.crashed(task, &registers, signal);
                    sink.crash(crash, &modules);
                    self.target.resume(task);
                }
                Event::Passed { module, svma, loss } => self.passed(module, svma, loss),
                Event::NotArmed { module, svma, loss } => {
                    if let Some(loss) = loss {
                        self.counts.losses.add(loss);
                    }
                    self.sampler.unusable(module, svma);
                }
                Event::ModulesChanged => self.modules_changed(),
                Event::SecondTask(space) => self.second_task(space),
                Event::Interrupted { signal, by_process } => {
                    return Ok(Outcome::Interrupted { signal, by_process });
                }
                Event::Ended(ending) => return Ok(Outcome::Ended(ending)),
                Event::Deadline => {}
            }
        }
    }

    fn modules_changed(&mut self) {
        let modules = self.target.modules();
        let here: HashSet<ModuleId> = modules.iter().map(|module| module.id).collect();
        self.known.retain(|known| here.contains(known));
        self.sampler.retain_modules(|id| here.contains(&id));
        for module in modules {
            if !self.known.insert(module.id) {
                continue;
            }
            self.exposed.name(module.id, &module.name);
            if let Some(selected) = (self.sites)(&module) {
                if let Some(hunt) = &mut self.hunt {
                    hunt.add_module(module.id, &selected);
                }
                let sites = self.sampler.add_module(module.id, module.space, &selected);
                self.arm(&sites);
            }
        }
        self.arm_suspects();
    }

    /// Arms the sites that the hunt wants, if there is one, and no others.
    fn arm_suspects(&mut self) {
        let is_free = self.target.batch().capacity() == Capacity::Free;
        if let Some(hunt) = &mut self.hunt {
            if is_free && hunt.take_changed() {
                self.target.disarm_all();
                self.sampler.disarmed();
            }
            let sites = self.sampler.choose(|module, svma| hunt.wants(module, svma));
            self.arm(&sites);
        }
    }

    /// Arms the sites of a space that fired while its first task was alone.
    fn second_task(&mut self, space: SpaceId) {
        if self.hunt.is_some() {
            self.sampler.recall();
            return self.arm_suspects();
        }
        let modules = self.target.modules();
        let here = |id| modules.iter().any(|m| m.id == id && m.space == space);
        let sites = self.sampler.second_task(here);
        self.arm(&sites);
    }

    fn arm(&mut self, sites: &[(ModuleId, Svma)]) {
        let plans: Vec<Arm> = sites
            .iter()
            .map(|(module, svma)| {
                let part = match &self.hunt {
                    Some(hunt) => hunt.part(*module, *svma, &mut self.random),
                    None => self.random.unit(),
                };
                Arm {
                    module: *module,
                    svma: *svma,
                    plan: WindowPlan {
                        delay: self.options.delay.part(part),
                        strategy: self.options.strategy,
                        end_early: true,
                    },
                }
            })
            .collect();
        if !plans.is_empty() {
            self.target.arm(&plans);
        }
    }

    /// Updates the allowance and the counts. Returns how many windows of mean length
    /// the allowance has room for.
    fn account(&mut self) -> f64 {
        let thread_time = self.target.thread_time();
        let allowance = self.options.budget.allowance(thread_time);
        self.target.allow(allowance);
        self.counts.thread_time = thread_time;
        self.counts.held = self.target.held();
        let left = allowance.saturating_sub(self.counts.held).as_secs_f64();
        let windows = left / (self.options.delay.task.as_secs_f64() / 2.0).max(1e-6);
        // The target keeps a few for rare code, which a fresh draw is not.
        (windows - KEPT).max(0.0)
    }

    fn tick(&mut self, now: Duration) {
        // While a window is open, the time that threads were held grows.
        let held_before = self.counts.held;
        let affordable = self.account();
        let passed = now.saturating_sub(self.last_tick).as_secs_f64();
        self.last_tick = now;
        self.next_tick = now + TICK;
        let is_due = now >= self.next_redraw && (self.rotates || self.sampler.is_full());
        if let Some(hunt) = &mut self.hunt {
            hunt.tick(now, self.counts.held > held_before);
        }
        // Changing them would disturb a window that is open.
        if self.target.batch().capacity() == Capacity::Free {
            self.sampler.idle();
            if is_due {
                self.next_redraw = now + self.redraw_every;
                self.target.disarm_all();
                self.sampler.disarmed();
            }
        }
        self.note_running_code();
        if self.hunt.is_some() {
            self.arm_suspects();
        } else {
            let sites = self.sampler.tick(passed, affordable);
            self.arm(&sites);
        }
        self.count();
    }

    /// Tells the sampler which code runs.
    fn note_running_code(&mut self) {
        let running = self.target.batch().take_running_code();
        if running.is_empty() {
            return;
        }
        let modules = self.target.modules();
        for range in running {
            if let Some(module) = module_at(&modules, Avma(range.start)) {
                let svma = |at| module.svma(Avma(at));
                self.sampler
                    .note_running(module.id, svma(range.start)..svma(range.end));
            }
        }
    }

    fn count(&mut self) {
        let (total, armed, sampled) = self.sampler.counts();
        self.counts.sites = SiteCounts {
            total,
            armed,
            sampled,
        };
        self.counts.losses.merge(&self.target.take_losses());
        self.counts.held = self.target.held();
        self.counts.standstill = self.target.batch().standstill();
    }

    fn passed(&mut self, module: ModuleId, svma: Svma, loss: Loss) {
        self.counts.samples += 1;
        self.exposed.add(module, svma);
        self.counts.losses.add(loss);
        if let Some(hunt) = &mut self.hunt {
            hunt.reached(module, svma);
        }
        match loss {
            Loss::Alone => self.sampler.alone(module, svma),
            Loss::TooManyWindows | Loss::NoDebugRegister => self.sampler.deferred(module, svma),
            Loss::InInterrupt | Loss::DeviceMemory => self.sampler.not_windowable(module, svma),
            _ => self.sampler.sampled(module, svma),
        }
    }

    /// Describes a signal that is about to kill the target.
    fn crashed(&mut self, task: TaskId, registers: &Registers, signal: i32) -> Crash {
        let stack = self.target.inspect().stack(task, registers);
        Crash {
            thread: self.target.inspect().thread_name(task),
            signal,
            stack: stack.into_iter().map(bare).collect(),
            windows: self.recent.before(self.target.now()),
        }
    }

    fn modules_in(&self, space: SpaceId) -> Vec<Arc<Module>> {
        let mut modules = self.target.modules();
        modules.retain(|module| module.space == space);
        modules
    }

    fn window_ended(&mut self, record: &WindowRecord) {
        self.recent.add(self.target.now(), record);
        self.counts.samples += 1;
        self.exposed.add(record.module, record.svma);
        self.counts.windows += 1;
        for loss in &record.losses {
            self.counts.losses.add(*loss);
        }
        self.sampler.sampled(record.module, record.svma);
        if let Some(hunt) = &mut self.hunt {
            hunt.reached(record.module, record.svma);
            let now = self.target.now();
            hunt.held(record.module, record.svma, record.held, now);
            self.sampler.recall();
            return self.arm_suspects();
        }
        let sites = self.sampler.window_ended();
        self.arm(&sites);
    }

    /// Handles a window in which something was seen. Both threads are stopped, or only
    /// the sampled one if nobody was caught.
    fn collided(&mut self, record: WindowRecord, sink: &mut dyn Sink) -> Disposition {
        let sampled_code = code_at(self.target.inspect(), record.space, record.pc);
        let inspect = self.target.inspect();
        let region = inspect.region(record.space, record.bytes.start);
        // The rest of memory is always as its module or its allocator asked for it.
        let is_mapped = matches!(region, Region::Mapping { .. });
        let loss = if !is_access_of(&sampled_code, &record, || {
            self.target.inspect().vectors(record.task)
        }) {
            Some(Loss::TextChanged)
        } else if record.hit.is_none() && !is_asked_for(self.target.inspect(), &record) {
            Some(Loss::OverRead)
        } else if is_handled(self.target.inspect(), &record)
            || (is_mapped && would_fault(&self.target.inspect().mappings(record.space), &record))
        {
            Some(Loss::UnreadableOperand)
        } else {
            None
        };
        if let Some(loss) = loss {
            self.counts.losses.add(loss);
            self.target.release(record.id);
            self.window_ended(&record);
            return Disposition::Release;
        }
        let other = match &record.hit {
            None => None,
            Some(hit) => match confirm(self.target.inspect(), &record, hit) {
                Ok(confirmed) => {
                    let name = self.target.inspect().thread_name(hit.task);
                    let stack = self.stack_of_hit(hit, confirmed.pc);
                    Some((confirmed, name, stack))
                }
                Err(loss) => {
                    self.counts.losses.add(loss);
                    self.target.dismiss(record.id);
                    return Disposition::Release;
                }
            },
        };
        let modules = self.modules_in(record.space);
        let inspect = self.target.inspect();
        let caught = other.as_ref().map(|(confirmed, ..)| confirmed);
        let caught = caught.zip(record.hit.as_ref().map(|hit| hit.task));
        let around = self
            .seen_around
            .look(inspect, &record, caught, &region, &modules);
        if let (Some(hunt), Some((confirmed, ..))) = (&mut self.hunt, &other)
            && let Some(module) = module_at(&modules, confirmed.pc)
        {
            let there = (module.id, module.svma(confirmed.pc));
            hunt.met((record.module, record.svma), there);
        }
        let mut collision = Collision {
            sampled: (
                self.target.inspect().thread_name(record.task),
                self.target.inspect().stack(record.task, &record.registers),
            ),
            other,
            region,
            suspects: if record.hit.is_none() {
                suspects(self.target.inspect(), &record)
            } else {
                Vec::new()
            },
            modules: modules.iter().map(|module| module.id).collect(),
            sampled_code,
            record,
            around,
            replay: None,
            analysed: None,
        };
        let standing = sink.standing(&mut collision, &modules, self.target);
        match standing {
            Disposition::Release => self.target.release(collision.record.id),
            Disposition::Freeze => self.target.freeze(collision.record.id),
        }
        self.window_ended(&collision.record);
        // Names are looked up while everybody runs.
        self.target.batch().hint(Hint::Idle);
        sink.collision(collision, &modules);
        standing
    }

    /// The stack of a task that has made its access: unwound from where the task is
    /// now, with the access as its innermost address.
    fn stack_of_hit(&mut self, hit: &Hit, pc: Avma) -> Vec<Avma> {
        let mut stack = self.target.inspect().stack(hit.task, &hit.registers);
        // A call that made the access has its own frame behind the callee's.
        let called = |back: &Avma| (1..=15).contains(&back.0.wrapping_sub(pc.0));
        if stack.get(1).is_some_and(called) {
            stack.remove(0);
        }
        match stack.first_mut() {
            Some(top) => *top = pc,
            None => stack.push(pc),
        }
        stack
    }
}
