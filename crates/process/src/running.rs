//! Which code runs, learned without stopping any thread.
//!
//! With `--safe` two sites are armed at a time, for a moment. Of a large program's sites
//! few run in that moment, so most draws should be among those known to run.

use super::Process;
use redhanded_model::Avma;
use redhanded_sys::{PcSamples, Tid};
use std::ops::Range;

/// How many threads are sampled: the kernel limits the memory for that.
const MOST_THREADS: usize = 32;
/// How often in each second of their CPU time.
const RATE: u64 = 99;

impl Process {
    /// Starts to sample a thread. Without that sites are drawn from all code.
    pub(super) fn sample_pc(&mut self, tid: Tid) {
        if self.settings.safe
            && self.pc_samples.len() < MOST_THREADS
            && let Ok(samples) = PcSamples::open(tid, RATE)
        {
            self.pc_samples.insert(tid, samples);
        }
    }

    /// The functions that were seen to run since the last call, and their callers.
    pub(super) fn seen_running(&mut self) -> Vec<Range<u64>> {
        let mut functions: Vec<Range<u64>> = Vec::new();
        for (tid, samples) in &mut self.pc_samples {
            let Some(task) = self.tasks.get(tid) else {
                continue;
            };
            let Some(space) = self.spaces.get(&task.space) else {
                continue;
            };
            for word in samples.take() {
                if functions.iter().any(|function| function.contains(&word)) {
                    continue;
                }
                let Some(module) = space.module_at(Avma(word)) else {
                    continue;
                };
                let function = module.image.as_ref().and_then(|image| {
                    let function = image.function_at(module.svma(Avma(word)))?;
                    Some(module.avma(function.start).0..module.avma(function.end).0)
                });
                functions.extend(function);
            }
        }
        functions
    }
}
