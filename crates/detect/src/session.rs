//! The sampling loop: arm sites, wait, confirm what happens, hand it to a sink.

use crate::confirm::{Collision, code_at, confirm, is_access_of};
use crate::crash::{Recent, bare};
use crate::sampler::TICK;
use crate::suspects::suspects;
use crate::{Budget, Random, Sampler, Start};
use redhanded_model::{
    Avma, Counts, Crash, Delays, Hit, Loss, ModuleId, Registers, SiteCounts, SpaceId, Strategy,
    Svma, TaskId, WindowPlan, WindowRecord,
};
use redhanded_target::images::Selected;
use redhanded_target::{Arm, Ending, Event, Module, Target, TargetError, module_at};
use serde::{Deserialize, Serialize};
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

/// Where a session's findings go. `modules` are those that were mapped.
pub trait Sink {
    /// A confirmed collision.
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]);

    /// A confirmed collision, while both threads are still stopped: whether they
    /// go on.
    fn standing(
        &mut self,
        _collision: &Collision,
        _modules: &[Arc<Module>],
        _target: &mut dyn Target,
    ) -> Standing {
        Standing::Release
    }

    /// A signal is about to kill the target. The frames have no names yet: see
    /// [`name_crash`](crate::name_crash).
    fn crash(&mut self, _crash: Crash, _modules: &[Arc<Module>]) {}

    /// The numbers so far, several times a second.
    fn progress(&mut self, counts: &Counts);

    /// Whether enough was found.
    fn enough(&self) -> bool {
        false
    }
}

/// What to do with the threads of a collision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Let them go on.
    Release,
    /// Leave the whole target stopped, for a debugger.
    Freeze,
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

struct Session<'a> {
    target: &'a mut dyn Target,
    sites: &'a dyn Fn(&Module) -> Option<Arc<Selected>>,
    options: Options,
    random: Random,
    sampler: Sampler,
    known: Vec<ModuleId>,
    counts: Counts,
    next_tick: Duration,
    last_tick: Duration,
    next_redraw: Duration,
    redraw_every: Duration,
    /// Whether armed sites are replaced regularly, because only a few can be armed
    /// at once.
    takes_turns: bool,
    /// The last windows, to be told if the target crashes.
    recent: Recent,
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
    mut random: Random,
    sink: &mut dyn Sink,
) -> Result<(Outcome, Counts), TargetError> {
    let turns = target.turns();
    let sampler = Sampler::new(
        Random::new(random.bits()),
        options.rate,
        turns,
        options.start,
    );
    let redraw_every = turns.map_or(REDRAW_EVERY, |turns| turns.each);
    let mut session = Session {
        target,
        sites,
        options,
        random,
        sampler,
        known: Vec::new(),
        counts: Counts::default(),
        next_tick: Duration::ZERO,
        last_tick: Duration::ZERO,
        next_redraw: redraw_every,
        redraw_every,
        takes_turns: turns.is_some(),
        recent: Recent::default(),
    };
    let outcome = session.run(sink)?;
    session.count();
    Ok((outcome, session.counts))
}

