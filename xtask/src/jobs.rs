//! Several cases at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

/// Does `one` to each item, `jobs` of them at a time; returns what came of each, in the order of
/// the items.
pub fn run<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    one: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = one(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().map_err(|_| anyhow!("a case panicked"))?;
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..50).collect();
        let doubled = run(&items, 4, |item| item * 2).unwrap();
        assert_eq!(doubled, items.iter().map(|it| it * 2).collect::<Vec<_>>());
        assert!(run(&[] as &[u8], 4, |_| ()).unwrap().is_empty());
    }

    #[test]
    fn as_many_as_asked_for_run_at_a_time() {
        // None gets beyond this without the others.
        let all = Barrier::new(3);
        run(&[1, 2, 3], 3, |_| {
            all.wait();
        })
        .unwrap();
    }
}
