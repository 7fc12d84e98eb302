// One thread counts by `store(load + 1)`, one unlocked `inc` in the binary, and another
// resets by a relaxed store. All of it is atomic in the source.
//@ build: O2+nodebug O2+lines O2
//@ full: O0 O3 O2+stripped O2+g1 O2+lto+nodebug
//@ focus: count reset note
//@ twin-expect: what=COUNTER functions=count,reset
use std::hint::{black_box, spin_loop};
#[cfg(not(twin))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

#[cfg(not(twin))]
static COUNTER: AtomicU64 = AtomicU64::new(0);
#[cfg(twin)]
static mut COUNTER: u64 = 0;

#[inline(never)]
fn count() {
    #[cfg(not(twin))]
    COUNTER.store(COUNTER.load(Relaxed) + 1, Relaxed);
    #[cfg(twin)]
    // SAFETY: there is none; this is one side of the race.
    unsafe {
        let counter = &raw mut COUNTER;
        *counter += 1;
    }
}

#[inline(never)]
fn reset() {
    #[cfg(not(twin))]
    COUNTER.store(0, Relaxed);
    #[cfg(twin)]
    // SAFETY: there is none; this is the other side.
    unsafe {
        *(&raw mut COUNTER) = 0;
    }
}

// Something plain to look at, which is this thread's own.
#[inline(never)]
fn note(own: &mut u64) {
    *own += 1;
}

fn repeat(step: fn()) {
    let mut own = Box::new(0);
    for _ in 0..300_000 {
        step();
        note(black_box(&mut own));
        for _ in 0..4 {
            spin_loop();
        }
    }
}

fn main() {
    let first = thread::spawn(|| repeat(count));
    let second = thread::spawn(|| repeat(reset));
    first.join().unwrap();
    second.join().unwrap();
}
