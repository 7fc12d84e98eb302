//! Work on all processors, or on one where no more threads can be started.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::sync::OnceLock;

/// How many threads were started.
static STARTED: OnceLock<usize> = OnceLock::new();

/// Starts the threads of this process, each of which does `first` at first. Returns how many
/// there are: none if a limit forbids them, or if they were started elsewhere.
pub fn start_threads(first: impl Fn() + Send + Sync + 'static) -> usize {
    let pool = ThreadPoolBuilder::new()
        .start_handler(move |_| first())
        .spawn_handler(|thread| {
            let started = redhanded_sys::thread_builder()?.spawn(|| thread.run());
            started.map(drop)
        });
    *STARTED.get_or_init(|| match pool.build_global() {
        Ok(()) => rayon::current_num_threads(),
        Err(_) => 0,
    })
}

/// Does `work` on each, and returns what came of it in the same order.
pub fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
    if start_threads(|| {}) == 0 {
        return items.into_iter().map(work).collect();
    }
    items.into_par_iter().map(work).collect()
}
