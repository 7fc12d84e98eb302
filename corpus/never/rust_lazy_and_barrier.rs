// LazyLock, Barrier, scoped threads, a condition variable with wake-ups for nothing, and an exclusive `get_mut`: std's own
// states, fences and cells, inlined.
//@ full: O2 O0 O2+lines
//@ focus: table turn meet
//@ twin-expect: what=PLAIN functions=turn,turn
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, Condvar, LazyLock, Mutex};
use std::thread;

struct Plain(UnsafeCell<u64>);
// SAFETY: used by the twin only, which is wrong on purpose.
unsafe impl Sync for Plain {}
static PLAIN: Plain = Plain(UnsafeCell::new(0));

static TABLE: LazyLock<Vec<u64>> = LazyLock::new(|| (0..64).collect());

#[inline(never)]
fn table(i: u64) -> u64 {
    TABLE[(i % 64) as usize]
}

#[inline(never)]
fn turn(at: &(Mutex<u64>, Condvar), who: u64) {
    if cfg!(twin) {
        // SAFETY: wrong on purpose.
        unsafe { *PLAIN.0.get() += 1 };
        return;
    }
    let mut now = at.0.lock().unwrap();
    while *now % 2 != who {
        at.1.notify_one();
        now = at.1.wait(now).unwrap();
    }
    *now += 1;
    at.1.notify_one();
}

#[inline(never)]
fn meet(barrier: &Barrier) {
    barrier.wait();
}

fn main() {
    let rounds = if cfg!(twin) { 20_000 } else { 400 };
    for _ in 0..10 {
        let at = (Mutex::new(0), Condvar::new());
        let barrier = Barrier::new(2);
        let mut total = AtomicU64::new(0);
        thread::scope(|scope| {
            for who in 0..2 {
                let (at, barrier, total) = (&at, &barrier, &total);
                scope.spawn(move || {
                    for i in 0..rounds {
                        turn(at, who);
                        total.store(total.load(Relaxed) + black_box(table(i)), Relaxed);
                        if i % 64 == 0 {
                            meet(barrier);
                        }
                    }
                });
            }
        });
        black_box(*total.get_mut());
    }
}
