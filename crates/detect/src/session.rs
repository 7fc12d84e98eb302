//! The loop that drives a target: arm, wait, confirm, hand on.

use crate::confirm::{Collision, code_at, confirm, is_access_of};
use crate::crash::{Crashed, MOST_RECENT, Recent};
use crate::sampler::TICK;
use crate::suspects::suspects;
use crate::{Budget, Random, Sampler, Start};
use redhanded_model::{
    Avma, Delays, Hit, Loss, Losses, ModuleId, Registers, SiteCounts, SpaceId, Standstill,
    Strategy, Svma, TaskId, WindowPlan, WindowRecord,
};
use redhanded_target::images::Selected;
use redhanded_target::{Arm, Ending, Event, Module, Target, TargetError, module_at};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Windows that are not drawn for.
const KEPT: f64 = 8.0;
/// How often a full set of armed sites is given up for a new draw; restoring so
/// many bytes takes a while.
const REDRAW_EVERY: Duration = Duration::from_secs(10);

/// What the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Samples a second that are aimed at.
    pub rate: f64,
    /// The longest a task is held, by its context.
    pub delay: Delays,
    /// What the run may cost.
    pub budget: Budget,
    /// How conflicts are looked for.
    pub strategy: Strategy,
    /// When to stop looking.
    pub until: Option<Duration>,
    /// After how many windows to stop looking.
    pub max_windows: Option<u64>,
    /// How sampling begins.
    pub start: Start,
}

/// Where a session's findings go.
pub trait Sink {
    /// A confirmed collision.
    fn collision(&mut self, collision: Collision);

    /// A confirmed collision, while both threads still stand: whether they go on.
    fn standing(&mut self, _collision: &Collision, _target: &mut dyn Target) -> Standing {
        Standing::Release
    }

    /// A signal is about to kill the target.
    fn crash(&mut self, _crash: Crashed) {}

    /// How things stand, some times a second.
    fn progress(&mut self, counts: &Counts);

    /// Whether enough was found.
    fn enough(&self) -> bool {
        false
    }
}

/// What becomes of the threads of a collision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// They go on.
    Release,
    /// The whole target stays stopped, for somebody else to look at.
    Freeze,
}

/// What a session did, in numbers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Firings of armed sites.
    pub samples: u64,
    /// Windows that were opened.
    pub windows: u64,
    /// Time threads were held.
    pub held: Duration,
    /// Thread time of the program.
    pub thread_time: Duration,
    /// Where stopping one stops all.
    pub standstill: Option<Standstill>,
    /// The sites.
    pub sites: SiteCounts,
    /// What was lost.
    pub losses: Losses,
}

/// How a session came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The target ended.
    Ended(Ending),
    /// The time, the windows or the races that were asked for are reached.
    Enough,
    /// The target was left stopped at a collision.
    Frozen,
    /// A signal asked to stop.
    Interrupted {
        /// Which.
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
    /// Whether sites are given up in any case, not only for want of room.
    takes_turns: bool,
    /// The last windows, for when the target crashes.
    recent: VecDeque<Recent>,
}

/// Samples `target` until it ends or enough is seen. `sites` gives the sites of
/// a module that may be drawn.
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
        recent: VecDeque::new(),
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
                    // Others may be due, and could not come while it was open.
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
                    let crash = self.crashed(task, &registers, signal);
                    sink.crash(crash);
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

    /// What fired in vain in this space can meet somebody now.
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

    /// Brings the allowance and the counts up to date; how many windows of mean
    /// length are left in it.
    fn account(&mut self) -> f64 {
        let thread_time = self.target.thread_time();
        let allowance = self.options.budget.allowance(thread_time);
        self.target.allow(allowance);
        self.counts.thread_time = thread_time;
        self.counts.held = self.target.held();
        let left = allowance.saturating_sub(self.counts.held).as_secs_f64();
        let windows = left / (self.options.delay.task.as_secs_f64() / 2.0).max(1e-6);
        // The target keeps a few back for rare code: what is drawn now is not.
        (windows - KEPT).max(0.0)
    }

    fn tick(&mut self, now: Duration) {
        let affordable = self.account();
        let passed = now.saturating_sub(self.last_tick).as_secs_f64();
        self.last_tick = now;
        self.next_tick = now + TICK;
        let is_due = now >= self.next_redraw && (self.takes_turns || self.sampler.is_full());
        // Changing them would disturb a window that is open.
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

    /// Takes note of which code runs.
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

    fn remember(&mut self, record: &WindowRecord) {
        if self.recent.len() >= MOST_RECENT {
            self.recent.pop_front();
        }
        let ended = self.target.now();
        self.recent.push_back(Recent {
            ended,
            record: record.clone(),
        });
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

    /// What there is to say about a signal that is about to kill the target.
    fn crashed(&mut self, task: TaskId, registers: &Registers, signal: i32) -> Crashed {
        let now = self.target.now();
        let stack = self.target.stack(task, registers);
        let space = self.target.space_of(task);
        let mut modules = self.target.modules();
        modules.retain(|module| module.space == space);
        Crashed {
            thread: self.target.thread_name(task),
            signal,
            stack,
            modules,
            windows: self.recent.iter().map(|recent| recent.told(now)).collect(),
        }
    }

    fn window_ended(&mut self, record: &WindowRecord) {
        self.remember(record);
        self.counts.samples += 1;
        self.counts.windows += 1;
        for loss in &record.losses {
            self.counts.losses.add(*loss);
        }
        self.sampler.sampled(record.module, record.svma);
        let sites = self.sampler.window_ended();
        self.arm(&sites);
    }

    /// Something was seen in a window: both threads stand, or the sampled one.
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
        let mut modules = self.target.modules();
        modules.retain(|module| module.space == record.space);
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
            modules,
            sampled_code,
            record,
        };
        let standing = sink.standing(&collision, self.target);
        match standing {
            Standing::Release => self.target.release(collision.record.id),
            Standing::Freeze => self.target.freeze(collision.record.id),
        }
        self.window_ended(&collision.record);
        // Nobody has to wait for names.
        self.target.go_on();
        sink.collision(collision);
        standing
    }

    /// The stack of a task that made its access: unwound from where it is now,
    /// told from where the access was.
    fn stack_of_hit(&mut self, hit: &Hit, pc: Avma) -> Vec<Avma> {
        let mut stack = self.target.stack(hit.task, &hit.registers);
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
