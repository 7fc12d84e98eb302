//! Sites that are not drawn, but chosen: those of a hunt.

use super::{Index, Sampler, State};
use redhanded_model::{ModuleId, Svma};

impl Sampler {
    /// Takes the unarmed sites that are wanted, as far as there is room. Where there is not,
    /// chance decides, so that in the end each has its turn.
    pub fn choose(&mut self, wants: impl Fn(ModuleId, Svma) -> bool) -> Vec<(ModuleId, Svma)> {
        let mut wanted: Vec<Index> = (0..self.pool.len())
            .map(|at| self.pool.at(at))
            .filter(|index| {
                self.locate(*index).is_some_and(|(module, at)| {
                    let site = module.selected.sites.get(at);
                    site.is_some_and(|site| wants(module.id, site.svma))
                })
            })
            .collect();
        for at in (1..wanted.len()).rev() {
            wanted.swap(at, self.random.below(at + 1));
        }
        let mut armed = Vec::new();
        for index in wanted {
            if !self.is_space_full(index) {
                self.pool.remove(index);
                armed.push(self.set_armed(index));
            }
        }
        armed
    }

    /// Sites that fired while too many windows were open, or while their task was alone, can
    /// be chosen again.
    pub fn recall(&mut self) {
        let waiting = std::mem::take(&mut self.deferred).into_iter();
        for index in waiting.chain(std::mem::take(&mut self.fired_alone)) {
            if let Some(entry) = self.entries.get_mut(index as usize)
                && matches!(*entry, State::Deferred | State::WaitsForSecondTask)
            {
                *entry = State::Unarmed;
                self.pool.add(index);
            }
        }
    }
}
