//! The window driver as a [`Target`].

use super::Driver;
use super::open::Phase;
use crate::{
    Arm, Armed, Batch, Event, Hint, Inspect, Machine, Module, RotationLimits, Stop, Target,
    TargetError,
};
use redhanded_model::{Avma, Bytes, Losses, ModuleId, SpaceId, TaskId, WindowId};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

impl<M: Machine> Target for Driver<M> {
    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn modules(&self) -> Vec<Arc<Module>> {
        self.machine.modules().to_vec()
    }

    fn arm(&mut self, sites: &[Arm]) {
        let mut wanted: Vec<(SpaceId, Arm, Avma, u8)> = Vec::with_capacity(sites.len());
        let modules = self.machine.modules().iter();
        let modules: HashMap<ModuleId, &Arc<Module>> = modules.map(|m| (m.id, m)).collect();
        for arm in sites {
            let Some(module) = modules.get(&arm.module) else {
                continue;
            };
            let expected = module.image.as_ref().map_or_else(
                || Some(0),
                |image| image.bytes_at(arm.svma, 1)?.first().copied(),
            );
            let avma = module.avma(arm.svma);
            if let Some(expected) = expected
                && !self.armed.contains_key(&(module.space, avma.0))
            {
                wanted.push((module.space, *arm, avma, expected));
            }
        }
        // The sort is stable: where there is no room for all, the first ones get it.
        wanted.sort_by_key(|(space, ..)| *space);
        for wanted in wanted.chunk_by(|a, b| a.0 == b.0) {
            let space = wanted[0].0;
            let places: Vec<(Avma, u8)> = wanted
                .iter()
                .map(|(_, _, avma, byte)| (*avma, *byte))
                .collect();
            let done = self.machine.set_breakpoints(space, &places);
            let now = self.machine.now();
            for ((_, arm, avma, _), done) in wanted.iter().zip(done) {
                let loss = match done {
                    Armed::Yes => {
                        self.armed.insert((space, avma.0), (*arm, now));
                        continue;
                    }
                    Armed::CodeGone => None,
                    Armed::Refused(loss) => Some(loss),
                };
                self.events.push_back(Event::NotArmed {
                    module: arm.module,
                    svma: arm.svma,
                    loss,
                });
            }
        }
    }

    fn rotation(&self) -> Option<RotationLimits> {
        self.machine.rotation()
    }

    fn disarm_all(&mut self) {
        self.machine.clear_breakpoints();
        self.armed.clear();
    }

    fn allow(&mut self, held: Duration) {
        self.allowance = held;
        self.machine.hint(Hint::Allowance(held));
    }

    fn allowance(&self) -> Duration {
        self.allowance
    }

    fn wait(&mut self, deadline: Duration) -> Result<Event, TargetError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let next = self.advance_all(deadline);
            if !self.events.is_empty() {
                continue;
            }
            let stop = self.machine.next_stop(next)?;
            if stop == Stop::Deadline && self.machine.now() >= deadline {
                return Ok(Event::Deadline);
            }
            self.handle(stop);
        }
    }

    fn release(&mut self, window: WindowId) {
        let Some(index) = self.open.iter().position(|w| w.record.id == window) else {
            return;
        };
        let mut window = self.open.swap_remove(index);
        self.unwatch(&window);
        window.record.held = window.held(self.machine.now());
        self.held += window.record.held + window.other_held(self.machine.now());
        for task in window.held_tasks() {
            self.machine.resume(task);
        }
    }

    fn freeze(&mut self, window: WindowId) {
        let Some(index) = self.open.iter().position(|w| w.record.id == window) else {
            return;
        };
        let window = self.open.swap_remove(index);
        self.unwatch(&window);
        self.held += window.held(self.machine.now());
        self.machine.freeze(&window.held_tasks());
    }

    fn write_core(&mut self, window: WindowId, path: &Path) -> io::Result<u64> {
        let Some(window) = self.open.iter().find(|w| w.record.id == window) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (space, tasks) = (window.record.space, window.held_tasks());
        self.machine.write_core(space, &tasks, path)
    }

    fn resume(&mut self, task: TaskId) {
        self.machine.resume(task);
    }

    fn dismiss(&mut self, window: WindowId) {
        let Some(window) = self.open.iter_mut().find(|w| w.record.id == window) else {
            return;
        };
        if let Some(hit) = window.record.hit.take() {
            // What the dismissed access wrote was counted as a loss and is not a change of
            // unknown origin.
            window.record.before.clone_from(&hit.bytes_now);
            window.record.after = hit.bytes_now;
            // After a late hit there is nothing to wait for: the watches are cleared.
            let slots = self.slots.entry(window.record.space).or_default();
            let watched = |(slot, _): &(usize, Bytes)| {
                slots
                    .get(*slot)
                    .is_some_and(|s| s.window == Some(window.record.id))
            };
            window.phase = if window.slots.iter().any(watched) {
                Phase::Waiting
            } else {
                Phase::Draining(Duration::ZERO)
            };
            self.machine.resume(hit.task);
        }
    }

    fn inspect(&mut self) -> &mut dyn Inspect {
        &mut self.machine
    }

    fn batch(&mut self) -> &mut dyn Batch {
        &mut self.machine
    }

    fn thread_time(&mut self) -> Duration {
        self.machine.thread_time()
    }

    fn held(&self) -> Duration {
        let now = self.machine.now();
        let open = self.open.iter().map(|w| w.held(now) + w.other_held(now));
        let open = open.sum::<Duration>();
        self.held + open + self.machine.held_for_modules()
    }

    fn take_losses(&mut self) -> Losses {
        let mut losses = std::mem::take(&mut self.losses);
        losses.merge(&self.machine.take_losses());
        losses
    }
}