impl Session<'_> {
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
                    // A redraw may be due that had to wait for the window's end.
                    if self.takes_turns && self.target.now() >= self.next_redraw {
                        self.next_tick = now;
                    }
                }
                Event::Collision(record) => {
                    if self.collided(record, sink) == Standing::Freeze {
                        return Ok(Outcome::Frozen);
                    }
                }
                Event::Fatal {
                    task,
                    registers,
                    signal,
                } => {
                    let modules = self.modules_in(self.target.space_of(task));
                    let crash = self.crashed(task, &registers, signal);
                    sink.crash(crash, &modules);
                    self.target.resume(task);
                }
                Event::Passed { module, svma, loss } => self.passed(module, svma, loss),
                Event::NotArmed { module, svma } => {
                    self.counts.losses.add(Loss::TextChanged);
                    self.sampler.unusable(module, svma);
                }
                Event::ModulesChanged => self.modules_changed(),
                Event::Company(space) => self.company(space),
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
        self.known
            .retain(|known| modules.iter().any(|m| m.id == *known));
        self.sampler
            .retain_modules(|id| modules.iter().any(|m| m.id == id));
        for module in modules {
            if self.known.contains(&module.id) {
                continue;
            }
            self.known.push(module.id);
            if let Some(selected) = (self.sites)(&module) {
                let sites = self.sampler.add_module(module.id, module.space, &selected);
                self.arm(&sites);
            }
        }
    }

    /// A second task appeared in a space: sites that fired while there was only one
    /// are worth arming again.
    fn company(&mut self, space: SpaceId) {
        let modules = self.target.modules();
        let here = |id| modules.iter().any(|m| m.id == id && m.space == space);
        let sites = self.sampler.company(here);
        self.arm(&sites);
    }

    fn arm(&mut self, sites: &[(ModuleId, Svma)]) {
        let plans: Vec<Arm> = sites
            .iter()
            .map(|(module, svma)| Arm {
                module: *module,
                svma: *svma,
                plan: WindowPlan {
                    delay: self.options.delay.part(self.random.unit()),
                    strategy: self.options.strategy,
                    end_early: true,
                },
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
        let affordable = self.account();
        let passed = now.saturating_sub(self.last_tick).as_secs_f64();
        self.last_tick = now;
        self.next_tick = now + TICK;
        let is_due = now >= self.next_redraw && (self.takes_turns || self.sampler.is_full());
        // With a window open, changing the armed sites would disturb it.
        if self.target.has_room() {
            self.sampler.has_room();
            if is_due {
                self.next_redraw = now + self.redraw_every;
                self.target.disarm_all();
                self.sampler.disarmed();
            }
        }
        self.note_lively();
        let sites = self.sampler.tick(passed, affordable);
        self.arm(&sites);
        self.count();
    }

    /// Tells the sampler which code was seen to run.
    fn note_lively(&mut self) {
        let lively = self.target.take_lively();
        if lively.is_empty() {
            return;
        }
        let modules = self.target.modules();
        for range in lively {
            if let Some(module) = module_at(&modules, Avma(range.start)) {
                let svma = |at| module.svma(Avma(at));
                self.sampler
                    .ran(module.id, svma(range.start)..svma(range.end));
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
        self.counts.standstill = self.target.standstill();
    }

    fn passed(&mut self, module: ModuleId, svma: Svma, loss: Loss) {
        self.counts.samples += 1;
        self.counts.losses.add(loss);
        match loss {
            Loss::Alone => self.sampler.alone(module, svma),
            Loss::TooManyWindows | Loss::NoDebugRegister => self.sampler.deferred(module, svma),
            Loss::InInterrupt | Loss::DeviceMemory => self.sampler.of_no_use(module, svma),
            Loss::OverBudget => self.sampler.over_budget(module, svma),
            _ => self.sampler.sampled(module, svma),
        }
    }

    /// Describes a signal that is about to kill the target.
    fn crashed(&mut self, task: TaskId, registers: &Registers, signal: i32) -> Crash {
        let stack = self.target.stack(task, registers);
        Crash {
            thread: self.target.thread_name(task),
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
        self.counts.windows += 1;
        for loss in &record.losses {
            self.counts.losses.add(*loss);
        }
        self.sampler.sampled(record.module, record.svma);
        let sites = self.sampler.window_ended();
        self.arm(&sites);
    }

    /// Handles a window in which something was seen. Both threads are stopped, or only
    /// the sampled one if nobody was caught.
    fn collided(&mut self, record: WindowRecord, sink: &mut dyn Sink) -> Standing {
        let sampled_code = code_at(self.target, record.space, record.pc);
        if !is_access_of(&sampled_code, &record) {
            self.counts.losses.add(Loss::TextChanged);
            self.target.release(record.id);
            self.window_ended(&record);
            return Standing::Release;
        }
        let other = match &record.hit {
            None => None,
            Some(hit) => match confirm(self.target, &record, hit) {
                Ok(confirmed) => {
                    let name = self.target.thread_name(hit.task);
                    let stack = self.stack_of_hit(hit, confirmed.pc);
                    Some((confirmed, name, stack))
                }
                Err(loss) => {
                    self.counts.losses.add(loss);
                    self.target.dismiss(record.id);
                    return Standing::Release;
                }
            },
        };
        let modules = self.modules_in(record.space);
        let collision = Collision {
            sampled: (
                self.target.thread_name(record.task),
                self.target.stack(record.task, &record.registers),
            ),
            other,
            region: self.target.region(record.space, record.bytes.start),
            suspects: if record.hit.is_none() {
                suspects(self.target, &record)
            } else {
                Vec::new()
            },
            modules: modules.iter().map(|module| module.id).collect(),
            sampled_code,
            record,
        };
        let standing = sink.standing(&collision, &modules, self.target);
        match standing {
            Standing::Release => self.target.release(collision.record.id),
            Standing::Freeze => self.target.freeze(collision.record.id),
        }
        self.window_ended(&collision.record);
        // Putting names to it is slow, so the threads run first.
        self.target.go_on();
        sink.collision(collision, &modules);
        standing
    }

    /// The stack of a task that has made its access: unwound from where the task is
    /// now, with the access as its innermost address.
    fn stack_of_hit(&mut self, hit: &Hit, pc: Avma) -> Vec<Avma> {
        let mut stack = self.target.stack(hit.task, &hit.registers);
        // If a call instruction made the access, the task is in the callee already:
        // the caller's frame is the one of the access.
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
